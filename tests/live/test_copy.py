# SPDX-License-Identifier: LGPL-2.1-or-later
"""Data in, data out: --in and --out, what a hostile workload leaves behind, and what a hostile caller offers."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

import box
import bus
from box import (OUTSIDER, Skip, USER, agentbox, at_end, broker_pid, broker_restart, expect, heavy, newest_run, records, run,
                 run_python, run_sh, runs, sh, start, user, wait_events, wait_for, within)
from test_caller import as_user, refusal
from test_scope import scope_sh

REASON = "AGENTBOX_REASON"


def here():
    """A directory of the caller's, gone at the end of the test."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="live-copy-"))
    at_end(shutil.rmtree, directory, True)
    os.chmod(directory, 0o755)
    return directory


def copies(done):
    """The records of what a run copied: (event, files, bytes, reason)."""
    found = [r for r in records(done if isinstance(done, str) else done.run) if r["AGENTBOX_EVENT"].startswith("copy-")]
    return [(r["AGENTBOX_EVENT"], int(r["AGENTBOX_FILES"]), int(r["AGENTBOX_BYTES"]), r.get(REASON, "")) for r in found]


def options(directory, *words):
    return [w.replace("HERE", str(directory)) for w in words]


def out(directory, script, *more, policy_name=None, python=False, **kw):
    """Runs a script that leaves its results in "o", and has that copied to "o" of the directory."""
    function = run_python if python else run_sh
    return function(script, policy=policy_name, options=options(directory, "--out", "o:HERE/o", *more), **kw)


def tree(path):
    return sorted(str(p.relative_to(path)) for p in pathlib.Path(path).rglob("*"))


def no_temporary(directory):
    left = [p.name for p in pathlib.Path(directory).iterdir() if p.name.startswith(".agentbox-")]
    assert not left, left


def readers():
    return [int(p) for p in sh(["pgrep", "-x", "agentbox-copyou"], check=False).split()]


# --- in

def test_in_is_the_run_s_own():
    d = here()
    (d / "src").mkdir()
    (d / "src/f").write_text("hello")
    os.chmod(d / "src/f", 0o640)
    os.utime(d / "src/f", (1e9, 1e9))
    os.symlink("f", d / "src/l")
    done = expect(run_sh("cat l; stat -c ' %U %a %Y' f; echo x >>f; touch new", options=options(d, "--in", "HERE/src", "-C", "src")))
    assert done.out == "hello agent 640 1000000000\n", done
    assert (d / "src/f").read_text() == "hello"  # a copy
    assert copies(done) == [("copy-in", 3, 5, "")], copies(done)
    assert box.events(done.run)[:4] == ["run-requested", "run-verified", "copy-in", "run-started"]


def test_in_reads_as_the_caller():
    """The broker is root, and reads nothing: the caller's own process does."""
    user(USER, "agentbox")
    d = here()
    (d / "secret").write_text("root's")
    os.chmod(d / "secret", 0o600)
    (d / "mine").write_text("mine")
    shutil.chown(d / "mine", USER)
    done = expect(run_sh("true", as_user=USER, options=options(d, "--in", "HERE/secret")), 125, err="Permission denied")
    expect(run_sh("cat mine", as_user=USER, options=options(d, "--in", "HERE/mine")), out="^mine$")
    # In a tree, it is left out, and named.
    done = expect(run_sh("ls src", as_user=USER, options=options(d, "--in", "HERE:src")), err="src/secret: not readable")
    assert done.out == "mine\n", done
    event, files, size, reason = copies(done)[0]
    assert (event, files, size) == ("copy-in", 2, 4) and reason.startswith("1 were left out"), copies(done)


def test_in_standard_input():
    done = expect(run_sh("cat f; cat", stdin=b"given" * 100000, options=["--in", "-:f"]))
    assert done.stdout == b"given" * 100000, done.status
    assert copies(done) == [("copy-in", 1, 500000, "")]


def test_in_what_is_no_file():
    d = here()
    os.mkfifo(d / "fifo")
    os.symlink("/etc/shadow", d / "link")
    os.symlink("x/../../../etc", d / "crooked")
    os.mknod(d / "device", 0o600 | 0o020000, os.makedev(1, 3))
    done = expect(run_sh("ls -A src", options=options(d, "--in", "HERE:src")))
    assert done.out == "", done
    for name in ("fifo: a fifo", "link: a symbolic link", "crooked: a symbolic link", "device: a device"):
        assert f"not copied in: src/{name}" in done.err, done
    expect(run_sh("true", options=options(d, "--in", "HERE/fifo")), 125, err="not a file or directory")


