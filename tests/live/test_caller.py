# SPDX-License-Identifier: LGPL-2.1-or-later
"""Hostile callers: local users who talk to the broker without agentbox, and who meddle with what is around it."""
import contextlib
import json
import os
import pathlib
import pwd
import re
import signal
import socket
import subprocess
import threading
import time

import box
import bus
from box import (OUTSIDER, RUNTIME, USER, agentbox, at_end, broker_pid, broker_restart, broker_stop, expect, leftovers, newest_run, policy,
                 run, runs, sh, start, user, wait_for, within, write_file)

OTHER = "boxother"
PROPERTIES = "org.freedesktop.DBus.Properties"
CGROUPS = pathlib.Path("/sys/fs/cgroup")
LIMIT_FILES = ("memory.max", "memory.limit_in_bytes", "memory.swap.max", "pids.max", "cpu.max", "cpu.cfs_quota_us", "devices.list")


def as_user(name, function):
    """Calls function in a process of that user's; what it returns must survive JSON."""
    account = pwd.getpwnam(name)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            signal.alarm(0)
            os.initgroups(name, account.pw_gid)
            os.setgid(account.pw_gid)
            os.setuid(account.pw_uid)
            try:
                answer = {"value": function()}
            except Exception as e:  # pylint: disable=broad-except
                answer = {"error": f"{type(e).__name__}: {e}"}
            os.write(writer, json.dumps(answer).encode())
            status = 0
        os._exit(status)
    os.close(writer)
    with open(reader, "rb") as f:
        text = f.read()
    os.waitpid(child, 0)
    answer = json.loads(text)
    assert "error" not in answer, answer["error"]
    return answer["value"]


def refusal(connection, member, signature="", *values, **kw):
    """The name and the words of the error that a call of the manager gets."""
    try:
        answer = connection.manager(member, signature, *values, **kw)
    except bus.BusError as e:
        return e.name.removeprefix("org.agentbox1.Error."), e.text
    raise AssertionError(f"{member}{values!r} was granted: {answer}")


def detached(connection, *argv, n_fds=0, fds=(), options=(), **kw):
    """A run that needs nobody; its id."""
    values = bus.run_values(argv, options={"detach": ("b", True), **dict(options)}, n_fds=n_fds, **kw)
    return connection.manager("Run", bus.RUN, *values, fds=fds)[0]


def refused_run(connection, *argv, options=(), **kw):
    values = bus.run_values(argv or ("true",), options={"detach": ("b", True), **dict(options)}, n_fds=0, **kw)
    return refusal(connection, "Run", bus.RUN, *values)


def kill_all_at_end():
    at_end(agentbox, "kill", "--all")


def descriptors():
    return len(os.listdir(f"/proc/{broker_pid()}/fd"))


def resident():
    with open(f"/proc/{broker_pid()}/status", encoding="ascii") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read())[1])


def unit_of(run_id):
    return f"agentbox-{run_id}.service"


# --- names

def test_a_name_never_stands_for_another_users_run():
    user(USER, "agentbox")
    kill_all_at_end()
    target = detached(bus.Bus(), "sleep", "60")
    shadow = as_user(USER, lambda: detached(bus.Bus(), "sleep", "60", options={"name": ("s", target)}))
    shown = json.loads(expect(agentbox("show", target, "--json")).out)
    assert shown["run"] == target and shown["caller_uid"] == 0, shown
    expect(agentbox("kill", target))
    wait_for("the end of what was meant", lambda: target not in [r["run"] for r in runs()])
    assert shadow in [r["run"] for r in runs()], runs()
    # Nor when the one that is meant has long been forgotten.
    as_user(USER, lambda: detached(bus.Bus(), "sleep", "60", options={"name": ("s", "aaaaaaaaaa")}))
    assert agentbox("show", "aaaaaaaaaa").status != 0
    expect(agentbox("kill", "--all"))
    wait_for("an empty list", lambda: not runs())


