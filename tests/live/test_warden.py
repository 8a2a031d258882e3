# SPDX-License-Identifier: LGPL-2.1-or-later
"""The warden of a filtered run: it lives as long as its run, the run no longer than it, and what it counts is on record."""
import collections
import contextlib
import os
import pathlib
import re
import signal
import sys
import time

import box
from box import (agentbox, at_end, broker_restart, dropin, events, expect, journal, leftovers, newest_run, policy, records, run,
                 run_python, sh, start, wait_for, within, write_file)

WARDEN_DROPINS = pathlib.Path("/run/systemd/system/agentbox-warden-.service.d")
WARDEN = pathlib.Path("/usr/lib/agentbox/agentbox-warden")
CONFIG = pathlib.Path("/etc/agentbox/agentbox.conf")
KILLED = (137, 143)  # PID 1 asks politely what the broker kills

# Each line of standard input is a number: so many attempts to reach an address that no rule names, one after the other.
ATTEMPTS = r"""
import socket, sys
print("ready", flush=True)
for line in sys.stdin:
    outcomes = set()
    for i in range(int(line)):
        s = socket.socket()
        s.settimeout(30)
        try:
            s.connect(("1.2.3.4", 443))
            outcomes.add("open" if s.recv(1) else "closed")
        except OSError as e:
            outcomes.add(type(e).__name__)
        s.close()
    print(line.strip(), *sorted(outcomes), flush=True)
"""
REFUSALS = {"ConnectionResetError", "ConnectionRefusedError", "closed"}


class Attempts:
    """A run that makes attempts when it is told to."""

    def __init__(self, policy_name=None, options=()):
        self.client = start("/usr/bin/python3", "-u", "-c", ATTEMPTS, policy=policy_name, options=["--timeout", "300s", *options],
                            stdin=-1)
        assert self.client.stdout.readline() == b"ready\n", self.client.stderr.read()
        self.run = newest_run(lambda r: r.get("state") == "running")["run"]

    def make(self, n):
        self.client.stdin.write(f"{n}\n".encode())
        self.client.stdin.flush()

    def made(self, n):
        words = self.client.stdout.readline().decode().split()
        assert words[0] == str(n) and set(words[1:]) <= REFUSALS, words

    def attempt(self, n):
        self.make(n)
        self.made(n)

    def finish(self):
        """It has nothing more to do. The client's status and what it said."""
        self.client.stdin.close()
        self.client.stdin = None
        return self.end()

    def end(self):
        """The client's status and what it said. Its input stays open: else it would end by itself."""
        kept, self.client.stdin = self.client.stdin, None
        out, err = self.client.communicate(timeout=60 * box.SLOWNESS)
        if kept:
            kept.close()
        return self.client.returncode, out.decode(), err.decode()


def unit(run_id):
    return f"agentbox-warden-{run_id}.service"


def warden_pid(run_id):
    return int(sh(["systemctl", "show", "-P", "MainPID", unit(run_id)]).strip() or 0)


def egress(run_id):
    """All records of what the run tried, whoever wrote them."""
    found = [r for u in (unit(run_id), box.BROKER_UNIT) for r in journal(f"AGENTBOX_RUN_ID={run_id}", f"_SYSTEMD_UNIT={u}")]
    return [r for r in found if r["AGENTBOX_EVENT"].startswith("egress-")]


def denied(run_id):
    return sum(int(r.get("AGENTBOX_COUNT", 1)) for r in egress(run_id) if r["AGENTBOX_EVENT"] == "egress-denied")


def ended(run_id):
    """The one record of its end."""
    wait_for(f"the end of {run_id}", lambda: "run-ended" in events(run_id), 30)
    found = records(run_id, "run-ended")
    assert len(found) == 1, found
    return found[0]


def warden_dropin(text):
    at_end(sh, ["systemctl", "daemon-reload"])
    write_file(WARDEN_DROPINS / "50-host.conf", text)
    sh(["systemctl", "daemon-reload"])


# --- what it is

