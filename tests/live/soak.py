#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Many runs, one after another and many at once, and what the machine, PID 1 and the broker have more of afterwards: nothing.

    soak.py [RUNS [AT_ONCE]]        inside a booted systemd with agentbox installed, as root (2000, 100); the figures are printed

    tests/lab/boot --install /tmp/dest --bind "$PWD" -- python3 "$PWD/tests/live/soak.py"
"""
import collections
import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

import box  # noqa: E402

WARM_UP = 200           # runs: caches fill, and the broker remembers the last 128 that ended
# How much more memory may be in use, in KiB. What is kept of each run, and never given back, would be more after thousands.
MEMORY_GROWTH = {"broker memory": 1024, "PID 1 memory": 4096}


def bpf_descriptors():
    """Of all processes: programs, maps and links. (By number they are the kernel's, and another lab's as well.)"""
    n = 0
    for link in pathlib.Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            n += os.readlink(link).startswith("anon_inode:bpf")
    return n


def descriptors(pid):
    """But for the journal's files, of which a rotation makes more."""
    n = 0
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            n += not os.readlink(link).endswith((".journal", ".journal~"))
    return n


def kept_for_journald():
    """The streams of other services, which it leaves with PID 1: one more for each that has begun to print."""
    shown = box.sh(["systemctl", "show", "-P", "NFileDescriptorStore", "systemd-journald*.service"], check=False)
    return sum(int(n) for n in shown.split())


def kinds(pid):
    """What its descriptors are, without numbers: to be told where there are more."""
    found = collections.Counter()
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            found[re.sub("[0-9]+", "N", os.readlink(link))] += 1
    return found


def inodes_of_run():
    run = os.statvfs("/run")
    return run.f_files - run.f_ffree - len(list(pathlib.Path("/run/log/journal").rglob("*.journal*")))


def memory(pid):
    """In KiB; what no file stands behind."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    return 0


def lines(path):
    return len(pathlib.Path(path).read_text(encoding="utf-8", errors="replace").splitlines())


def figures():
    broker = box.broker_pid()
    return {
        "broker": broker,
        "broker descriptors": descriptors(broker),
        "broker memory": memory(broker),
        "broker mounts": lines(f"/proc/{broker}/mountinfo"),
        "PID 1 descriptors": descriptors(1) - kept_for_journald(),
        "PID 1 memory": memory(1),
        "units": len(box.sh(["systemctl", "list-units", "--all", "--plain", "--no-legend"]).splitlines()),
        "transient unit files": len(os.listdir("/run/systemd/transient")) if os.path.isdir("/run/systemd/transient") else 0,
        "mounts": lines("/proc/1/mountinfo"),
        "cgroups": len(box.sh("find /sys/fs/cgroup -type d", check=False).splitlines()),
        "inodes of /run": inodes_of_run(),
        "processes": len([p for p in os.listdir("/proc") if p.isdigit()]),
        "network namespaces": len(box.network_namespaces()),
        "BPF programs, maps and links": bpf_descriptors(),
    }


def settled():
    """The figures when nothing moves any more: a wall is made ahead, PID 1 collects units and the kernel cgroups a little later."""
    left = box.leftovers(wait=20)
    assert not left, left
    before = figures()
    for _ in range(50):
        time.sleep(0.3)
        now = figures()
        if {k: v for k, v in now.items() if "memory" not in k} == {k: v for k, v in before.items() if "memory" not in k}:
            break
        before = now
    return now


def grown(before, after):
    """What there is more of than may be."""
    return {k: (before[k], after[k]) for k in before
            if (after[k] - before[k] > MEMORY_GROWTH[k] if k in MEMORY_GROWTH else after[k] > before[k] or (k == "broker" and after[k] != before[k]))}


class Soak:
    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="live-soak-")
        box.at_end(box.sh, ["rm", "-rf", self.directory])
        pathlib.Path(self.directory, "in").write_text("in", encoding="ascii")
        self.n = 0

    def begin(self):
        """Each fifth copies in and out; each asks for a connection that it does not get."""
        self.n += 1
        copies = ["--in", f"{self.directory}/in", "--out", f"in:{self.directory}/out{self.n}"] if self.n % 5 == 0 else []
        return subprocess.Popen([box.AGENTBOX, "run", "--timeout", "60s", *copies, "--", "/bin/bash", "-c", "exec 3<>/dev/tcp/192.0.2.9/80; exit 7"],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    @staticmethod
    def end(client):
        out, err = client.communicate(timeout=120 * box.SLOWNESS)
        assert client.returncode == 7, (client.returncode, out, err)

    def in_a_row(self, n):
        for _ in range(n):
            self.end(self.begin())

    def at_once(self, n, times):
        for _ in range(times):
            for client in [self.begin() for _ in range(n)]:
                self.end(client)


def soak(runs, at_once, show=lambda *words: None):
    """What has grown over so many runs in a row, and half as many again, at_once at a time."""
    s, times = Soak(), max(2, runs // at_once // 2)
    box.broker_restart()
    s.at_once(at_once, -(-WARM_UP // at_once))
    first, of_pid_1 = settled(), kinds(1)
    show("after the warm-up", first)
    s.in_a_row(runs)
    second = settled()
    show(f"after {runs} in a row", second)
    s.at_once(at_once, times)
    third = settled()
    show(f"after {times} times {at_once} at once", third)
    more = grown(first, second) | grown(first, third)
    if any("PID 1" in k for k in more):
        more["of PID 1"] = dict(kinds(1) - of_pid_1)
    return more


def main():
    numbers = [int(a) for a in sys.argv[1:3]]
    runs, at_once = numbers + [2000, 100][len(numbers):]
    start = time.monotonic()

    def show(what, found):
        print(f"{what} ({time.monotonic() - start:.0f} s):", ", ".join(f"{k} {v}" for k, v in found.items()), flush=True)
    try:
        more = soak(runs, at_once, show)
    finally:
        box.clean_up()
    print(f"soak: {'more than before: ' + str(more) if more else 'nothing has grown'}")
    return 1 if more else 0


if __name__ == "__main__":
    sys.exit(main())
