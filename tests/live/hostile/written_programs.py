# SPDX-License-Identifier: LGPL-2.1-or-later
"""Changing the programs of the host, which other runs and the host itself will execute.

Walls: read-only mounts (ProtectSystem=strict, BindReadOnlyPaths=); not its files; Landlock
"""
import os

from attack import call, stopped

for path in ("/usr/bin/python3", "/usr/bin/env", "/bin/sh", "/usr/lib/os-release", "/etc/passwd", "/etc/ld.so.cache",
             "/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs/ca-certificates.crt"):
    stopped(f"opening {path} to write", lambda p=path: os.open(p, os.O_WRONLY))
    stopped(f"cutting {path}", lambda p=path: os.truncate(p, 0))
    stopped(f"removing {path}", lambda p=path: os.unlink(p))
    stopped(f"replacing {path}", lambda p=path: os.rename(p, p + ".old"))
    stopped(f"the times of {path}", lambda p=path: os.utime(p))
    stopped(f"the mode of {path}", lambda p=path: os.chmod(p, 0o777))
    stopped(f"an attribute of {path}", lambda p=path: os.setxattr(p, "user.x", b"x"))
for path in ("/", "/usr", "/usr/bin", "/usr/lib", "/etc", "/run", "/dev", "/proc", "/var", "/home", "/opt", "/srv"):
    stopped(f"making a file in {path}", lambda p=path: os.open(p + "/made", os.O_CREAT | os.O_WRONLY, 0o644))
    stopped(f"a file without name in {path}", lambda p=path: os.open(p, os.O_TMPFILE | os.O_WRONLY, 0o644), 21)
stopped("the time namespace's offsets", lambda: os.open("/proc/self/timens_offsets", os.O_WRONLY))
stopped("chroot", lambda: call("chroot", None))
