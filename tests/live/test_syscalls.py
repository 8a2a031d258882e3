# SPDX-License-Identifier: LGPL-2.1-or-later
"""Refused system calls: refused inside, on record outside, exactly; and nobody inside can answer for itself."""
import os
import pathlib
import re
import signal
import subprocess
import time

import box
from box import (agentbox, events, expect, journal, newest_run, outside_pid, policy, records, run, run_python, sh, start, wait_for,
                 within)

HEAD = r"""
import ctypes, os, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) for a in arguments], *[ctypes.c_long(0)] * (6 - len(arguments)))
    return ctypes.get_errno() if result < 0 else 0
"""
EPERM = 1

# Name, number (x86-64, aarch64; None: not there), arguments, what the record must say of them.
ATTEMPTS = [
    ("unshare", (272, 97), (0x10000000,), "CLONE_NEWUSER"),
    ("unshare", (272, 97), (0x10020000,), "CLONE_NEWNS|CLONE_NEWUSER"),
    ("setns", (308, 268), (-1, 0x40000000), "-1, CLONE_NEWNET"),
    ("clone", (56, 220), (0x10000011,), "CLONE_NEWUSER|0x11, 0x0, 0x0, 0x0, 0x0"),
    ("mount", (165, 40), (0, 0, 0, 4096 | 16384), "0x0, 0x0, 0x0, MS_BIND|MS_REC, 0x0"),
    ("umount2", (166, 39), (0, 2), "0x0, MNT_DETACH"),
    ("pivot_root", (155, 41), (), "0x0, 0x0"),
    ("chroot", (161, 51), (), "0x0"),
    ("fsopen", (430, 430), (), "0x0, 0"),
    ("ptrace", (101, 117), (16, 1), "PTRACE_ATTACH, 1, 0x0, 0x0"),
    ("process_vm_readv", (310, 270), (1,), "1, 0x0, 0, 0x0, 0, 0"),
    ("process_vm_writev", (311, 271), (1,), "1, 0x0, 0, 0x0, 0, 0"),
    ("kcmp", (312, 272), (1, 1), "1, 1, 0, 0, 0"),
    ("pidfd_getfd", (438, 438), (-1,), "-1, 0, 0"),
    ("bpf", (321, 280), (5,), "BPF_PROG_LOAD, 0x0, 0"),
    ("perf_event_open", (298, 241), (0, 0, -1, -1), "0x0, 0, -1, -1, 0"),
    ("keyctl", (250, 219), (6, 0), "KEYCTL_DESCRIBE, 0x0, 0x0, 0x0, 0x0"),
    ("add_key", (248, 217), (), "0x0, 0x0, 0x0, 0, 0"),
    ("request_key", (249, 218), (), "0x0, 0x0, 0x0, 0"),
    ("io_uring_setup", (425, 425), (8,), "8, 0x0"),
    ("userfaultfd", (323, 282), (1,), "UFFD_USER_MODE_ONLY"),
    ("open_by_handle_at", (304, 265), (-100,), "AT_FDCWD, 0x0, 0"),
    ("name_to_handle_at", (303, 264), (-100,), "AT_FDCWD, 0x0, 0x0, 0x0, 0"),
    ("init_module", (175, 105), (), "0x0, 0, 0x0"),
    ("finit_module", (313, 273), (-1,), "-1, 0x0, 0"),
    ("kexec_load", (246, 104), (), "0x0, 0, 0x0, 0"),
    ("reboot", (169, 142), (-18751827, 672274793, 0x01234567), "0xfee1dead, 0x28121969, RB_AUTOBOOT, 0x0"),
    ("swapoff", (168, 225), (), "0x0"),
    ("personality", (135, 92), (0x0400000,), "0|READ_IMPLIES_EXEC"),
    ("socket", (41, 198), (17, 3, 0x300), "AF_PACKET, SOCK_RAW, 768"),
    ("socket", (41, 198), (16, 3, 12), "AF_NETLINK, SOCK_RAW, 12"),
    ("socket", (41, 198), (38, 5, 0), "AF_ALG, SOCK_SEQPACKET, 0"),
    ("socket", (41, 198), (40, 1, 0), "AF_VSOCK, SOCK_STREAM, 0"),
    ("socket", (41, 198), (2, 3, 1), "AF_INET, SOCK_RAW, 1"),
]
MACHINE = 1 if os.uname().machine == "aarch64" else 0


