# SPDX-License-Identifier: LGPL-2.1-or-later
"""Devices: those of the host by name, and made by its own hand.

Walls: a /dev of its own (PrivateDevices=); device filter of the cgroup; no CAP_MKNOD
"""
import os
import stat

from attack import stopped

NAMES = ("mem", "kmem", "port", "kmsg", "sda", "vda", "nvme0n1", "dm-0", "loop0", "loop-control", "kvm", "vhost-net",
         "vhost-vsock", "fuse", "net/tun", "uinput", "input/event0", "snd/seq", "dri/card0", "vfio/vfio", "userfaultfd",
         "cuse", "mapper/control", "btrfs-control", "rtc0", "hwrng", "tty0", "tty1", "ttyS0", "console", "ptmx",
         "pts/ptmx", "pts/0", "autofs", "ppp", "cpu/0/msr", "watchdog", "hpet", "nvram")
MADE = {"mem": (stat.S_IFCHR, 1, 1), "kmsg": (stat.S_IFCHR, 1, 11), "console": (stat.S_IFCHR, 5, 1),
        "fuse": (stat.S_IFCHR, 10, 229), "sda": (stat.S_IFBLK, 8, 0), "vda": (stat.S_IFBLK, 254, 0),
        "loop0": (stat.S_IFBLK, 7, 0)}

for name in NAMES:
    stopped(f"opening /dev/{name}", lambda n=name: os.open(f"/dev/{n}", os.O_RDWR))
for name, (kind, major, minor) in MADE.items():
    for where in ("/workspace", "/tmp", "/dev/shm", "/dev"):
        stopped(f"mknod of {name} in {where}",
                lambda w=where, k=kind, d=os.makedev(major, minor): os.mknod(f"{w}/made", k | 0o666, d))
