# SPDX-License-Identifier: LGPL-2.1-or-later
"""The kernel's settings in /proc and /sys, and other processes in /proc.

Walls: read-only /proc/sys and no /sys (systemd's mounts); ProtectProc= and a uid of its own; no capability
"""
import os

from attack import holds, stopped

WRITE = ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname",
         "/proc/sys/vm/drop_caches", "/proc/sys/fs/binfmt_misc/register", "/proc/sys/kernel/randomize_va_space",
         "/proc/sysrq-trigger", "/sys/kernel/uevent_helper", "/sys/kernel/mm/transparent_hugepage/enabled",
         "/sys/power/state", "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/release_agent", "/sys/kernel/debug/x",
         "/sys/module/x", "/proc/self/oom_adj_of_others", "/proc/irq/0/smp_affinity", "/proc/mtrr")
READ = ("/proc/kcore", "/proc/kmsg", "/proc/kallsyms", "/proc/kpagecount", "/proc/kpageflags", "/proc/iomem", "/proc/keys",
        "/proc/timer_list", "/proc/sched_debug", "/proc/slabinfo", "/proc/vmallocinfo", "/proc/1/environ", "/proc/1/mem",
        "/proc/1/maps", "/proc/1/root/etc/shadow", "/proc/1/cwd/etc/shadow", "/proc/1/fd", "/sys/firmware/acpi/tables",
        "/sys/class/dmi/id/product_uuid", "/sys/kernel/vmcoreinfo", "/sys/fs/cgroup", "/sys/block", "/proc/config.gz")

for path in WRITE:
    stopped(f"writing {path}", lambda p=path: os.open(p, os.O_WRONLY))
for path in READ:
    stopped(f"reading {path}", lambda p=path: os.read(os.open(p, os.O_RDONLY), 1) if not os.path.isdir(p) else os.listdir(p))

foreign = [p for p in os.listdir("/proc") if p.isdigit() and os.stat(f"/proc/{p}").st_uid != os.getuid()]
holds("processes of others in /proc", not foreign, f"{len(foreign)} seen")
