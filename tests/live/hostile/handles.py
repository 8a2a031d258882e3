# SPDX-License-Identifier: LGPL-2.1-or-later
"""Files by handle, past every path (the shocker of early container days).

Walls: seccomp of agentbox; no CAP_DAC_READ_SEARCH; without record: seccomp of systemd
"""
import ctypes
import os

from attack import call, stopped

handle = (ctypes.c_uint32 * 34)(8, 1, 2, 0)
stopped("open_by_handle_at, the root's inode",
        lambda: call("open_by_handle_at", os.open("/", os.O_RDONLY), ctypes.byref(handle), os.O_RDONLY))
stopped("name_to_handle_at", lambda: call("name_to_handle_at", -100, ctypes.c_char_p(b"/usr"), ctypes.byref(handle),
                                          ctypes.byref(ctypes.c_int()), 0))
