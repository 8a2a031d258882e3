# SPDX-License-Identifier: LGPL-2.1-or-later
"""Who may ask for what; what the broker survives."""
import json
import os
import signal
import subprocess
import time

import box
from box import (OUTSIDER, USER, agentbox, at_end, broker_pid, broker_restart, broker_stop, events, expect, newest_run, policy, records, run,
                 run_sh, runs, sh, start, user, wait_events, wait_for, within, write_file)


def test_group_members_may_run():
    user(USER, "agentbox")
    expect(run("/bin/echo", "hi", as_user=USER), out="hi")


def test_everybody_else_may_not():
    user(OUTSIDER)
    done = expect(run("/bin/true", as_user=OUTSIDER), 125, err=r"^agentbox: .*(authori|may not use)")
    assert "agentbox" in done.err and "group" in done.err, done


def test_access_by_policy():
    user(USER, "agentbox")
    policy("live-root-only", "[Access]\nUsers=root\nGroups=\n")
    expect(run("/bin/true", policy="live-root-only", as_user=USER), 125, err="authori|Access")
    expect(run("/bin/true", policy="live-root-only"))
    user(OUTSIDER)
    policy("live-outsider", f"[Access]\nUsers={OUTSIDER}\n")
    expect(run("/bin/true", policy="live-outsider", as_user=OUTSIDER))


def test_tightening_is_allowed_and_widening_is_not():
    user(USER, "agentbox")
    expect(run("/bin/true", options=["--set", "Limits.Memory=64M", "--timeout", "5s"], as_user=USER))
    for given, asked, allowed in (("Limits.Memory=1G", "1G", "256M"), ("Limits.Tasks=65", "65", "64"), ("Limits.Runtime=61s", "61s|1min 1s", "60s|1min"),
                                  ("Limits.CPUQuota=200%", "200%", "100%"), ("Network.Egress=open", "open", "filtered"),
                                  ("Syscalls.Profile=jit", "jit", "default"), ("Files.TmpSize=1G", "1G", "64M")):
        done = expect(run("/bin/true", options=["--set", given], as_user=USER), 125)
        key = given.split("=")[0].split(".")[1]
        assert key in done.err and any(a in done.err for a in asked.split("|")) and any(a in done.err for a in allowed.split("|")), done
    for given in ("Access.Users=boxuser", "Files.Expose=/root", "Syscalls.Allow=ptrace", "Access.Tighten=yes", "Environment.Set=A=b", "Environment.Pass=HOME"):
        expect(run("/bin/true", options=["--set", given], as_user=USER), 125)
    expect(run("/bin/true", options=["--set", "Network.Egress=none"], as_user=USER))
    expect(run("/bin/true", options=["--set", "Limits.Memory=512M"]))


def test_no_tightening_where_the_policy_says_so():
    user(USER, "agentbox")
    policy("live-fixed", "[Access]\nTighten=no\n")
    expect(run("/bin/true", policy="live-fixed", as_user=USER))
    expect(run("/bin/true", policy="live-fixed", options=["--set", "Limits.Memory=64M"], as_user=USER), 125)


def test_runs_of_others_are_their_own():
    user(USER, "agentbox")
    client = start("/bin/sh", "-c", "echo ready; sleep 60", options=["--timeout", "90s"])
    assert client.stdout.readline() == b"ready\n"
    found = newest_run()["run"]
    for verb in (["show", found], ["kill", found], ["wait", found]):
        done = agentbox(*verb, as_user=USER)
        assert done.status != 0 and found not in done.out, done
    assert found not in agentbox("ps", as_user=USER).out
    assert agentbox("kill", "--all", as_user=USER).status in (0, 125)
    assert client.poll() is None
    expect(agentbox("kill", found))
    client.wait(timeout=60)


def test_kill_with_a_signal():
    client = start("/bin/sh", "-c", "trap 'exit 21' USR1; echo ready; while :; do sleep 0.05; done", options=["--timeout", "60s"])
    assert client.stdout.readline() == b"ready\n"
    expect(agentbox("kill", newest_run()["run"], "-s", "USR1"))
    assert client.wait(timeout=60) == 21


def test_kill_all_and_ps():
    clients = [start("/bin/sh", "-c", "echo ready; sleep 100", options=["--timeout", "200s"]) for _ in range(3)]
    for c in clients:
        assert c.stdout.readline() == b"ready\n"
    assert len(runs()) == 3, runs()
    text = expect(agentbox("ps")).out
    assert all(r["run"] in text for r in runs()), text
    expect(agentbox("kill", "--all"))
    for c in clients:
        assert c.wait(timeout=60) == 128 + signal.SIGKILL
    wait_for("an empty list", lambda: not runs())


