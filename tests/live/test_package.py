# SPDX-License-Identifier: LGPL-2.1-or-later
"""The Debian package: what its installation, upgrade, removal and purge do to the host and to runs that live meanwhile."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading

import box
from box import (USER, agentbox, at_end, broker_pid, events, expect, newest_run, packaged, policy, run, run_sh, runs, sh, start,
                 user, wait_events, wait_for, within)

# What changes on a host by itself, or is dpkg's and the journal's own.
CHANGES = re.compile(r"/(proc|sys|dev|tmp|lab|run/(?!agentbox|systemd/(system|transient))|var/(log|tmp|cache|lib/(dpkg|apt|systemd/"
                     r"(catalog|linger|timers|rfkill|random-seed|coredump)|polkit-1|private$))|etc/(group|gshadow|passwd|shadow|sub[ug]id)"
                     r"|root/\.|home/)")


def dpkg(*args):
    sh(["dpkg", *args], env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"})


def installed():
    at_end(dpkg, "-i", str(box.PACKAGE))


def state():
    return sh(["dpkg-query", "-W", "-f", "${db:Status-Abbrev}", "agentbox"], check=False).strip()


def next_version(suffix="+next"):
    """The same package under a later version, as a file."""
    work = pathlib.Path(tempfile.mkdtemp())
    at_end(shutil.rmtree, work)
    sh(["dpkg-deb", "-R", str(box.PACKAGE), str(work / "tree")])
    control = work / "tree/DEBIAN/control"
    control.write_text(re.sub(r"(?m)^(Version: .*)$", r"\1" + suffix, control.read_text()))
    sh(["dpkg-deb", "-Zgzip", "-z1", "--root-owner-group", "-b", str(work / "tree"), str(work / "next.deb")])
    return str(work / "next.deb")


def host_files():
    """Every name of the root file system but those that change by themselves."""
    found = set()
    for directory, directories, files in os.walk("/"):
        directories[:] = [d for d in directories if not CHANGES.match(os.path.join(directory, d))
                          and (not os.path.ismount(os.path.join(directory, d)) or directory == "/")]
        found.update(os.path.join(directory, name) for name in directories + files)
    return {name for name in found if not CHANGES.match(name)}


@packaged
@within(200)
def test_every_file_is_there_and_as_built():
    assert sh(["dpkg", "--verify", "agentbox"]) == ""
    for name in sh(["dpkg", "-L", "agentbox"]).split():
        assert os.path.exists(name), name
    assert state() == "ii", state()


@packaged
@within(200)
def test_installed_on_a_clean_system():
    """No reboot, no command by hand: the group, the bus, the broker, the explanations and the directories are there."""
    installed()
    dpkg("--purge", "agentbox")
    sh(["groupdel", "agentbox"], check=False)
    dpkg("-i", str(box.PACKAGE))

    assert broker_pid() == 0, "the package itself has no reason to start the broker"
    user(USER, "agentbox")
    expect(run("/bin/true", as_user=USER))
    expect(agentbox("doctor"))
    assert "agentbox" in sh("journalctl --list-catalog 2>/dev/null")
    for directory in ("/run/agentbox/policy.d", "/etc/agentbox/policy.d", "/etc/agentbox/allow.d"):
        assert pathlib.Path(directory).is_dir(), directory
    assert not sh("systemctl is-enabled agentboxd.service", check=False).startswith("enabled")


@packaged
@within(200)
def test_upgrade_keeps_runs_and_restarts_the_broker():
    installed()
    deb = next_version()
    policy("live-kept", "[Policy]\nExtends=default\n")
    client = start("/bin/sh", "-c", "echo ready; read line; exit 17", policy="live-kept", options=["--timeout", "5min"],
                   stdin=subprocess.PIPE)
    assert client.stdout.readline() == b"ready\n"
    found, broker = newest_run()["run"], broker_pid()

    dpkg("-i", deb)
    wait_for("another broker", lambda: broker_pid() not in (0, broker))
    assert [r["run"] for r in runs()] == [found]
    expect(run("/bin/true", policy="live-kept"))

    _, err = client.communicate(b"\n", timeout=60 * box.SLOWNESS)
    assert client.returncode == 17, (client.returncode, err)
    assert wait_events(found, "run-ended").count("run-ended") == 1


@packaged
@within(300)
def test_upgrade_while_runs_come_and_go():
    """Each one runs or is refused in words, and has one end on record; none hangs."""
    installed()
    deb = next_version()
    done, over = [], threading.Event()

    def one_after_another():
        while not over.is_set():
            done.append(run_sh("exit 3", timeout=60))

    clients = [threading.Thread(target=one_after_another) for _ in range(3)]
    for client in clients:
        client.start()
    try:
        dpkg("-i", deb)
    finally:
        over.set()
        for client in clients:
            client.join()

    for end in done:
        assert end.status == 3 or end.status == 125 and end.err.startswith("agentbox: "), end
    assert any(end.status == 3 for end in done), done
    for end in done:
        if end.status == 3:
            assert events(end.run).count("run-ended") == 1, (end, events(end.run))
    expect(run_sh("exit 3"), 3)


@packaged
@within(200)
def test_removal_ends_runs_on_record():
    installed()
    kept = pathlib.Path(f"/etc/agentbox/policy.d/{policy('live-kept', '[Policy]' + chr(10) + 'Extends=default' + chr(10))}.policy")
    attached = start("/bin/sleep", "600", options=["--timeout", "20min"])
    first = newest_run()["run"]
    second = expect(agentbox("run", "--detach", "--timeout", "20min", "-p", "live-kept", "--", "sh", "-c",
                             "echo printed; sleep 600")).out.strip()

    dpkg("-r", "agentbox")
    assert attached.wait(timeout=60 * box.SLOWNESS) != 0
    for found in (first, second):
        assert events(found).count("run-ended") == 1, events(found)
        assert box.records(found, "run-ended")[0]["AGENTBOX_REASON"] == "killed", box.records(found, "run-ended")
    assert not pathlib.Path("/run/agentbox").exists()
    left = sh("systemctl list-units --all --plain --no-legend 'agentbox*' '*@agentbox.*'", check=False)
    assert not left.strip(), left
    assert not box.leftovers(wait=0), box.leftovers(wait=0)
    assert kept.exists() and state() == "rc", state()

    dpkg("-i", str(box.PACKAGE))
    expect(run("/bin/true", policy="live-kept"))


@packaged
@within(400)
def test_purge_leaves_nothing():
    installed()
    dpkg("--purge", "agentbox")
    before = host_files()
    dpkg("-i", str(box.PACKAGE))
    assert host_files() - before, "the comparison sees no package at all"
    pathlib.Path("/etc/agentbox/policy.d/live-own.policy").write_text("[Policy]\nExtends=default\n", encoding="utf-8")
    expect(run("/bin/true", policy="live-own"))
    expect(agentbox("wait", expect(agentbox("run", "--detach", "--", "echo", "printed")).out.strip()))
    alert = pathlib.Path("/etc/agentbox/alert")
    alert.write_text("#!/bin/sh\n", encoding="utf-8")
    alert.chmod(0o755)
    sh("systemctl enable agentboxd.service && systemctl enable --now agentbox-alert.service")
    assert os.path.isdir("/var/lib/private/agentbox-alert")

    dpkg("--purge", "agentbox")
    left = host_files() - before
    assert not left, sorted(left)
    assert state() in ("", "un"), state()
    assert not sh("find /var/log/journal /run/log/journal -name '*.agentbox*'", check=False)
    assert sh("getent group agentbox"), "Debian keeps system groups: their number may be in use on a disk"
