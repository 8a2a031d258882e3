# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs live and end as they would while what is around them is restarted, or has no room: PID 1, journald, the broker, /run."""
import os
import pathlib
import random
import signal
import threading
import time

import box
from box import BROKER_UNIT, agentbox, at_end, broker_pid, events, expect, heavy, leftovers, only, run, runs, sh, start, wait_events, wait_for, within
from test_baddays import broker_with, journal_on
from test_steps import ENDS, KERNEL

KERNEL_KEEPS_ENDS = KERNEL >= (6, 15)  # how a process ended, for who has a descriptor of it


def living(n, script, *options):
    """So many clients, once all their runs run; the runs."""
    clients = [start("/bin/sh", "-c", f"echo here; {script.format(i)}", options=["--timeout", "120s", *options]) for i in range(n)]
    for client in clients:
        assert client.stdout.readline() == b"here\n", client.stderr.read()
    return clients, [r["run"] for r in runs()]


def pid_1(verb):
    """And time for what the lab itself asks of it then."""
    sh(["systemctl", verb], check=False)
    time.sleep(1 * box.SLOWNESS if verb == "daemon-reexec" else 0.1)


def restart_journald():
    sh("systemctl reset-failed systemd-journald.service; systemctl restart systemd-journald.service", check=False)


def all_end(clients, found, status):
    for client in clients:
        out, err = client.communicate(timeout=120 * box.SLOWNESS)
        assert client.returncode == status or (not KERNEL_KEEPS_ENDS and client.returncode == 125 and b"nobody saw" in err), \
            (client.returncode, out, err)
    for one in found:
        assert wait_events(one, "run-ended").count("run-ended") == 1, events(one)
    left = leftovers(wait=15 * box.SLOWNESS)
    assert left == [], left


@within(180)
def test_runs_end_while_pid_1_executes_itself_anew():
    clients, found = living(16, "sleep 1.{0}; exit 5")
    for verb in ("daemon-reexec", "daemon-reload", "daemon-reexec"):
        pid_1(verb)
    all_end(clients, found, 5)


@heavy
@within(300)
def test_pid_1_and_journald_restart_at_random():
    """Runs begin and end all the time meanwhile: each end is on record once, and refusals have words."""
    stop, dice = threading.Event(), random.Random(1)
    disturbances = (lambda: pid_1("daemon-reload"), lambda: pid_1("daemon-reexec"), restart_journald)

    def disturb():
        while not stop.is_set():
            dice.choice(disturbances)()
            stop.wait(dice.random())
    position = box.journal_position()
    thread = threading.Thread(target=disturb)
    at_end(stop.set)
    thread.start()
    for turn in range(8):
        clients = [start("/bin/sh", "-c", f"sleep 0.{(turn * 7 + i) % 10}; exit 5", options=["--timeout", "60s"]) for i in range(8)]
        for client in clients:
            out, err = client.communicate(timeout=120)
            assert client.returncode == 5 or (client.returncode == 125 and b"agentbox: " in err), (client.returncode, out, err)
    stop.set()
    thread.join()
    left = leftovers(wait=20)
    assert left == [], left
    found = {}
    for r in box.journal_since(position, f"_SYSTEMD_UNIT={BROKER_UNIT}"):
        if r.get("AGENTBOX_RUN_ID"):
            found.setdefault(r["AGENTBOX_RUN_ID"], []).append(r["AGENTBOX_EVENT"])
    assert len(found) >= 60, found
    wrong = {k: v for k, v in found.items() if sum(v.count(e) for e in ENDS) != 1}
    assert not wrong, wrong
    expect(run("/bin/true"))


@within(120)
def test_run_ends_while_no_broker_is_there():
    """The next one says how, where the kernel kept it."""
    broker_with("RestartSec=5s")
    clients, found = living(1, "sleep 2; exit 5")
    os.kill(wait_for("the broker", broker_pid), signal.SIGKILL)
    wait_for("the run's unit to be gone", lambda: not [u for u in box.units() if found[0] in u], 30)
    all_end(clients, found, 5)


@only("lab")  # where /run is the lab's own
@within(300)
def test_no_room_in_run():
    """What runs ends on record; nothing begins that the next broker could not end."""
    with journal_on("200m"):
        clients, found = living(3, "sleep 3; exit 5")
        filler, run_fs = pathlib.Path("/run/live-filler"), os.statvfs("/run")
        at_end(sh, f"mount -o remount,size={run_fs.f_blocks * run_fs.f_frsize} /run")
        at_end(filler.unlink, True)
        sh(f"mount -o remount,size={(run_fs.f_blocks - run_fs.f_bfree) * run_fs.f_frsize + (4 << 20)} /run")
        with open(filler, "wb", buffering=0) as f:
            try:
                while True:
                    f.write(b"x" * (1 << 20))
            except OSError:
                pass
        done = expect(run("/bin/echo", "untrusted-code-ran"), 125, err="^agentbox: ")
        assert "untrusted" not in done.out and "No space" in done.err, done
        all_end(clients, found, 5)
        filler.unlink()
        expect(run("/bin/true"))
        expect(agentbox("doctor"), out="nothing is left over")


def test_earlier_boots_are_settled_once():
    """The first broker of a boot looks for runs that the machine took down with it; the next ones need not."""
    def settled():
        return box.journal("AGENTBOX_EVENT=boots-settled", f"_SYSTEMD_UNIT={BROKER_UNIT}", "-b")
    box.broker_restart()  # its record may have made room for others, and it looks when it starts
    expect(run("/bin/true"))
    wait_for("the record", settled)
    box.broker_restart()
    time.sleep(1 * box.SLOWNESS)
    expect(run("/bin/true"))
    assert len(settled()) == 1, settled()