def test_each_user_has_names_of_their_own():
    user(USER, "agentbox")
    user(OTHER, "agentbox")
    kill_all_at_end()

    def named():
        return detached(bus.Bus(), "sleep", "60", options={"name": ("s", "build")})

    first, second = as_user(USER, named), as_user(OTHER, named)
    assert json.loads(expect(agentbox("show", "build", "--json", as_user=OTHER)).out)["run"] == second
    expect(agentbox("kill", "build", as_user=USER))
    wait_for("one of them to end", lambda: [r["run"] for r in runs()] == [second])
    error, text = as_user(OTHER, lambda: refused_run(bus.Bus(), options={"name": ("s", "build")}))
    assert error == "InvalidRequest" and "build" in text, (error, text)
    done = agentbox("kill", "build", as_user=USER)
    assert done.status != 0 and second not in done.err, done
    assert json.loads(expect(agentbox("show", "build", "--json")).out)["run"] == second and first
    expect(agentbox("kill", "--all"))


def test_names_cannot_be_options_or_paths():
    connection = bus.Bus()
    for name in ("--all", "-rf", "_x", "", "a b", "a/b", "..", "x" * 33, "a\n", "a\x1b[31m", "ä"):
        error, text = refused_run(connection, options={"name": ("s", name)})
        assert error == "InvalidRequest" and "\x1b" not in text, (name, error, text)


# --- what calls cost