def python(program, **kw):
    return run_python(HEAD + program, **kw)


def denied(run_id):
    """By trusted fields: the warden's unit wrote it, or where that died the broker."""
    units = (f"agentbox-warden-{run_id}.service", box.BROKER_UNIT)
    return [r for u in units for r in journal(f"AGENTBOX_RUN_ID={run_id}", f"_SYSTEMD_UNIT={u}", "AGENTBOX_EVENT=syscall-denied")]


def count(run_id):
    return sum(int(r["AGENTBOX_COUNT"]) for r in denied(run_id))


def witness(run_id):
    """Of the processes of the warden's unit, the one that has the listener."""
    group = sh(["systemctl", "show", "-P", "ControlGroup", f"agentbox-warden-{run_id}.service"]).strip()
    found = []
    for pid in (p for p in os.listdir("/proc") if group and p.isdigit()):
        try:
            if f"{group}\n" not in pathlib.Path(f"/proc/{pid}/cgroup").read_text():
                continue
            if any(os.readlink(f"/proc/{pid}/fd/{fd}") == "anon_inode:seccomp notify" for fd in os.listdir(f"/proc/{pid}/fd")):
                found.append(int(pid))
        except OSError:
            pass
    return found


def test_each_attempt_is_refused_and_on_record_once():
    calls = [(n[MACHINE], a) for _, n, a, _ in ATTEMPTS]
    done = expect(python(f"for n, a in {calls!r}: print(call(n, *a))\nprint(os.getpid())"))
    *errors, _ = done.out.split()
    assert [int(e) for e in errors] == [EPERM] * len(ATTEMPTS), list(zip(ATTEMPTS, errors))
    found = denied(done.run)
    assert [(r["AGENTBOX_SYSCALL"], r["AGENTBOX_SYSCALL_ARGS"]) for r in found] == [(n, t) for n, _, _, t in ATTEMPTS], found
    assert {r["AGENTBOX_COUNT"] for r in found} == {"1"} and {r["AGENTBOX_COMM"] for r in found} == {"python3"}, found
    assert len({r["AGENTBOX_PID"] for r in found}) == 1 and {r["PRIORITY"] for r in found} == {"5"}, found
    assert done.result["syscalls_denied"] == len(ATTEMPTS), done.result


def test_who_it_was():
    """The process, not the thread; and its name as it is, whatever is in it."""
    client = start("/usr/bin/python3", "-u", "-c", HEAD + r"""
libc.prctl(15, b"a\nAGENTBOX_X=", 0, 0, 0)
t = threading.Thread(target=lambda: print(call(%i, 16, 1)))
t.start(); t.join()
print(os.getpid())
threading.Event().wait()
""" % ATTEMPTS[9][1][MACHINE])
    error, inside = client.stdout.readline().strip(), int(client.stdout.readline())
    found_run = newest_run()["run"]
    found = wait_for("its record", lambda: denied(found_run))
    assert error == b"1" and len(found) == 1 and int(found[0]["AGENTBOX_PID"]) == outside_pid(found_run, inside), (inside, found)
    assert "AGENTBOX_X" not in found[0], found
    client.kill()


