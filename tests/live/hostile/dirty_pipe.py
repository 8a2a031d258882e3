# SPDX-License-Identifier: LGPL-2.1-or-later
"""Pages of files spliced into pipes and sockets, and pipes that carry notifications.

Walls: seccomp of agentbox (splice, vmsplice, tee, sendfile, flags of pipe2); read-only mounts
"""
import os

from attack import call, stopped

reader, writer = os.pipe()
program = os.open("/usr/bin/env", os.O_RDONLY)
stopped("splice of a program's page", lambda: call("splice", program, None, writer, None, 1, 0))
stopped("tee", lambda: call("tee", reader, writer, 1, 0))
stopped("vmsplice", lambda: call("vmsplice", writer, None, 0, 0))
stopped("sendfile", lambda: os.sendfile(writer, program, 0, 1))
stopped("a watch queue", lambda: os.pipe2(os.O_EXCL))
