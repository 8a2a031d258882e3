# SPDX-License-Identifier: LGPL-2.1-or-later
"""All the memory: touched, in files of /workspace and /dev/shm, in pipes, sockets and memfds. It is killed for it.

Walls: MemoryMax= (memory cgroup), no swap; sizes of the tmpfs
Alone: yes
"""
import os
import socket

from attack import say

kept = []
for _ in range(200):
    try:
        s = socket.socketpair()
        s[0].setblocking(False)
        kept.append(s)
        while True:
            s[0].send(bytes(65536))
    except OSError:
        pass
for i in range(64):
    try:
        fd = os.memfd_create(f"m{i}")
        kept.append(fd)
        for _ in range(256):
            os.write(fd, bytes(1 << 20))
    except OSError:
        break
while True:
    try:
        kept.append(bytearray(b"x" * (16 << 20)))
    except MemoryError:
        break
say("ESCAPED", "memory", "everything was given")