def test_in_too_much():
    """Nothing of the command runs, and what is to be done stands there."""
    d = here()
    (d / "large").write_bytes(b"x" * (3 << 20))
    (d / "many").mkdir()
    for i in range(200):
        (d / f"many/{i}").touch()
    for source, setting in (("large", "Files.WorkspaceSize=1M"), ("many", "Files.WorkspaceInodes=100"), ("large", "Limits.FileSize=1M")):
        done = expect(run_sh("echo ran", options=options(d, "--in", f"HERE/{source}", "--set", setting)), 125, err=setting.split(".")[1])
        assert done.out == "" and done.result["reason"] == "refused", done
        found = copies(done)
        assert [c[0] for c in found] == ["copy-refused"] and setting.split(".")[1] in found[0][3], found
        assert box.events(done.run)[-1] == "run-refused", box.events(done.run)


def test_in_the_same_place_twice():
    d = here()
    (d / "f").write_text("1")
    done = expect(run_sh("echo ran", options=options(d, "--in", "HERE/f:x", "--in", "HERE/f:x")), 125, err="same place")
    assert done.out == "", done


def test_in_behind_the_walls():
    """The stream is read under the filter of the policy: with no way to write there is no way in."""
    d = here()
    (d / "f").write_text("1")
    expect(run_sh("echo ran", options=options(d, "--in", "HERE/f", "--set", "Syscalls.Deny=pwrite64")), 125, err="cannot copy in: Operation not")
    # What tells the broker needs no network.
    expect(run_sh("cat f", options=options(d, "--in", "HERE/f", "--set", "Syscalls.Deny=@network", "--set", "Syscalls.OnDenied=kill")), out="1")
    expect(run_sh("cat f", policy="strict", options=options(d, "--in", "HERE/f")), out="1")


@within(120)
def test_in_a_git_repository():
    if not shutil.which("git"):
        raise Skip("git is not installed")
    d = here()
    sh(f"""cd {d} && git init -q r && cd r && git config user.email a@b && git config user.name n && for i in $(seq 50); do echo $i >f$i; done
git add . && git commit -qm first && git gc -q && git branch other""")
    done = expect(run_sh("cd r && git status --short | wc -l && git fsck 2>&1 | wc -l && git switch -q other && echo x >f1 && git commit -qam second",
                         options=options(d, "--in", "HERE/r", "--out", "r:HERE/back")))
    assert done.out.split() == ["0", "0"], done
    assert sh(f"cd {d}/back && git log --oneline other | wc -l && git status --short | wc -l && git fsck 2>&1 | wc -l").split() == ["2", "0", "0"]
    # The hooks and the configuration went in so: nothing new will execute.
    assert "will execute later" not in done.err, done


@within(300)
def test_in_a_hundred_thousand_files():
    if box.ENV == "vm":
        raise Skip("minutes, where everything is emulated")
    d = here()
    for i in range(100):
        (d / f"src/{i}").mkdir(parents=True)
        for k in range(1000):
            (d / f"src/{i}/{k}").write_text("x")
    done = expect(run_sh("find src -type f | wc -l", options=options(d, "--in", "HERE/src", "--out", "src:HERE/back", "--set", "Limits.Memory=2G", "--set",
                                                                    "Files.WorkspaceInodes=200K", "--set", "Files.WorkspaceSize=1G", "--set",
                                                                    "Files.CopyOutFiles=200K", "--timeout", "200s", "--out-summary")))
    assert done.out.strip() == "100000" and "100000 as they went in" in done.err, done
    assert copies(done) == [("copy-in", 100101, 100000, ""), ("copy-out", 100101, 100000, "")]


def test_in_that_never_ends():
    """Whoever sends nothing has the run's time for it, and no more."""
    reader, writer = os.pipe()
    at_end(os.close, writer)
    client = start("echo", "ran", options=["--in", "-:f", "--timeout", "2s"], stdin=reader)
    os.close(reader)
    found = newest_run()["run"]
    stdout, stderr = client.communicate(timeout=40 * box.SLOWNESS)
    assert client.returncode == 125 and stdout == b"" and b"time limit passed" in stderr, (client.returncode, stdout, stderr)
    assert box.events(found)[-2:] == ["copy-refused", "run-refused"], box.events(found)


