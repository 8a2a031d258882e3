# SPDX-License-Identifier: LGPL-2.1-or-later
"""A journal that drops records in the middle of a run: nothing more is let through, and when it keeps them again, nothing is missing."""
import contextlib
import os
import signal
import subprocess
import time

import box
import world
from box import at_end, newest_run, only, records, sh, start, wait_for, within, write_file
from test_baddays import JOURNAL, journal_on

# Each line of standard input: so many connections, one after the other; says how many came through.
CONNECTS = r"""
import socket, sys
print("ready", flush=True)
for line in sys.stdin:
    through = 0
    for i in range(int(line)):
        s = socket.socket()
        s.settimeout(30)
        try:
            s.connect(("192.0.2.77", 5432)); s.sendall(b"ECHO\nx"); through += s.recv(1) == b"x"
        except ConnectionError:
            pass
        s.close()
    print(through, flush=True)
"""
CONF = "/run/systemd/journald.conf.d/zz-live.conf"


class Connects:
    def __init__(self):
        world.policy("egress", f"tcp {world.RULE4}:5432", more="[Limits]\nRuntime=10min\n")
        self.world = world.up()
        self.client = start("/usr/bin/python3", "-u", "-c", CONNECTS, policy="egress", options=["--timeout", "600s"], stdin=subprocess.PIPE)
        assert self.client.stdout.readline() == b"ready\n", self.client.stderr.read()
        self.run = newest_run(lambda r: r.get("state") == "running")["run"]
        self.made = self.through = 0

    def make(self, n=1):
        """How many came through."""
        self.client.stdin.write(f"{n}\n".encode())
        self.client.stdin.flush()
        through = int(self.client.stdout.readline())
        self.made += n
        self.through += through
        return through

    def until(self, through, what, meanwhile=lambda: None):
        end = time.monotonic() + 60 * box.SLOWNESS
        while self.make() != through:
            assert time.monotonic() < end, f"waited in vain for: {what}"
            meanwhile()
            time.sleep(0.1)

    def finish(self):
        """Everything is on record, once, and the world saw no more than that."""
        self.client.stdin.close()
        self.client.stdin = None
        _, err = self.client.communicate(timeout=60 * box.SLOWNESS)
        assert self.client.returncode == 0, err
        wait_for("the end", lambda: records(self.run, "run-ended"), 30)
        ended, = records(self.run, "run-ended")
        opened, closed = world.egress(self.run, "egress-allowed"), world.egress(self.run, "egress-closed")
        assert len(opened) == len(closed) == self.through == int(ended["AGENTBOX_EGRESS_ALLOWED"]), (len(opened), len(closed), self.through)
        # One may have been made for a connection that could not be recorded then: nothing went over it.
        told = [c for c in self.world.tcp.accepted if c.raw]
        assert len(told) == self.through, (len(told), self.through)
        denied = world.denied(self.run)
        assert set(denied) <= {("tcp", f"{world.RULE4}:5432", "no-journal")}, denied
        assert sum(denied.values()) == self.made - self.through == int(ended["AGENTBOX_EGRESS_DENIED"]), (denied, self.made, self.through)
        numbers = sorted(int(r["AGENTBOX_SEQUENCE"]) for r in world.egress(self.run))
        assert numbers == list(range(1, len(numbers) + 1)), numbers


def journald(text):
    write_file(CONF, text)
    sh("systemctl reset-failed systemd-journald.service; systemctl restart systemd-journald.service", check=False)


@only("lab")  # where the journal is in /run
@within(300)
def test_disk_full_in_mid_run():
    with journal_on("24m"):
        c = Connects()
        assert c.make(5) == 5
        with contextlib.suppress(OSError):
            (JOURNAL / "filler").write_bytes(b"x" * (24 << 20))
        noise = os.urandom(15000).hex()
        c.until(0, "the journal to be full", lambda: subprocess.run(["logger", "-t", "live-noise"], input=noise.encode(), check=False))
        assert c.make(20) == 0
        time.sleep(3 * box.SLOWNESS)
        assert c.make(20) == 0
        (JOURNAL / "filler").unlink()
        c.until(1, "room in the journal")
        assert c.make(20) == 20
        c.finish()


@within(240)
def test_journald_keeps_nothing_in_mid_run():
    at_end(sh, "systemctl restart systemd-journald.service")
    at_end(os.unlink, CONF)
    c = Connects()
    for _ in range(2):
        assert c.make(3) == 3
        journald("[Journal]\nStorage=none\n")
        c.until(0, "the loss to be seen")
        assert c.make(10) == 0
        journald("")
        c.until(1, "the journal to keep what it gets")
    c.finish()


@within(240)
def test_what_was_dropped_for_a_moment_is_seen_by_its_number():
    """Later records arrive, and nothing else says that some before did not."""
    at_end(sh, "systemctl restart systemd-journald.service")
    at_end(os.unlink, CONF)
    c = Connects()
    assert c.make(3) == 3
    journald("[Journal]\nStorage=none\n")
    assert c.make(2) == 2
    journald("")
    c.make(3)

    def numbers():
        return {int(r["AGENTBOX_SEQUENCE"]) for r in world.egress(c.run)}
    wait_for("all records", lambda: numbers() >= set(range(1, max(numbers()) + 1)) and max(numbers()) >= 2 * c.through, 30)
    c.until(1, "the journal to be trusted again")
    c.finish()


@within(120)
def test_end_in_the_moment_when_records_are_dropped():
    """A run that ends waits for what it has told of, as the journal comes back meanwhile."""
    at_end(sh, "systemctl restart systemd-journald.service")
    at_end(os.unlink, CONF)
    c = Connects()
    assert c.make(3) == 3
    journald("[Journal]\nStorage=none\n")
    c.until(0, "the loss to be seen")
    c.make(4)
    c.client.stdin.close()
    c.client.stdin = None
    time.sleep(0.5)
    journald("")
    c.client.communicate(timeout=60 * box.SLOWNESS)
    wait_for("the end", lambda: records(c.run, "run-ended"), 30)
    ended, = records(c.run, "run-ended")
    assert int(ended["AGENTBOX_EGRESS_DENIED"]) == sum(world.denied(c.run).values()) == c.made - c.through, (world.denied(c.run), c.made, c.through)


@within(240)
def test_broker_dies_while_nothing_is_kept():
    """The next one goes on looking."""
    at_end(sh, "systemctl restart systemd-journald.service")
    at_end(os.unlink, CONF)
    c = Connects()
    assert c.make(3) == 3
    journald("[Journal]\nStorage=none\n")
    c.until(0, "the loss to be seen")
    os.kill(box.broker_pid(), signal.SIGKILL)
    assert c.make(10) == 0
    journald("")
    c.until(1, "the journal to keep what it gets")
    c.finish()