def test_what_it_is():
    a = Attempts()
    pid, mine = warden_pid(a.run), next(r for r in box.runs() if r["run"] == a.run)
    status = dict(re.findall(r"^(\w+):\s+(.*)$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M))
    uid = int(status["Uid"].split()[0])
    assert 61184 <= uid <= 65519 and uid != int(mine["uid"]), (status["Uid"], mine)
    assert all(int(status[c], 16) == 0 for c in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")), status
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2"), status
    assert os.stat(f"/proc/{pid}/ns/net").st_ino == os.stat("/proc/1/ns/net").st_ino
    assert os.stat(f"/proc/{pid}/ns/mnt").st_ino != os.stat("/proc/1/ns/mnt").st_ino
    cgroup = pathlib.Path(f"/proc/{pid}/cgroup").read_text()
    assert f"/agentbox.slice/agentbox-warden.slice/{unit(a.run)}" in cgroup, cgroup
    files = sh(["find", f"/proc/{pid}/root/", "-xdev", "-type", "f"]).split()
    assert [f for f in files if not f.endswith("/agentbox-warden")] == [], files
    environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    assert b"PATH" in environment and b"AGENTBOX" not in environment, environment
    exposure = sh(["systemd-analyze", "security", "--no-pager", unit(a.run)])
    assert float(exposure.split("Overall exposure level for")[1].split(":")[1].split()[0]) <= 1.5, exposure
    assert a.finish()[0] == 0


def test_no_warden_where_none_is_needed():
    for name in ("offline", "live-open"):
        policy("live-open", "[Network]\nEgress=open\n")
        client = start("/bin/sh", "-c", "echo ready; sleep 30", policy=name, options=["--timeout", "60s"])
        assert client.stdout.readline() == b"ready\n"
        assert not any("warden" in u for u in box.units()), box.units()
        agentbox("kill", "--all")
        client.wait()


def test_totals():
    a = Attempts()
    a.attempt(7)
    status, _, err = a.finish()
    assert status == 0, err
    assert denied(a.run) == 7 and int(ended(a.run)["AGENTBOX_EGRESS_DENIED"]) == 7, egress(a.run)
    assert "7 attempts" in err and "1.2.3.4:443" in err and "agentbox why" in err, err
    result = agentbox("show", a.run, "--json").out
    assert '"egress_denied": 7' in result or '"egress_denied":7' in result, result


# --- the run goes when it goes

def dies_with(run_id, client_status, client_err, word):
    end = ended(run_id)
    assert end["AGENTBOX_REASON"] == "killed" and word in end["MESSAGE"] and "warden" in end["MESSAGE"], end
    assert client_status in KILLED and "warden" in client_err, (client_status, client_err)
    assert leftovers(wait=10) == []


def test_killed():
    a = Attempts()
    a.attempt(3)
    before = time.monotonic()
    os.kill(warden_pid(a.run), signal.SIGKILL)
    status, _, err = a.end()
    assert time.monotonic() - before < 5 * box.SLOWNESS
    dies_with(a.run, status, err, "signal 9")
    assert denied(a.run) == 3


def test_killed_between_a_record_and_its_count():
    """Its own count says one less than it has put on record: no other record is written for that one."""
    a = Attempts()
    a.attempt(5)
    wait_for("all records", lambda: denied(a.run) == 5)
    on_record = 3 * 8  # allowed, denied, metadata come before it
    with open(f"/run/agentbox/{a.run}/tally", "r+b") as f:
        f.seek(on_record)
        assert f.read(8) == (5).to_bytes(8, sys.byteorder)
        f.seek(on_record)
        f.write((4).to_bytes(8, sys.byteorder))
    os.kill(warden_pid(a.run), signal.SIGKILL)
    status, _, err = a.end()
    assert status in KILLED, (status, err)
    assert ended(a.run)["AGENTBOX_EGRESS_DENIED"] == "5" and denied(a.run) == 5, egress(a.run)


def test_stopped_by_the_administrator():
    a = Attempts()
    a.attempt(3)
    sh(["systemctl", "stop", unit(a.run)])
    status, _, err = a.end()
    # PID 1 stops first what is bound to it: the run, politely, as it would without a warden.
    assert status in KILLED and ended(a.run)["AGENTBOX_EGRESS_DENIED"] == "3" and denied(a.run) == 3, (status, err)


@within(90)
def test_hung():
    a = Attempts()
    os.kill(warden_pid(a.run), signal.SIGSTOP)
    a.make(1)  # nobody takes it
    status, _, err = a.end()
    dies_with(a.run, status, err, "did not answer")


def test_out_of_memory():
    a = Attempts()
    group = pathlib.Path("/sys/fs/cgroup") / ("memory" if not box.cgroup_v2() else "") / f"agentbox.slice/agentbox-warden.slice/{unit(a.run)}"
    file = group / ("memory.max" if box.cgroup_v2() else "memory.limit_in_bytes")
    # v1 refuses a limit below what is in use and cannot be given back.
    for size in range(8 << 20, 0, -(64 << 10)):
        try:
            file.write_text(str(size))
        except OSError:
            break
    with contextlib.suppress(BrokenPipeError):
        a.make(20000)
    wait_for("its death, or that it copes", lambda: a.client.poll() is not None or denied(a.run) >= 20000, 60)
    if a.client.poll() is None:  # all of its memory was there from the start
        assert a.finish()[0] == 0 and denied(a.run) == 20000
        return
    status, _, err = a.end()
    dies_with(a.run, status, err, "out of memory" if box.cgroup_v2() else "")
    total = int(ended(a.run)["AGENTBOX_EGRESS_DENIED"])
    wait_for("all records", lambda: denied(a.run) >= total)
    assert denied(a.run) == total, (denied(a.run), total)


def test_killed_in_a_flood():
    """What it had counted and not yet written is on record all the same: the sum is the total, by both."""
    for wait in (0.05, 0.3, 0.9):
        a = Attempts()
        a.make(100000)
        time.sleep(wait)
        os.kill(warden_pid(a.run), signal.SIGKILL)
        status, _, err = a.end()
        assert status in KILLED and "warden" in err, err
        total = int(ended(a.run)["AGENTBOX_EGRESS_DENIED"])
        wait_for("all records", lambda: denied(a.run) >= total)  # pylint: disable=cell-var-from-loop
        lost = [r for r in egress(a.run) if r.get("AGENTBOX_REASON") == "warden-lost"]
        assert total > 0 and len(lost) <= 1 and denied(a.run) == total, (total, denied(a.run), lost)
        assert all(r["_SYSTEMD_UNIT"] == box.BROKER_UNIT for r in lost), lost


# --- what else may happen meanwhile

def test_broker_restarted():
    a = Attempts()
    a.attempt(5)
    pid = warden_pid(a.run)
    for i in range(3):
        broker_restart()
        expect(agentbox("ps"))
        assert warden_pid(a.run) == pid
        a.attempt(5)
    a.finish()
    wait_for("the end", lambda: "run-ended" in events(a.run))
    assert int(ended(a.run)["AGENTBOX_EGRESS_DENIED"]) == 20 and denied(a.run) == 20, egress(a.run)


def test_warden_killed_after_a_restart_of_the_broker():
    a = Attempts()
    a.attempt(2)
    broker_restart()
    expect(agentbox("ps"))
    os.kill(warden_pid(a.run), signal.SIGKILL)
    end = ended(a.run)
    assert end["AGENTBOX_REASON"] == "killed" and "warden" in end["MESSAGE"] and end["AGENTBOX_EGRESS_DENIED"] == "2", end


def test_run_ends_without_a_broker():
    """PID 1 ends the warden, and the next broker finds what it counted."""
    detached = expect(agentbox("run", "--detach", "--timeout", "60s", "--", "/usr/bin/python3", "-c", ATTEMPTS.replace(
        "for line in sys.stdin:", "import time; time.sleep(2)\nfor line in ['4']:"))).out.strip().split()[-1]
    at_end(sh, "systemctl unmask --runtime agentboxd.service; systemctl start agentboxd.service")
    sh("systemctl mask --runtime agentboxd.service; systemctl kill --signal=KILL agentboxd.service; systemctl stop agentboxd.service")
    wait_for("the units to be gone", lambda: not box.units(), 30)
    assert denied(detached) == 4
    sh("systemctl unmask --runtime agentboxd.service; systemctl reset-failed; systemctl start agentboxd.service")
    assert ended(detached)["AGENTBOX_EGRESS_DENIED"] == "4"
    assert leftovers(wait=10) == []


def test_pid1_reloads_and_executes_itself():
    a = Attempts()
    for command in ("daemon-reload", "daemon-reexec", "daemon-reload"):
        sh(["systemctl", command])
        a.attempt(3)
    time.sleep(1 * box.SLOWNESS)  # the broker is connected again: what ends before, nobody sees end
    status, _, err = a.finish()
    assert status == 0 and denied(a.run) == 9, (err, egress(a.run))
    assert ended(a.run)["AGENTBOX_EGRESS_DENIED"] == "9"


@within(120)
def test_journal_stands_still():
    """Nothing is let through that cannot be recorded; what is refused meanwhile is recorded afterwards."""
    journald = int(sh(["systemctl", "show", "-P", "MainPID", "systemd-journald.service"]))
    a = Attempts()
    at_end(os.kill, journald, signal.SIGCONT)
    os.kill(journald, signal.SIGSTOP)
    a.attempt(2000)
    os.kill(journald, signal.SIGCONT)
    a.attempt(10)
    status, _, err = a.finish()
    assert status == 0, err
    assert int(ended(a.run)["AGENTBOX_EGRESS_DENIED"]) == 2010
    wait_for("all records", lambda: denied(a.run) == 2010)


def test_journal_restarted():
    a = Attempts()
    for i in range(3):
        a.attempt(5)
        sh("systemctl restart systemd-journald.service")
    a.attempt(5)
    assert a.finish()[0] == 0
    assert denied(a.run) == 20 == int(ended(a.run)["AGENTBOX_EGRESS_DENIED"]), egress(a.run)


@within(120)
def test_no_rate_limit_of_the_journal_applies():
    """journald's own limit is for units that have none: the broker's and a warden's are never reached."""
    at_end(sh, "systemctl restart systemd-journald.service")
    write_file("/run/systemd/journald.conf.d/zz-live.conf", "[Journal]\nRateLimitIntervalSec=1h\nRateLimitBurst=2\n")
    sh("systemctl restart systemd-journald.service")
    a = Attempts()
    a.attempt(150)
    assert a.finish()[0] == 0
    assert int(ended(a.run)["AGENTBOX_EGRESS_DENIED"]) == 150
    wait_for("all records", lambda: denied(a.run) == 150)
    assert len(egress(a.run)) == 150
    for _ in range(5):
        assert box.events(box.run("/bin/true", policy="offline").run)[-1:] == ["run-ended"]


@within(240)
def test_fifty_at_once():
    clients = [start("/usr/bin/python3", "-c", ATTEMPTS.replace("sys.stdin", "['3']"), options=["--timeout", "200s"]) for _ in range(50)]
    for c in clients:
        out, err = c.communicate(timeout=200 * box.SLOWNESS)
        assert c.returncode == 0 and b"\n3 " in out, (c.returncode, out, err)
    assert leftovers(wait=20 * box.SLOWNESS) == []


# --- what stops the start

def refused(word, **kw):
    done = run("/bin/echo", "untrusted-code-ran", **kw)
    assert done.status == 125 and b"untrusted-code-ran" not in done.stdout and re.search(word, done.err), (word, done)
    assert leftovers(wait=10) == []
    return done


def test_program_gone():
    at_end(WARDEN.with_suffix(".away").rename, WARDEN)
    WARDEN.rename(WARDEN.with_suffix(".away"))
    refused("agentbox-warden")


def test_program_is_another():
    at_end(WARDEN.with_suffix(".away").rename, WARDEN)
    WARDEN.rename(WARDEN.with_suffix(".away"))
    for text, mode in (("#!/bin/sh\nexit 0\n", 0o755), ("", 0o755), ("x", 0o644)):
        WARDEN.write_text(text)
        WARDEN.chmod(mode)
        refused("warden")


def test_journal_socket_gone():
    socket = pathlib.Path("/run/systemd/journal/socket")
    at_end(socket.with_suffix(".away").rename, socket)
    socket.rename(socket.with_suffix(".away"))
    refused("journal")


def test_too_little_memory():
    warden_dropin("[Service]\nMemoryMax=64K\n")
    refused("warden")


def test_configuration():
    write_file(CONFIG, "# of this host\nhttps_proxy=https://proxy.example:3128\n")
    refused(r"agentbox\.conf:2: https_proxy= takes http://HOST:PORT")
    CONFIG.write_text("https_proxy=http://proxy.example:3128\n")
    CONFIG.chmod(0o664)
    refused(r"agentbox\.conf: must be root's")
    assert "agentbox.conf" in agentbox("doctor").out + agentbox("doctor").err
    CONFIG.chmod(0o644)
    expect(run("/bin/true"))
    expect(run("/bin/true", policy="offline"))


def test_root_with_a_resolver():
    policy("live-names", "[Network]\nAllow=tls example.org\n")
    client = start("/bin/sh", "-c", "echo ready; sleep 60", policy="live-names", options=["--timeout", "100s"])
    assert client.stdout.readline() == b"ready\n"
    run_id = newest_run(lambda r: r.get("state") == "running")["run"]
    root = pathlib.Path(f"/proc/{warden_pid(run_id)}/root")
    assert sorted(p.name for p in (root / "etc").iterdir()) and (root / "etc/passwd").exists() is False, list((root / "etc").iterdir())
    assert (root / "etc/resolv.conf").exists() and (root / "usr/bin").is_dir() and not (root / "home").exists()
    # /run/host of newer systemd is there, and nothing in it can be seen.
    assert {p.name for p in (root / "run").iterdir()} <= {"systemd", "host"}, list((root / "run").iterdir())
    settings = collections.Counter(sh(["systemctl", "show", "-P", "IPAddressDeny", unit(run_id)]).split())
    assert settings["127.0.0.0/8"] and settings["169.254.0.0/16"], settings
    agentbox("kill", "--all")
    client.wait()


def test_name_servers_within_what_is_denied():
    """In systemd an allowed address wins over a denied one: the hole that a name server needs is no larger than it, and doctor names it."""
    policy("live-names", "[Network]\nAllow=tls example.org\n")
    for server, warned in (("127.0.0.53", False), ("10.0.0.2", False), ("169.254.169.254", True)):
        write_file("/etc/resolv.conf", f"nameserver {server}\n")
        client = start("/bin/sh", "-c", "echo ready; sleep 60", policy="live-names", options=["--timeout", "100s"])
        assert client.stdout.readline() == b"ready\n", client.stderr.read()
        run_id = newest_run(lambda r: r.get("state") == "running")["run"]
        assert sh(["systemctl", "show", "-P", "IPAddressAllow", unit(run_id)]).split() == [f"{server}/32"]
        agentbox("kill", "--all")
        client.wait()
        line = next(l for l in agentbox("doctor", "--json").out.split("{") if '"name-servers"' in l)
        assert (server in line) and ("warning" in line) == warned, line
    # Without a rule nothing is resolved, and nothing opened.
    client = start("/bin/sh", "-c", "echo ready; sleep 60", options=["--timeout", "100s"])
    assert client.stdout.readline() == b"ready\n"
    run_id = newest_run(lambda r: r.get("state") == "running")["run"]
    assert sh(["systemctl", "show", "-P", "IPAddressAllow", unit(run_id)]).split() == []
    agentbox("kill", "--all")
    client.wait()


def test_leftover_is_named_and_ended():
    name = "agentbox-warden-aaaaaaaaaa.service"
    expect(agentbox("ps"))  # the broker is there already: one that starts would end it
    at_end(sh, ["systemctl", "stop", name], False)
    sh(["systemd-run", "--quiet", "--collect", f"--unit={name}", "/bin/sleep", "600"])
    found = agentbox("doctor")
    assert re.search(r"left over: 1 unit", found.out), found
    broker_restart()
    expect(agentbox("ps"))
    wait_for("its end", lambda: name not in box.units())
    assert "nothing is left over" in agentbox("doctor").out


def test_units_of_others_are_left_alone():
    """Names that only look like a warden's, or that are no transient unit's."""
    names = ("agentbox-warden-aaaaaaaaa.service", "agentbox-warden-aaaaaaaaaaa.service", "agentbox-warden-Aaaaaaaaaa.service",
             "agentbox-wardenxaaaaaaaaaa.service")
    for name in names:
        sh(["systemd-run", "--quiet", "--collect", f"--unit={name}", "/bin/sleep", "600"])
    broker_restart()
    expect(agentbox("ps"))
    time.sleep(0.5)
    left = sh(["systemctl", "is-active", *names], check=False).split()
    sh(["systemctl", "stop", *names], check=False)
    assert left == ["active"] * len(names), left


def test_that_claims_more_than_it_can_have_sent():
    """Whoever has taken one over could have the journal read for its sake for ever."""
    a = Attempts()
    a.attempt(3)
    wait_for("all records", lambda: denied(a.run) == 3)
    with open(f"/run/agentbox/{a.run}/tally", "r+b") as f:  # egress_sent: two numbers and two proofs before the end
        f.seek(-80, os.SEEK_END)
        assert f.read(8) == (3).to_bytes(8, sys.byteorder)
        f.seek(-80, os.SEEK_END)
        f.write((1 << 62).to_bytes(8, sys.byteorder))
    wait_for("the end", lambda: events(a.run)[-1] == "run-ended")
    status, _, err = a.end()
    assert status in KILLED and ended(a.run)["AGENTBOX_REASON"] == "killed", (status, err)
    assert "more records than it can have sent" in ended(a.run)["MESSAGE"], ended(a.run)
