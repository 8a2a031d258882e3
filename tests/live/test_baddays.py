# SPDX-License-Identifier: LGPL-2.1-or-later
"""Bad days of the host: no room, no memory, no descriptors, its daemons restarted. Every run ends in words and with the right
status, nothing hangs, nothing unrecorded has run, nothing is left over."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time

import box
import bus
from box import (BROKER_UNIT, agentbox, at_end, events, expect, leftovers, newest_run, only, run, sh, start, wait_events,
                 wait_for, within, write_file)

BROKER_DROPIN = pathlib.Path(f"/run/systemd/system/{BROKER_UNIT}.d/50-live.conf")
JOURNAL = pathlib.Path("/run/log/journal")
REFUSED = 125


def broker_with(text):
    """The broker as a host configures it, for this test."""
    at_end(sh, f"systemctl daemon-reload; systemctl reset-failed {BROKER_UNIT}; systemctl restart {BROKER_UNIT}")
    write_file(BROKER_DROPIN, f"[Unit]\nStartLimitIntervalSec=0\n[Service]\n{text}\n")
    sh(f"systemctl daemon-reload; systemctl restart {BROKER_UNIT}", check=False)


def outcomes(clients, status, timeout=120):
    """How many did their work and how many were refused; another end than these two is an error."""
    count = {status: 0, REFUSED: 0}
    for client in clients:
        out, err = client.communicate(timeout=timeout * box.SLOWNESS)
        assert client.returncode in count, (client.returncode, out, err)
        if client.returncode == REFUSED:
            assert err.startswith(b"agentbox: ") and len(err.strip()) > len("agentbox: "), (out, err)
        else:
            assert out == b"here\n", (out, err)
        count[client.returncode] += 1
    return count


def burst(n, script="echo here; exit 3"):
    return [start("/bin/sh", "-c", script, options=["--timeout", "60s"]) for _ in range(n)]


# --- the journal

@contextlib.contextmanager
def journal_on(size):
    """journald with a file system of this size for all that it keeps. Mounts reach the broker, as on any host; the lab's do not
    by themselves."""
    restart = "systemctl reset-failed systemd-journald.service systemd-journald.socket systemd-journald-dev-log.socket; " \
              "systemctl restart systemd-journald.service"

    def back():
        sh(f"while umount -l {JOURNAL}; do :; done; {restart}", check=False)
    at_end(back)
    sh(f"mount --make-rshared /; systemctl restart {BROKER_UNIT}; mkdir -p {JOURNAL}")
    sh(f"mount -t tmpfs -o size={size},mode=755 none {JOURNAL}; {restart}", check=False)
    yield
    back()


def must_be_on_record(done):
    """What has run is on record with its start; what is not on record has not run."""
    if done.status == REFUSED:
        assert b"untrusted-code-ran" not in done.stdout and done.err.startswith("agentbox: "), done
        return False
    assert done.status == 0 and b"untrusted-code-ran" in done.stdout, done
    assert "run-started" in events(done.run), (events(done.run), done)
    return True


@only("lab")  # where the journal is in /run
@within(180)
def test_no_room_for_the_journal():
    for size in ("64k", "600k", "8100k"):
        with journal_on(size):
            for _ in range(3):
                must_be_on_record(run("/bin/echo", "untrusted-code-ran"))
    expect(run("/bin/true"))


@only("lab")
@within(300)
def test_journal_fills_up():
    with journal_on("24m"):
        recorded = must_be_on_record(run("/bin/echo", "untrusted-code-ran"))
        assert recorded
        with contextlib.suppress(OSError):
            (JOURNAL / "filler").write_bytes(b"x" * (24 << 20))
        noise = "x" * 40000
        for _ in range(12):
            for _ in range(20):
                subprocess.run(["logger", "-t", "live-noise"], input=noise.encode(), check=False)
            must_be_on_record(run("/bin/echo", "untrusted-code-ran"))
    expect(run("/bin/true"))


@only("lab")
@within(180)
def test_journal_that_keeps_next_to_nothing():
    at_end(sh, "systemctl restart systemd-journald.service")
    write_file("/run/systemd/journald.conf.d/zz-live.conf", "[Journal]\nRuntimeMaxUse=1K\nRuntimeMaxFileSize=1K\nRuntimeMaxFiles=1\n")
    sh("systemctl restart systemd-journald.service")
    for _ in range(5):
        must_be_on_record(run("/bin/echo", "untrusted-code-ran"))
    os.unlink("/run/systemd/journald.conf.d/zz-live.conf")
    sh("systemctl restart systemd-journald.service")
    write_file("/run/systemd/journald.conf.d/zz-live.conf", "")
    expect(run("/bin/true"))


# --- the bus

@within(120)
def test_bus_reloads_during_a_run():
    client = start("/bin/sh", "-c", "echo ready; sleep 3; echo here; exit 8", options=["--timeout", "60s"])
    assert client.stdout.readline() == b"ready\n"
    found = newest_run()["run"]
    for _ in range(3):
        sh("systemctl reload dbus.service")
    assert outcomes([client], 8)[8] == 1
    wait_events(found, "run-ended")


@within(300)
def test_bus_restarts_during_a_run():
    """Everybody's connection is gone: clients come back to the new bus and to the broker on it, which waits for them; whose client does not
    is ended. Each end is on record once."""
    client = start("/bin/sh", "-c", f"echo ready; sleep {6 * box.SLOWNESS}; echo here; exit 8", options=["--timeout", "200s"])
    assert client.stdout.readline() == b"ready\n"
    detached = expect(agentbox("run", "--detach", "--timeout", "200s", "--", "/bin/sleep", str(8 * box.SLOWNESS))).out.strip().split()[-1]
    found = next(r["run"] for r in box.runs() if r["run"] not in detached)
    abandoned = start("/bin/sh", "-c", "echo ready; sleep 600", options=["--timeout", "700s"])
    assert abandoned.stdout.readline() == b"ready\n"
    left_alone = next(r["run"] for r in box.runs() if r["run"] not in (detached, found))
    waiter = subprocess.Popen(["agentbox", "wait", detached], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(1)
    abandoned.send_signal(signal.SIGSTOP)
    sh("systemctl restart dbus.service", check=False)
    out, err = client.communicate(timeout=60 * box.SLOWNESS)
    assert (client.returncode, out) == (8, b"here\n"), (client.returncode, out, err)
    assert b"went away" in err, err
    assert waiter.wait(60 * box.SLOWNESS) == 0, waiter.communicate()
    assert len([r for r in events(found) if r == "run-ended"]) == 1
    wait_for("its end", lambda: "run-ended" in events(left_alone), 90)
    abandoned.kill()
    abandoned.wait()
    expect(wait_for("the broker to be back", lambda: (lambda d: d.status == 0 and d)(run("/bin/true")), 60))
    for one in (found, detached, left_alone):
        wait_events(one, "run-ended")
        assert events(one).count("run-ended") == 1, events(one)
    left = leftovers(wait=20 * box.SLOWNESS)
    assert left == [], left


# --- what the broker itself may run out of

@within(300)
def test_broker_short_of_descriptors():
    broker_with("LimitNOFILE=80")
    clients = burst(16, "echo here; sleep 2; exit 3")
    count = outcomes(clients, 3)
    assert count[REFUSED] > 0, count
    expect(run("/bin/sh", "-c", "echo here; exit 3"), 3)
    left = leftovers(wait=10 * box.SLOWNESS)
    assert left == [], left


@within(300)
def test_broker_short_of_memory():
    broker_with("MemoryMax=8M\nMemorySwapMax=0")
    connection = bus.Bus()
    for _ in range(30):
        with contextlib.suppress(bus.BusError, OSError):
            connection.manager("Run", bus.RUN, *bus.run_values([b"x" * (4 << 20)], options={"detach": ("b", True)}, n_fds=0))
    outcomes(burst(30), 3)
    left = leftovers(wait=15 * box.SLOWNESS)
    assert left == [], left
    expect(wait_for("a broker", lambda: (lambda d: d.status == 3 and d)(run("/bin/sh", "-c", "exit 3")), 60), 3)


@within(200)
def test_broker_short_of_tasks():
    broker_with("TasksMax=1")
    outcomes(burst(6), 3)
    left = leftovers(wait=10 * box.SLOWNESS)
    assert left == [], left


@within(120)
def test_broker_that_cannot_start():
    """A host that broke it: words, and not a wait for ever."""
    broker_with("ReadWritePaths=/nonexistent/place")
    before = time.monotonic()
    done = expect(run("/bin/true"), REFUSED, err=r"^agentbox: .*org.agentbox1")
    assert time.monotonic() - before < 40 * box.SLOWNESS, done


# --- the clock

@only("vm")  # the clock is the whole machine's
@within(120)
def test_clock_jumps():
    before = time.time()
    client = start("/bin/sh", "-c", "echo ready; sleep 5; echo here; exit 8", options=["--timeout", "60s", "--result", "/tmp/live-clock"])
    at_end(os.unlink, "/tmp/live-clock")
    assert client.stdout.readline() == b"ready\n"
    steps = (3 * 86400, -2 * 86400)
    at_end(lambda: sh(f"date -s @{before + time.monotonic() - started:.0f}"))
    started = time.monotonic()
    for step in steps:
        sh(f"date -s @{time.time() + step:.0f}")
        time.sleep(0.5)
    assert outcomes([client], 8)[8] == 1
    result = json.loads(pathlib.Path("/tmp/live-clock").read_text(encoding="utf-8"))
    assert result["reason"] == "exited" and 4e6 < result["wall_usec"] < 120e6, result
