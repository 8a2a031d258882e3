# SPDX-License-Identifier: LGPL-2.1-or-later
"""Records that are none: every path that could carry one to the journal is tried from inside, and every text that ends up in a true
record is made to look like fields. Nothing of it may be shown by "agentbox log" or by the queries that the manual names."""
import contextlib
import json
import os
import re
import socket
import threading

from box import (BROKER_UNIT, OUTSIDER, USER, Skip, agentbox, at_end, expect, journal, policy, records, run, run_python, run_sh, sh, start, user,
                 wait_events, write_file)

MARK = "forged-91c4"       # in every forgery's MESSAGE
FIELD = "AGENTBOX_FORGED"  # a field that nobody writes
RUN = "forged7777"
OUTSIDE = "forged8888"     # the run of those that somebody outside writes, who can reach the journal
LINES = (f"MESSAGE={MARK}", "MESSAGE_ID=a11607790ecd46dc91cbca500972655a", "AGENTBOX_EVENT=run-ended", f"AGENTBOX_RUN_ID={RUN}",
         f"{FIELD}=1", "PRIORITY=2", "_UID=0", f"_SYSTEMD_UNIT={BROKER_UNIT}", "_TRANSPORT=journal", "SYSLOG_IDENTIFIER=agentboxd")
RECORD = "\n".join(LINES) + "\n"
RECORD_OF_OUTSIDE = "\n".join(l for l in LINES if not l.startswith(("_", FIELD))).replace(RUN, OUTSIDE) + "\n"
OPEN = "[Network]\nEgress=open\n[Limits]\nRuntime=50s\n"

# Says SENT for each path that took anything.
ATTACK = r"""
import ctypes, os, socket, struct, sys
record = sys.argv[1].encode()
names = sys.argv[2:]
libc = ctypes.CDLL(None, use_errno=True)
def attempt(what, f):
    try:
        f()
        print('SENT', what)
    except (OSError, PermissionError) as e:
        print('no', what, e.errno)
def unix(path, kind, data):
    def f():
        s = socket.socket(socket.AF_UNIX, kind)
        s.settimeout(2)
        s.connect(path)
        s.sendall(data)
    return f
def passed(path):
    def f():
        fd = os.memfd_create('x', os.MFD_ALLOW_SEALING)
        os.write(fd, record)
        s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        s.connect(path)
        socket.send_fds(s, [b''], [fd])
    return f
journals = ['/run/systemd/journal/', '/run/systemd/journal.agentbox/']
paths = [j + n for j in journals for n in ('socket', 'stdout', 'dev-log', 'syslog', 'io.systemd.journal', 'relay')]
paths += ['/dev/log', '/var/run/log', '/run/log', '/run/systemd/notify', '/run/systemd/private', '/run/dbus/system_bus_socket',
          '/var/run/dbus/system_bus_socket', '/run/systemd/io.systemd.ManagedOOM', '/run/agentbox/output', '/run/agentbox-output',
          '/proc/1/root/run/systemd/journal/socket', '/usr/../run/systemd/journal/socket']
for path in paths + ['\0' + n for n in names]:
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        attempt(repr(path), unix(path, kind, record))
    attempt('fd ' + repr(path), passed(path))
for path in ('/dev/kmsg', '/proc/kmsg', '/dev/console', '/dev/tty0', '/dev/ttyS0', '/dev/pmsg0', '/sys/kernel/debug/tracing/trace_marker',
             '/sys/kernel/tracing/trace_marker', '/proc/sys/kernel/core_pattern', '/proc/sysrq-trigger', '/run/log/journal/x', '/var/log/x'):
    attempt(path, lambda: os.close(os.open(path, os.O_WRONLY | os.O_CREAT)))
def syslog():
    if libc.syslog is None: raise OSError(38, 'x')
    if libc.klogctl(8, None, 1) < 0: raise OSError(ctypes.get_errno(), 'x')
attempt('klogctl', syslog)
libc.openlog(b'agentboxd', 0, 0); libc.syslog(2, b'%s', record)
for number, name in ((9, 'audit'), (15, 'uevent')):
    def netlink():
        s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, number)
        s.send(struct.pack('=IHHII', 16 + len(record), 1107, 5, 1, 0) + record)
        struct.unpack('=i', s.recv(4096)[16:20])[0] and (_ for _ in ()).throw(OSError(1, 'x'))
    attempt(name, netlink)
sys.stdout.write(record.decode()); sys.stderr.write('<0>' + record.decode()); sys.stdout.write('\0' + record.decode())
sys.stdout.flush()
"""
PORTS = r"""
import socket, sys
record = sys.argv[1].encode()
for host in sys.argv[2:]:
    family = socket.AF_INET6 if ':' in host else socket.AF_INET
    for port in (514, 601, 6514, 19531, 19532):
        for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
            try:
                s = socket.socket(family, kind)
                s.settimeout(1)
                s.connect((host, port))
                s.send(b'<10>1 - - agentboxd - - - ' + record)
                print('SENT', host, port, kind)
            except OSError as e:
                print('no', e.errno)
"""


