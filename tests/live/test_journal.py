# SPDX-License-Identifier: LGPL-2.1-or-later
"""What stands in the journal, and that nobody inside can write there."""
import json
import os
import subprocess
import time

import box
from box import agentbox, at_end, expect, journal, policy, records, run, run_python, run_sh, sh, wait_events, within, write_file


def test_events_of_a_run():
    done = expect(run_sh("exit 3"), 3)
    wait_events(done.run, "run-ended")
    assert box.events(done.run) == ["run-requested", "run-verified", "run-started", "run-ended"], box.events(done.run)
    for r in records(done.run):
        for field in ("MESSAGE", "MESSAGE_ID", "PRIORITY", "AGENTBOX_POLICY", "AGENTBOX_POLICY_DIGEST", "AGENTBOX_CALLER_UID", "AGENTBOX_UNIT"):
            assert r.get(field), (field, r)
        assert len(r["AGENTBOX_POLICY_DIGEST"]) == 64 and r["AGENTBOX_CALLER_UID"] == "0", r
    ended = records(done.run, "run-ended")[0]
    assert ended["AGENTBOX_REASON"] == "exited" and ended["AGENTBOX_EXIT_CODE"] == "3", ended
    assert int(ended["AGENTBOX_WALL_USEC"]) > 0 and len(ended["AGENTBOX_INVOCATION_ID"]) == 32, ended
    assert len({r["MESSAGE_ID"] for r in records(done.run)}) == 4


def test_command_is_recorded_as_the_policy_says():
    for how, want in (("none", None), ("first", "/bin/echo"), ("all", "/bin/echo secret-argument")):
        policy("live-audit", f"[Audit]\nArguments={how}\n")
        done = expect(run("/bin/echo", "secret-argument", policy="live-audit"))
        text = json.dumps(records(done.run))
        assert ("secret-argument" in text) == (how == "all"), (how, text)
        assert records(done.run, "run-requested")[0].get("AGENTBOX_COMMAND") == want, records(done.run)


def test_terminal_escapes_in_the_command_are_escaped():
    policy("live-audit", "[Audit]\nArguments=all\n")
    done = expect(run("/bin/echo", "\x1b]52;c;aGk=\x07\n\x1b[2J", policy="live-audit"))
    shown = sh(["journalctl", "-o", "cat", "--no-pager", f"AGENTBOX_RUN_ID={done.run}"])
    assert "\x1b" not in shown and "\x07" not in shown
    assert "\x1b" not in agentbox("log", done.run).out


def test_refusals_are_on_record():
    before = len(journal("AGENTBOX_EVENT=run-refused"))
    expect(run("/bin/true", policy="no-such-policy"), 125)
    expect(run("/bin/true", options=["--set", "Limits.Memory=1"]), 125)
    after = journal("AGENTBOX_EVENT=run-refused")
    assert len(after) > before and after[-1]["AGENTBOX_REASON"], after[-1:]


def test_catalog():
    done = expect(run("/bin/true"))
    sh("journalctl --update-catalog", check=False)
    text = sh(["journalctl", "-x", "--no-pager", f"AGENTBOX_RUN_ID={done.run}"])
    assert text.count("Subject:") >= 4, text


def test_forging_from_inside():
    program = r"""
import socket, os, sys
marker = 'AGENTBOX_EVENT=run-ended\nAGENTBOX_RUN_ID=forged0000\nMESSAGE=forged inside\n_SYSTEMD_UNIT=agentboxd.service\n'
for p in ('/run/systemd/journal/socket', '/run/systemd/journal/stdout', '/run/systemd/journal/dev-log', '/dev/log', '/run/systemd/journal/syslog'):
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        try:
            s = socket.socket(socket.AF_UNIX, kind); s.connect(p); s.send(marker.encode()); print('SENT', p)
        except OSError as e: print(e.errno)
for p in ('/dev/kmsg', '/proc/kmsg'):
    try: open(p, 'w').write('forged'); print('SENT', p)
    except OSError as e: print(e.errno)
try:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'<14>forged', ('127.0.0.1', 514))
except OSError as e: print(e.errno)
sys.stdout.write(marker); sys.stderr.write('<0>' + marker); sys.stdout.flush()
"""
    done = expect(run_python(program))
    assert "SENT" not in done.out, done
    time.sleep(0.5)
    assert journal("AGENTBOX_RUN_ID=forged0000") == [] and "forged0000" not in agentbox("log").out
    assert not [r for r in journal("MESSAGE=forged inside")]


