# SPDX-License-Identifier: LGPL-2.1-or-later
"""--unit=scope: the caller's own uid, without a world of its own, but within limits and behind the shim's walls."""
import os
import pathlib
import pwd
import signal
import subprocess
import time

import box
from box import agentbox, at_end, broker_restart, expect, newest_run, policy, records, run, runs, start, user, wait_for
from test_network import CONNECT, listener

OPEN = "[Files]\nRoot=/\n[Network]\nEgress=open\n"


WALL = 3  # the version of Landlock from which a file that cannot be written cannot be truncated either


PIDFDS = 255  # the systemd that takes a process by descriptor: before, its number may be another's when PID 1 comes to it


def lacking():
    """What this host lacks for scopes, as agentbox names it."""
    if box.systemd_version() < PIDFDS:
        return f"systemd {PIDFDS}"
    return "file-wall" if box.landlock_version() < WALL else None


def setting(text=OPEN, name="live-scope"):
    """A user who may, and a policy that a scope can carry."""
    if lacking():
        raise box.Skip(f"scopes need {lacking()}")
    user(box.USER, "agentbox")
    return policy(name, text)


def scope(*command, options=(), text=OPEN, **kw):
    name = setting(text)
    return run(*command, policy=name, options=["--unit=scope", *options], as_user=box.USER, **kw)


def scope_sh(script, **kw):
    return scope("/bin/sh", "-c", script, **kw)


def scope_python(program, **kw):
    return scope("/usr/bin/python3", "-c", program, **kw)


def start_scope(*command, options=(), **kw):
    name = setting()
    account = pwd.getpwnam(box.USER)
    groups = os.getgrouplist(box.USER, account.pw_gid)
    return start(*command, policy=name, options=["--unit=scope", *options], user=account.pw_uid, group=account.pw_gid,
                 extra_groups=groups, cwd="/", **kw)


def limit(*sets):
    return [word for s in sets for word in ("--set", s)]


def mounted():
    return [m for m in box.mounts() if m.endswith("/work")]


# --- it runs

def test_is_refused_where_the_host_lacks_something():
    if not lacking():
        raise box.Skip("this host lacks nothing")
    user(box.USER, "agentbox")
    policy("live-scope", OPEN)
    done = run("/bin/echo", "untrusted-code-ran", policy="live-scope", options=["--unit=scope"], as_user=box.USER)
    expect(done, 125, err=lacking())
    assert b"untrusted-code-ran" not in done.stdout, done


def test_runs_as_the_caller_in_a_scope():
    done = expect(scope_sh("id -un; cat /proc/self/cgroup; pwd; echo $HOME $USER $TMPDIR; echo to-stderr >&2; cat", stdin=b"through\n"))
    lines = done.out.splitlines()
    assert lines[0] == box.USER and "through" in lines, done
    assert f"agentbox-{done.run}.scope" in done.out and "to-stderr" in done.err, done
    work = f"/run/agentbox/{done.run}/work"
    assert work in lines and f"{work} {box.USER} {work}" in lines, done
    assert done.result["reason"] == "exited" and done.result["exit_code"] == 0, done
    for promise in ("uid", "capabilities", "no-new-privileges", "file-wall", "memory-limit", "address-filter", "device-filter",
                    "process", "properties", "workspace", "cgroup"):
        assert promise in done.result["verified"], (promise, done)
    assert "mounts" not in done.result["verified"] and "network" not in done.result["verified"], done
    record = records(done.run, "run-ended")[0]
    assert record["AGENTBOX_UNIT"] == f"agentbox-{done.run}.scope" and "as its client says" in record["MESSAGE"], record


def test_statuses():
    expect(scope_sh("exit 42"), 42)
    expect(scope_sh("kill -TERM $$"), 128 + signal.SIGTERM)
    expect(scope_sh("kill -SEGV $$"), 128 + signal.SIGSEGV)
    expect(scope("/nonexistent"), 127)
    expect(scope("/etc/passwd"), 126)
    expect(scope("/bin/true", options=["-C", "/nonexistent"]), 125, err="nonexistent")


def test_directory():
    expect(scope("/bin/pwd", options=["-C", "/usr"]), out="^/usr$")


# --- it ends

def test_memory():
    done = expect(scope_python("b = bytearray(400 << 20)", options=limit("Limits.Memory=64M")), 137, err="memory limit 64M")
    assert done.result["reason"] == "oom", done


def test_the_workspace_counts_and_is_bounded():
    done = expect(scope_sh("dd if=/dev/zero of=f bs=1M count=20 2>&1; stat -c %s f", options=limit("Files.WorkspaceSize=8M")))
    assert "No space left" in done.out and done.out.splitlines()[-1] == str(8 << 20), done


