# SPDX-License-Identifier: LGPL-2.1-or-later
"""agentbox doctor: a line for each promise, found out by doing it; what a host does not enforce is named, with why and what to
do, whoever asks."""
import json

import box
from box import agentbox, expect, only, sh


def lines(**kw):
    done = agentbox("doctor", "--json", **kw)
    return done.status, {(l["part"], l["check"]): l for l in map(json.loads, done.out.splitlines())}


def statuses(found):
    return {check: line["status"] for (part, check), line in found.items() if part == "promise"}


def trials(found):
    return {check: line["status"] for (part, check), line in found.items() if part == "trial"}


def test_all_is_well():
    status, found = lines()
    assert status == 0 and {l["status"] for l in found.values()} <= {"ok", "warning"}, found
    assert trials(found) == dict.fromkeys(("offline", "default", "strict", "Egress=addresses", "--detach"), "ok"), found
    promises = statuses(found)
    for name in ("uid", "memory-limit", "wall", "write-execute", "address-filter", "loopback-filter", "egress-record", "settings"):
        assert promises[name] == "ok", (name, promises)
    for name in ("kernel", "systemd", "journal", "polkit", "cgroups", "bpf", "landlock", "seccomp", "network", "records", "leftovers", "output"):
        assert found["host", name]["status"] in ("ok", "warning"), (name, found)


def test_it_fits_on_a_terminal():
    shown = sh(["script", "-qec", "stty cols 80; agentbox doctor", "/dev/null"], env={"TERM": "dumb", "PATH": "/usr/bin:/bin"})
    for line in shown.splitlines():
        assert len(line) <= 80 and "\x1b" not in line, line
    for heading in ("This host", "Trial runs", "Promises"):
        assert heading in shown, shown
    assert "promises hold" in shown.splitlines()[-1], shown


def test_a_drop_in_is_found():
    """What a host's drop-in loosens is no promise any more, and doctor says which."""
    box.dropin("[Service]\nMemoryMax=infinity\n")
    status, found = lines()
    assert status == 1 and trials(found)["offline"] == "failed", found
    promises = statuses(found)
    assert promises["memory-limit"] == "failed" and promises["uid"] == "ok" and promises["tasks-limit"] == "ok", promises
    assert "under policy offline" in found["promise", "memory-limit"]["message"], found["promise", "memory-limit"]
    assert "controllers" in found["promise", "memory-limit"]["advice"]
    assert "drop-ins" in found["promise", "properties"]["advice"], found["promise", "properties"]


def test_a_dead_collector_is_found():
    box.at_end(sh, ["systemctl", "start", "agentbox-output.socket"])
    agentbox("ps")
    sh(["systemctl", "stop", "agentbox-output.socket"])
    status, found = lines()
    assert status == 1 and trials(found)["--detach"] == "failed" and trials(found)["default"] == "ok", found
    assert "agentbox-output.socket" in found["trial", "--detach"]["message"] + found["trial", "--detach"]["advice"]


def test_an_open_journal_of_output_is_found():
    path = "/etc/systemd/system/systemd-journald@agentbox.socket.d/zz.conf"
    # As the host would be without agentbox's drop-in, and back again: it is bound anew where nothing needs it.
    def bind_anew():
        sh(["systemctl", "daemon-reload"])
        box.wait_for("no collector", lambda: not sh(["systemctl", "list-units", "--plain", "--no-legend", "agentbox-output@*"]))
        sh(["systemctl", "stop", "systemd-journald@agentbox.service", "systemd-journald@agentbox.socket"], check=False)

    box.at_end(bind_anew)
    box.write_file(path, "[Socket]\nSocketMode=0666\n")
    bind_anew()
    status, found = lines()
    assert status == 0 and found["host", "output"]["status"] == "warning", found["host", "output"]
    assert "systemd-journald@agentbox.socket" in found["host", "output"]["advice"]


def test_members_get_what_they_may():
    box.user(box.USER, "agentbox")
    status, found = lines(as_user=box.USER)
    assert status == 0 and found["host", "broker"]["status"] == "warning", found
    assert trials(found) == dict.fromkeys(("offline", "default", "strict", "--detach"), "ok"), found
    promises = statuses(found)
    assert promises["memory-limit"] == promises["wall"] == "ok" and "address-filter" not in promises, promises


def test_outsiders_learn_nothing():
    box.user(box.OUTSIDER)
    status, found = lines(as_user=box.OUTSIDER)
    assert status == 1 and set(trials(found).values()) == {"warning"} and statuses(found) == {}, found


@only("nspawn")
def test_each_promise_that_is_not_kept_is_named():
    status, found = lines()
    promises = statuses(found)
    assert status == 1, found
    for name in ("memory-limit", "tasks-limit", "cpu-limit", "device-filter", "address-filter", "loopback-filter", "wall", "cgroup"):
        assert promises[name] == "failed", (name, promises)
        assert name in ("wall", "loopback-filter") or found["promise", name]["advice"], found["promise", name]
    assert promises["capabilities"] == promises["mounts"] == "ok", promises
    assert set(trials(found).values()) == {"failed"}, found


@only("masked")
def test_without_bpf_it_names_what_rests_on_it():
    status, found = lines()
    promises = statuses(found)
    assert status == 1, found
    for name in ("address-filter", "loopback-filter", "wall", "warden", "egress-record"):
        assert promises[name] == "failed", (name, promises)
    for name in ("memory-limit", "capabilities", "network"):
        assert promises[name] == "ok", (name, promises)
    assert trials(found) == {"offline": "ok", "default": "failed", "strict": "ok", "Egress=addresses": "failed", "--detach": "ok"}, found
    expect(agentbox("run", "-p", "offline", "--", "true"))
