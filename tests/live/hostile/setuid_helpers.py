# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs that would run as somebody else: the host's, and made by its own hand.

Walls: no_new_privs; nosuid on every mount; a user namespace that maps nobody else
"""
import os
import subprocess

from attack import holds, stopped

PRINT = "import os; print(os.getuid(), os.geteuid(), os.getgid(), os.getegid(), os.getgroups())"
mine = f"{os.getuid()} {os.geteuid()} {os.getgid()} {os.getegid()} {os.getgroups()}"

for program in ("su", "sudo", "mount", "newuidmap", "pkexec", "chsh", "passwd", "fusermount3", "ssh-keysign", "unix_chkpwd"):
    for where in ("/usr/bin", "/usr/sbin", "/usr/lib/openssh", "/usr/libexec"):
        path = f"{where}/{program}"
        if os.path.exists(path) and os.stat(path).st_mode & 0o6000:
            with subprocess.Popen([path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  start_new_session=True) as child:
                try:
                    with open(f"/proc/{child.pid}/status", encoding="ascii", errors="replace") as f:
                        uids = next((line.split()[1:] for line in f if line.startswith("Uid:")), [])
                    holds(f"running {path}", set(uids) <= {str(os.getuid())}, " ".join(uids))
                except OSError:
                    holds(f"running {path}", True, "gone at once")
                child.kill()
with open("/workspace/suid", "wb") as f:
    f.write(b"x")
stopped("chmod u+s", lambda: os.chmod("/workspace/suid", 0o4755))
stopped("chmod g+s", lambda: os.chmod("/workspace/suid", 0o2755))
stopped("creat with u+s", lambda: os.open("/workspace/suid2", os.O_CREAT | os.O_WRONLY, 0o4755))
for ids in ((0, 0), (1000, 1000)):
    stopped(f"setuid {ids[0]}", lambda i=ids: os.setuid(i[0]), 22)
    stopped(f"setgid {ids[0]}", lambda i=ids: os.setgid(i[0]), 22)
stopped("setgroups", lambda: os.setgroups([0]), 22)
stopped("chown to root", lambda: os.chown("/workspace/suid", 0, 0), 22)
out = subprocess.run(["/usr/bin/python3", "-c", PRINT], stdout=subprocess.PIPE, check=False, text=True).stdout.strip()
holds("a child's ids", out == mine, out)
