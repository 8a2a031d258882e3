#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The machine stops without a word while runs are there; on its next boot nothing is left of them, and each has its end on record once.

    power_cut.py cut        starts runs, and stops the machine as a cut of its power would
    power_cut.py check      on the next boot

For tests/vm/run, which boots the same disk twice."""
import json
import os
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True

import box  # noqa: E402
from box import BROKER_UNIT, agentbox, events, expect, leftovers, records, run, sh, wait_for  # noqa: E402

STATE = pathlib.Path("/var/lib/live-power-cut")
ENDS = ("run-ended", "run-refused", "run-unverified")


def client(*words):
    return subprocess.Popen([box.AGENTBOX, "run", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def cut():
    """One run that has ended, one detached, one with a client and results to come, one that just begins."""
    sh("mkdir -p /var/log/journal; systemctl restart systemd-journald.service; journalctl --flush")
    STATE.mkdir(parents=True)
    ended = expect(run("/bin/sh", "-c", "exit 4"), 4).run
    detached = expect(agentbox("run", "--detach", "--timeout", "60s", "--", "/bin/sleep", "50")).out.strip().split()[-1]
    attended = client("--timeout", "60s", "--out", f"o:{STATE}/o", "--", "/bin/sh", "-c", "mkdir o; echo half >o/half; echo here; sleep 50")
    assert attended.stdout.readline() == b"here\n"
    found = {r["run"] for r in box.runs()}
    assert detached in found and len(found) == 2, (detached, found)
    (STATE / "runs").write_text(json.dumps({"ended": ended, "lost": sorted(found)}), encoding="ascii")
    client("--timeout", "60s", "--", "/bin/true")
    sh("journalctl --sync; sync")
    print("power-cut: cut", flush=True)
    sh("sync; sleep 1")  # what was printed is out
    pathlib.Path("/proc/sysrq-trigger").write_text("b", encoding="ascii")


def must_be_lost(one):
    end = [r for r in records(one) if r["AGENTBOX_EVENT"] in ENDS]
    assert len(end) == 1 and end[0]["AGENTBOX_EVENT"] == "run-ended" and end[0]["AGENTBOX_REASON"] == "lost", (one, end)
    assert "machine" in end[0]["MESSAGE"] and end[0]["AGENTBOX_POLICY"] == "default" and end[0]["AGENTBOX_COMMAND"], end
    expect(agentbox("log", one), out="run-ended +lost")


def check():
    was = json.loads((STATE / "runs").read_text(encoding="ascii"))
    boots = len(sh("journalctl --list-boots -q").splitlines())
    assert boots == 2, f"{boots} boots are on record: the journal did not last"
    assert leftovers(wait=0) == [], leftovers(wait=0)
    assert os.listdir(STATE) == ["runs"], os.listdir(STATE)  # no results, and no half of them
    expect(run("/bin/true"))                                # which starts the first broker of this boot
    wait_for("the earlier boot to be settled", lambda: box.journal("AGENTBOX_EVENT=boots-settled", f"_SYSTEMD_UNIT={BROKER_UNIT}", "-b"), 60)
    box.broker_restart()
    expect(run("/bin/true"))
    for one in was["lost"]:
        must_be_lost(one)
    assert events(was["ended"]).count("run-ended") == 1 and records(was["ended"], "run-ended")[0]["AGENTBOX_REASON"] == "exited"
    found = {}
    for r in box.journal(f"_SYSTEMD_UNIT={BROKER_UNIT}"):
        if r.get("AGENTBOX_RUN_ID"):
            found.setdefault(r["AGENTBOX_RUN_ID"], []).append(r["AGENTBOX_EVENT"])
    wrong = {k: v for k, v in found.items() if sum(v.count(e) for e in ENDS) != 1}
    assert not wrong, wrong                                 # the one that was just beginning as well
    assert leftovers(wait=20) == [], leftovers(wait=0)
    expect(agentbox("doctor"), out="nothing is left over")
    print("power-cut: ok", flush=True)


if __name__ == "__main__":
    box.set_env("vm")
    {"cut": cut, "check": check}[sys.argv[1]]()