def test_in_over_the_memory_limit():
    """What is in the workspace counts; the shim is all there is to be killed for it."""
    d = here()
    (d / "f").write_bytes(b"x" * (100 << 20))
    done = expect(run_sh("echo ran", options=options(d, "--in", "HERE/f", "--set", "Limits.Memory=32M")), 125, err="memory limit|do not fit")
    assert done.out == "" and box.events(done.run)[-2:] == ["copy-refused", "run-refused"], (done, box.events(done.run))


def test_in_client_gone():
    reader, writer = os.pipe()
    client = start("echo", "ran", options=["--in", "-:f"], stdin=reader)
    os.close(reader)
    os.write(writer, b"x" * 1000)
    found = newest_run(lambda r: r["state"] == "starting")
    client.kill()
    os.close(writer)
    wait_for("its end", lambda: not runs() or all(r["state"] == "ended" for r in runs()))
    assert "run-started" not in box.events(found["run"])


# --- out

def test_out():
    d = here()
    done = expect(out(d, "mkdir -p o/d; echo 1 >o/d/f; ln -s d/f o/l; chmod 600 o/d/f; exit 3"), 3)
    assert tree(d / "o") == ["d", "d/f", "l"] and (d / "o/l").read_text() == "1\n", tree(d)
    assert done.err == "" and (d / "o/d/f").stat().st_uid == 0
    assert copies(done) == [("copy-out", 4, 2, "")]
    assert box.events(done.run)[-2:] == ["copy-out", "run-ended"], box.events(done.run)
    no_temporary(d)


def test_out_belongs_to_the_caller():
    user(USER, "agentbox")
    d = here()
    shutil.chown(d, USER)
    expect(out(d, "umask 0; mkdir o; echo 1 >o/f; chmod 4777 o/f 2>/dev/null; true", as_user=USER))
    st = (d / "o/f").stat()
    assert st.st_uid != 0 and st.st_uid == d.stat().st_uid and st.st_mode & 0o7777 in (0o644, 0o755), oct(st.st_mode)
    expect(out(d, "mkdir o", as_user=OUTSIDER), 125) if user(OUTSIDER) else None


@within(120)
def test_out_however_it_ends():
    """When the last process is dead, for whatever reason."""
    ends = {
        "time": ("echo x >o; sleep 60", ["--timeout", f"{2 * box.SLOWNESS:.0f}s"], 124),
        "memory": ("echo x >o; exec python3 -c 'b = bytearray(200 << 20)'", ["--set", "Limits.Memory=64M"], None),
        "output": ("echo x >o; yes", ["--set", "Limits.Output=1M"], 137),
        "signal": ("echo x >o; kill -9 $$", [], 137),
        "not found": ("echo x >o; exec /nonexistent", [], 127),
    }
    for name, (script, more, status) in ends.items():
        d = here()
        done = out(d, script, *more)
        assert status in (None, done.status), (name, done)
        assert (d / "o").read_text() == "x\n", (name, done)


def test_out_killed_by_somebody():
    d = here()
    client = start("sh", "-c", "echo x >o; sleep 60", options=options(d, "--out", "o:HERE/o"))
    found = newest_run(lambda r: r["state"] == "running")["run"]
    time.sleep(0.5)
    agentbox("kill", found)
    assert client.wait(20 * box.SLOWNESS) == 137 and (d / "o").read_text() == "x\n"


def test_out_nothing_writes_any_more():
    """What a daemon of the workload goes on writing is cut at its death, and does not change what is read."""
    d = here()
    expect(out(d, """mkdir o
for i in 1 2 3 4 5 6; do (setsid sh -c 'while :; do echo xxxxxxxxxxxxxxxx >>o/f; done' &) ; done
(setsid sh -c 'while :; do rm -rf o/d o/l; mkdir o/d; echo 1 >o/d/f; ln -s /etc o/l; mv o/d o/e; mv o/l o/d; rm -rf o/e o/d; done' 2>/dev/null &)
sleep 1"""))
    size = (d / "o/f").stat().st_size
    assert size > 0 and size % 17 == 0, size
    time.sleep(0.3)
    assert (d / "o/f").stat().st_size == size
    assert not any((d / "o" / p).is_symlink() for p in tree(d / "o"))


