# SPDX-License-Identifier: LGPL-2.1-or-later
"""Loosening what it is under: securebits, capabilities, no_new_privs, filters, scheduling, limits.

Walls: no capability, locked securebits; seccomp of agentbox (prctl, prlimit); RLIMITs and the cgroup
"""
import errno
import os
import resource

from attack import call, holds, stopped

PR = {"set_keepcaps": 8, "capbset_drop": 24, "set_securebits": 28, "set_mm": 35, "set_no_new_privs": 38, "cap_ambient": 47,
      "set_seccomp": 22, "get_no_new_privs": 39}

stopped("securebits", lambda: call("prctl", PR["set_securebits"], 0))
stopped("no_new_privs taken back", lambda: call("prctl", PR["set_no_new_privs"], 0), 22)
holds("no_new_privs", call("prctl", PR["get_no_new_privs"]) == 1)
stopped("a capability raised", lambda: call("prctl", PR["cap_ambient"], 2, 21, 0, 0))
stopped("memory layout", lambda: call("prctl", PR["set_mm"], 8, 0, 0, 0))
for flags in (0x0400000, 0x0040000, 0x0008000):
    stopped(f"personality {flags:#x}", lambda f=flags: call("personality", f))
stopped("real-time scheduling", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
stopped("a better priority", lambda: os.setpriority(os.PRIO_PROCESS, 0, -20))


def raise_limit(number, value):
    try:
        resource.setrlimit(number, (value, value))
    except ValueError:  # what Python makes of EPERM
        raise OSError(errno.EPERM, "") from None


for limit in ("NOFILE", "MEMLOCK", "MSGQUEUE", "SIGPENDING", "NICE", "RTPRIO"):
    number = getattr(resource, "RLIMIT_" + limit)
    hard = resource.getrlimit(number)[1]
    if hard == resource.RLIM_INFINITY:
        holds(f"limit {limit}", False, "there is none")
    else:
        stopped(f"limit {limit} raised", lambda n=number, h=hard: raise_limit(n, h + 1))
stopped("memory locked beyond its limit", lambda: call("mlockall", 3), 12)
with open("/proc/self/status", encoding="ascii", errors="replace") as f:
    caps = {line.split()[0]: line.split()[1] for line in f if line.startswith("Cap")}
holds("capabilities", set(caps.values()) == {"0" * 16} and len(caps) == 5, str(caps))
stopped("an OOM score below the host's",
        lambda: os.write(os.open("/proc/self/oom_score_adj", os.O_WRONLY), b"-1000"))
