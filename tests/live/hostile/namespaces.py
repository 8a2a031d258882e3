# SPDX-License-Identifier: LGPL-2.1-or-later
"""Namespaces of its own, in which it would be root.

Walls: seccomp of agentbox (flags of clone, clone3); no capability; without record: seccomp of systemd (RestrictNamespaces=)
"""
import ctypes
import os
import signal

from attack import call, stopped

KINDS = {"user": 0x10000000, "mount": 0x00020000, "net": 0x40000000, "pid": 0x20000000, "ipc": 0x08000000,
         "uts": 0x04000000, "cgroup": 0x02000000, "time": 0x00000080}

for kind, flag in KINDS.items():
    stopped(f"unshare of {kind}", lambda f=flag: call("unshare", f))
    if kind != "time":  # clone() has no such flag: the bit is the signal's
        stopped(f"clone into a new {kind}", lambda f=flag: call("clone", f | signal.SIGCHLD))
    stopped(f"setns to its own {kind} namespace",
            lambda k=kind, f=flag: call("setns", os.open(f"/proc/self/ns/{'mnt' if k == 'mount' else k}", os.O_RDONLY), f))
arguments = (ctypes.c_uint64 * 11)(KINDS["user"], 0, 0, 0, signal.SIGCHLD)
stopped("clone3 into a new user namespace", lambda: call("clone3", ctypes.byref(arguments), ctypes.sizeof(arguments)))
stopped("writing its own uid_map", lambda: os.write(os.open("/proc/self/uid_map", os.O_WRONLY), b"0 0 1"))