def test_out_missing_results():
    d = here()
    done = expect(run_sh("echo 1 >a", options=options(d, "--out", "a:HERE/a", "--out", "b:HERE/b")), 125, err="not copied out: b: not there")
    assert (d / "a").exists() and not (d / "b").exists(), done
    no_temporary(d)


def test_out_is_refused_before_it_runs():
    d = here()
    (d / "o").write_text("old")
    done = expect(out(d, "echo ran"), 125, err="is there already")
    assert done.run is None and (d / "o").read_text() == "old", done


def test_out_force():
    d = here()
    (d / "o").mkdir()
    (d / "o/mine").write_text("mine")
    done = expect(out(d, "mkdir o; echo 1 >o/f", "--force"))
    assert tree(d / "o") == ["f"] and (d / f"o.before-{done.run}/mine").read_text() == "mine", (tree(d), done)


# --- what a hostile workload leaves

HOSTILE = r"""
import errno, os, socket, stat, sys
os.mkdir('o'); os.chdir('o')
def attempt(what, f, *a, **k):
    try: f(*a, **k); return True
    except OSError as e: print(what, errno.errorcode[e.errno], file=sys.stderr); return False
os.mkfifo('fifo')
s = socket.socket(socket.AF_UNIX); s.bind('socket')
attempt('device', os.mknod, 'device', 0o600 | stat.S_IFCHR, os.makedev(1, 3))
attempt('whiteout', os.mknod, 'whiteout', 0o600 | stat.S_IFCHR, 0)
os.symlink('/etc/shadow', 'absolute'); os.symlink('../../../etc/shadow', 'relative'); os.symlink('/proc/self/root', 'proc')
os.symlink('/proc/self/fd/0', 'fd'); os.symlink('a/../..', 'crooked'); os.symlink('.', 'self'); os.symlink('loop', 'loop')
open('new\nline', 'w').close(); open('esc\033[31m', 'w').close(); open('-rf', 'w').close(); open('a\\b', 'w').close()
open('\u202egpj.exe', 'w').close(); open(b'\xff\xfe', 'w').close(); open('n' * 255, 'w').close()
open('README', 'w').write('upper'); open('readme', 'w').write('lower')
with open('sparse', 'wb') as f: f.truncate(100 << 20)
with open('future', 'w') as f: f.write('x')
os.utime('future', (1 << 40, 1 << 40))
with open('past', 'w') as f: f.write('x')
os.utime('past', (-1 << 40, -1 << 40))
with open('suid', 'w') as f: f.write('#!')
os.chmod('suid', 0o777); attempt('suid', os.chmod, 'suid', 0o6777)
attempt('xattr', os.setxattr, 'suid', 'user.x', b'y')
attempt('capability', os.setxattr, 'suid', 'security.capability', b'\1\0\0\2\0\0\1\0' + bytes(12))
with open('unreadable', 'w') as f: f.write('x')
os.chmod('unreadable', 0); os.mkdir('closed'); open('closed/f', 'w').close(); os.chmod('closed', 0)
os.link('README', 'hard')
os.mkdir('.git'); os.mkdir('.git/hooks'); open('.git/hooks/pre-commit', 'w').write('#!/bin/sh'); os.chmod('.git/hooks/pre-commit', 0o755)
"""


def test_out_hostile():
    d = here()
    done = expect(out(d, HOSTILE, "--set", "Files.CopyOutSize=200M", python=True))
    o = d / "o"
    names = set(os.listdir(os.fsencode(o)))
    assert names == {b"self", b"-rf", b"a\\b", "\u202egpj.exe".encode(), b"\xff\xfe", b"n" * 255, b"README", b"readme", b"sparse", b"future",
                     b"past", b"suid", b"hard", b".git"} | ({b"loop"} & names), names
    for left in ("fifo: a fifo", "socket: a socket", "absolute: a symbolic link", "relative: ", "proc: ", "fd: ", "crooked: ",
                 "new\\x0aline: a control byte", "esc\\x1b[31m: a control byte", "unreadable: not readable", "closed: not readable"):
        assert f"not copied out: o/{left}" in done.err, (left, done.err)
    assert "\033" not in done.err and "\u202e" not in done.err
    assert (o / "README").read_text() == "upper" and (o / "readme").read_text() == "lower"
    assert (o / "hard").read_text() == "upper" and (o / "hard").stat().st_nlink == 1
    assert (o / "sparse").stat().st_size == 100 << 20 and (o / "sparse").stat().st_blocks < 100
    now = time.time()
    assert abs((o / "future").stat().st_mtime - now) < 60 * box.SLOWNESS and abs((o / "past").stat().st_mtime - now) < 60 * box.SLOWNESS
    for root, directories, files in os.walk(os.fsencode(o)):
        for name in directories + files:
            st = os.lstat(os.path.join(root, name))
            assert st.st_mode & 0o7000 == 0 and (st.st_mode & 0o22 == 0 or st.st_mode & 0o170000 == 0o120000), (name, oct(st.st_mode))
            assert (st.st_mode & 0o170000) in (0o100000, 0o040000, 0o120000), name
    assert os.listxattr(o / "suid") == [] and (o / "suid").stat().st_mode & 0o777 == 0o755
    assert re.search(r"will execute later \(git obeys it\): \S*/o/\.git/hooks/pre-commit", done.err), done.err
    assert re.search(r"will execute later \(a program\): \S*/o/suid", done.err), done.err
    event, _files, _bytes, reason = copies(done)[0]
    assert event == "copy-out" and re.match(r"(9|10) were left out", reason), copies(done)


