# SPDX-License-Identifier: LGPL-2.1-or-later
"""Records in the journal that look like agentbox's own. The suite looks for them afterwards.

Walls: an empty /run and no /dev/log, /dev/kmsg; trusted fields, which journald itself writes; a network of its own
"""
import os
import socket

from attack import holds, stopped

RECORD = b"MESSAGE=forged by the hostile suite\nAGENTBOX_EVENT=run-verified\nAGENTBOX_RUN_ID=aaaaaaaaaa\n_SYSTEMD_UNIT=agentboxd.service\n"


def datagram(address, family=socket.AF_UNIX):
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.connect(address)
        s.send(RECORD)
        s.settimeout(0.2)
        return s.recv(1)  # a refusal comes as an error of the next call


for path in ("/run/systemd/journal/socket", "/dev/log", "/run/systemd/journal/dev-log", "/run/systemd/journal/syslog"):
    stopped(f"a datagram to {path}", lambda p=path: datagram(p))
for path in ("/dev/kmsg", "/dev/console", "/proc/kmsg", "/dev/ttyS0", "/var/log/journal/x", "/run/log/journal/x"):
    stopped(f"writing {path}", lambda p=path: os.open(p, os.O_WRONLY))
for port in (514, 601, 19532):
    stopped(f"syslog to port {port}", lambda p=port: datagram(("127.0.0.1", p), socket.AF_INET))
os.write(2, b"<0>" + RECORD + b"\0" + RECORD)
holds("the same on stderr", True, "the suite looks for it")
