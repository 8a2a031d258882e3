# SPDX-License-Identifier: LGPL-2.1-or-later
"""The machine: modules, another kernel, restart, swap, clocks, names, ports, its log.

Walls: seccomp of agentbox; no capability; partly seccomp of systemd, of the rest without record
"""
import ctypes
import socket

from attack import call, holds, stopped

path = ctypes.c_char_p(b"/workspace/x")
stopped("init_module", lambda: call("init_module", path, 8, path))
stopped("finit_module", lambda: call("finit_module", 0, path, 0))
stopped("delete_module", lambda: call("delete_module", path, 0))
stopped("kexec_load", lambda: call("kexec_load", 0, 0, None, 0))
stopped("kexec_file_load", lambda: call("kexec_file_load", 0, 0, 0, None, 0))
stopped("reboot", lambda: call("reboot", 0xfee1dead, 672274793, 0x01234567))
stopped("swapon", lambda: call("swapon", path, 0))
stopped("swapoff", lambda: call("swapoff", path))
stopped("acct", lambda: call("acct", None))
stopped("quotactl", lambda: call("quotactl", 0, path, 0, None))
stopped("quotactl_fd", lambda: call("quotactl_fd", 0, 0, 0, None))
stopped("settimeofday", lambda: call("settimeofday", (ctypes.c_long * 2)(1, 0), None))
stopped("clock_settime", lambda: call("clock_settime", 0, (ctypes.c_long * 2)(1, 0)))
timex = (ctypes.c_uint32 * 64)()
timex[0] = 1
stopped("adjtimex", lambda: call("adjtimex", ctypes.byref(timex)))
stopped("sethostname", lambda: call("sethostname", path, 3))
stopped("setdomainname", lambda: call("setdomainname", path, 3))
stopped("iopl", lambda: call("iopl", 3))
stopped("ioperm", lambda: call("ioperm", 0, 1, 1))
stopped("syslog, read", lambda: call("syslog", 3, ctypes.create_string_buffer(64), 64))
stopped("syslog, cleared", lambda: call("syslog", 5, None, 0))
stopped("vhangup", lambda: call("vhangup"))
stopped("lookup_dcookie", lambda: call("lookup_dcookie", 0, 0, ctypes.create_string_buffer(64), 64))
holds("the host's name", socket.gethostname() == "sandbox", socket.gethostname())
