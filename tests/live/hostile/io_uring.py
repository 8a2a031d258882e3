# SPDX-License-Identifier: LGPL-2.1-or-later
"""io_uring, through which calls go past every filter, and the older asynchronous I/O's heir.

Walls: seccomp of agentbox; without record: seccomp of systemd
"""
import ctypes

from attack import call, stopped

parameters = (ctypes.c_uint32 * 30)()
stopped("io_uring_setup", lambda: call("io_uring_setup", 8, ctypes.byref(parameters)))
stopped("io_uring_enter", lambda: call("io_uring_enter", 0, 1, 0, 0, None, 0))
stopped("io_uring_register", lambda: call("io_uring_register", 0, 0, None, 0))
