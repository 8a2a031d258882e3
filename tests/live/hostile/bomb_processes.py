# SPDX-License-Identifier: LGPL-2.1-or-later
"""A fork bomb, of processes and of threads.

Walls: TasksMax= (pids cgroup); the run's time limit
Alone: yes
"""
import os
import threading
import time

from attack import holds

made = failed = 0
for _ in range(5000):
    try:
        if os.fork() == 0:
            time.sleep(1000)
            os._exit(0)
        made += 1
    except OSError:
        failed += 1
        break
holds("processes", failed == 1, f"{made} made")
try:
    threading.Thread(target=time.sleep, args=(1,)).start()
    holds("a thread more", False)
except RuntimeError:
    holds("a thread more", True)