@within(240)
def test_a_flood_is_counted_exactly():
    """50,000 from eight threads: each is counted, in records that are few; and the network is served meanwhile."""
    client = start("/usr/bin/python3", "-u", "-c", HEAD + r"""
def flood():
    for i in range(6250):
        if call(%i, 0x10000000) != 1:
            print("not refused")
threads = [threading.Thread(target=flood) for _ in range(8)]
for t in threads: t.start()
import socket, time
for i in range(20):
    s = socket.socket()
    s.settimeout(60)
    try:
        s.connect(("1.2.3.4", 443)); s.recv(1)
    except OSError: pass
    s.close()
for t in threads: t.join()
print("done")
""" % ATTEMPTS[0][1][MACHINE], options=["--timeout", "200s"], stdin=-1)
    run_id = newest_run(lambda r: r.get("state") == "running")["run"]
    out, err = client.communicate(timeout=200 * box.SLOWNESS)
    assert out == b"done\n", (out, err)
    wait_for("its end", lambda: "run-ended" in events(run_id), 30)
    ended = records(run_id, "run-ended")[0]
    assert count(run_id) == 50000 and int(ended["AGENTBOX_SYSCALLS_DENIED"]) == 50000, (count(run_id), ended)
    assert len(denied(run_id)) < 5000, len(denied(run_id))
    assert int(ended["AGENTBOX_EGRESS_DENIED"]) == 20, ended


def test_the_listener_is_the_witnesses_alone():
    """No process of the run has it, so that none can answer for itself; nor has the warden, which reads the run's bytes."""
    client = start("/usr/bin/python3", "-u", "-c", HEAD + r"""
print([os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{fd}")])
# The requests of a listener, on every number that a descriptor may have.
import fcntl
answered = 0
for fd in range(1024):
    for request in (0xc0502100, 0xc0182101, 0x40082102, 0xc0182103):
        try:
            fcntl.ioctl(fd, request, bytes(80)); answered += 1
        except OSError: pass
print(answered)
sys.stdin.readline()
""", stdin=-1)
    fds, answered = client.stdout.readline().decode(), client.stdout.readline().decode()
    assert "seccomp" not in fds and answered == "0\n", (fds, answered)
    run_id = newest_run(lambda r: r.get("state") == "running")["run"]
    main = int(sh(["systemctl", "show", "-P", "MainPID", f"agentbox-warden-{run_id}.service"]))
    holders = witness(run_id)
    assert len(holders) == 1 and holders != [main], (holders, main)
    everywhere = []
    for pid in (p for p in os.listdir("/proc") if p.isdigit()):
        try:
            links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        except OSError:
            continue
        if "anon_inode:seccomp notify" in links:
            everywhere.append(int(pid))
    assert everywhere == holders, (everywhere, holders)
    # It has nothing but what it needs, no capability, and nobody of its uid may look into it.
    status = pathlib.Path(f"/proc/{holders[0]}/status").read_text()
    assert re.search(r"^Seccomp:\s2$", status, re.M) and re.search(r"^CapBnd:\s0{16}$", status, re.M), status
    links = sorted(re.sub(r"\d+", "N", os.readlink(f"/proc/{holders[0]}/fd/{fd}")) for fd in os.listdir(f"/proc/{holders[0]}/fd"))
    assert links == ["/proc", "anon_inode:seccomp notify", "pipe:[N]", "socket:[N]"], links
    client.communicate(b"\n", timeout=30 * box.SLOWNESS)


@within(120)
def test_a_run_does_not_outlive_its_witness():
    """While nobody answers the calls are refused all the same; and the run ends, in words."""
    client = start("/usr/bin/python3", "-u", "-c", HEAD + r"""
print("ready", flush=True)
while True:
    error = call(%i, 16, 1)
    if error not in (1, 38):
        print("made", error, flush=True)
""" % ATTEMPTS[9][1][MACHINE], options=["--timeout", "100s"], stdin=-1)
    assert client.stdout.readline() == b"ready\n"
    run_id = newest_run(lambda r: r.get("state") == "running")["run"]
    os.kill(witness(run_id)[0], signal.SIGKILL)
    out, err = client.communicate(timeout=60 * box.SLOWNESS)
    assert out == b"" and b"warden died" in err, (out, err)
    wait_for("its end", lambda: "run-ended" in events(run_id), 30)
    ended = records(run_id, "run-ended")[0]
    # Killed between two instructions: one may be counted twice, none is lost.
    assert 0 <= count(run_id) - int(ended["AGENTBOX_SYSCALLS_DENIED"]) <= 1, (count(run_id), ended)


