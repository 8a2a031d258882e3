# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a process can hold: descriptors, pipes, sockets, timers, queues, and what the host's root would be charged for.

Walls: RLIMIT_NOFILE, _SIGPENDING, _MSGQUEUE, _MEMLOCK; seccomp of agentbox (inotify, aio, message queues, SysV)
Alone: yes
"""
import ctypes
import errno
import os
import socket

from attack import call, holds, stopped

# ENOSYS: strict has no memfds at all.
FULL = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOBUFS, errno.ENOSPC, errno.ENOSYS)


def fill(what, make, limit=1 << 20):
    kept = []
    try:
        while len(kept) < limit:
            kept.append(make())
    except OSError as e:
        holds(what, e.errno in FULL, f"{errno.errorcode.get(e.errno)} after {len(kept)}")
    else:
        holds(what, False, f"{len(kept)} and no end")
    for one in kept:
        if isinstance(one, int):
            os.close(one)
        elif isinstance(one, tuple):
            for fd in one:
                os.close(fd)
        else:
            one.close()


fill("pipes", os.pipe)
fill("sockets", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
fill("TCP sockets", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM))
fill("memfds", lambda: os.memfd_create("x"))
fill("epoll instances", lambda: __import__("select").epoll())
stopped("inotify", lambda: call("inotify_init1", 0))
stopped("a message queue", lambda: call("mq_open", ctypes.c_char_p(b"x"), os.O_CREAT | os.O_RDWR, 0o600, None), errno.EMFILE)