def test_out_hostile_without_what_executes():
    d = here()
    done = expect(out(d, HOSTILE, "--set", "Files.CopyOutSize=200M", "--out-deny-exec", python=True))
    assert not (d / "o/suid").exists() and not (d / "o/.git/hooks/pre-commit").exists() and (d / "o/README").exists(), done
    wait_events(done.run, "copy-refused")
    refused = [c for c in copies(done) if c[0] == "copy-refused"]
    assert refused == [("copy-refused", 2, 11, "they would execute later (--out-deny-exec)")], refused


def test_out_top_is_a_trap():
    for script, why in (("ln -s /etc/shadow o", "a symbolic link"), ("ln -s . o", "a symbolic link"), ("mkfifo o", "a fifo"),
                        ("ln -s /proc/self o", "a symbolic link")):
        d = here()
        done = expect(out(d, script), 125, err=f"not copied out: o: {why}")
        assert tree(d) == [], (script, done)
    d = here()
    done = expect(run_sh("ln -s /etc d", options=options(d, "--out", "d/passwd:HERE/o")), 125, err="not copied out: d/passwd: a symbolic link")
    assert tree(d) == [], done


def test_out_too_much():
    """Whole or not at all: of what is too much, nothing is there."""
    rows = [
        ("bytes", "mkdir o; head -c 2000000 /dev/zero >o/a; head -c 2000000 /dev/zero >o/b", "Files.CopyOutSize=3M", "CopyOutSize=3M"),
        ("names of one file", "mkdir o; head -c 1000000 /dev/zero >o/0; for i in $(seq 10); do ln o/0 o/$i; done", "Files.CopyOutSize=3M", "CopyOutSize=3M"),
        ("a terabyte of nothing", "truncate -s 1T o", None, "CopyOutSize=256M"),
        ("files", "mkdir o; cd o; for i in $(seq 600); do : >$i; done", "Files.CopyOutFiles=500", "CopyOutFiles=500"),
        ("fifos", "mkdir o; cd o; seq 600 | xargs mkfifo", "Files.CopyOutFiles=500", "CopyOutFiles=500"),
        ("anything", "echo >o", "Files.CopyOutFiles=0", "CopyOutFiles=0"),
        ("depth", "d=o; for i in $(seq 150); do d=$d/d; done; mkdir -p $d", None, "too deep"),
        ("length", "exec python3 -c 'import os\nos.mkdir(\"o\"); os.chdir(\"o\")\nfor i in range(30): os.mkdir(\"n\" * 200); os.chdir(\"n\" * 200)'",
         None, "too deep"),
    ]
    for name, script, setting, why in rows:
        d = here()
        done = expect(out(d, script, *(["--set", setting] if setting else [])), 125, err=f"nothing is copied out.*{why}")
        assert tree(d) == [], (name, tree(d))
        wait_events(done.run, "copy-refused")
        first = copies(done)[0]
        assert first[0] == "copy-refused" and (why.split("=")[0] in first[3]), (name, copies(done))
        assert [c[0] for c in copies(done)].count("copy-out") == 0