def test_kill():
    policy("live-kill", "[Syscalls]\nOnDenied=kill\n")
    for _ in range(5):  # whoever called has no time for another instruction
        done = python("print(call(%i, 0x10000000), flush=True)\nprint('went on', flush=True)\nimport time; time.sleep(30)"
                      % ATTEMPTS[0][1][MACHINE], policy="live-kill")
        assert done.out == "" and "system call unshare denied" in done.err, done
        assert done.result["reason"] == "killed" and done.result["syscalls_denied"] == 1, done.result
        found = denied(done.run)
        assert [(r["AGENTBOX_SYSCALL"], r["AGENTBOX_SYSCALL_ARGS"]) for r in found] == [("unshare", "CLONE_NEWUSER")], found
    # A child's attempt ends the run, too; and an ordinary program is none the wiser.
    done = python("import subprocess\nprint(subprocess.call(['/bin/ls', '/']))", policy="live-kill")
    assert done.status == 0 and denied(done.run) == [], done


@within(200)
def test_kill_holds_through_another_broker():
    """The listener stays where the next broker finds it: who called does not go on, whether the broker was restarted or died,
    with the witness gone and this broker doing nothing."""
    policy("live-kill", "[Syscalls]\nOnDenied=kill\n")
    for end_broker in (box.broker_restart, lambda: os.kill(box.broker_pid(), signal.SIGKILL)):
        client = start("/usr/bin/python3", "-u", "-c", HEAD + r"""
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
sys.stdin.readline()
os.write(1, b"went on %%i\n" %% call(%i, 0x10000000))
while True: signal.pause()
""" % ATTEMPTS[0][1][MACHINE], policy="live-kill", options=["--timeout", "60s"], stdin=-1)
        assert client.stdout.readline() == b"ready\n"
        run_id = newest_run(lambda r: r.get("state") == "running")["run"]
        pid = box.broker_pid()
        end_broker()
        wait_for("the next broker", lambda old=pid: box.broker_pid() not in (0, old) or agentbox("ps").status)
        agentbox("show", run_id)  # it has adopted it
        pid = box.broker_pid()
        os.kill(pid, signal.SIGSTOP)
        try:
            client.stdin.write(b"\n")
            client.stdin.flush()
            wait_for("the warden's end", lambda: not witness(run_id))
            time.sleep(0.5)
        finally:
            os.kill(pid, signal.SIGCONT)
        out, err = client.communicate(timeout=60 * box.SLOWNESS)
        assert out == b"" and b"system call unshare denied" in err, (out, err)
        wait_for("its end", lambda: "run-ended" in events(run_id), 30)
        assert records(run_id, "run-ended")[0]["AGENTBOX_REASON"] == "killed"
    # Nothing is left with PID 1.
    stored = subprocess.run(["systemd-analyze", "fdstore", "agentboxd.service"], capture_output=True, text=True, check=False)
    assert "listener-" not in stored.stdout, stored.stdout


def test_ordinary_programs_are_on_no_record():
    done = run("/usr/bin/python3", "-c", r"""
import concurrent.futures, multiprocessing, sqlite3, ssl, subprocess, asyncio
with multiprocessing.Pool(2) as p: print(sum(p.map(abs, range(10))))
with concurrent.futures.ThreadPoolExecutor(4) as p: print(sum(p.map(abs, range(10))))
print(asyncio.run(asyncio.sleep(0, 7)))
print(subprocess.run("cp -a /etc/passwd /workspace/p && sed -i s/x/y/ /workspace/p && tar cf - /workspace/p | wc -c >/dev/null; echo ok", shell=True,
      capture_output=True, text=True).stdout)
""", options=["--set", "Limits.Memory=256M"])
    assert expect(done).out.split() == ["45", "45", "7", "ok"] and denied(done.run) == [], (done, denied(done.run))


