# SPDX-License-Identifier: LGPL-2.1-or-later
"""agentbox-alert.service: what an administrator is told of, each once, whatever is started anew meanwhile."""
import contextlib
import json
import os
import pathlib
import time

import box
from box import at_end, dropin, expect, policy, run, run_sh, sh, wait_for, write_file

UNIT = "agentbox-alert.service"
PROGRAM = "/etc/agentbox/alert"
SEEN = pathlib.Path("/var/lib/private/agentbox-alert/seen")
FORGED = "AGENTBOX_EVENT=tripwire\nAGENTBOX_RUN_ID=bbbbbbbbbb\nMESSAGE=forged alert\n"


def alerts(event=None):
    lines = SEEN.read_text(encoding="utf-8").splitlines() if SEEN.exists() else []
    return [r for r in map(json.loads, lines) if event in (None, r["AGENTBOX_EVENT"])]


@contextlib.contextmanager
def on_air(script="cat >>$STATE_DIRECTORY/seen"):
    write_file(PROGRAM, f"#!/bin/sh\n{script}\n")
    os.chmod(PROGRAM, 0o755)
    at_end(sh, f"rm -rf {SEEN.parent} /var/lib/agentbox-alert")
    sh(["systemctl", "start", UNIT])
    # It begins with what comes from now on: "now" is a second's.
    time.sleep(1.1)
    try:
        yield
    finally:
        sh(["systemctl", "stop", UNIT])


def denied(name):
    done = expect(run_sh(f"python3 -c 'import socket; socket.create_connection((\"{name}\", 443))' 2>/dev/null; true"))
    return done.run


def test_without_a_program_it_is_not_started():
    sh(["systemctl", "start", UNIT])
    assert sh(["systemctl", "show", "-P", "ConditionResult", UNIT]).strip() == "no"


def test_each_kind_arrives_once():
    with on_air():
        first = denied("203.0.113.9")
        policy("live-trap", "[Audit]\nDecoys=yes\n[Network]\nEgress=none\n")
        second = expect(run_sh("cat $HOME/.aws/credentials >/dev/null", policy="live-trap")).run
        dropin("[Service]\nProtectProc=default\n")
        third = expect(run("/bin/true", policy="offline"), 125).run
        wait_for("three alerts", lambda: len(alerts()) >= 3)
        assert [(r["AGENTBOX_EVENT"], r["AGENTBOX_RUN_ID"]) for r in alerts()] == [
            ("egress-denied", first), ("tripwire", second), ("run-unverified", third)], alerts()
        assert alerts("egress-denied")[0]["AGENTBOX_DEST_ADDR"] == "203.0.113.9"


def test_nothing_is_lost_or_doubled_over_restarts():
    with on_air():
        wanted = [denied("203.0.113.1")]
        wait_for("the first", lambda: len(alerts()) == 1)
        sh(["systemctl", "stop", UNIT])
        wanted.append(denied("203.0.113.2"))
        sh(["systemctl", "start", UNIT])
        sh(["systemctl", "restart", "systemd-journald.service"])
        wanted.append(denied("203.0.113.3"))
        sh(["systemctl", "kill", "--signal=KILL", UNIT])
        wanted.append(denied("203.0.113.4"))
        wait_for("all of them", lambda: len(alerts()) >= 4, 40)
        time.sleep(3)
        assert [r["AGENTBOX_RUN_ID"] for r in alerts()] == wanted, alerts()


def test_a_record_is_tried_again_where_the_program_fails():
    with on_air("test -e $STATE_DIRECTORY/once || { touch $STATE_DIRECTORY/once; exit 1; }\ncat >>$STATE_DIRECTORY/seen"):
        wanted = denied("203.0.113.7")
        wait_for("the second try", lambda: len(alerts()) == 1, 40)
        assert alerts()[0]["AGENTBOX_RUN_ID"] == wanted


def test_forged_records_are_no_alerts():
    with on_air():
        sh(["logger", "--journald"], input=FORGED)
        wanted = denied("203.0.113.8")
        wait_for("the true one", lambda: alerts())
        assert [r["AGENTBOX_RUN_ID"] for r in alerts()] == [wanted], alerts()
        assert box.journal("MESSAGE=forged alert"), "the forgery itself did not get into the journal"
