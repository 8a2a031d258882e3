# SPDX-License-Identifier: LGPL-2.1-or-later
"""System calls by the numbers of another machine, which a filter that looks at numbers alone lets pass.

Walls: seccomp of systemd (SystemCallArchitectures=native); seccomp of agentbox
"""
import os
import platform

from attack import holds, in_child, libc

if platform.machine() == "x86_64":
    # getpid of x32. The i386 entry needs an instruction of its own: tests/live/probe-entry-points.c has it.
    status = in_child(lambda: libc.syscall(0x40000000 + 39))
    holds("x32's getpid", os.WIFSIGNALED(status), f"status {status:#x}")
else:
    holds("no second table of calls on this machine", True)
