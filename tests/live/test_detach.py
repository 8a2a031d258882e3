# SPDX-License-Identifier: LGPL-2.1-or-later
"""Detached runs: what they print is kept, whole and in order, within Output=, by a process that trusts no byte of it; nothing
in it can be taken for a record."""
import json
import os
import pathlib
import signal
import time

import box
from box import agentbox, expect, sh, wait_for

SOCKET = "/run/agentbox-output"
UNIT = "agentbox-output@*"


def start(*command, options=(), policy="offline", **kw):
    done = expect(agentbox("run", "--detach", "-p", policy, "--timeout", "60s", *options, "--", *command, **kw))
    return done.out.strip().split()[-1]


def start_sh(script, **kw):
    return start("/bin/sh", "-c", script, **kw)


def end(run, status=0):
    return expect(agentbox("wait", run), status)


def kept(run):
    """The records of its output, with MESSAGE as bytes."""
    out = sh(["journalctl", "--namespace=agentbox", "-o", "json", "--all", "--no-pager", "-q", f"AGENTBOX_RUN_ID={run}"])
    found = []
    for line in out.splitlines():
        record = json.loads(line)
        message = record["MESSAGE"]
        record["MESSAGE"] = bytes(message) if isinstance(message, list) else (message or "").encode()
        found.append(record)
    return found


def stream(run, name="stdout"):
    return b"".join(r["MESSAGE"] + (b"" if r.get("AGENTBOX_PARTIAL") == "yes" else b"\n")
                    for r in kept(run) if r["AGENTBOX_STREAM"] == name)


def collectors():
    return sh(["systemctl", "list-units", "--plain", "--no-legend", UNIT]).split("\n")[:-1]


def collector_pid():
    """Of the only one."""
    name = collectors()[0].split()[0]
    return int(sh(["systemctl", "show", "-P", "MainPID", name]))


def test_both_streams_are_kept():
    run = start_sh("echo one; echo two >&2; sleep 1; printf three")
    end(run)
    assert (stream(run), stream(run, "stderr")) == (b"one\nthree", b"two\n"), kept(run)
    for r in kept(run):
        assert (r["AGENTBOX_CALLER_UID"], r["AGENTBOX_POLICY"], r["_TRANSPORT"]) == ("0", "offline", "journal"), r
        assert r["_SYSTEMD_UNIT"].startswith("agentbox-output@") and int(r["_UID"]) >= 61184, r


def test_every_byte_is_kept_in_order():
    program = "import sys; [sys.stdout.buffer.write(bytes([i & 255, i >> 8 & 255, 10 if i % 7 else 0])) for i in range(300000)]"
    run = start("/usr/bin/python3", "-c", program)
    end(run)
    assert stream(run) == b"".join(bytes([i & 255, i >> 8 & 255, 10 if i % 7 else 0]) for i in range(300000))


def test_nothing_printed_becomes_a_record():
    forged = "AGENTBOX_EVENT=run-ended"
    lines = "\\n".join(["x", forged, "_UID=0", "_SYSTEMD_UNIT=agentboxd.service", "MESSAGE=forged", "", "PRIORITY=0", "<0>loud"])
    run = start_sh(f"printf '{lines}\\n' | tee /dev/stderr; printf '\\0\\1{lines}'")
    end(run)
    for r in kept(run):
        assert "AGENTBOX_EVENT" not in r and r["PRIORITY"] == "6", r
        assert r["_SYSTEMD_UNIT"].startswith("agentbox-output@"), r
    assert stream(run, "stderr").count(b"\n") == 8, kept(run)
    # In the host's own journal stands nothing of it, and "agentbox log" shows what the broker wrote.
    assert not [r for r in box.journal(f"AGENTBOX_RUN_ID={run}") if "loud" in str(r.get("MESSAGE"))]
    assert box.events(run) == ["run-requested", "run-verified", "run-started", "run-ended"]


def test_output_limit():
    run = start_sh("yes", options=["--set", "Limits.Output=1M"])
    end(run, 137)
    assert stream(run) == b"y\n" * (1 << 19), len(stream(run))
    assert box.records(run, "run-ended")[0]["AGENTBOX_REASON"] == "output-limit"
    run = start_sh("head -c 1048576 /dev/zero; sleep 1", options=["--set", "Limits.Output=1M"])
    end(run)  # that much it may
    assert len(stream(run)) == 1 << 20


def test_flood_of_empty_lines_is_few_records():
    """Each record costs the journal half a kilobyte: a line a record would let 2 MB of output push out a gigabyte."""
    run = start("/usr/bin/python3", "-c", r"import os; [os.write(1, b'\n' * 4096) for i in range(512)]")
    end(run)
    assert stream(run) == b"\n" * (2 << 20) and len(kept(run)) < 400, len(kept(run))


def test_a_closed_stream_is_no_loss():
    run = start("/bin/sh", "-c", "echo last; exec >&- 2>&-; sleep 2; exit 5")
    wait_for("the end of who kept its output", lambda: not collectors())
    assert [r["run"] for r in box.runs() if r["state"] == "running"] == [run]
    end(run, 5)
    assert stream(run) == b"last\n"


def test_a_dead_collector_ends_its_run():
    run = start_sh("echo one; sleep 50")
    wait_for("its output", lambda: stream(run))
    os.kill(collector_pid(), signal.SIGKILL)
    expect(agentbox("wait", run), 137, err="its output could not be kept")


