# SPDX-License-Identifier: LGPL-2.1-or-later
"""Mounting something, or undoing what is mounted.

Walls: seccomp of agentbox; no capability; without record: seccomp of systemd
"""
import ctypes
import os

from attack import call, stopped

TEXT = {s: ctypes.c_char_p(s.encode()) for s in ("none", "/workspace", "/tmp", "/proc", "/sys", "/usr", "/", "tmpfs", "proc",
                                                 "sysfs", "cgroup2", "overlay", "bpf", "debugfs", "source")}
BIND, REMOUNT, PRIVATE, REC, DETACH, AT_FDCWD = 4096, 32, 1 << 18, 16384, 2, -100

for kind in ("tmpfs", "proc", "sysfs", "cgroup2", "overlay", "bpf", "debugfs"):
    stopped(f"mounting {kind}", lambda k=kind: call("mount", TEXT["none"], TEXT["/workspace"], TEXT[k], 0, None))
    stopped(f"fsopen of {kind}", lambda k=kind: call("fsopen", TEXT[k], 0))
stopped("a bind mount", lambda: call("mount", TEXT["/proc"], TEXT["/workspace"], None, BIND, None))
stopped("/usr made writable", lambda: call("mount", TEXT["none"], TEXT["/usr"], None, BIND | REMOUNT, None))
stopped("propagation changed", lambda: call("mount", TEXT["none"], TEXT["/"], None, PRIVATE | REC, None))
for path in ("/proc", "/sys", "/usr", "/tmp"):
    stopped(f"umount of {path}", lambda p=path: call("umount2", TEXT[p], DETACH))
stopped("open_tree, cloned", lambda: call("open_tree", AT_FDCWD, TEXT["/"], 1))
stopped("move_mount", lambda: call("move_mount", AT_FDCWD, TEXT["/tmp"], AT_FDCWD, TEXT["/workspace"], 0))
stopped("mount_setattr", lambda: call("mount_setattr", AT_FDCWD, TEXT["/usr"], 0, (ctypes.c_uint64 * 4)(), 32))
stopped("fspick", lambda: call("fspick", AT_FDCWD, TEXT["/"], 0))
stopped("pivot_root", lambda: call("pivot_root", TEXT["/workspace"], TEXT["/workspace"]))
stopped("chroot", lambda: call("chroot", TEXT["/workspace"]))
stopped("/dev/fuse", lambda: os.open("/dev/fuse", os.O_RDWR))