def test_tasks():
    done = expect(scope_python("""
import os, errno, time
n = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(20); os._exit(0)
        n += 1
except OSError as e:
    print(n, errno.errorcode[e.errno], flush=True)
os._exit(0)""", options=limit("Limits.Tasks=16")))
    count, error = done.out.split()
    assert error == "EAGAIN" and 10 <= int(count) <= 15, done


def test_time():
    done = expect(scope_sh("trap '' TERM INT HUP; (trap '' TERM; sleep 1000) & while :; do sleep 1; done", options=["--timeout", "1s"]),
                  124, err="time limit 1s")
    assert done.result["reason"] == "timeout", done


def test_output():
    done = expect(scope_sh("while :; do echo; done", options=limit("Limits.Output=1M")), 137, err="output limit 1M")
    assert done.result["reason"] == "output-limit" and len(done.stdout) == 1 << 20, done


def test_resource_limits():
    text = OPEN + "[Limits]\nOpenFiles=64\nFileSize=1M\n"
    done = expect(scope_sh("ulimit -Sn; ulimit -Hn; ulimit -Hc; grep 'file size' /proc/self/limits", text=text))
    words = done.out.split()
    assert words[:2] == ["64", "64"] and words[2] in ("0", "1") and str(1 << 20) in words, done


def test_nothing_outlives_it():
    done = expect(scope_sh("setsid sleep 777 >/dev/null 2>&1 & setsid sh -c 'trap \"\" TERM HUP; sleep 777' >/dev/null 2>&1 & exit 3"), 3)
    assert subprocess.run(["pgrep", "-f", "^sleep 777"], check=False, capture_output=True).returncode == 1, done
    wait_for("the workspace to be gone", lambda: not mounted())


def test_kill():
    client = start_scope("/bin/sh", "-c", "trap '' TERM INT HUP; sleep 100 & wait")
    r = newest_run(lambda r: r["state"] == "running")
    expect(agentbox("kill", r["run"], "-s", "KILL"))
    _out, err = client.communicate(timeout=30 * box.SLOWNESS)
    assert client.returncode == 128 + 9, (client.returncode, err)


# --- what it cannot

def test_what_the_shim_took():
    done = expect(scope_sh("grep -E '^(NoNewPrivs|Seccomp|Cap(Eff|Prm|Inh|Amb)|TracerPid)' /proc/self/status"))
    facts = dict(line.split(":\t") for line in done.out.splitlines())
    assert facts["NoNewPrivs"] == "1" and facts["Seccomp"] == "2", done
    assert all(int(facts[f"Cap{s}"], 16) == 0 for s in ("Eff", "Prm", "Inh", "Amb")), done
    done = expect(scope_sh("ls /proc/self/fd"))
    assert set(done.out.split()) <= {"0", "1", "2", "3"}, done


def test_the_callers_environment_stays_outside():
    done = expect(scope("/usr/bin/env", env={"SECRET_TOKEN": "abc", "LD_PRELOAD": ""}))
    assert "SECRET" not in done.out and "XDG" not in done.out and "DBUS" not in done.out, done


def test_files_of_the_caller_cannot_be_written():
    setting()
    home = pathlib.Path("/var/tmp/live-scope-home")
    home.mkdir(exist_ok=True)
    at_end(sh_remove, home)
    account = pwd.getpwnam(box.USER)
    (home / "mine").write_text("kept", encoding="utf-8")
    for path in (home, home / "mine"):
        os.chown(path, account.pw_uid, account.pw_gid)
    done = expect(scope_sh(f"""
cd {home}
cat mine; echo
(echo x >mine); (echo x >new); (echo x >>mine); rm -f mine; mv mine other; ln -s a b; mkdir d; truncate -s 0 mine
ln mine $HOME/linked; mv mine $HOME/moved
(: >/tmp/live-scope-x); (: >/var/tmp/live-scope-x); (: >/dev/shm/live-scope-x)
python3 -c "import os; os.truncate('mine', 0)"
python3 -c "import os; os.open('mine', os.O_RDONLY | os.O_TRUNC)"
echo inside >$HOME/file && cat $HOME/file""", text=OPEN))
    assert "kept" in done.out and "inside" in done.out, done
    assert sorted(p.name for p in home.iterdir()) == ["mine"] and (home / "mine").read_text(encoding="utf-8") == "kept", done
    assert not any(pathlib.Path(d, "live-scope-x").exists() for d in ("/tmp", "/var/tmp", "/dev/shm")), done


def sh_remove(path):
    box.sh(["rm", "-rf", str(path)])


