# SPDX-License-Identifier: LGPL-2.1-or-later
"""agentbox-alert.service: what an administrator is told of, each once, whatever is started anew meanwhile."""
import contextlib
import json
import os
import pathlib
import time

import box
from box import agentbox, at_end, dropin, expect, policy, run, run_python, run_sh, sh, wait_for, write_file

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
        time.sleep(2)
        assert sorted((r["AGENTBOX_EVENT"], r["AGENTBOX_RUN_ID"]) for r in alerts()) == sorted([
            ("egress-denied", first), ("tripwire", second), ("run-unverified", third)]), alerts()
        for r in alerts():
            assert r["_SYSTEMD_UNIT"] and r["__CURSOR"] and r["AGENTBOX_ALERT_RECORDS"] == "1", r
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


FLOOD = """
import socket
for i in range(60):
    for address in ("203.0.113.9", "203.0.113.%d" % (10 + i)):
        try: socket.create_connection((address, 443), 5)
        except OSError: pass
"""


def test_a_flood_does_not_delay_what_is_urgent():
    """Each denial holds the program up for as long as the test takes: a tripwire is told of all the same, and nothing is lost."""
    gate = SEEN.parent / "gate"
    with on_air('r=$(cat); case "$r" in *egress-denied*) while [ ! -e $STATE_DIRECTORY/gate ]; do sleep 0.2; done;; esac\n'
                'printf "%s\\n" "$r" >>$STATE_DIRECTORY/seen'):
        flood = expect(run_python(FLOOD)).run
        policy("live-trap", "[Audit]\nDecoys=yes\n[Network]\nEgress=none\n")
        trapped = expect(run_sh("cat $HOME/.aws/credentials >/dev/null", policy="live-trap")).run
        wait_for("the tripwire", alerts)
        assert [(r["AGENTBOX_EVENT"], r["AGENTBOX_RUN_ID"]) for r in alerts()] == [("tripwire", trapped)], alerts()
        # What was handed over does not come again, and the batch is told as it was.
        sh(["systemctl", "kill", "--signal=KILL", UNIT])
        other = denied("203.0.113.200")
        write_file(str(gate), "")
        wait_for("the last one", lambda: any(r["AGENTBOX_RUN_ID"] == other for r in alerts()), 60)
        told = [r for r in alerts("egress-denied") if r["AGENTBOX_RUN_ID"] == flood]
        counts = [int(r["AGENTBOX_ALERT_COUNT"]) for r in told]
        written = box.journal(f"_SYSTEMD_UNIT=agentbox-warden-{flood}.service", "AGENTBOX_EVENT=egress-denied")
        assert sum(counts) == sum(int(r["AGENTBOX_COUNT"]) for r in written) == 120, counts
        assert len(told) < 60 and len(alerts("tripwire")) == 1, counts


def test_a_program_that_fails_for_denials_does_not_stop_tripwires():
    with on_air('r=$(cat); case "$r" in *egress-denied*) exit 1;; esac; printf "%s\\n" "$r" >>$STATE_DIRECTORY/seen'):
        denied("203.0.113.9")
        for n in (1, 2):
            policy("live-trap", "[Audit]\nDecoys=yes\n[Network]\nEgress=none\n")
            expect(run_sh("cat $HOME/.aws/credentials >/dev/null", policy="live-trap"))
            wait_for("a tripwire", lambda count=n: len(alerts()) == count)


def test_a_record_is_tried_again_where_the_program_fails():
    with on_air("test -e $STATE_DIRECTORY/once || { touch $STATE_DIRECTORY/once; exit 1; }\ncat >>$STATE_DIRECTORY/seen"):
        wanted = denied("203.0.113.7")
        wait_for("the second try", lambda: len(alerts()) == 1, 40)
        assert alerts()[0]["AGENTBOX_RUN_ID"] == wanted


def test_names_that_the_program_cannot_digest_stop_nothing():
    with on_air("line=$(cat)\ncase $line in *203.0.113.9*) exit 1 ;; esac\nprintf '%s\\n' \"$line\" >>$STATE_DIRECTORY/seen"):
        first = denied("203.0.113.9")
        wait_for("the one without them", lambda: len(alerts()) == 1, 60)
        second = denied("203.0.113.10")
        wait_for("the next one", lambda: len(alerts()) == 2, 60)
        assert [(r["AGENTBOX_RUN_ID"], r.get("AGENTBOX_ALERT_SHORTENED", "no")) for r in alerts()] == [(first, "yes"), (second, "no")], alerts()


def test_forged_records_are_no_alerts():
    with on_air():
        sh(["logger", "--journald"], input=FORGED)
        wanted = denied("203.0.113.8")
        wait_for("the true one", lambda: alerts())
        assert [r["AGENTBOX_RUN_ID"] for r in alerts()] == [wanted], alerts()
        assert box.journal("MESSAGE=forged alert"), "the forgery itself did not get into the journal"


def test_a_warden_cannot_speak_of_another_run():
    """Whoever has taken a warden over writes what it likes of its own run, and is not believed about another's."""
    victim = expect(run_sh("true")).run
    forged = f"AGENTBOX_EVENT=egress-denied\nAGENTBOX_RUN_ID={victim}\nAGENTBOX_REASON=metadata\nAGENTBOX_CALLER_UID=0\nMESSAGE=of another\n"
    twice = forged.replace("MESSAGE=of another", "AGENTBOX_RUN_ID=cccccccccc\nMESSAGE=of two")
    trap = forged.replace("=egress-denied", "=tripwire").replace(victim, "cccccccccc")
    with on_air():
        for text in (forged, twice, trap):
            box.write_as_warden("cccccccccc", text)
        wanted = denied("203.0.113.8")
        wait_for("the true one", alerts)
        assert [r["AGENTBOX_RUN_ID"] for r in alerts()] == [wanted], alerts()
        for text in ("of another", "of two"):
            assert box.journal(f"MESSAGE={text}", "_SYSTEMD_UNIT=agentbox-warden-cccccccccc.service"), text
    for verb in (["log", victim, "--json"], ["log", "--json"], ["why", victim]):
        text = agentbox(*verb).out
        assert "of another" not in text and "of two" not in text and "metadata" not in text, (verb, text)