def test_why_and_learn():
    done = expect(python("call(%i, 16, 1); call(%i, 0x10000000); call(%i, 17, 3)" % tuple(ATTEMPTS[i][1][MACHINE] for i in (9, 0, 29))))
    why = expect(agentbox("why", done.run)).out
    assert "[Syscalls]\n    Allow=ptrace\n    That opens" in why and "Allow=unshare" not in why and "Allow=socket" not in why, why
    learned = expect(agentbox("policy", "learn", done.run)).out
    assert "+Allow=ptrace" in learned and "+Allow=unshare" not in learned and "+Allow=socket" not in learned, learned
    log = expect(agentbox("log", "--denied", done.run)).out
    assert "unshare(CLONE_NEWUSER)" in log and "ptrace(PTRACE_ATTACH, 1, 0x0, 0x0)" in log, log


def test_what_is_allowed_is_on_no_record():
    policy("live-ptrace", "[Syscalls]\nAllow=ptrace\n")
    done = expect(python("print(call(%i, 0))\nprint(call(%i, 0x10000000))" % (ATTEMPTS[9][1][MACHINE], ATTEMPTS[0][1][MACHINE]),
                         policy="live-ptrace"))
    assert done.out.split() == ["0", "1"], done
    assert [r["AGENTBOX_SYSCALL"] for r in denied(done.run)] == ["unshare"], denied(done.run)


def test_without_a_record():
    """Both walls stand then, no witness does, and nobody says that there were none."""
    policy("live-unrecorded", "[Audit]\nDeniedSyscalls=no\n")
    program = "for n, a in %r: print(call(n, *a))" % [(n[MACHINE], a) for _, n, a, _ in ATTEMPTS]
    for name in ("live-unrecorded", "offline"):
        done = expect(python(program, policy=name))
        assert 0 not in [int(e) for e in done.out.split()], done
        assert denied(done.run) == [] and done.result["syscalls_denied"] is None, done.result
        why = expect(agentbox("policy", "explain", name)).out
        assert "refused without a record" in why, why
    policy("live-both", "[Network]\nEgress=none\n[Audit]\nDeniedSyscalls=yes\n")
    expect(run("/bin/true", policy="live-both"), 125, err=r"DeniedSyscalls=yes.*Egress=filtered")


def test_a_host_that_refuses_first_is_not_on_record_and_so_refused():
    """A drop-in whose filter answers before ours is heard: what could not be recorded is not run."""
    box.dropin("[Service]\nRestrictNamespaces=yes\n")
    done = run("/bin/echo", "untrusted-code-ran")
    assert done.status == 125 and "untrusted-code-ran" not in done.out, done
    assert "seccomp" in done.err or "RestrictNamespaces" in done.err, done


@within(120)
def test_a_stopped_witness_holds_nobody_else_up():
    """Who makes refused calls waits for it; all other calls, and the network, do not."""
    client = start("/usr/bin/python3", "-u", "-c", HEAD + r"""
print("ready", flush=True)
sys.stdin.readline()
t = threading.Thread(target=lambda: print("answered", call(%i, 16, 1), flush=True))
t.start()
import socket
s = socket.socket(); s.settimeout(30)
try:
    s.connect(("1.2.3.4", 443)); s.recv(1)
except OSError as e: pass
open("/workspace/x", "w").write("x")
print("went on", flush=True)
sys.stdin.readline()
t.join()
""" % ATTEMPTS[9][1][MACHINE], options=["--timeout", "100s"], stdin=-1)
    assert client.stdout.readline() == b"ready\n"
    run_id = newest_run(lambda r: r.get("state") == "running")["run"]
    holder = witness(run_id)[0]
    os.kill(holder, signal.SIGSTOP)
    client.stdin.write(b"\n")
    client.stdin.flush()
    assert client.stdout.readline() == b"went on\n"
    os.kill(holder, signal.SIGCONT)
    out, _ = client.communicate(b"\n", timeout=60 * box.SLOWNESS)
    assert out == b"answered 1\n", out
    wait_for("its record", lambda: count(run_id) == 1, 20)