def test_other_processes_of_the_caller_are_out_of_reach():
    setting()
    account = pwd.getpwnam(box.USER)
    with subprocess.Popen(["sleep", "60"], user=account.pw_uid, group=account.pw_gid, env={"SECRET": "hidden"}) as other:
        try:
            done = expect(scope_python(f"""
import os, errno, ctypes
pid = {other.pid}
def attempt(what, f):
    try:
        f(); print(what, 'WORKED')
    except OSError as e:
        print(what, errno.errorcode[e.errno])
attempt('mem', lambda: open(f'/proc/{{pid}}/mem', 'r+b'))
attempt('environ', lambda: open(f'/proc/{{pid}}/environ').read())
attempt('kill', lambda: os.kill(pid, 9))
libc = ctypes.CDLL(None, use_errno=True)
print('ptrace', libc.ptrace(16, pid, 0, 0))
"""))
            assert "mem WORKED" not in done.out and "environ WORKED" not in done.out and "ptrace -1" in done.out, done
            if landlock() >= 6:
                assert "kill EPERM" in done.out and other.poll() is None, done
        finally:
            other.kill()


def landlock():
    import ctypes  # pylint: disable=import-outside-toplevel
    return ctypes.CDLL(None).syscall(444, 0, 0, 1)


def test_sockets_of_the_host_are_out_of_reach():
    done = expect(scope_python("""
import errno, socket
def attempt(what, f):
    try:
        f(); print(what, 'WORKED')
    except OSError as e:
        print(what, errno.errorcode[e.errno])
for path in ('/run/dbus/system_bus_socket', '/run/systemd/journal/socket', '/dev/log'):
    attempt(path, lambda: socket.socket(socket.AF_UNIX).connect(path))
attempt('stream pair', lambda: socket.socketpair())
attempt('datagram pair', lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'x', '/run/systemd/journal/socket'))
"""))
    assert "stream pair WORKED" in done.out and done.out.count("WORKED") == 1, done
    done = scope(box.AGENTBOX, "run", "--", "/bin/true")
    assert done.status != 0, done


def test_terminals_and_devices():
    done = expect(scope_sh("for d in /dev/ptmx /dev/kmsg /dev/tty; do (: <$d) 2>/dev/null && echo $d; done; : >/dev/null; head -c 4 /dev/urandom | wc -c"))
    assert done.out.split() == ["4"], done


def test_no_way_up():
    for command in ("su -c true", "sudo -n true", "unshare -Ur true", "mount -t tmpfs t $HOME", "chmod u+s $HOME/f", "nsenter -t 1 -m true"):
        done = scope_sh(f": >$HOME/f; {command}")
        assert done.status != 0, (command, done)


def test_metadata_is_closed_under_open():
    accepted = listener("169.254.169.254", 80)
    free = listener("192.0.2.99", 8099)
    program = CONNECT + "for a, p in (('169.254.169.254', 80), ('192.0.2.99', 8099), ('::ffff:169.254.169.254', 80)): " \
                        "print(connect(a, p, socket.AF_INET6 if ':' in a else socket.AF_INET))"
    got = expect(scope_python(program)).out.split()
    assert got[1] == "CONNECTED" and len(free) == 1, got
    assert got[0] in ("EPERM", "EACCES", "TIMEOUT") and got[2] in ("EPERM", "EACCES", "TIMEOUT", "ENETUNREACH") and accepted == [], got


def test_addresses():
    allowed, denied = listener("192.0.2.98", 8098), listener("192.0.2.120", 8120)
    program = CONNECT + "for a, p in (('192.0.2.98', 8098), ('192.0.2.120', 8120)): print(connect(a, p))"
    got = expect(scope_python(program, text="[Files]\nRoot=/\n[Network]\nEgress=addresses\nAllow=192.0.2.96/28\n")).out.split()
    assert got[0] == "CONNECTED" and got[1] != "CONNECTED" and len(allowed) == 1 and denied == [], got


def test_strict_executes_nothing_that_was_written():
    done = scope_sh("cp /bin/true t && ./t", text=OPEN + "[Syscalls]\nProfile=strict\n")
    assert done.status == 126, done


# --- what is refused

def test_keys_beyond_a_scope_are_named():
    user(box.USER, "agentbox")
    done = run("/bin/true", options=["--unit=scope"], as_user=box.USER)
    expect(done, 125, err="Files.Root=host-usr")
    assert "Network.Egress=filtered" in done.err, done
    done = scope("/bin/true", text=OPEN + "[Files]\nTmpSize=8M\nExpose=/opt\n")
    expect(done, 125, err="Files.TmpSize=8M")
    assert "Files.Expose=/opt" in done.err, done