def test_waiting_holds_no_descriptor_and_ends_with_its_client():
    user(USER, "agentbox")
    kill_all_at_end()

    def wait_often():
        connection = bus.Bus()
        ids = [detached(connection, "sleep", "60") for _ in range(3)]
        null = [os.open("/dev/null", os.O_RDONLY)] * 16
        for i in ids:
            for flags in [0] * 30 + [bus.NO_REPLY] * 40:
                connection.send("org.agentbox1", "/org/agentbox1", bus.MANAGER, "WaitRun", "s", (i,), fds=null, flags=flags)
                time.sleep(0.005)
        connection.manager("ListRuns")
        return ids

    expect(run("/bin/true"))
    before = descriptors()
    ids = as_user(USER, wait_often)
    assert descriptors() < before + 60, (before, descriptors())
    # Those who waited have gone: their places are free.
    for _ in range(3):
        as_user(USER, lambda: [bus.Bus().send("org.agentbox1", "/org/agentbox1", bus.MANAGER, "WaitRun", "s", (ids[0],))
                               for _ in range(30)] and None)
    waiter = subprocess.Popen([box.AGENTBOX, "wait", ids[0]], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(0.5)
    assert waiter.poll() is None, waiter.communicate()
    expect(agentbox("kill", "--all"))
    waiter.communicate(timeout=30)


def test_a_run_that_has_its_client_cannot_be_claimed():
    """Only after a restart of the bus is a run without its client, and then its own user's: nobody takes one over otherwise."""
    box.user(USER, "agentbox")
    box.user(OUTSIDER)
    client = start("/bin/sh", "-c", "echo ready; read x; exit 5", options=["--timeout", "60s"], stdin=-1)
    assert client.stdout.readline() == b"ready\n"
    found = newest_run(lambda r: r.get("state") == "running")["run"]
    for user in (None, USER, OUTSIDER):
        name = refusal(bus.Bus(), "ClaimRun", "s", found)[0] if not user else as_user(user, lambda: refusal(bus.Bus(), "ClaimRun", "s", found)[0])
        assert name in ("NotAuthorized", "NoSuchRun"), (user, name)
    assert client.communicate(b"\n", timeout=60)[0] == b"" and client.returncode == 5


def test_flood_of_calls_stops_nobody():
    """Somebody who may not even run anything calls without pause, and reads no answer."""
    user(OUTSIDER)
    user(USER, "agentbox")
    expect(run("/bin/true"))
    children = []
    for flags in (bus.NO_REPLY, bus.NO_REPLY, 0):
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                signal.alarm(15)
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                account = pwd.getpwnam(OUTSIDER)
                os.setgid(account.pw_gid)
                os.setuid(account.pw_uid)
                connection = bus.Bus()
                while True:
                    connection.send("org.agentbox1", "/org/agentbox1", bus.MANAGER, "ListPolicies", flags=flags)
            os._exit(0)
        children.append(child)
    time.sleep(0.5)
    done = [run("/bin/echo", "through", as_user=USER, timeout=50) for _ in range(3)]
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    for d in done:
        expect(d, out="through")
    assert resident() < 400 * 1024, resident()


def test_runs_cost_the_broker_nothing_that_stays():
    for _ in range(5):
        expect(run("/bin/true"))
    before, pid = descriptors(), broker_pid()
    for i in range(40):
        expect(run("/bin/sh", "-c", f"exit {i % 3}"), i % 3)
        agentbox("run", "-p", "no-such-policy", "--", "true")
    assert broker_pid() == pid and descriptors() <= before + 1, (before, descriptors())


def test_clients_killed_at_random_leave_nothing():
    clients = []
    for i in range(24):
        clients.append(start("/bin/sh", "-c", "sleep 30"))
        time.sleep(0.013 * (i % 8))
        if i % 2:
            clients[i // 2].kill()
    for c in clients:
        c.kill()
        c.communicate()
    assert not leftovers(20), leftovers(0)
    assert not runs()


def test_stopped_client_disturbs_nobody():
    client = start("/bin/sh", "-c", "head -c 2000000 /dev/zero; exit 9", stdout=subprocess.PIPE)
    time.sleep(0.3)
    client.send_signal(signal.SIGSTOP)
    expect(run("/bin/echo", "ok"), out="ok")
    expect(agentbox("ps"))
    client.send_signal(signal.SIGCONT)
    out, _ = client.communicate(timeout=60)
    assert (len(out), client.returncode) == (2000000, 9)


# --- what calls say

def test_malformed_requests_are_refused_and_survived():
    expect(run("/bin/true"))
    pid = broker_pid()
    connection = bus.Bus()
    for values in (("Run", "s", "x"), ("GetRun", "u", 3), ("GetRun", ""), ("KillRun", "s", "x"), ("WaitRun", "as", ["x"]),
                   ("PrepareRun", "v", ("s", "x")), ("ListRuns", "s", "x"), ("Doctor", "b", True)):
        refusal(connection, *values)
    for options in ({"detach": ("s", "yes")}, {"tty": ("u", 1)}, {"cwd": ("v", ("s", "/"))}, {"name": ("as", ["a"])},
                    {"bogus": ("b", True)}, {"unit": ("s", "mount")}, {"term": ("s", "x;y")}, {"cwd": ("s", "")},
                    {"cwd": ("s", "x" * 5000)}):
        assert refused_run(connection, options=options)[0] == "InvalidRequest", options
    often = bus.run_values(n_fds=0)
    error, text = refusal(connection, "Run", bus.RUN, *often[:4], _Repeated("detach", ("b", True), 10000), [])
    assert error == "InvalidRequest" and "option" in text, (error, text)
    for argv in ([], [b"a\0b"], [b"x"] * 65537, [b"x" * (7 << 20)]):
        values = bus.run_values(argv, options={"detach": ("b", True)}, n_fds=0)
        assert refusal(connection, "Run", bus.RUN, *values)[0] == "InvalidRequest", argv[:1]
    # A length that lies: the bus ends the connection, and nobody else notices.
    liar = bus.Bus()
    with contextlib.suppress(OSError, bus.BusError):
        liar.send("org.agentbox1", "/org/agentbox1", bus.MANAGER, "GetRun", "s", body=b"\xff\xff\xff\x7fx\0")
        liar.manager("ListRuns")
        raise AssertionError("a message with a false length was taken")
    expect(run("/bin/true"))
    assert broker_pid() == pid


class _Repeated:
    """A dictionary that has one key many times."""

    def __init__(self, key, value, n):
        self.pair, self.n = (key, value), n

    def __iter__(self):
        return iter([self.pair] * self.n)


def test_policy_names_stay_names():
    write_file("/etc/agentbox/escaped.policy", "[Network]\nEgress=open\n")
    connection = bus.Bus()
    for name in ("../escaped", "../../etc/passwd", "/etc/agentbox/escaped", ".", "..", "", "-", "default/", "default.policy",
                 "default.policy.d", "default\n", "default%s", "\u202edefault", "x" * 65, "x" * 100000):
        for error, text in (refused_run(connection, policy=name), refusal(connection, "PrepareRun", "s", name)):
            assert error in ("PolicyInvalid", "NoSuchPolicy") and len(text) < 1000, (name[:70], error, text[:100])


def test_nothing_is_loosened_by_saying_nothing():
    """An empty value is the default, which may be wider than the policy; saying it twice changes nothing."""
    policy("live-tight", "[Files]\nExpose=/usr/bin\nTmpSize=1M\n[Network]\nEgress=none\n[Limits]\nMemory=64M\nTasks=10\nRuntime=5s\n"
                         "CPUQuota=50%\nFileSize=1M\nOpenFiles=100\nIOWeight=10\n[Syscalls]\nProfile=strict\nDeny=ptrace\n")
    user(USER, "agentbox")
    asked = {"Files.TmpSize": "64K", "Network.Egress": "none", "Limits.Memory": "32M", "Limits.Tasks": "5", "Limits.Runtime": "2s",
             "Limits.CPUQuota": "20%", "Limits.FileSize": "64K", "Limits.OpenFiles": "50", "Limits.IOWeight": "5",
             "Syscalls.Profile": "strict", "Syscalls.Deny": "ptrace"}

    def ask():
        connection = bus.Bus()
        for key, smaller in asked.items():
            for tightenings in ([f"{key}="], [f"{key}={smaller}", f"{key}="], [f"{key}= "]):
                error, text = refused_run(connection, policy="live-tight", tightenings=tightenings)
                assert error == "NotTightening" and key in text, (tightenings, error, text)
        for wide in ("Limits.Memory=18446744073709551616", "Limits.Memory=-1", "Limits.Memory=0", "Limits.Runtime=1e9", "Limits.Tasks=infinity",
                     "Limits.Memory=64M\nTasks=1000", "limits.memory=64M", "Limits.Memory", "=", ".=", "Limits.=1", "Policy.Extends=build",
                     "Files.Workspace=/etc", "Files.Root=/", "Environment.Set=A=b", "Files.Expose=/usr/bin /usr/lib", "Access.Tighten=yes"):
            assert refused_run(connection, policy="live-tight", tightenings=[wide])[0] == "NotTightening", wide
        assert refused_run(connection, tightenings=["Limits.IOWeight=101"])[0] == "NotTightening"
        assert refused_run(connection, tightenings=["Limits.Tasks=9"] * 129)[0] == "InvalidRequest"

    as_user(USER, ask)


def test_environment_has_names_and_no_back_doors():
    connection = bus.Bus()
    for given in ("=x", "A", "1A=2", "A-B=c", "A\nB=c", "LD_PRELOAD=/tmp/x", "LD_AUDIT=x", "BASH_ENV=/x", "AGENTBOX_X=1", "N" * 200 + "=1"):
        error, text = refused_run(connection, env=[given])
        assert error == "InvalidRequest" and "\x1b" not in text, (given, error, text)
    done = run("/usr/bin/env", options=["-e", "PATH=/usr/bin", "-e", "A=b=c\n d"])
    assert b"A=b=c\n d\n" in done.stdout and done.stdout.count(b"PATH=") == 1, done


def test_descriptors_of_every_kind():
    """Only pipes and /dev/null may come in, each open for its direction."""
    user(USER, "agentbox")

    def offer():
        connection = bus.Bus()
        null_in, null_out = os.open("/dev/null", os.O_RDONLY), os.open("/dev/null", os.O_WRONLY)
        reader, writer = os.pipe()
        ours, theirs = socket.socketpair()
        odd = {"a directory": os.open("/tmp", os.O_RDONLY | os.O_DIRECTORY), "the root by O_PATH": os.open("/", os.O_PATH),
               "O_PATH of null": os.open("/dev/null", os.O_PATH), "a file": os.open("/etc/passwd", os.O_RDONLY),
               "a memfd": os.memfd_create("x"), "a socket": ours.fileno(), "zero": os.open("/dev/zero", os.O_RDWR),
               "an eventfd": os.eventfd(0), "a pidfd": os.pidfd_open(os.getpid()), "the bus": connection.sock.fileno(),
               "a pty's master": os.openpty()[0]}
        for what, fd in odd.items():
            for place in range(3):
                fds = [null_in, null_out, null_out]
                fds[place] = fd
                error, text = refusal(connection, "Run", bus.RUN, *bus.run_values(), fds=fds)
                assert error == "InvalidRequest", (what, place, error, text)
        for fds in ([writer, null_out, null_out], [null_in, reader, null_out], [null_in, null_out, null_in]):
            assert refusal(connection, "Run", bus.RUN, *bus.run_values(), fds=fds)[0] == "InvalidRequest"
        for fds in ([], [null_in], [null_in] * 2):
            refusal(connection, "Run", bus.RUN, *bus.run_values(n_fds=len(fds)), fds=fds)
        refusal(connection, "Run", bus.RUN, *bus.run_values(n_fds=16), fds=[null_in] * 16)
        theirs.close()

    expect(run("/bin/true"))
    before, pid = descriptors(), broker_pid()
    as_user(USER, offer)
    assert broker_pid() == pid and descriptors() <= before + 1, (before, descriptors())


@within(120)
def test_outsider_floods_the_broker():
    """His refusals do not fill the journal, are all counted, and others get on."""
    user(OUTSIDER)
    wanted, burst, each_second = 3000, 256, 20
    box.broker_restart()  # another account of the same number may have had its share already

    def flood():
        connection, names = bus.Bus(), {}
        for _ in range(wanted):
            try:
                connection.manager("Run", bus.RUN, *bus.run_values(options={"detach": ("b", True)}, n_fds=0))
            except bus.BusError as e:
                names[e.name] = names.get(e.name, 0) + 1
        return names
    uid = sh(["id", "-u", OUTSIDER]).strip()
    position, began = box.journal_position(), time.monotonic()
    names = as_user(OUTSIDER, flood)
    seconds = time.monotonic() - began
    assert sum(names.values()) == wanted and all("NotAuthorized" in n or "TooManyRuns" in n for n in names), names

    def refused():
        return box.journal_since(position, "AGENTBOX_EVENT=run-refused", f"AGENTBOX_CALLER_UID={uid}", f"_SYSTEMD_UNIT={box.BROKER_UNIT}")
    wait_for("all of them on record", lambda: sum(int(r.get("AGENTBOX_COUNT", 1)) for r in refused()) == wanted)
    alone = [r for r in refused() if r.get("AGENTBOX_RUN_ID")]
    assert burst <= len(alone) <= burst + each_second * (seconds + 2) + 1 and len(alone) < wanted, (len(alone), seconds)
    expect(run("/bin/true"))


@within(120)
def test_outsider_asks_without_end():
    """What policies pass on, and which there are, is read from files: a user may ask so often, and nobody else waits for him."""
    user(OUTSIDER)
    wanted, burst, each_second = 1500, 256, 20
    box.broker_restart()

    def flood():
        connection, names = bus.Bus(), {}
        for i in range(wanted):
            try:
                connection.manager(*(("PrepareRun", "s", "default") if i % 2 else ("ListPolicies",)))
                names[""] = names.get("", 0) + 1
            except bus.BusError as e:
                names[e.name] = names.get(e.name, 0) + 1
        return names
    began = time.monotonic()
    names = as_user(OUTSIDER, flood)
    seconds = time.monotonic() - began
    assert set(names) == {"", "org.agentbox1.Error.TooManyRequests"} and sum(names.values()) == wanted, names
    assert burst <= names[""] <= burst + each_second * (seconds + 1) + 1, (names, seconds)
    for i in range(burst + 20):
        bus.Bus().manager("ListPolicies")
    time.sleep(2)
    assert as_user(OUTSIDER, lambda: bool(bus.Bus().manager("PrepareRun", "s", "default")))


def test_bus_grants_the_interface_and_nothing_else():
    user(OUTSIDER)

    def try_all():
        connection = bus.Bus()
        for path, interface, member, sig, values in (
                ("/org/agentbox1", PROPERTIES, "Set", "ssv", (bus.MANAGER, "X", ("s", "y"))),
                ("/org/agentbox1", bus.MANAGER, "Reload", "", ()), ("/", bus.MANAGER, "ListRuns", "", ()),
                ("/org/agentbox1/run/aaaaaaaaaa", bus.MANAGER, "KillRun", "sis", ("aaaaaaaaaa", 9, "")),
                ("/org/agentbox1", None, "ListRuns", "", ()),
                ("/org/agentbox1", "org.freedesktop.DBus.ObjectManager", "GetManagedObjects", "", ())):
            try:
                connection.call("org.agentbox1", path, interface, member, sig, *values)
            except bus.BusError as e:
                assert e.name.endswith(("AccessDenied", "UnknownMethod", "UnknownObject")), (member, e)
            else:
                raise AssertionError(f"{path} {interface}.{member} was granted")
        try:
            connection.call("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "RequestName", "su",
                            "org.agentbox1", 4)
        except bus.BusError as e:
            assert e.name.endswith("AccessDenied"), e
        else:
            raise AssertionError("the broker's name was given away")

    expect(run("/bin/true"))
    as_user(OUTSIDER, try_all)


# --- what others can see

def test_others_see_no_directory_no_words_no_facts():
    user(OUTSIDER)
    kill_all_at_end()
    secret = "secret-" + os.urandom(6).hex()
    found = detached(bus.Bus(), "/bin/sh", "-c", f"sleep 50 # {secret}", env=[f"TOKEN={secret}"])
    directory = RUNTIME / found
    assert directory.stat().st_mode & 0o077 == 0 and directory.stat().st_uid == 0, directory.stat()
    assert RUNTIME.stat().st_mode & 0o022 == 0

    def look():
        for path in (directory, directory / "root" / "etc" / "passwd", directory / "state"):
            try:
                path.open("rb").close()
                return f"{path} can be opened"
            except (PermissionError, IsADirectoryError):
                pass
        for path in (RUNTIME / "x", RUNTIME / "policy.d" / "x.policy"):
            try:
                path.write_text("x", encoding="ascii")
                return f"{path} can be written"
            except PermissionError:
                pass
        connection = bus.Bus()
        assert connection.manager("ListRuns") == [[]]
        assert refusal(connection, "GetRun", "s", found)[0] == "NotAuthorized"
        assert refusal(connection, "KillRun", "sis", found, 0, "")[0] == "NotAuthorized"
        assert refusal(connection, "WaitRun", "s", found)[0] == "NotAuthorized"
        try:
            connection.call("org.agentbox1", f"/org/agentbox1/run/{found}", PROPERTIES, "GetAll", "s", "org.agentbox1.Run")
            return "its object answers"
        except bus.BusError:
            pass
        tree = connection.call("org.agentbox1", "/org/agentbox1/run", "org.freedesktop.DBus.Introspectable", "Introspect")[0]
        return "it is listed" if found in tree else None

    wrong = as_user(OUTSIDER, look)
    assert wrong is None, wrong
    shown = sh(["setpriv", f"--reuid={OUTSIDER}", f"--regid={OUTSIDER}", "--init-groups", "systemctl", "show", unit_of(found)])
    assert "DynamicUser=yes" in shown and secret not in shown
    expect(agentbox("kill", found))


def test_records_of_look_alikes_are_not_believed():
    run_id = "zzzzzzzzz1"
    write_file("/tmp/live-forged", f"MESSAGE=forged\nMESSAGE_ID=a11607790ecd46dc91cbca500972655a\nAGENTBOX_EVENT=run-ended\n"
                                   f"AGENTBOX_RUN_ID={run_id}\nAGENTBOX_REASON=exited\n_SYSTEMD_UNIT=agentboxd.service\n_UID=0\n")
    for unit in ("agentboxd-x.service", f"agentbox-{run_id}.service", "agentboxd.service.service", "agentbox-warden-x.service"):
        sh(["systemd-run", "--quiet", "--wait", "--collect", f"--unit={unit}", "logger", "--journald=/tmp/live-forged"])
    sh(["logger", "--journald=/tmp/live-forged"])
    wait_for("the forged records", lambda: len(box.journal(f"AGENTBOX_RUN_ID={run_id}")) >= 5)
    assert agentbox("log", run_id).out == "" and agentbox("why", run_id).status != 0
    assert run_id not in agentbox("log").out and run_id not in agentbox("log", "--json").out


def test_words_of_callers_reach_terminals_and_records_as_text():
    nasty = b"\x1b]0;title\x07\x1b[31mred\r\nAGENTBOX_EVENT=run-ended\nMESSAGE=forged\xff\xe2\x80\xae"
    policy("live-words", "[Audit]\nArguments=all\n")
    found = detached(bus.Bus(), "/bin/true", nasty, policy="live-words")
    box.wait_events(found, "run-ended")
    for record in box.records(found):
        assert isinstance(record["MESSAGE"], str) and "\x1b" not in record["MESSAGE"], record
        assert isinstance(record["AGENTBOX_EVENT"], str) and record.get("MESSAGE") != "forged", record
    for args in (["log", found], ["log", found, "--json"], ["show", found], ["why", found]):
        out = agentbox(*args).stdout
        assert not re.search(rb"[\x00-\x08\x0b-\x1f\x7f]|\xe2\x80\xae", out), (args, out)
        if "--json" in args:
            assert [json.loads(line)["AGENTBOX_RUN_ID"] for line in out.splitlines()], out


# --- the host around it

def test_units_of_the_administrator_are_left_alone():
    """Ten letters, as a run's id has them."""
    write_file("/etc/systemd/system/agentbox-monitoring.service", "[Service]\nExecStart=/bin/sleep 1000\n")
    at_end(sh, "systemctl stop agentbox-monitoring.service; systemctl daemon-reload")
    sh("systemctl daemon-reload; systemctl start agentbox-monitoring.service")
    broker_restart()
    expect(run("/bin/true"))
    assert sh("systemctl is-active agentbox-monitoring.service").strip() == "active"
    assert "nothing is left over" in agentbox("doctor").out
    sh("systemctl stop agentbox-monitoring.service")


@within(180)
def test_client_gone_while_pid_1_executes_itself_anew():
    for pause in (0.0, 0.05, 0.1, 0.15, 0.25, 0.4):
        client = start("/bin/sh", "-c", "echo ready; sleep 100")
        assert client.stdout.readline() == b"ready\n"
        reexec = threading.Thread(target=sh, args=(["systemctl", "daemon-reexec"], False))
        reexec.start()
        time.sleep(pause)
        client.kill()
        client.communicate()
        reexec.join()
        assert not leftovers(15), (pause, leftovers(0))
    expect(run("/bin/true"))


@within(180)
def test_runs_begin_while_pid_1_reloads():
    """A run starts, or is refused in words: 252 forgets an empty RestrictNamespaces= where it reads a unit again."""
    stop = threading.Event()

    def again(verb):
        while not stop.is_set():
            sh(["systemctl", verb], check=False)
            stop.wait(0.5 * box.SLOWNESS)

    for verb in ("daemon-reload", "daemon-reexec"):
        stop.clear()
        thread = threading.Thread(target=again, args=(verb,))
        thread.start()
        try:
            done = [run("/bin/sh", "-c", "exit 5") for _ in range(15)]
        finally:
            stop.set()
            thread.join()
        for d in done:
            allowed = "RestrictNamespaces is now" + ("|PID 1 restarted|PID 1 does not tell|nobody saw" if verb == "daemon-reexec" else "")
            assert d.status == 5 or (d.status == 125 and re.search(allowed, d.err)), (verb, d)
        assert any(d.status == 5 for d in done), (verb, done)
    assert not leftovers(15 * box.SLOWNESS), leftovers(0)


def cgroup_of(pid):
    """Where the process is, in each hierarchy that limits it, and what the limits are."""
    found = {}
    for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii").splitlines():
        controllers, path = line.split(":")[1:]
        for place in [CGROUPS / c for c in controllers.split(",") if c] or [CGROUPS]:
            for name in LIMIT_FILES:
                file = place / path.lstrip("/") / name
                if file.exists():
                    found[str(file)] = file.read_text(encoding="ascii")
        found[controllers] = path
    return found


@within(120)
def test_limits_survive_a_reload():
    """Whatever is installed on a host makes PID 1 read the units' files again; nothing may come loose by that."""
    kept = "DynamicUser,MemoryMax,MemorySwapMax,TasksMax,CPUQuotaPerSecUSec,RuntimeMaxUSec,DevicePolicy,DeviceAllow,IPAddressDeny," \
           "IPEgressFilterPath,LoadState"
    limit = int(5 + 3 * box.SLOWNESS)
    client = start("/bin/sh", "-c", "echo ready; sleep 100", options=["--timeout", f"{limit}s"])
    assert client.stdout.readline() == b"ready\n"
    facts = newest_run()
    unit, started = unit_of(facts["run"]), time.monotonic()
    shown, place = sh(["systemctl", "show", "-p", kept, unit]), cgroup_of(facts["command_pid"])
    assert "LoadState=loaded" in shown and "MemoryMax=268435456" in shown, shown
    assert any(unit in path for path in place.values()) and len(place) > 4, place
    for verb in ("daemon-reload", "daemon-reload", "daemon-reexec"):
        sh(["systemctl", verb], check=False)
        assert sh(["systemctl", "show", "-p", kept, unit]) == shown, verb
        assert cgroup_of(facts["command_pid"]) == place, verb
    _, err = client.communicate(timeout=60 * box.SLOWNESS)
    assert client.returncode == 124 and f"time limit {limit}s".encode() in err, (client.returncode, err)
    assert time.monotonic() - started < limit + 4 * box.SLOWNESS


def test_no_room_beneath_run():
    """Nothing starts where its state cannot be written, and nothing is left of the attempt."""
    broker_stop()
    at_end(sh, "systemctl stop agentboxd.service; umount -l /run/agentbox")
    sh(f"mount -t tmpfs -o size=64k,nr_inodes=14,mode=755 none {RUNTIME}")
    for _ in range(3):
        expect(run("/bin/true"), 125, err="No space left")
        wait_for("the attempt to be gone", lambda: os.listdir(RUNTIME) in ([], ["policy.d"]))
    sh("systemctl stop agentboxd.service; umount -l /run/agentbox")
    expect(run("/bin/true"))


def test_result_goes_where_the_name_is_not_where_it_leads():
    directory = pathlib.Path(sh(["mktemp", "-d"]).strip())
    at_end(sh, ["rm", "-r", str(directory)])
    target, link, pipe = directory / "target", directory / "link", directory / "pipe"
    target.write_text("precious\n", encoding="ascii")
    link.symlink_to("target")
    expect(agentbox("run", "--result", str(link), "--", "true"))
    assert target.read_text(encoding="ascii") == "precious\n"
    assert not link.is_symlink() and json.loads(link.read_text(encoding="ascii"))["reason"] == "exited"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)
    expect(agentbox("run", "--result", str(pipe), "--", "true"))
    assert json.loads(reader.communicate(timeout=30)[0])["exit_code"] == 0
    for odd in (directory, directory / "none" / "x"):
        expect(agentbox("run", "--result", str(odd), "--", "true"), 125, err="--result")
    assert sorted(p.name for p in directory.iterdir()) == ["link", "pipe", "target"]


def test_stopping_what_is_not_ones_own():
    """root may stop units behind the broker's back: the run ends, on record, and nothing is left."""
    for command in ("systemctl stop {unit}", "systemctl kill -s KILL {unit}", "systemctl stop agentbox.slice"):
        client = start("/bin/sh", "-c", "echo ready; sleep 100")
        assert client.stdout.readline() == b"ready\n"
        found = newest_run()["run"]
        sh(command.format(unit=unit_of(found)), check=False)
        client.communicate(timeout=60)
        assert client.returncode in (128 + signal.SIGTERM, 128 + signal.SIGKILL), (command, client.returncode)
        box.wait_events(found, "run-ended")
        assert not leftovers(15), (command, leftovers(0))
    expect(run("/bin/true"))
