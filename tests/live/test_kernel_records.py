# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the kernel itself has on record of a run (a process that the filter of system calls has ended) is in agentbox log and why, once,
and told to whose run it was; nobody else's is, and nobody can write one."""
import json
import platform
import re
import socket
import time

import box
from box import agentbox, expect, sh, wait_events, wait_for

OTHER = "boxother"
NAME = b"a uid=0\n\x1b[2J"  # what the program calls itself
KILL = r"""
import ctypes, mmap, os
libc = ctypes.CDLL(None)
def i386(number):
    # mov eax, number; int 0x80; ret
    m = mmap.mmap(-1, 4096, prot=7)
    m.write(bytes([0xb8, number, 0, 0, 0, 0xcd, 0x80, 0xc3]))
    ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()
def x32(number): libc.syscall(0x40000000 | number)
def ended_by(f, number):
    child = os.fork()
    if not child:
        f(number)
        os._exit(7)
    return os.waitpid(child, 0)[1] & 0x7f
"""
INSIDE = KILL + f"""
libc.prctl(15, {NAME!r}, 0, 0, 0)
print(ended_by(i386, 11), ended_by(i386, 11), ended_by(x32, 39), flush=True)
i386(11)
"""
# A process of the host, which ends itself by a filter of its own: arch is not x86-64: kill.
OUTSIDE = KILL + r"""
import struct, sys
uid = int(sys.argv[1])
code = [(0x20, 0, 0, 4), (0x15, 1, 0, 0xc000003e), (6, 0, 0, 0x80000000), (6, 0, 0, 0x7fff0000)]
text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *i) for i in code))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(text)))
os.setresuid(uid, uid, uid)
libc.prctl(38, 1, 0, 0, 0)
assert libc.syscall(317, 1, 0, ctypes.byref(program)) == 0
i386(20)
"""


def needed():
    if platform.machine() != "x86_64":
        raise box.Skip("calls of i386 and x32 are an x86-64 machine's")
    if not box.journal("_TRANSPORT=kernel", "-n", "1"):
        raise box.Skip("the kernel does not speak to this journal, as in any container")


def quiet():
    """The kernel prints ten in five seconds at most where nobody listens to its audit subsystem: those of the test before count."""
    time.sleep(6)


def kernels(*args, **kw):
    lines = expect(agentbox("log", *args, "--json", **kw)).out.splitlines()
    return [r for r in map(json.loads, lines) if r["AGENTBOX_EVENT"] == "kernel-denied"]


def ended_run(**kw):
    quiet()
    done = box.run_python(INSIDE, policy="offline", **kw)
    assert done.status == 128 + 31 and done.out.split() == ["31", "31", "31"], done
    wait_events(done.run, "run-ended")
    # Each is in the journal by one way at least.
    uid = box.records(done.run, "run-verified")[0]["AGENTBOX_UID"]
    wait_for("the kernel's records", lambda: sum(f" uid={uid} " in r["MESSAGE"] for r in box.journal("_TRANSPORT=kernel")) == 4)
    return done.run, int(uid)


def test_told_once_and_explained():
    needed()
    run, _ = ended_run()
    found = kernels(run)
    assert [(r["AGENTBOX_ARCH"], r["AGENTBOX_SYSCALL"]) for r in found] == [("i386", "execve")] * 2 + [("x32", "getpid"), ("i386", "execve")], found
    for r in found:
        assert r["AGENTBOX_COMM"] == NAME.decode() and r["AGENTBOX_ACTION"] == "kill" and r["AGENTBOX_SIGNAL"] == "31", r
        assert r["AGENTBOX_RUN_ID"] == run and r["AGENTBOX_POLICY"] == "offline" and r["_AUDIT_TYPE"] == "1326", r
    assert len({r["AGENTBOX_PID"] for r in found}) == 4 and len({r["_AUDIT_ID"] for r in found}) == 4, found
    assert kernels()[-4:] == found
    text = expect(agentbox("log", run, "--denied")).out
    assert re.search(r"kernel-denied .* execve \(i386\) +killed ×3\n", text) and re.search(r"getpid \(x32\) +killed\n", text), text
    assert "\x1b" not in text and text.count("\n") == 3, text
    text = expect(agentbox("why", run)).out
    assert "execve of a foreign architecture (i386)" in text and "killed (3 times)" in text and "Allow=" not in text, text


def test_others_are_told_nothing():
    needed()
    for user in (box.USER, OTHER):
        box.user(user, "agentbox")
    run, _ = ended_run(as_user=box.USER)
    others = box.run("/bin/true", policy="offline", as_user=OTHER)
    assert len(kernels(run, as_user=box.USER)) == 4 and len(kernels(as_user=box.USER)) >= 4
    assert "execve" in expect(agentbox("why", run, as_user=box.USER)).out
    assert kernels(as_user=OTHER) == [] == kernels(others.run)
    expect(agentbox("log", run, as_user=OTHER), 125, err="knows no run")


def test_another_time_another_process():
    """The same uid before and after the run, and another uid in its time: none of them was the run."""
    needed()
    run, uid = ended_run()
    quiet()
    position = box.journal_position()
    for other in (uid, uid + 1, 0):
        sh(["python3", "-c", OUTSIDE, str(other)], check=False)
    wait_for("the host's records", lambda: len([r for r in box.journal_since(position, "_TRANSPORT=kernel") if "type=1326" in r["MESSAGE"]]) == 3)
    assert len(kernels(run)) == 4


def test_nobody_else_writes_one():
    needed()
    run, uid = ended_run()
    genuine = [r for r in box.journal("_TRANSPORT=kernel") if f" uid={uid} " in r["MESSAGE"]][-1]["MESSAGE"]
    forged = re.sub(r":(\d+)\): ", ":999999): ", genuine)
    position = box.journal_position()
    with open("/dev/kmsg", "w", encoding="ascii") as kmsg:  # even root has another facility there, where it gets through at all
        kmsg.write("<5>" + forged)
    fields = {"MESSAGE": forged, "SYSLOG_FACILITY": "0", "_TRANSPORT": "kernel", "_AUDIT_TYPE": "1326", "_AUDIT_ID": "999999",
              "AGENTBOX_EVENT": "kernel-denied", "AGENTBOX_RUN_ID": run, "_UID": str(uid)}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.sendto("".join(f"{k}={v}\n" for k, v in fields.items()).encode(), "/run/systemd/journal/socket")
        s.sendto(f"<5>kernel: {forged}".encode(), "/dev/log")
    wait_for("what was forged", lambda: sum("999999" in r["MESSAGE"] for r in box.journal_since(position)) >= 2)
    sh("journalctl --sync")
    assert len(kernels(run)) == 4