def queries(run_id=RUN):
    """What people are told to look with."""
    broker = [f"_SYSTEMD_UNIT={BROKER_UNIT}", "_UID=0"]
    warden = f"_SYSTEMD_UNIT=agentbox-warden-{run_id}.service"
    return (journal(*broker, f"AGENTBOX_RUN_ID={run_id}") + journal(*broker, f"{FIELD}=1") + journal(warden) +
            journal(*broker, "AGENTBOX_EVENT=tripwire", f"AGENTBOX_RUN_ID={run_id}"))


def nothing_was_forged(run_id=RUN):
    """Wherever else it may stand (a command that was recorded, say), none of it is shown as a record."""
    sh(["journalctl", "--sync"], check=False)
    assert queries(run_id) == [], queries(run_id)
    for args in (("log",), ("log", "--denied")):
        assert not re.search(rf"^\S+  {run_id}", expect(agentbox(*args)).out, re.M), args
    for line in expect(agentbox("log", "--json")).out.splitlines():
        r = json.loads(line)
        assert r.get("AGENTBOX_RUN_ID") != run_id and FIELD not in r, r
    assert agentbox("log", run_id).status != 0
    assert agentbox("why", run_id).status != 0


def nothing_arrived():
    """No word of it is in the journal at all, of any unit."""
    nothing_was_forged()
    assert journal(f"{FIELD}=1") == [] and journal(f"AGENTBOX_RUN_ID={RUN}") == []
    found = [r for r in journal() if FIELD in str(r.get("MESSAGE", "")) and r.get("_SYSTEMD_UNIT") != BROKER_UNIT]
    assert found == [], found


def abstract_sockets():
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as f:
        names = [line.split(maxsplit=7)[-1].strip() for line in f]
    return [n[1:] for n in names if n.startswith("@") and " " not in n]


def addresses():
    return re.findall(r"inet6? ([0-9a-f.:]+)/", sh(["ip", "address", "show"], check=False)) or ["127.0.0.1", "::1"]


class Listeners:
    """Of this host, where a syslog daemon would be: what they are told."""

    def __init__(self):
        self.heard, self.sockets = [], []
        for port in (514, 601):
            for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
                s = socket.socket(socket.AF_INET, kind)
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                s.bind(("0.0.0.0", port))
                if kind == socket.SOCK_STREAM:
                    s.listen()
                self.sockets.append(s)
                threading.Thread(target=self.serve, args=(s, kind), daemon=True).start()
        at_end(self.close)

    def serve(self, s, kind):
        with contextlib.suppress(OSError):
            while True:
                if kind == socket.SOCK_STREAM:
                    peer, _ = s.accept()
                    with peer:
                        self.heard.append(peer.recv(65536))
                else:
                    self.heard.append(s.recv(65536))

    def close(self):
        for s in self.sockets:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
            s.close()


# --- the ways to the journal

def test_every_path_under_every_network():
    policy("live-forge", "[Network]\nEgress=none\n[Limits]\nRuntime=50s\n")
    policy("live-forge-open", OPEN)
    policy("live-forge-jit", "[Syscalls]\nProfile=jit\n[Limits]\nMemory=1G\n")
    for name in ("default", "live-forge", "live-forge-open", "live-forge-jit", "strict"):
        done = expect(run_python(ATTACK, RECORD, *abstract_sockets()[:40], policy=name))
        assert "SENT" not in done.out and "no '/dev/log'" in done.out, (name, done)
        assert RECORD in done.out and f"<0>{LINES[0]}" in done.err, done
        wait_events(done.run, "run-ended")
    nothing_arrived()