def test_show():
    client = start("/bin/sh", "-c", "echo ready; sleep 60", options=["--timeout", "90s"])
    assert client.stdout.readline() == b"ready\n"
    found = newest_run()["run"]
    shown = json.loads(expect(agentbox("show", found, "--json")).out)
    assert shown["run"] == found and shown["policy"] == "default" and shown["unit"].startswith("agentbox-"), shown
    assert shown["state"] == "running" and len(shown["verified"]) > 10, shown
    assert found in expect(agentbox("show", found)).out
    expect(agentbox("kill", found))
    client.wait(timeout=60)
    ended = json.loads(expect(agentbox("show", found, "--json")).out)
    assert ended["state"] == "ended" and ended["reason"] == "killed", ended


def test_broker_exits_when_idle_and_comes_back():
    expect(run("/bin/true"))
    pid = broker_pid()
    wait_for("the idle broker to exit", lambda: broker_pid() == 0 or box.ENV == "vm", 60)
    expect(run("/bin/true"))
    assert broker_pid() != pid or box.ENV == "vm"


test_broker_exits_when_idle_and_comes_back.seconds = 120


def test_broker_restarted_during_a_run():
    client = start("/bin/sh", "-c", "echo ready; sleep 4; echo done; exit 14", options=["--timeout", "60s"])
    assert client.stdout.readline() == b"ready\n"
    found = newest_run()["run"]
    broker_restart()
    out, err = client.communicate(timeout=90)
    assert (client.returncode, out) == (14, b"done\n"), (client.returncode, out, err)
    wait_events(found, "run-ended")
    assert events(found).count("run-ended") == 1


