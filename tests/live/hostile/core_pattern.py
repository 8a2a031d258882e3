# SPDX-License-Identifier: LGPL-2.1-or-later
"""A crash, so that the host's crash handler runs as root on its memory, or leaves a file.

Walls: RLIMIT_CORE, held by seccomp of agentbox; read-only core_pattern
"""
import contextlib
import os
import resource
import signal

from attack import holds, in_child, stopped

# Answered as if it were done: the kernel heeds no value but the 1 that stands there (src/policy/filter-arguments.c).
resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
with contextlib.suppress(OSError):
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)
with open("/proc/self/limits", encoding="ascii") as f:
    line = next(line for line in f if line.startswith("Max core file size"))
holds("a core limit raised", line.split()[4:6] == ["1", "1"], line.strip())
stopped("core_pattern", lambda: os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
os.chdir("/workspace")
before = set(os.listdir("."))
status = in_child(lambda: os.kill(os.getpid(), signal.SIGSEGV))
holds("a crash", os.WIFSIGNALED(status) and not os.WCOREDUMP(status), f"status {status:#x}")
holds("a core file", set(os.listdir(".")) == before, str(set(os.listdir(".")) - before))