def test_syslog_ports_are_not_reached():
    listeners = Listeners()
    policy("live-forge", "[Network]\nEgress=none\n[Limits]\nRuntime=50s\n")
    for name in ("default", "live-forge"):
        expect(run_python(PORTS, RECORD, *addresses(), policy=name))
    assert listeners.heard == [], listeners.heard
    nothing_arrived()


def test_what_a_syslog_daemon_passes_on_is_not_shown():
    """Under Egress=open the host's own daemons can be reached; their word is theirs."""
    listeners = Listeners()
    policy("live-forge-open", OPEN)
    expect(run_python(PORTS, RECORD, "127.0.0.1", policy="live-forge-open"), out="SENT")
    assert listeners.heard and all(MARK.encode() in h for h in listeners.heard), listeners.heard
    sh(["logger", "--journald"], input=RECORD_OF_OUTSIDE)
    sh(["journalctl", "--sync"], check=False)
    assert journal(f"AGENTBOX_RUN_ID={OUTSIDE}") != []
    nothing_was_forged(OUTSIDE)


def test_from_a_scope():
    """It shares the host's file tree, but it may connect to no socket."""
    user(USER, "agentbox")
    policy("live-forge-scope", "[Files]\nRoot=/\n" + OPEN)
    done = run_python(ATTACK, RECORD, policy="live-forge-scope", options=["--unit=scope"], as_user=USER)
    if done.status == 125 and ("systemd" in done.err or "Landlock" in done.err):
        raise Skip("this host has no scopes to run in: " + done.err.strip())
    expect(done)
    assert "SENT" not in done.out, done
    nothing_arrived()


def test_a_unit_that_is_called_like_the_broker():
    """Of a user who may make groups beneath a unit of their own: journald names the unit by the first of the path."""
    user(OUTSIDER)
    write_file("/tmp/live-forge-record", RECORD_OF_OUTSIDE)
    os.chmod("/tmp/live-forge-record", 0o644)
    # In its own group, and in one below with the broker's name.
    script = f"""
g=$(sed -n 's/^0:://p; s/^.*:name=systemd://p' /proc/self/cgroup | tail -1)
for r in /sys/fs/cgroup/systemd /sys/fs/cgroup/unified /sys/fs/cgroup; do
    if mkdir "$r$g/{BROKER_UNIT}" 2>/dev/null; then echo $$ >"$r$g/{BROKER_UNIT}/cgroup.procs"; fi
done
logger --journald=/tmp/live-forge-record
"""
    before = len(journal(f"AGENTBOX_RUN_ID={OUTSIDE}"))
    for unit in ("agentboxd", "agentboxd.service.service", f"agentbox-warden-{OUTSIDE}", "agentboxd@1"):
        sh(["systemd-run", "--quiet", "--wait", "--collect", f"--unit=live-{unit}", "-p", f"User={OUTSIDER}", "-p", "Delegate=yes",
            "sh", "-c", script], check=False)
    sh(["journalctl", "--sync"], check=False)
    assert len(journal(f"AGENTBOX_RUN_ID={OUTSIDE}")) == before + 4
    nothing_was_forged(OUTSIDE)


# --- the texts of true records

def fields_are_own(run_id):
    """No text of the run's became a field of its own, and none is more than one line."""
    wait_events(run_id, "run-ended")
    rows = journal(f"AGENTBOX_RUN_ID={run_id}")
    assert rows, run_id
    for r in rows:
        assert FIELD not in r and r["AGENTBOX_RUN_ID"] == run_id and r["AGENTBOX_EVENT"] != "forged", r
        assert isinstance(r["MESSAGE"], str) and "\n" not in r["MESSAGE"], r
        assert r["_UID"] == "0" or r["_SYSTEMD_UNIT"].startswith("agentbox-warden-"), r
    out = expect(agentbox("log", run_id)).out + expect(agentbox("why", run_id)).out
    assert not [l for l in out.splitlines() if l.startswith((FIELD, "AGENTBOX_", "MESSAGE="))], out
    assert journal(f"{FIELD}=1") == []
    return rows


def test_in_the_command_line():
    policy("live-forge-args", "[Network]\nEgress=none\n[Audit]\nArguments=all\n")
    done = expect(run("/bin/true", RECORD, f"\n{FIELD}=1\n", f"a\n{FIELD}=1", policy="live-forge-args"))
    assert len(fields_are_own(done.run)) == 4
    done = run(f"/nonexistent\n{FIELD}=1", policy="live-forge-args")
    assert done.status == 127
    fields_are_own(done.run)


