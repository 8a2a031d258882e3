# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reading, tracing and signalling processes that are not its own, and its own ones in ways that broke kernels.

Walls: seccomp of agentbox; a uid and a user namespace of its own; from systemd 257 on a PID namespace; without record: seccomp of systemd
"""
import ctypes
import os
import signal

from attack import call, holds, stopped

ATTACH, SEIZE, TRACEME = 16, 0x4206, 0
vector = (ctypes.c_uint64 * 2)()

OTHERS = [p for p in (1, 2) if p != os.getpid()]  # in a PID namespace of its own, it may be the second itself

for pid in OTHERS:
    for name, request in (("attach", ATTACH), ("seize", SEIZE)):
        stopped(f"ptrace {name} of {pid}", lambda r=request, p=pid: call("ptrace", r, p, 0, 0))
    for name in ("process_vm_readv", "process_vm_writev"):
        stopped(f"{name} of {pid}", lambda n=name, p=pid: call(n, p, ctypes.byref(vector), 1, ctypes.byref(vector), 1, 0))
    stopped(f"kcmp with {pid}", lambda p=pid: call("kcmp", os.getpid(), p, 0, 0, 0))
    stopped(f"move_pages of {pid}", lambda p=pid: call("move_pages", p, 1, ctypes.byref(vector), None, ctypes.byref(vector), 0))
stopped("ptrace traceme", lambda: call("ptrace", TRACEME, 0, 0, 0))
stopped("pidfd_getfd", lambda: call("pidfd_getfd", 0, 0, 0))


def signal_everybody():
    """All numbers that a process can have: who can be reached at all, with signal 0."""
    mine = {int(p) for p in os.listdir("/proc") if p.isdigit()}
    reached = []
    for pid in range(1, 1 << 17):
        if pid in mine:
            continue
        try:
            os.kill(pid, 0)
            reached.append(pid)
        except OSError:
            pass
    # What has come into being since is in /proc by now.
    return [p for p in reached if not os.path.exists(f"/proc/{p}")]


reached = signal_everybody()
holds("signals to every number", not reached, f"{len(reached)} of others reached")
for number in OTHERS:
    stopped(f"SIGKILL to {number}", lambda n=number: os.kill(n, signal.SIGKILL))
    stopped(f"rt_sigqueueinfo to {number}", lambda n=number: call("rt_sigqueueinfo", n, signal.SIGTERM, (ctypes.c_char * 128)()))
    stopped(f"pidfd of {number}, and a signal to it",
            lambda n=number: call("pidfd_send_signal", call("pidfd_open", n, 0), signal.SIGKILL, None, 0))