def test_out_a_million_empty_files():
    """As many as the workspace can hold; the reader stops where the policy says so, and in time."""
    d = here()
    done = out(d, """
import os
os.mkdir('o'); os.chdir('o')
n = 0
try:
    while True:
        if n % 1000 == 0: os.mkdir(f'd{n}'); os.chdir(f'd{n}') if False else None
        os.mknod(f'f{n}'); n += 1
except OSError as e: print(n)
""", "--set", "Files.CopyOutFiles=1000", python=True, timeout=100)
    assert done.status == 125 and int(done.out) > 50000 and tree(d) == [], done
    assert copies(done)[0][:2] == ("copy-refused", 1000), copies(done)


# --- the one who reads

def stalled(d, script="head -c 20000000 /dev/zero >o", **kw):
    """A client that is stopped while its results come: (client, run)."""
    client = start("sh", "-c", script + "; sleep 1", options=options(d, "--out", "o:HERE/o"), **kw)
    found = newest_run(lambda r: r["state"] == "running")["run"]
    client.send_signal(signal.SIGSTOP)
    wait_for("the reader", readers)
    return client, found


def test_reader_is_confined():
    d = here()
    client, found = stalled(d)
    reader = pathlib.Path(f"/proc/{readers()[0]}")
    uid = int(records(found, "run-started")[0]["MESSAGE"].split("as uid ")[1].split(":")[0])
    status = dict(l.split(":\t", 1) for l in (reader / "status").read_text().splitlines() if ":\t" in l)
    assert status["Uid"].split() == [str(uid)] * 4 and status["Gid"].split() == [str(uid)] * 4 and status["Groups"].strip() == "", status
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(status[name], 16) == 0, status
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2", status
    root = os.stat(reader / "root")
    assert root.st_uid == uid and sorted(os.listdir(reader / "root")) == ["o"], os.listdir(reader / "root")
    fds = {f: os.readlink(reader / "fd" / f) for f in os.listdir(reader / "fd")}
    assert len(fds) == 6 and {"0", "1", "2", "3", "4"} < set(fds), fds  # 3 and 4 are the workspace; and the file
    assert [f for f in fds.values() if f.startswith("socket:")] == [], fds
    client.send_signal(signal.SIGCONT)
    assert client.wait(30 * box.SLOWNESS) == 0
    assert (d / "o").stat().st_size == 20000000 and not readers()


def test_client_gone_while_it_is_copied():
    d = here()
    client, found = stalled(d)
    client.kill()
    wait_events(found, "run-ended")
    assert not readers()
    assert [c[0] for c in copies(found)] == ["copy-refused"] and re.search("client is gone|went away", copies(found)[0][3]), copies(found)
    assert not (d / "o").exists()


def test_killed_while_it_is_copied():
    d = here()
    client, found = stalled(d)
    expect(agentbox("kill", found))
    wait_events(found, "run-ended")
    client.send_signal(signal.SIGCONT)
    assert client.wait(30 * box.SLOWNESS) == 125 and not (d / "o").exists()
    no_temporary(d)


def test_reader_killed():
    d = here()
    client, found = stalled(d)
    os.kill(readers()[0], signal.SIGKILL)
    wait_events(found, "run-ended")
    client.send_signal(signal.SIGCONT)
    _out, err = client.communicate(timeout=30 * box.SLOWNESS)
    assert client.returncode == 125 and b"nothing is copied out" in err, (client.returncode, err)
    assert copies(found)[0][0] == "copy-refused" and "died" in copies(found)[0][3], copies(found)
    no_temporary(d)


def test_without_the_reader():
    """No program, no results: nobody else reads them."""
    d = here()
    program = "/usr/lib/agentbox/agentbox-copyout"
    os.rename(program, program + ".away")
    at_end(os.rename, program + ".away", program)
    done = expect(out(d, "echo x >o"), 125, err="nothing is copied out")
    assert copies(done)[0][0] == "copy-refused" and tree(d) == [], copies(done)


def test_broker_restarted_before_it_is_copied():
    """PID 1 keeps the workspace and the pipe for the next one."""
    for restart in (broker_restart, lambda: os.kill(wait_for("the broker", broker_pid), signal.SIGKILL)):
        d = here()
        client = start("sh", "-c", "echo x >o; sleep 5", options=options(d, "--out", "o:HERE/o"))
        found = newest_run(lambda r: r["state"] == "running")["run"]
        restart()
        _out, err = client.communicate(timeout=60 * box.SLOWNESS)
        assert client.returncode == 0 and (d / "o").read_text() == "x\n", (client.returncode, err)
        wait_events(found, "run-ended")
        assert [c[0] for c in copies(found)] == ["copy-out"], copies(found)
        assert box.events(found).count("run-ended") == 1
    stored = sh(["systemctl", "show", "-P", "NFileDescriptorStore", box.BROKER_UNIT]).strip()
    assert stored in ("0", ""), stored