def test_a_question_is_asked_again_where_the_broker_died_over_it():
    found = expect(agentbox("run", "--detach", "--timeout", "60s", "--", "/bin/sh", "-c", "sleep 6; exit 9")).out.split()[-1]
    for verb, status in ((["ps"], 0), (["show", found], 0), (["wait", found], 9)):
        pid = wait_for("a broker", broker_pid)
        os.kill(pid, signal.SIGSTOP)
        client = subprocess.Popen(["agentbox", *verb], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(0.5)  # where it has not asked by then, it asks the next one
        os.kill(pid, signal.SIGKILL)
        out, err = client.communicate(timeout=60 * box.SLOWNESS)
        assert client.returncode == status, (verb, client.returncode, out, err)


@within(400)
def test_broker_killed_at_every_moment():
    """SIGKILL at points spread over the whole life of a run; afterwards no leftover, one end on record, no hang."""
    for i in range(24):
        client = subprocess.Popen(["agentbox", "run", "--timeout", "20s", "--", "/bin/sh", "-c", "sleep 0.3; exit 3"],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(0.02 * i)
        pid = broker_pid()
        if pid:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        _, err = client.communicate(timeout=60 * box.SLOWNESS)
        assert client.returncode in (3, 125), (i, client.returncode, err)
        if client.returncode == 125:
            assert err.startswith(b"agentbox: "), (i, err)
        wait_for("the bus to notice", lambda: broker_pid() != pid or not pid)
        time.sleep(0.1)
        expect(run("/bin/true"))
        left = box.leftovers(wait=15)
        assert not left, (i, left)
    for found in {r["AGENTBOX_RUN_ID"] for r in box.journal(f"_SYSTEMD_UNIT={box.BROKER_UNIT}", "AGENTBOX_EVENT=run-started")}:
        assert events(found).count("run-ended") == 1, (found, events(found))


def test_no_broker_no_bus():
    broker_stop()
    at_end(sh, "systemctl unmask --runtime agentboxd.service dbus-org.agentbox1.service; systemctl daemon-reload")
    sh("systemctl mask --runtime agentboxd.service; systemctl daemon-reload")
    done = expect(run("/bin/true"), 125, err=r"^agentbox: ")
    assert "agentboxd" in done.err, done
    done = expect(agentbox("ps", env={"DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent"}), 125, err=r"^agentbox: ")


def test_polkit_absent():
    user(OUTSIDER)
    if sh("systemctl list-unit-files polkit.service --no-legend", check=False):
        sh("systemctl stop polkit.service; systemctl mask --runtime polkit.service")
        at_end(sh, "systemctl unmask --runtime polkit.service; systemctl daemon-reload")
    expect(run("/bin/true", as_user=OUTSIDER), 125, err="may not use")
    expect(run("/bin/true"))


def test_policy_unreadable_or_broken():
    write_file(box.POLICY_DIR / "live-broken.policy", "[Limits]\nMemory=lots\nTusks=4\n[Netwrk]\n")
    done = expect(run("/bin/true", policy="live-broken"), 125)
    assert "live-broken.policy:2:" in done.err and "live-broken.policy:3:" in done.err and "Tasks" in done.err and "Network" in done.err, done
    (box.POLICY_DIR / "live-dir.policy").mkdir()
    at_end((box.POLICY_DIR / "live-dir.policy").rmdir)
    expect(run("/bin/true", policy="live-dir"), 125, err="live-dir")


def test_pid_1_refuses():
    """A unit that cannot start: its root's parent is gone from PID 1's sight, or the shim is."""
    shim = "/usr/lib/agentbox/agentbox-exec"
    os.rename(shim, shim + ".away")
    at_end(os.rename, shim + ".away", shim)
    done = expect(run("/bin/true"), 125, err=r"^agentbox: ")
    assert done.run is None or "run-refused" in wait_events(done.run, "run-refused"), events(done.run)


def test_raw_bus_calls_with_odd_content():
    call = ["busctl", "call", "org.agentbox1", "/org/agentbox1", "org.agentbox1.Manager"]
    for args in (["Run"], ["GetRun", "s", "../../etc"], ["GetRun", "s", ""], ["KillRun", "sis", "x" * 200, "9", ""],
                 ["KillRun", "sis", "none", "-1", ""], ["WaitRun", "s", "\u202e"], ["NoSuch"],
                 ["Run", "sasaayaaya{sv}ah", "default", "0", "0", "0", "0", "0"],
                 ["Run", "sasaayaaya{sv}ah", "../default", "0", "1", "1", "47", "0", "0", "0"],
                 ["Run", "sasaayaaya{sv}ah", "default", "0", "1", "1", "0", "0", "0", "0"],
                 ["Run", "sasaayaaya{sv}ah", "default", "0", "1", "1", "47", "0", "1", "unknown", "s", "x", "0"]):
        done = subprocess.run(call + args, capture_output=True, check=False)
        assert done.returncode != 0, (args, done)
    expect(run("/bin/true"))


def test_descriptors_that_are_no_pipe_are_refused():
    program = """
import dbus, os, sys
bus = dbus.SystemBus()
m = dbus.Interface(bus.get_object('org.agentbox1', '/org/agentbox1'), 'org.agentbox1.Manager')
f = os.open(sys.argv[1], os.O_RDONLY)
try:
    print(m.Run('default', dbus.Array([], 's'), dbus.Array([dbus.ByteArray(b'/bin/true')], 'ay'), dbus.Array([], 'ay'), dbus.Dictionary({}, 'sv'),
                dbus.Array([dbus.types.UnixFd(f)] * 3, 'h')))
    print('ACCEPTED')
except dbus.DBusException as e: print(e.get_dbus_name())
"""
    if subprocess.run(["/usr/bin/python3", "-c", "import dbus"], capture_output=True, check=False).returncode != 0:
        raise box.Skip("python3-dbus is not installed")
    for path in ("/etc", "/etc/shadow", "/dev/zero"):
        out = sh(["/usr/bin/python3", "-c", program, path])
        assert "ACCEPTED" not in out and "agentbox1.Error" in out, (path, out)


def test_introspection():
    out = sh("busctl introspect org.agentbox1 /org/agentbox1")
    for member in ("Run", "ListRuns", "GetRun", "ListPolicies", "RunEnded"):
        assert member in out, (member, out)


def test_runs_are_objects():
    client = start("/bin/sh", "-c", "echo ready; sleep 60", options=["--timeout", "90s"])
    assert client.stdout.readline() == b"ready\n"
    found = newest_run()["run"]
    out = sh(f"busctl introspect org.agentbox1 /org/agentbox1/run/{found}")
    assert "org.agentbox1.Run" in out, out
    agentbox("kill", "--all")


def test_caller_is_on_record():
    user(USER, "agentbox")
    uid = sh(["id", "-u", USER]).strip()
    done = expect(run("/bin/true", as_user=USER))
    assert all(r["AGENTBOX_CALLER_UID"] == uid for r in records(done.run)), records(done.run)


def test_runs_per_caller_are_capped():
    user(USER, "agentbox")
    policy("live-tiny", "[Limits]\nMemory=16M\nTasks=4\nRuntime=100s\n")
    clients = []
    for _ in range(70):
        clients.append(subprocess.Popen(["setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups", "agentbox", "run", "-p", "live-tiny",
                                         "--", "/bin/sleep", "50"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE))
    refused = wait_for("a refusal", lambda: [c for c in clients if c.poll() == 125], 120)
    message = refused[0].stderr.read().decode()
    assert "64" in message and "run" in message, message
    expect(run("/bin/true"))  # root's share is its own
    for c in clients:
        c.kill()
        c.communicate()


test_runs_per_caller_are_capped.seconds = 240
