# SPDX-License-Identifier: LGPL-2.1-or-later
"""Typing into a terminal: its own, that of whoever started it, those of the host.

Walls: no terminal of the host is handed in; seccomp of agentbox (TIOCSTI, TIOCLINUX, TIOCSETD in every spelling); /dev
"""
import fcntl
import os

from attack import stopped

REQUESTS = {"TIOCSTI": 0x5412, "TIOCLINUX": 0x541c, "TIOCSETD": 0x5423, "TIOCCONS": 0x541d}

for name, number in REQUESTS.items():
    for fd in (0, 1, 2):
        stopped(f"{name} on {fd}", lambda f=fd, n=number: fcntl.ioctl(f, n, b"x" * 8))
stopped("/dev/tty", lambda: os.open("/dev/tty", os.O_RDWR))
stopped("a terminal of its own", lambda: os.openpty())