def test_broker_restarted_while_it_is_copied():
    d = here()
    client, found = stalled(d)
    broker_restart()
    client.send_signal(signal.SIGCONT)
    _out, err = client.communicate(timeout=60 * box.SLOWNESS)
    assert client.returncode == 125 and b"no whole result" in err, (client.returncode, err)
    wait_events(found, "run-ended")
    assert not readers() and box.events(found).count("run-ended") == 1
    no_temporary(d)


@heavy
@within(180)
def test_many_at_once():
    d = here()
    clients = [start("sh", "-c", f"head -c 100000 /dev/urandom >o; echo {i} >>o", options=options(d, "--out", f"o:HERE/o{i}"))
               for i in range(20)]
    for c in clients:
        assert c.wait(150 * box.SLOWNESS) == 0, c.stderr.read()
    for i in range(20):
        assert (d / f"o{i}").read_bytes().endswith(f"{i}\n".encode()) and (d / f"o{i}").stat().st_size > 100000
    assert not readers()


# --- scopes

def test_scope():
    """Its workspace is a mount of the host's: kept past that, so that the mount can go."""
    d = here()
    (d / "f").write_text("hello")
    shutil.chown(d, user(USER, "agentbox"))
    os.chmod(d / "f", 0o644)
    done = expect(scope_sh("cat f; mkdir o; echo x >o/a; chmod 600 o/a; ln -s /etc/passwd o/l",
                           options=options(d, "--in", "HERE/f", "--out", "o:HERE/o")), out="^hello", err="o/l: a symbolic link")
    assert (d / "o/a").read_text() == "x\n" and tree(d / "o") == ["a"], (tree(d), done)
    assert (d / "o/a").stat().st_uid == d.stat().st_uid
    assert [c[0] for c in copies(done)] == ["copy-in", "copy-out"], copies(done)
    # The walls of the scope are around its files, too: what does not fit is refused.
    done = expect(scope_sh("echo ran", options=options(d, "--in", "HERE/f", "--set", "Limits.FileSize=1")), 125, err="FileSize")
    assert done.out == "", done


def test_scope_that_is_killed():
    d = here()
    shutil.chown(d, user(USER, "agentbox"))
    done = expect(scope_sh("echo x >o; sleep 60", options=options(d, "--out", "o:HERE/o", "--timeout", "3s")), 124)
    assert (d / "o").read_text() == "x\n", done


# --- hostile callers

def asked(fds, more, n_fds=3, argv=("true",), detach=False):
    values = {k: v for k, v in more.items()}
    if detach:
        values["detach"] = ("b", True)
    return bus.run_values(argv, options=values, n_fds=0 if detach else n_fds), fds


def test_callers_offer_what_is_no_pipe():
    null = os.open("/dev/null", os.O_RDWR)
    reader, writer = os.pipe()
    directory, plain = os.open("/etc", os.O_RDONLY), os.open("/etc/passwd", os.O_RDONLY)
    for fd in (null, reader, writer, directory, plain):
        at_end(os.close, fd)
    paths = ("aay", [b"a"])
    rows = [
        ({"copy-in": ("h", 3)}, writer), ({"copy-in": ("h", 3)}, null), ({"copy-in": ("h", 3)}, plain), ({"copy-in": ("h", 3)}, directory),
        ({"copy-out": ("h", 3), "copy-out-paths": paths}, reader), ({"copy-out": ("h", 3), "copy-out-paths": paths}, plain),
        ({"copy-out": ("h", 3)}, writer), ({"copy-out-paths": paths}, writer),
        ({"copy-out": ("h", 3), "copy-out-paths": ("aay", [])}, writer),
        ({"copy-out": ("h", 3), "copy-out-paths": ("aay", [b"a"] * 65)}, writer),
    ] + [({"copy-out": ("h", 3), "copy-out-paths": ("aay", [p])}, writer)
         for p in (b"", b"/etc/shadow", b"..", b"a/../../b", b"a//b", b"a/", b"x" * 300, b"a\0b")]
    connection = bus.Bus()
    for values, fd in rows:
        asks, fds = asked([null, null, null, fd], values)
        assert refusal(connection, "Run", bus.RUN, *asks, fds=fds)[0] == "InvalidRequest", values
    asks, fds = asked([writer], {"copy-out": ("h", 0), "copy-out-paths": paths}, detach=True)
    assert refusal(connection, "Run", bus.RUN, *asks, fds=fds)[0] == "InvalidRequest"
    connection.close()


