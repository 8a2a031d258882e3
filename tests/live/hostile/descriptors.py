# SPDX-License-Identifier: LGPL-2.1-or-later
"""Descriptors that leaked to it, and ways out of the root by one.

Walls: descriptors closed by the shim and attested; a mount namespace without the host's files
"""
import os
import stat

from attack import holds, stopped

open_now = sorted(int(n) for n in os.listdir("/proc/self/fd"))
leaked = {}
for fd in range(3, 65536):
    try:
        leaked[fd] = os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        continue
# The interpreter's own: this script, perhaps.
leaked = {fd: what for fd, what in leaked.items() if not what.startswith(("/srv/live-hostile", "/usr/", "/proc/"))}
holds("descriptors beside 0, 1, 2", not leaked, str(leaked or open_now[:4]))
for fd in (0, 1, 2):
    kind = stat.S_IFMT(os.fstat(fd).st_mode)
    holds(f"what {fd} is", kind in (stat.S_IFIFO, stat.S_IFCHR), oct(kind))
    stopped(f"a way up from {fd}", lambda f=fd: os.open("../../../etc/shadow", os.O_RDONLY, dir_fd=f), 20)
    stopped(f"the host's root by {fd}", lambda f=fd: os.listdir(f"/proc/self/fd/{f}/.."), 20)
holds("up from the root", os.stat("/..").st_ino == os.stat("/").st_ino)
stopped("/proc/self/root/../etc/shadow", lambda: os.open("/proc/self/root/../etc/shadow", os.O_RDONLY))
stopped("the shim's program", lambda: os.open("/usr/lib/agentbox/agentbox-exec", os.O_WRONLY))
stopped("its own program, written", lambda: os.open("/proc/self/exe", os.O_WRONLY), 26)