def test_forging_from_outside_is_not_shown():
    """Anybody on the host can write AGENTBOX_ fields; agentbox log must not show them."""
    box.user(box.OUTSIDER)
    sh(["setpriv", f"--reuid={box.OUTSIDER}", f"--regid={box.OUTSIDER}", "--clear-groups", "logger", "--journald"],
       input="MESSAGE=forged\nAGENTBOX_EVENT=run-ended\nAGENTBOX_RUN_ID=forged1111\nAGENTBOX_REASON=exited\n")
    time.sleep(0.5)
    assert "forged1111" not in agentbox("log").out and "forged1111" not in agentbox("log", "--json").out


def test_log():
    done = expect(run_sh("exit 0"))
    wait_events(done.run, "run-ended")
    text = expect(agentbox("log", done.run)).out
    assert [e for e in ("run-requested", "run-verified", "run-started", "run-ended") if e not in text] == [], text
    lines = [json.loads(l) for l in expect(agentbox("log", done.run, "--json")).out.splitlines()]
    assert [l["AGENTBOX_EVENT"] for l in lines] == ["run-requested", "run-verified", "run-started", "run-ended"], lines
    assert done.run in expect(agentbox("log", "--since", "-1h")).out or done.run in expect(agentbox("log", "--since", "1h")).out


def test_log_follows():
    follower = subprocess.Popen(["agentbox", "log", "-f", "--json"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    at_end(follower.kill)
    time.sleep(1)
    done = expect(run_sh("exit 0"))
    import select
    seen, end = "", time.monotonic() + 20
    while f'{done.run}' not in seen and time.monotonic() < end:
        if select.select([follower.stdout], [], [], 0.5)[0]:
            seen += os.read(follower.stdout.fileno(), 65536).decode()
    assert done.run in seen, seen
    follower.kill()
    follower.wait()


def test_why_names_the_limit():
    done = expect(run_python("b = bytearray(400 << 20)"), 137)
    wait_events(done.run, "run-ended")
    out = expect(agentbox("why", done.run)).out
    assert "Memory=" in out, out
    done = expect(run_sh("exit 9"), 9)
    wait_events(done.run, "run-ended")
    assert "program itself" in agentbox("why", done.run).out or "9" in agentbox("why", done.run).out


@within(180)
def test_no_journal_no_run():
    sh("systemctl stop systemd-journald.socket systemd-journald-dev-log.socket systemd-journald-audit.socket systemd-journald.service", check=False)
    at_end(sh, "systemctl start systemd-journald.socket systemd-journald-dev-log.socket systemd-journald.service")
    if subprocess.run(["systemctl", "is-active", "-q", "systemd-journald.service"], check=False).returncode == 0:
        raise box.Skip("journald cannot be stopped here")
    done = run("/bin/echo", "untrusted-code-ran")
    assert done.status == 125 and b"untrusted-code-ran" not in done.stdout and "journal" in done.err, done


@within(120)
def test_journal_that_stores_nothing():
    write_file("/run/systemd/journald.conf.d/zz-live.conf", "[Journal]\nStorage=none\n")
    at_end(sh, "systemctl restart systemd-journald.service")
    sh("systemctl restart systemd-journald.service")
    done = run("/bin/echo", "untrusted-code-ran")
    assert done.status == 125 and b"untrusted-code-ran" not in done.stdout and "journal" in done.err, done
    os.unlink("/run/systemd/journald.conf.d/zz-live.conf")
    sh("systemctl restart systemd-journald.service")
    write_file("/run/systemd/journald.conf.d/zz-live.conf", "")
    expect(run("/bin/true"))


def test_journald_restarted_during_a_run():
    client = box.start("/bin/sh", "-c", "echo ready; sleep 3; exit 8", options=["--timeout", "60s"])
    assert client.stdout.readline() == b"ready\n"
    found = box.newest_run()["run"]
    sh("systemctl restart systemd-journald.service")
    assert client.wait(timeout=60) == 8
    wait_events(found, "run-ended")


def test_pid_1_has_nothing_to_complain_about():
    policy("live-jit", "[Syscalls]\nProfile=jit\n")
    position = box.journal_position()
    for name in ("default", "offline", "strict", "build", "live-jit"):
        expect(run("/bin/true", policy=name))
    complaints = [r["MESSAGE"] for r in box.journal_since(position, "_PID=1", "-p", "warning")
                  if "cgroup compatibility translation" not in r["MESSAGE"]]  # once, on a hybrid hierarchy
    assert complaints == [], complaints