def garbage_in(data):
    """A run whose caller sends these bytes as files, and nothing more."""
    null = os.open("/dev/null", os.O_RDWR)
    reader, writer = os.pipe()
    connection = bus.Bus(timeout=60 * box.SLOWNESS)
    asks, fds = asked([null, null, null, reader], {"copy-in": ("h", 3)})
    serial = connection.send("org.agentbox1", "/org/agentbox1", bus.MANAGER, "Run", bus.RUN, asks, fds=fds)
    os.close(reader)
    with contextlib.suppress(BrokenPipeError):
        os.write(writer, data)
    os.close(writer)
    try:
        connection.wait(serial)
    except bus.BusError as e:
        return e.text
    finally:
        connection.close()
        os.close(null)
    return None


def test_callers_send_no_files():
    magic = b"ABT1"
    streams = {
        "nothing": b"",
        "no stream": b"GET / HTTP/1.1\r\n\r\n",
        "cut": magic,
        "upwards": magic + b"\1" + (4 + 5).to_bytes(4, "little") + (5).to_bytes(4, "little") + b"../x\0",
        "a path of its own": magic + b"\1" + (4 + 2).to_bytes(4, "little") + (2).to_bytes(4, "little") + b"..",
        "a frame of 4 GiB": magic + b"\5\xff\xff\xff\xff",
        "an end that is wrong": magic + b"\x09" + (24).to_bytes(4, "little") + b"\1" + bytes(23),
    }
    for name, data in streams.items():
        text = garbage_in(data)
        assert text and "did not come whole" in text, (name, text)


def test_only_its_client_speaks_of_results():
    user(USER, "agentbox")
    null = os.open("/dev/null", os.O_RDWR)
    reader, writer = os.pipe()
    connection, other = bus.Bus(), bus.Bus()
    at_end(connection.close)
    asks, fds = asked([null, null, null, writer], {"copy-out": ("h", 3), "copy-out-paths": ("aay", [b"o"])}, argv=("sh", "-c", "echo x >o"))
    found = connection.manager("Run", bus.RUN, *asks, fds=fds)[0]
    os.close(writer)
    data = b""
    while True:
        more = os.read(reader, 65536)
        if not more:
            break
        data += more
    assert data.startswith(b"ABT1") and b"x\n" in data
    wait_events(found, "run-ended")
    report = ("stts", found, 1, 2, "evil\033[31m\nMESSAGE=forged")
    assert refusal(other, "ReportCopy", *report)[0] == "NotAuthorized"
    assert as_user(USER, lambda: refusal(bus.Bus(), "ReportCopy", *report)[0]) in ("NotAuthorized", "NoSuchRun")
    for _ in range(4):
        connection.manager("ReportCopy", *report)
    assert refusal(connection, "ReportCopy", *report)[0] == "InvalidRequest"
    refused = records(found, "copy-refused")
    assert len(refused) == 4 and all(r[REASON] == "evil\\x1b[31m\\x0aMESSAGE=forged" for r in refused), refused
    assert all("as its client says" in r["MESSAGE"] for r in refused)
    # Of a run that has none.
    plain = connection.manager("Run", bus.RUN, *bus.run_values(("true",)), fds=[null] * 3)[0]
    assert refusal(connection, "ReportCopy", "stts", plain, 1, 2, "x")[0] == "InvalidRequest"
    os.close(reader)
    os.close(null)
    other.close()


def test_caller_keeps_the_reading_end():
    """Whoever takes nothing does not keep its run for ever, nor the others' waiting."""
    null = os.open("/dev/null", os.O_RDWR)
    reader, writer = os.pipe()
    connection = bus.Bus()
    asks, fds = asked([null, null, null, writer], {"copy-out": ("h", 3), "copy-out-paths": ("aay", [b"o"])},
                      argv=("sh", "-c", "head -c 1000000 /dev/zero >o"))
    found = connection.manager("Run", bus.RUN, *asks, fds=fds)[0]
    os.close(writer)
    wait_for("the reader", readers)
    expect(run("true"))
    connection.close()  # and with it goes its client
    wait_events(found, "run-ended")
    assert not readers()
    os.close(reader)
    os.close(null)
