# SPDX-License-Identifier: LGPL-2.1-or-later
"""agentbox log, attach and why: root sees everything, members of the group agentbox their own runs and no byte of another's;
detached output comes back as it was written."""
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import time

import box
from box import AGENTBOX, agentbox, expect, journal, sh, wait_for

OTHER = "boxother"
SOCKET = "/run/agentbox-journal"
AUDIT, OUTPUT, FIND = range(3)


def users():
    box.user(box.USER, "agentbox")
    box.user(OTHER, "agentbox")
    box.user(box.OUTSIDER)


def start(script, user=None, options=()):
    done = expect(agentbox("run", "--detach", "-p", "offline", "--timeout", "60s", *options, "--", "/bin/sh", "-c", script, as_user=user))
    return done.out.strip().split()[-1]


def ended(script, user=None, status=0):
    run = start(script, user)
    expect(agentbox("wait", run), status)
    return run


def client(*args, user=None, **kw):
    as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--"] if user else []
    found = subprocess.Popen([*as_user, AGENTBOX, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)
    box.at_end(found.kill)
    return found


def test_members_see_their_own():
    users()
    mine, others = ended("echo mine", box.USER), ended("echo others", OTHER)
    for user, own, foreign in ((box.USER, mine, others), (OTHER, others, mine)):
        log = expect(agentbox("log", as_user=user)).out
        assert own in log and foreign not in log, log
        assert [json.loads(l)["AGENTBOX_EVENT"] for l in expect(agentbox("log", own, "--json", as_user=user)).out.splitlines()] == \
            ["run-requested", "run-verified", "run-started", "run-ended"]
        expect(agentbox("why", own, as_user=user), out="status 0")
        expect(agentbox("log", "--output", own, as_user=user), out="mine" if user == box.USER else "others")
        for verb in (["log"], ["log", "--output"], ["why"], ["log", "-f"]):
            expect(agentbox(*verb, foreign, as_user=user), 125, err="knows no run")
    for verb in (["log"], ["log", mine], ["why", mine], ["log", "--output", mine]):
        expect(agentbox(*verb, as_user=box.OUTSIDER), 125, err="group")
    root = expect(agentbox("log")).out
    assert mine in root and others in root


def ask(query, uid_user, half_open=False):
    """What the reader answers to these bytes, as that user."""
    code = ("import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.settimeout(20)\ns.connect(sys.argv[1])\n"
            "s.sendall(bytes.fromhex(sys.argv[2]))\n" + ("" if half_open else "s.shutdown(socket.SHUT_WR)\n") +
            "o=b''\nwhile 1:\n d=s.recv(65536)\n if not d: break\n o+=d\nsys.stdout.buffer.write(o)")
    return subprocess.run(["setpriv", f"--reuid={uid_user}", f"--regid={uid_user}", "--init-groups", "--", "/usr/bin/python3", "-c", code,
                           SOCKET, query.hex()], stdout=subprocess.PIPE, check=True).stdout.decode()


def query(kind, run, since=0):
    return b"ABQ1" + struct.pack("<BBQI", kind, 0, since, len(run)) + run.encode()


def test_the_reader_filters_whatever_is_asked():
    """The uid that counts is the kernel's."""
    users()
    mine, others = ended("echo secret-of-mine", box.USER), ended("echo secret-of-others", OTHER)
    assert "secret-of-mine" in ask(query(OUTPUT, mine), box.USER)
    assert ask(query(OUTPUT, others), box.USER) == "\n"
    assert others not in ask(query(AUDIT, ""), box.USER) and mine in ask(query(AUDIT, ""), box.USER)
    assert ask(query(AUDIT, others), box.USER) == "\n"
    assert mine in ask(query(FIND, mine[:6]), box.USER)
    assert "error" in ask(query(FIND, others), box.USER)
    for broken in (b"", b"x" * 5000, query(7, "a"), query(OUTPUT, ""), query(AUDIT, "a\nb"), query(AUDIT, mine)[:-1],
                   query(AUDIT, mine) + b"x", query(AUDIT, "a" * 200)):
        answer = ask(broken[:500], box.USER)
        assert json.loads(answer)["errno"] > 0 and mine not in answer, (broken, answer)


def test_a_forged_record_is_not_told():
    """Whoever reaches the journal's socket can write every field that has no underscore."""
    users()
    run = ended("echo true", box.USER)
    uid = sh(["id", "-u", box.USER]).strip()
    for path in ("/run/systemd/journal/socket", "/run/systemd/journal.agentbox/socket"):
        if not os.path.exists(path):
            continue
        s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        s.connect(path)
        for more in (f"AGENTBOX_EVENT=egress-denied\nAGENTBOX_DEST_NAME=forged.example\n", "AGENTBOX_STREAM=stdout\n"):
            s.send(f"MESSAGE=forged\n{more}AGENTBOX_RUN_ID={run}\nAGENTBOX_CALLER_UID={uid}\n"
                   "_SYSTEMD_UNIT=agentboxd.service\nPRIORITY=1\n".encode())
    time.sleep(0.5)
    for user in (box.USER, None):
        assert "forged" not in expect(agentbox("log", run, as_user=user)).out
        assert expect(agentbox("log", "--output", run, as_user=user)).out == "true\n"


def test_a_uid_that_is_passed_on_is_no_caller():
    """A service of DynamicUser= may have had its number from another one: neither the broker nor the reader serves it, whatever its group."""
    users()
    service = ["systemd-run", "-q", "--wait", "--collect", "--pipe", "-p", "DynamicUser=yes", "-p", "SupplementaryGroups=agentbox"]
    stranger = ["setpriv", "--reuid=54321", "--regid=agentbox", "--clear-groups"]
    for who, why in ((service, "DynamicUser="), (stranger, "nobody's in the user database")):
        for args in (["log"], ["run", "-p", "offline", "--", "/bin/true"], ["ps"]):
            done = subprocess.run([*who, AGENTBOX, *args], capture_output=True, text=True, check=False)
            # The bus itself may not let in whom it has no name for (a host without libnss-systemd).
            at_the_bus = args != ["log"] and "not connected" in done.stderr
            assert done.returncode == 125 and (why in done.stderr or at_the_bus), (who, args, done)


def test_a_warden_cannot_give_its_run_to_somebody_else():
    """Only the broker says whose a run is: a warden that was taken over shows nobody what it likes."""
    users()
    uid = sh(["id", "-u", box.USER]).strip()
    other = ended("echo true", OTHER)
    for run in (other, "cccccccccc"):
        box.write_as_warden(run, f"MESSAGE=given away\nAGENTBOX_EVENT=egress-denied\nAGENTBOX_DEST_NAME=given.example\n"
                                 f"AGENTBOX_RUN_ID={run}\nAGENTBOX_CALLER_UID={uid}\n")
        assert journal("MESSAGE=given away", f"_SYSTEMD_UNIT=agentbox-warden-{run}.service")
        assert "given.example" not in expect(agentbox("log", as_user=box.USER)).out
        expect(agentbox("log", run, as_user=box.USER), 125, err="knows no run")
    assert "given.example" in expect(agentbox("log", other)).out


def test_the_reader_can_do_nothing_else():
    users()
    run = start("sleep 40", box.USER)
    follower = client("log", "-f", user=box.USER)
    line = wait_for("the reader", lambda: sh(["systemctl", "list-units", "--plain", "--no-legend", "agentbox-journal@*"]).split())
    pid = int(sh(["systemctl", "show", "-P", "MainPID", line[0]]))
    wait_for("its program", lambda: os.readlink(f"/proc/{pid}/exe").endswith("agentbox-journal"))
    status = dict(l.split(":\t", 1) for l in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in l)
    assert status["CapPrm"] == status["CapBnd"] == "0" * 16 and status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    assert 61184 <= int(status["Uid"].split()[0]) <= 65519
    assert os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/1/ns/net")
    follower.terminate()
    follower.wait()
    wait_for("its end with its client", lambda: not sh(["systemctl", "list-units", "--plain", "--no-legend", "agentbox-journal@*"]))
    expect(agentbox("kill", run))
    agentbox("wait", run)


def test_follow():
    users()
    for user in (None, box.USER):
        follower = client("log", "-f", "--json", "--since", "now", user=user)
        time.sleep(1 * box.SLOWNESS)
        run = ended("true", box.USER)
        found = []
        while "run-ended" not in found:
            record = json.loads(follower.stdout.readline())
            if record["AGENTBOX_RUN_ID"] == run:
                found.append(record["AGENTBOX_EVENT"])
        assert found == ["run-requested", "run-verified", "run-started", "run-ended"]
        follower.kill()


def test_output_as_it_was_written():
    users()
    run = ended("printf 'a\\tb\\n\\377\\0\\033[31mx'; echo err >&2", box.USER)
    for user in (None, box.USER):
        done = expect(agentbox("log", "--output", run, as_user=user))
        assert (done.stdout, done.stderr) == (b"a\tb\n\xff\0\x1b[31mx", b"err\n"), done
    shown = sh(["script", "-qec", f"agentbox log --output {run}", "/dev/null"])
    assert "a\tb" in shown and "\\xff\\x00\\x1b[31mx" in shown and "\x1b" not in shown, shown
    records = [json.loads(l) for l in expect(agentbox("log", "--output", "--json", run)).out.splitlines()]
    assert bytes(next(r["MESSAGE"] for r in records if r["AGENTBOX_STREAM"] == "stdout")) == b"a\tb\n\xff\0\x1b[31mx"
    expect(agentbox("log", "--output"), 125, err="of which run")
    expect(agentbox("log", "--output", "--denied", run), 125, err="nothing to do with")


def test_attach():
    users()
    for user in (None, box.USER):
        run = start("echo one; sleep 2; echo two; sleep 1; echo three >&2; exit 7", user)
        done = expect(agentbox("attach", run, as_user=user), 7)
        assert (done.stdout, done.stderr) == (b"one\ntwo\n", b"three\n"), done
        # One that has ended, too, and only what is new of it.
        assert expect(agentbox("attach", run, as_user=user), 7).stdout == b"one\ntwo\n"
        assert expect(agentbox("attach", "-n", run, as_user=user), 7).stdout == b""


def test_attach_and_leave():
    users()
    for user in (None, box.USER):
        run = start("echo one; sleep 50", user)
        attached = client("attach", run, user=user)
        assert attached.stdout.readline() == b"one\n"
        attached.send_signal(signal.SIGINT)
        out, err = attached.communicate(timeout=20 * box.SLOWNESS)
        assert attached.returncode == 130 and out == b"" and f"run {run} goes on".encode() in err, (attached.returncode, out, err)
        assert [r["run"] for r in box.runs() if r["state"] == "running"] == [run]
        expect(agentbox("kill", run, as_user=user))
        expect(agentbox("wait", run, as_user=user), 137)


def test_attach_says_how_it_ended():
    run = start("yes", options=["--set", "Limits.Output=64K"])
    done = expect(agentbox("attach", run), 137, err="output limit 64K reached")
    assert done.stdout == b"y\n" * 32768, len(done.stdout)


def test_attach_through_a_dying_broker():
    run = start("echo one; sleep 5; echo two; exit 9")
    attached = client("attach", run)
    assert attached.stdout.readline() == b"one\n"
    os.kill(box.broker_pid(), signal.SIGKILL)
    out, err = attached.communicate(timeout=40 * box.SLOWNESS)
    assert (attached.returncode, out) == (9, b"two\n"), (attached.returncode, out, err)


def test_attach_is_for_detached_runs():
    users()
    running = box.start("sleep", "30", policy="offline")
    run = box.newest_run(lambda r: r["state"] == "running")["run"]
    expect(agentbox("attach", run), 125, err="not detached")
    running.terminate()
    running.wait()
    mine = start("sleep 20", box.USER)
    expect(agentbox("attach", mine, as_user=OTHER), 125)
    expect(agentbox("kill", mine))
    agentbox("wait", mine)


def test_lines_fit_on_a_terminal():
    """What every verb says is wrapped or cut to 80 columns, and no byte of it is one that a terminal obeys."""
    run = ended("exit 3", status=3)
    detached = start("sleep 20", options=["--name", "a-rather-long-name-of-a-run"])
    for verb in (f"log {run}", "log", f"why {run}", f"show {run}", "ps", "log --help", "run --help", "doctor --help", "policy --help"):
        shown = sh(["script", "-qec", f"stty cols 80; agentbox {verb}", "/dev/null"], env={"TERM": "dumb", "PATH": "/usr/bin:/bin"})
        for line in shown.splitlines():
            assert len(line.rstrip()) <= 80 and "\x1b" not in line, (verb, line)
    expect(agentbox("kill", detached))
    agentbox("wait", detached)
