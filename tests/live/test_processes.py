# SPDX-License-Identifier: LGPL-2.1-or-later
"""A run's own PID namespace, which PID 1 makes from version 257 on, and its init, which is the shim."""
import functools
import json
import os
import pathlib
import signal
import subprocess

import box
from box import (Skip, agentbox, broker_pid, dropin, events, expect, newest_run, outside_pid, records, run, run_python, run_sh, runs, sh,
                 start, systemd_version, wait_events, wait_for)
from test_isolation import TRY, results
from test_syscalls import denied


def since_257(function):
    @functools.wraps(function)
    def test():
        if systemd_version() < 257:
            raise Skip("PID 1 gives a run no PID namespace before version 257")
        function()
    return test


def fields(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def main_pid(run_id):
    return int(sh(["systemctl", "show", "-P", "MainPID", f"agentbox-{run_id}.service"]))


def processes_of(run_id):
    """The host's numbers of all that are in its namespace."""
    namespace = os.readlink(f"/proc/{main_pid(run_id)}/ns/pid")
    found = []
    for p in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(p / "ns/pid") == namespace:
                found.append(int(p.name))
        except OSError:
            pass
    return found


def ready(script, *options):
    client = start("/bin/sh", "-c", script, options=["--timeout", "120s", *options], stdin=subprocess.PIPE)
    assert client.stdout.readline() == b"ready\n", client.stderr.read()
    return client, newest_run()["run"]


@since_257
def test_it_sees_nobody_but_itself():
    done = expect(run_sh("echo $PPID; ls /proc | grep '^[0-9]'; kill -0 2 2>&1; ls -d /proc/1"), 2)
    parent, *others = done.out.split("\n")
    assert parent == "1" and "1" not in others, done
    assert all(not o.isdigit() or int(o) < 50 for o in others), done
    assert "processes" in done.result["verified"], done


@since_257
def test_its_init_from_outside():
    client, found = ready("echo ready; sleep 60")
    init, shown = main_pid(found), json.loads(expect(agentbox("show", found, "--json")).out)
    workload = shown["command_pid"]
    assert fields(init)["NSpid"].split() == [str(init), "1"] and fields(init)["Name"] == "agentbox-init", fields(init)
    assert fields(workload)["PPid"] == str(init) and fields(workload)["Name"] == "sh", fields(workload)
    assert os.readlink(f"/proc/{init}/ns/pid") != os.readlink("/proc/1/ns/pid")
    # It has the channel and nothing else, and no more rights than the loop that it is needs.
    descriptors = {fd: os.readlink(f"/proc/{init}/fd/{fd}") for fd in os.listdir(f"/proc/{init}/fd")}
    assert list(descriptors) == ["0"] and descriptors["0"].startswith("socket:"), descriptors
    assert all("socket:" not in os.readlink(f"/proc/{workload}/fd/{fd}") for fd in os.listdir(f"/proc/{workload}/fd"))
    assert os.stat(f"/proc/{init}/status").st_uid == 0 and os.stat(f"/proc/{workload}/status").st_uid == shown["uid"]
    assert all(int(fields(init)[c], 16) == 0 for c in ("CapPrm", "CapBnd", "SigBlk", "SigCgt")), fields(init)
    assert int(fields(init)["RssAnon"].split()[0]) < 256, fields(init)
    client.kill()
    wait_for("its init to be gone", lambda: not pathlib.Path(f"/proc/{init}").exists())


@since_257
def test_its_init_cannot_be_reached():
    """Signals, tracing, memory, descriptors, limits: whatever comes of it, the run ends as it would have."""
    done = run_python(TRY + """
import ctypes, signal, struct
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    if libc.syscall(number, *args) < 0:
        raise OSError(ctypes.get_errno(), "")
for s in range(1, 65):
    attempt(f'kill-{s}', lambda: os.kill(1, s))
    attempt(f'queue-{s}', lambda: call(129, 1, s, struct.pack('iiii', s, 0, -1, 0) + bytes(112)))
    attempt(f'pidfd-{s}', lambda: signal.pidfd_send_signal(os.pidfd_open(1), s))
for what in ('environ', 'cmdline', 'maps', 'mem', 'status', 'root/.', 'cwd/.', 'fd/0', 'ns/pid', 'comm', 'cgroup', 'oom_score_adj'):
    attempt(f'proc-{what}', lambda: open(f'/proc/1/{what}', 'rb').read(1))
attempt('proc-list', lambda: os.listdir('/proc/1'))
attempt('ptrace-attach', lambda: call(101, 16, 1, None, None))
attempt('ptrace-seize', lambda: call(101, 0x4206, 1, None, None))
attempt('readv', lambda: call(310, 1, None, 0, None, 0, 0))
attempt('writev', lambda: call(311, 1, None, 0, None, 0, 0))
attempt('getfd', lambda: call(438, os.pidfd_open(1), 0, 0))
attempt('kcmp', lambda: call(312, 1, os.getpid(), 0, 0, 0))
attempt('setns', lambda: call(308, os.pidfd_open(1), 0x20000000))
attempt('everybody', lambda: os.kill(-1, 9))
""")
    got = results(done)
    assert got.pop("everybody") == "ESRCH", got
    worked = {k for k, v in got.items() if v.startswith("WORKED")}
    # A signal may be sent, where no Landlock keeps it in: it does nothing.
    assert all(k.split("-")[0] in ("kill", "queue", "pidfd") for k in worked), worked
    assert done.result["reason"] == "exited" and done.result["exit_code"] == 0, done


@since_257
def test_its_inits_limits_are_not_the_runs():
    """It has the same uid, which is all that the kernel asks for. Under the one of processor time, it could be killed."""
    client = start("/usr/bin/python3", "-u", "-c", """
import resource, time
for kind in range(16):
    if kind != resource.RLIMIT_CORE:
        resource.prlimit(1, kind, (0, 0))
print("ready")
time.sleep(100)
""", options=["--timeout", "120s"])
    assert client.stdout.readline() == b"ready\n", client.stderr.read()
    init = main_pid(newest_run()["run"])
    limits = {line[:26].strip(): line[26:].split()[:2] for line in pathlib.Path(f"/proc/{init}/limits").read_text(encoding="utf-8").splitlines()}
    assert limits["Max cpu time"] == ["unlimited"] * 2 and int(limits["Max open files"][0]) > 0, limits
    client.kill()


@since_257
def test_an_end_is_told_as_it_was():
    for script, reason, code, number in (("exit 143", "exited", 143, None), ("exit 255", "exited", 255, None), ("kill -TERM $$", "signal", None, 15),
                                         ("kill -KILL $$", "signal", None, 9), ("kill -34 $$", "signal", None, 34)):
        done = run_sh(script)
        assert (done.result["reason"], done.result["exit_code"], done.result["signal"]) == (reason, code, number), done
        assert done.status == (code if code is not None else 128 + number), done


@since_257
def test_orphans_are_taken_away():
    client, found = ready("""for i in $(seq 40); do (sh -c 'sleep 0.1 & exit' &); done; sleep 1; echo ready; sleep 60""")
    wait_for("no zombies", lambda: all(fields(p)["State"][0] != "Z" for p in processes_of(found)))
    assert len(processes_of(found)) == 3, [fields(p) for p in processes_of(found)]  # init, sh, sleep
    client.kill()


@since_257
def test_nobody_outlives_it():
    """Of a daemon, its second session and one that ignores everything."""
    client, found = ready("""trap '' TERM HUP INT; setsid sh -c 'while :; do sleep 1; done' & sh -c 'sleep 300' & echo ready; read x; exit 5""")
    pids = processes_of(found)
    assert len(pids) >= 4, pids
    client.stdin.write(b"\n")
    client.stdin.flush()
    assert client.wait(timeout=60) == 5
    assert not [p for p in pids if pathlib.Path(f"/proc/{p}").exists()]


@since_257
def test_its_init_killed_from_outside():
    client, found = ready("echo ready; sleep 60")
    pids = processes_of(found)
    os.kill(main_pid(found), signal.SIGKILL)
    assert client.wait(timeout=60) == 128 + signal.SIGKILL
    wait_events(found, "run-ended")
    assert not [p for p in pids if pathlib.Path(f"/proc/{p}").exists()]


@since_257
def test_its_init_stopped_from_outside():
    """Its end is seen when it goes on; and a run's time passes for it, too."""
    client, found = ready("echo ready; read x; exit 6")
    init = main_pid(found)
    os.kill(init, signal.SIGSTOP)
    client.stdin.write(b"\n")
    client.stdin.flush()
    wait_for("the command to be dead", lambda: len([p for p in processes_of(found) if fields(p)["State"][0] != "Z"]) == 1)
    assert found in [r["run"] for r in runs()]
    os.kill(init, signal.SIGCONT)
    assert client.wait(timeout=60) == 6


@since_257
def test_a_later_broker_learns_how_it_ended():
    """What an init says, whoever is there to hear it: by its exit status alone, both would be 143."""
    for script, reason, number in (("kill -TERM $$", "signal", 15), ("exit 143", "exited", None)):
        expect(agentbox("run", "--detach", "--name", "later", "--", "/bin/sh", "-c", f"while ! test -e go; do sleep 0.1; done; {script}"))
        found = next(r for r in runs() if r["name"] == "later")["run"]
        workload = json.loads(expect(agentbox("show", found, "--json")).out)["command_pid"]
        broker = broker_pid()
        # It hears nothing more, and PID 1 forgets the unit.
        os.kill(broker, signal.SIGSTOP)
        pathlib.Path(f"/proc/{workload}/root/workspace/go").touch()
        wait_for("its end", lambda: not pathlib.Path(f"/proc/{workload}").exists())
        wait_for("PID 1 to forget it", lambda: f"agentbox-{found}.service" not in box.units())
        os.kill(broker, signal.SIGKILL)
        wait_events(found, "run-ended")
        end, = records(found, "run-ended")
        assert end["AGENTBOX_REASON"] == reason and end.get("AGENTBOX_SIGNAL") == (str(number) if number else None), end
        assert events(found).count("run-ended") == 1


@since_257
def test_without_a_namespace_nothing_runs():
    dropin("[Service]\nPrivatePIDs=no\n")
    done = run("/bin/echo", "untrusted-code-ran")
    assert done.status == 125 and b"untrusted-code-ran" not in done.stdout and "processes" in done.err, done
    assert "run-unverified" in wait_events(done.run, "run-unverified") and "run-started" not in events(done.run), events(done.run)


def test_a_pid_on_record_is_the_hosts():
    """Whatever the process calls itself: who looks into a record looks from outside."""
    client = start("/usr/bin/python3", "-u", "-c", """
import ctypes, os, time
ctypes.CDLL(None).unshare(0x10000000)
print(os.getpid())
time.sleep(100)
""", options=["--timeout", "120s"])
    inside = int(client.stdout.readline())
    found = newest_run()["run"]
    record = wait_for("its record", lambda: denied(found))[0]
    assert int(record["AGENTBOX_PID"]) == outside_pid(found, inside), (record, inside)
    client.kill()