def test_a_scopes_policy_is_for_scopes_alone():
    name = setting()
    expect(run("/bin/true", policy=name, as_user=box.USER), 125, err="Files.Root=/")


def test_tightening():
    expect(scope("/bin/true", options=limit("Limits.Memory=32M", "Limits.Runtime=5s")))
    expect(scope("/bin/true", options=limit("Limits.Memory=1G")), 125, err="Limits.Memory")


def test_root_is_refused():
    name = setting()
    expect(run("/bin/true", policy=name, options=["--unit=scope"]), 125, err="uid 0")


def test_detached_is_refused():
    name = setting()
    expect(agentbox("run", "-p", name, "--unit=scope", "--detach", "--", "/bin/true", as_user=box.USER), 125, err="detach")


def test_outsiders_are_refused():
    name = setting()
    user(box.OUTSIDER)
    expect(run("/bin/true", policy=name, options=["--unit=scope"], as_user=box.OUTSIDER), 125, err="not authorised")


HANDED_OVER = r"""
import os, socket, subprocess, sys, ctypes, struct
pid = int(sys.argv[1])
child = subprocess.Popen(['sleep', '30'])
if pid == 0:  # another program in the shim's place
    pid = child.pid
fd = os.pidfd_open(pid)
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
os.dup2(fd, 40); os.dup2(a.fileno(), 41); os.set_inheritable(40, True); os.set_inheritable(41, True)
import dbus
bus = dbus.SystemBus()
m = dbus.Interface(bus.get_object('org.agentbox1', '/org/agentbox1'), 'org.agentbox1.Manager')
null = os.open('/dev/null', os.O_RDWR)
try:
    m.Run('live-scope', dbus.Array([], 's'), dbus.Array([dbus.ByteArray(b'/bin/true')], 'ay'), dbus.Array([], 'ay'),
          dbus.Dictionary({'unit': 'scope', 'scope-pidfd': dbus.types.UnixFd(40), 'scope-channel': dbus.types.UnixFd(41)}, 'sv'),
          dbus.Array([dbus.types.UnixFd(null)] * 3, 'h'))
    print('ACCEPTED')
except dbus.DBusException as e:
    print(e.get_dbus_message())
finally:
    child.kill()
"""


def test_processes_that_are_not_the_callers_are_not_taken():
    if subprocess.run(["/usr/bin/python3", "-c", "import dbus"], check=False, capture_output=True).returncode != 0:
        raise box.Skip("no python3-dbus")
    setting()
    with subprocess.Popen(["sleep", "60"]) as victim:
        try:
            for pid in (1, victim.pid, 0):
                done = box.sh(["setpriv", f"--reuid={box.USER}", f"--regid={box.USER}", "--init-groups", "/usr/bin/python3", "-c",
                               HANDED_OVER, str(pid)])
                assert "handed over" in done, (pid, done)
            assert victim.poll() is None
        finally:
            victim.kill()


# --- bad days

def test_broker_restart():
    client = start_scope("/bin/sh", "-c", "sleep 3; exit 7")
    newest_run(lambda r: r["state"] == "running")
    broker_restart()
    _out, err = client.communicate(timeout=60 * box.SLOWNESS)
    assert client.returncode == 7, (client.returncode, err)
    assert not runs() and not mounted(), runs()


def test_broker_killed_at_the_end():
    client = start_scope("/bin/sh", "-c", "sleep 1; exit 7")
    newest_run(lambda r: r["state"] == "running")
    box.sh(["systemctl", "kill", "-s", "STOP", box.BROKER_UNIT])
    time.sleep(2)
    box.sh(["systemctl", "kill", "-s", "KILL", box.BROKER_UNIT])
    _out, err = client.communicate(timeout=60 * box.SLOWNESS)
    assert client.returncode in (7, 125), (client.returncode, err)


def test_client_killed():
    client = start_scope("/bin/sh", "-c", "trap '' TERM HUP; sleep 778 & wait")
    r = newest_run(lambda r: r["state"] == "running")
    client.kill()
    client.wait()
    wait_for("the end of the run", lambda: "run-ended" in box.events(r["run"]))
    assert records(r["run"], "run-ended")[0]["AGENTBOX_REASON"] == "killed", records(r["run"])
    assert subprocess.run(["pgrep", "-f", "^sleep 778"], check=False, capture_output=True).returncode == 1


def test_terminal():
    name = setting()
    script = f"agentbox run -t -p {name} --unit=scope -- /bin/sh -c 'tty >/dev/null && test -t 1 && stty size && echo has-a-terminal'"
    out = box.sh(["setpriv", f"--reuid={box.USER}", f"--regid={box.USER}", "--init-groups", "script", "-qec", script, "/dev/null"])
    assert "has-a-terminal" in out, out
