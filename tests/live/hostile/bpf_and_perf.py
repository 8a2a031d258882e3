# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs in the kernel: BPF, perf events, and page faults held up from user space.

Walls: seccomp of agentbox; no capability; without record: seccomp of systemd
"""
import ctypes

from attack import call, stopped

attributes = (ctypes.c_uint32 * 32)()
for command in (0, 5, 7, 12, 18, 28):
    stopped(f"bpf command {command}", lambda c=command: call("bpf", c, ctypes.byref(attributes), ctypes.sizeof(attributes)))
attributes[1] = ctypes.sizeof(attributes)
stopped("perf_event_open", lambda: call("perf_event_open", ctypes.byref(attributes), 0, -1, -1, 0))
stopped("userfaultfd", lambda: call("userfaultfd", 0))
stopped("userfaultfd, of user mode alone", lambda: call("userfaultfd", 1))
stopped("fanotify_init", lambda: call("fanotify_init", 0, 0))
