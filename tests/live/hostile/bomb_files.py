# SPDX-License-Identifier: LGPL-2.1-or-later
"""All the disk: bytes, files, directories below directories, links, names, extended attributes.

Walls: size and inodes of /workspace, /tmp, /dev/shm; MemoryMax=
Alone: yes
"""
import errno
import os

from attack import holds


def fill(what, step, limit):
    """Until it is refused; a limit that is reached means that there was none."""
    done = 0
    try:
        while done < limit:
            step(done)
            done += 1
    except OSError as e:
        holds(what, e.errno in (errno.ENOSPC, errno.EDQUOT, errno.EMLINK, errno.ENAMETOOLONG, errno.EFBIG, errno.EPERM,
                                errno.EOPNOTSUPP), f"{errno.errorcode.get(e.errno)} after {done}")
        return
    holds(what, False, f"{done} and no end")


for place in ("/dev/shm", "/tmp"):
    os.chdir(place)
    big = os.open("big", os.O_CREAT | os.O_WRONLY)
    fill(f"bytes in {place}", lambda i, f=big: os.write(f, bytes(1 << 20)), 2048)
    os.ftruncate(big, 0)
    os.unlink("big")
    fill(f"files in {place}", lambda i: os.close(os.open(f"f{i}", os.O_CREAT | os.O_WRONLY)), 1 << 20)
    for name in os.listdir("."):
        if name.startswith("f"):
            os.unlink(name)
os.chdir("/tmp")
with open("linked", "wb"):
    pass
fill("hard links", lambda i: os.link("linked", f"l{i}"), 1 << 20)
