# SPDX-License-Identifier: LGPL-2.1-or-later
"""Outliving its run: daemons, sessions of their own, children of children, and an end at the moment of a start.

Walls: the unit's cgroup (KillMode=control-group); from systemd 257 on its PID namespace, which ends with its init; TasksMax=; the suite looks for survivors
"""
import os
import signal
import time

from attack import holds


def daemon():
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if os.fork() > 0:
        os._exit(0)
    os.closerange(0, 3)
    time.sleep(1000)


for _ in range(3):
    child = os.fork()
    if child == 0:
        try:
            daemon()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
holds("three daemons that ignore SIGTERM", True, "left behind")