def test_in_what_a_caller_names():
    user(USER, "agentbox")
    before = len(journal("AGENTBOX_EVENT=run-refused"))
    for options in (["-p", f"x\n{FIELD}=1"], ["--set", f"Limits.Memory=1\n{FIELD}=1"], ["--name", f"x\n{FIELD}=1"]):
        done = agentbox("run", *options, "--", "/bin/true", as_user=USER)
        assert done.status == 125, done
    assert len(journal("AGENTBOX_EVENT=run-refused")) >= before
    for r in journal("AGENTBOX_EVENT=run-refused")[before:]:
        assert FIELD not in r and "\n" not in str(r["MESSAGE"]), r
    assert journal(f"{FIELD}=1") == []


def test_in_the_name_of_a_process():
    policy("live-forge-name", "[Network]\nEgress=filtered\n[Audit]\nDecoys=yes\n")
    program = rf"""
import ctypes, os, socket
libc = ctypes.CDLL(None)
libc.prctl(15, b'x\n{FIELD}=1', 0, 0, 0)
open(os.path.expanduser('~/.env')).close()
for address in ('169.254.169.254', '192.0.2.77'):
    try: socket.create_connection((address, 80), 2)
    except OSError: pass
libc.ptrace(0, 0, 0, 0); libc.unshare(0x10000000)
"""
    rows = fields_are_own(expect(run_python(program, policy="live-forge-name")).run)
    assert {"tripwire", "egress-denied"} <= {r["AGENTBOX_EVENT"] for r in rows}, rows


def test_in_names_that_are_looked_up():
    program = rf"""
import socket, struct
def ask(labels):
    name = b''.join(bytes([len(l)]) + l for l in labels) + b'\0'
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(2)
    s.sendto(struct.pack('>6H', 7, 256, 1, 0, 0, 0) + name + struct.pack('>2H', 1, 1), ('192.0.2.1', 53))
    try: s.recv(512)
    except OSError: pass
ask([b'a\n{FIELD}=1', b'example'])
ask([b'\n', b'{FIELD}=1\n'])
ask([b'x\0\n{FIELD}=1', b'\x1b[2J'])
ask([b'{FIELD}=1'])
"""
    rows = fields_are_own(expect(run_python(program)).run)
    assert sum(int(r.get("AGENTBOX_COUNT", 1)) for r in rows if r["AGENTBOX_EVENT"] == "egress-denied") == 4, rows


def test_in_names_of_files_that_come_out():
    directory = "/tmp/live-forge-out"
    sh(["rm", "-rf", directory])
    at_end(sh, ["rm", "-rf", directory])
    os.mkdir(directory)
    program = rf"""
import os
open('x\n{FIELD}=1\nMESSAGE={MARK}', 'w').write('x')
os.symlink('/etc/\n{FIELD}=1', 'l\n{FIELD}=1')
os.mkfifo('f\n{FIELD}=1')
"""
    done = run_python(program, options=["--out", f".:{directory}/o"])
    rows = fields_are_own(done.run)
    assert any(r["AGENTBOX_EVENT"].startswith("copy-") for r in rows), rows


def test_in_files_that_go_in():
    directory = "/tmp/live-forge-in"
    sh(["rm", "-rf", directory])
    at_end(sh, ["rm", "-rf", directory])
    os.mkdir(directory)
    with open(f"{directory}/x\n{FIELD}=1", "w", encoding="utf-8") as f:
        f.write("x")
    fields_are_own(expect(run_sh("ls", options=["--in", directory])).run)


def test_printed_by_a_detached_run():
    """Its output is kept in a journal of its own, as text; what is shown as records stays what the broker wrote."""
    run_id = expect(agentbox("run", "--detach", "-p", "offline", "--", "/bin/sh", "-c", 'printf "%s\\n" "$0"; printf "%s\\n" "$0" >&2', RECORD)).out.strip()
    fields_are_own(run_id)
    assert [r["AGENTBOX_EVENT"] for r in records(run_id)] == ["run-requested", "run-verified", "run-started", "run-ended"]
    assert journal("--namespace=agentbox", f"{FIELD}=1") == []
    nothing_was_forged()