def test_a_collector_that_dies_after_its_run_is_told_of():
    """The run's own status would say that all of its output is there."""
    run = start_sh("sleep 1; echo lost")
    pid = wait_for("its collector", collectors) and collector_pid()
    os.kill(pid, signal.SIGSTOP)
    wait_for("the end of its unit", lambda: f"agentbox-{run}.service" not in box.units())
    assert [r["run"] for r in box.runs()] == [run]
    os.kill(pid, signal.SIGKILL)
    expect(agentbox("wait", run), 137, err="its output could not be kept")
    assert stream(run) == b"" and box.records(run, "run-ended")[0]["AGENTBOX_REASON"] == "killed"


def test_without_the_socket_it_is_refused():
    box.at_end(sh, ["systemctl", "start", "agentbox-output.socket"])
    sh(["systemctl", "stop", "agentbox-output.socket"])
    expect(agentbox("run", "--detach", "--", "true"), 125, err="agentbox-output.socket")
    expect(agentbox("run", "--", "true"))


def test_the_next_broker_goes_on():
    run = start_sh("echo one; sleep 3; yes", options=["--set", "Limits.Output=1M"])
    os.kill(box.broker_pid(), signal.SIGKILL)
    wait_for("the next broker", lambda: agentbox("ps").status == 0)
    end(run, 137)
    assert len(stream(run)) == 1 << 20 and stream(run).startswith(b"one\ny\n")
    assert box.records(run, "run-ended")[0]["AGENTBOX_REASON"] == "output-limit"


def test_only_root_reaches_the_collectors():
    run = start_sh("sleep 50")
    assert os.stat(SOCKET).st_mode & 0o777 == 0o600 and os.stat(SOCKET).st_uid == 0
    wait_for("its collector", collectors)
    pid = collector_pid()
    wait_for("its program", lambda: os.readlink(f"/proc/{pid}/exe").endswith("agentbox-output"))
    status = dict(l.split(":\t", 1) for l in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in l)
    assert status["CapPrm"] == status["CapBnd"] == "0" * 16 and status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    assert 61184 <= int(status["Uid"].split()[0]) <= 65519
    fds = {os.readlink(p).split(":")[0] for p in pathlib.Path(f"/proc/{pid}/fd").iterdir()}
    assert fds == {"socket", "pipe", "/dev/null"}, fds
    expect(agentbox("kill", run))
    agentbox("wait", run)


def test_inside_are_pipes_of_which_it_has_one_end():
    run = start_sh("ls -l /proc/self/fd; echo x >/dev/stdout; echo y >/dev/stderr; cat /proc/self/fd/1 || echo refused")
    end(run)
    out = stream(run).decode()
    assert "0 -> /dev/null" in out and out.count("pipe:") == 2 and "\nx\n" in out and out.endswith("refused\n"), out
    assert stream(run, "stderr").startswith(b"y\n")


WRITE = """
import os, socket
for name, kind in (("socket", socket.SOCK_DGRAM), ("dev-log", socket.SOCK_DGRAM), ("stdout", socket.SOCK_STREAM)):
    try:
        s = socket.socket(socket.AF_UNIX, kind)
        s.connect("/run/systemd/journal.agentbox/" + name)
        s.send(b"MESSAGE=flood\\n")
        print(name, "open")
    except OSError as e:
        print(name, os.strerror(e.errno))
"""


def test_nobody_else_writes_to_their_journal():
    """Not a user of the host, not a run, and not a scope, which has the host's files and no unix socket; what the run printed is there."""
    box.user(box.USER, "agentbox")
    run = start_sh("echo hello; sleep 30")
    wait_for("its output", lambda: stream(run) == b"hello\n")
    as_user = ["setpriv", f"--reuid={box.USER}", f"--regid={box.USER}", "--init-groups", "--"]
    closed = "".join(f"{name} Permission denied\n" for name in ("socket", "dev-log", "stdout"))
    assert sh([*as_user, "/usr/bin/python3", "-c", WRITE]) == closed
    if box.systemd_version() >= 255 and box.landlock_version() >= 3:  # that scopes need
        box.policy("live-scope", "[Files]\nRoot=/\n[Network]\nEgress=open\n")
        in_scope = expect(agentbox("run", "--unit=scope", "-p", "live-scope", "--", "/usr/bin/python3", "-c", WRITE, as_user=box.USER)).out
        assert in_scope == closed.replace("Permission denied", "Address family not supported by protocol"), in_scope
    inside = expect(box.run("/usr/bin/python3", "-c", WRITE)).out
    assert inside.count("No such file") == 3, inside
    assert "flood" not in sh(["journalctl", "--namespace=agentbox", "-o", "cat", "--no-pager"])
    sh(["agentbox", "kill", run])


def test_a_slow_journal_loses_nothing():
    """It is waited for; the workload waits too."""
    run = start_sh("sleep 1; seq 1 20000; echo end")
    name = "systemd-journald@agentbox.service"
    wait_for("the journal", lambda: sh(["systemctl", "is-active", name], check=False).strip() == "active")
    sh(["systemctl", "kill", "-s", "STOP", name])
    box.at_end(sh, ["systemctl", "kill", "-s", "CONT", name])
    time.sleep(4)  # not as long as an idle broker stays
    sh(["systemctl", "kill", "-s", "CONT", name])
    end(run)
    assert stream(run) == b"".join(b"%d\n" % i for i in range(1, 20001)) + b"end\n"


def test_many_at_once():
    runs = [start_sh(f"for i in $(seq 100); do echo {i} $i; done") for i in range(12)]
    for i, run in enumerate(runs):
        end(run)
        assert stream(run) == b"".join(b"%d %d\n" % (i, j) for j in range(1, 101))
    wait_for("the end of the collectors", lambda: not collectors())
