# SPDX-License-Identifier: LGPL-2.1-or-later
"""--view: a directory of the host's in the workspace, copy-on-write: who may read what of it, what becomes of it (nothing),
and what of the changes comes out."""
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import box
import bus
from box import (OUTSIDER, Skip, USER, at_end, broker_pid, broker_restart, expect, newest_run, policy, records, run, run_python, run_sh,
                 sh, start, user, wait_events, wait_for, write_file)
from test_caller import as_user

MOUNT_UNITS = ["systemctl", "list-units", "--all", "--plain", "--no-legend", "agentbox-view@*"]


def base():
    """The lab's /tmp is a tmpfs of a kernel that can show it so; the machine of the other tier has ext4."""
    return "/srv" if box.ENV == "vm" else "/tmp"


def place(owner=None):
    """A directory that the policy "view" opens to views, with a tree in it of root's or the owner's."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="live-view-", dir=base()))
    at_end(shutil.rmtree, directory, True)
    os.chmod(directory, 0o755)
    policy("view", f"[Policy]\nExtends=default\n[Files]\nView={directory}\nWorkspaceSize=4M\n[Limits]\nRuntime=10min\n")
    tree = directory / "tree"
    (tree / "src/deep").mkdir(parents=True)
    (tree / "a").write_text("alpha\n")
    (tree / "src/main.c").write_text("int main;\n")
    (tree / "src/deep/x").write_text("x\n")
    (tree / "src/deep/y").write_text("y\n")
    os.symlink("src/main.c", tree / "link")
    os.chmod(tree / "a", 0o600)
    if owner:
        sh(["chown", "-R", "-h", f"{owner}:{owner}", str(tree)])
    return directory, tree


def snapshot(tree):
    """All that could change: names, contents, owners, modes, times, attributes."""
    found = {}
    for path in [tree, *sorted(tree.rglob("*"))]:
        st = path.lstat()
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path)] = (st.st_mode, st.st_uid, st.st_gid, st.st_size, st.st_mtime_ns, st.st_ctime_ns, st.st_ino, content,
                            sorted(os.listxattr(path, follow_symlinks=False)))
    return found


def view(tree, script, *more, python=False, **kw):
    function = run_python if python else run_sh
    kw.setdefault("policy", "view")
    return function(script, options=["--view", str(tree), *more], **kw)


def bothered(tree, script, *more, status=0, **kw):
    """Runs it, and the host's tree is afterwards as it was before."""
    before = snapshot(tree)
    done = expect(view(tree, script, *more, **kw), status)
    assert snapshot(tree) == before, "the host's tree has changed"
    return done


def no_mounts():
    """Nothing of a view is mounted where the host can see it, and nobody who mounts is left."""
    wait_for("who mounts to be gone", lambda: not sh(MOUNT_UNITS).strip())
    with open("/proc/1/mountinfo", encoding="utf-8") as f:
        left = [line for line in f if "upperdir=changes" in line]
    assert not left, left


def tree_of(path):
    return sorted(str(p.relative_to(path)) for p in pathlib.Path(path).rglob("*"))


# --- what is seen, and what becomes of the host's tree

def test_reads_as_its_caller():
    user(USER, "agentbox")
    _, tree = place(USER)
    done = bothered(tree, "cat a link src/deep/x; stat -c '%U %a' a src; pwd", as_user=USER)
    assert done.out == "alpha\nint main;\nx\nagent 600\nagent 755\n/workspace\n", done
    no_mounts()


def test_record_and_promise():
    _, tree = place()
    done = bothered(tree, "true")
    requested = records(done.run, "run-requested")[0]
    assert requested["AGENTBOX_VIEW"] == str(tree), requested
    assert "view" in done.result["verified"], done.result
    done = expect(run_sh("true"))
    assert "view" not in done.result["verified"] and "AGENTBOX_VIEW" not in records(done.run, "run-requested")[0]


def test_path_in_the_record_is_escaped():
    directory, _ = place()
    odd = directory / "odd\n\x1b[31m\\"
    odd.mkdir()
    done = bothered(odd, "true")
    assert records(done.run, "run-requested")[0]["AGENTBOX_VIEW"] == f"{directory}/odd\\x0a\\x1b[31m\\x5c"


def test_writing_changes_nothing_outside():
    user(USER, "agentbox")
    for owner in (None, USER):
        _, tree = place(owner)
        done = bothered(tree, """
            echo changed >>a; cat a; echo new >src/new; rm src/main.c; rm -r src/deep; mkdir src/deep; echo z >src/deep/z
            chmod 777 src; touch -d 2001-01-01 src; mv a b; ln -s /etc/passwd l2; truncate -s 0 link 2>/dev/null
            find . | sort""", as_user=owner)
        assert done.out.startswith("alpha\nchanged\n.\n./b\n./l2\n./link\n./src\n./src/deep\n./src/deep/z\n"), done
        shutil.rmtree(tree)


def test_every_way_of_writing():
    """Mapped, punched, truncated, by another name, with attributes and owners: it is the copy that changes."""
    _, tree = place()
    (tree / "big").write_bytes(b"b" * 65536)
    bothered(tree, r"""
import fcntl, mmap, os
fd = os.open("big", os.O_RDWR)
m = mmap.mmap(fd, 65536)
m[0:4] = b"MMAP"; m.flush()
os.ftruncate(fd, 1 << 20)
os.posix_fallocate(fd, 0, 4096)
os.utime("a", (1, 1)); os.chmod("a", 0o777)
for what in (lambda: os.setxattr("a", "user.x", b"1"), lambda: os.setxattr("a", "trusted.overlay.opaque", b"y"),
             lambda: os.chown("a", 0, 0), lambda: os.link("a", "hard"), lambda: open("hard", "w").write("H"),
             lambda: os.rename("src", "src2"), lambda: os.mknod("w", 0o20600, 0), lambda: os.copy_file_range(fd, fd, 10, 0, 100)):
    try:
        what()
    except OSError as e:
        print(e)
fcntl.flock(fd, fcntl.LOCK_EX)
""", python=True)


def test_lock_is_not_felt_outside():
    _, tree = place()
    client = start("/usr/bin/python3", "-c",
                   "import fcntl,time\nf=open('a')\nfcntl.flock(f,fcntl.LOCK_EX)\nfcntl.lockf(open('src/main.c','r'),fcntl.LOCK_SH)\n"
                   "print('locked',flush=True)\ntime.sleep(60)", policy="view", options=["--view", str(tree)])
    assert client.stdout.readline() == b"locked\n"
    sh(["flock", "-n", str(tree / "a"), "true"])


def test_changes_have_a_limit():
    _, tree = place()
    (tree / "big").write_bytes(b"b" * (6 << 20))
    done = bothered(tree, "dd if=/dev/zero of=new bs=1M count=8; echo x >>big; tail -c 1 big", policy="view")
    assert done.err.count("No space left on device") == 2 and done.out == "b", done
    done = bothered(tree, "i=0; while [ $i -lt 200 ]; do : >f$i || exit 3; i=$((i+1)); done", "--set", "Files.WorkspaceInodes=100",
                    status=2)
    assert "No space left" in done.err, done


def test_workspace_on_disk():
    directory, tree = place()
    policy("view-disk", f"[Policy]\nExtends=default\n[Files]\nView={directory}\nWorkspaceStore=disk\nWorkspaceSize=64M\n"
                        "[Limits]\nRuntime=10min\n")
    if b"WorkspaceStore=disk" in (tried := run_sh("true", policy="view-disk")).stderr:
        raise Skip(tried.err.strip())
    done = bothered(tree, "echo x >>a; rm -r src; mkdir src; grep ' /workspace ' /proc/self/mountinfo | cut -d' ' -f9; "
                    "df --output=fstype . | tail -n 1",
                    "--out", f".:{directory}/o", "--out-summary", policy="view-disk")
    assert done.out.split() == ["ext4", "overlay", "overlay"], done
    assert (directory / "o/a").read_text() == "alpha\nx\n" and "D src/main.c" in done.err and "2 deleted" in done.err, done
    done = bothered(tree, "dd if=/dev/zero of=new bs=1M count=100", policy="view-disk", status=1)
    assert "No space left on device" in done.err, done
    no_mounts()


def test_no_program_gains_anything():
    """A set-uid program, a device and a program's capabilities of the host's tree are files like others."""
    _, tree = place()
    shutil.copy("/usr/bin/id", tree / "suid")
    os.chmod(tree / "suid", 0o6755)
    os.mknod(tree / "null", 0o20666, os.makedev(1, 3))
    done = bothered(tree, "./suid -u; id -u; (: >null); echo $?")
    first, second, device = done.out.split()
    assert first == second and first != "0" and device != "0", done


def test_no_way_to_the_tree_itself():
    """It is mounted nowhere, nothing but its copy leads to it, and its own path is not in there."""
    directory, tree = place()
    done = bothered(tree, f"""
        grep -c ' /workspace ' /proc/self/mountinfo; grep -c '{directory}' /proc/self/mountinfo
        ls -d tree changes work ../tree {directory} 2>/dev/null; ls /proc/self/fd | wc -l
        for i in /proc/[0-9]*; do ls $i/root{directory} 2>/dev/null; done
        umount /workspace 2>/dev/null && echo unmounted
        cat /workspace/../workspace/a""")
    assert done.out == "2\n0\n4\nalpha\n", done
    for script in ("unshare -Urm true", "mount -t overlay x -o lowerdir=/workspace /workspace", "mount --bind / /workspace/src"):
        expect(view(tree, script), 1) if script.startswith("unshare") else expect(view(tree, script), 32 if shutil.which("mount") else 127)


def test_sockets_and_fifos_lead_nowhere():
    """Those of the host's tree have their names in the view, and nobody at the other end."""
    _, tree = place()
    listener = socket.socket(socket.AF_UNIX)
    at_end(listener.close)
    listener.bind(str(tree / "socket"))
    listener.listen()
    os.chmod(tree / "socket", 0o777)
    os.mkfifo(tree / "fifo", 0o666)
    os.chmod(tree / "fifo", 0o666)
    fifo = os.open(tree / "fifo", os.O_RDWR | os.O_NONBLOCK)
    at_end(os.close, fifo)
    os.write(fifo, b"secret")
    done = bothered(tree, """
import os, socket
try:
    socket.socket(socket.AF_UNIX).connect("socket")
    print("connected")
except OSError as e:
    print(type(e).__name__)
fd = os.open("fifo", os.O_RDWR | os.O_NONBLOCK)
os.write(fd, b"mine")
print(os.read(fd, 100))
""", python=True)
    assert done.out.split()[0] in ("ConnectionRefusedError", "PermissionError") and done.out.split()[1] == "b'mine'", done
    listener.settimeout(0.1)
    try:
        listener.accept()
        raise AssertionError("somebody connected")
    except TimeoutError:
        pass
    assert os.read(fifo, 100) == b"secret"


def test_strict_executes_nothing_of_it():
    directory, tree = place()
    policy("view-strict", f"[Policy]\nExtends=strict\n[Files]\nView={directory}\n")
    shutil.copy("/bin/true", tree / "program")
    expect(view(tree, "./program", policy="view-strict"), 126, err="Permission denied")
    expect(view(tree, "./program"))


# --- who may see what

def test_policy_decides():
    directory, tree = place()
    done = expect(view(tree, "echo ran", policy="default"), 125, err=r"--view: the policy allows no views \(\[Files\] View=\)")
    assert done.out == "" and box.events(done.run) == ["run-refused"], box.events(done.run)
    other = pathlib.Path(tempfile.mkdtemp(prefix="live-other-", dir=base()))
    at_end(shutil.rmtree, other, True)
    for path in (other, directory.parent):
        expect(view(path, "echo ran"), 125,
               err=re.escape(f"{path} is beneath nothing that the policy allows to be viewed: View={directory}"))
    # What a link or ".." leads to is what counts, either way.
    os.symlink(other, tree / "leads")
    os.symlink(tree, other / "in")
    expect(view(tree / "leads", "echo ran"), 125, err=f"{other} is beneath nothing")
    expect(view(tree / "../..", "echo ran"), 125, err=f"{directory.parent} is beneath nothing")
    expect(view(other / "in", "cat a"), out="alpha")
    expect(view(directory, "ls"), out="tree")
    # A caller may leave items out, not add any.
    user(USER, "agentbox")
    expect(view(tree, "true", "--set", "Files.View=", as_user=USER), 125, err="allows no views")
    expect(view(tree, "true", "--set", f"Files.View={directory} /etc", as_user=USER), 125, err="more than the policy allows")


def test_policy_path_with_a_link_allows_nothing():
    directory, tree = place()
    os.symlink(tree, directory / "link")
    policy("view-link", f"[Policy]\nExtends=default\n[Files]\nView={directory}/link\n")
    expect(view(tree, "true", policy="view-link"), 125, err="beneath nothing")


def test_caller_without_right():
    """The caller's own process opens it, or nobody does."""
    user(USER, "agentbox")
    directory, tree = place()
    closed = directory / "closed"
    (closed / "in").mkdir(parents=True)
    os.chmod(closed, 0o700)
    expect(view(closed, "true", as_user=USER), 125, err=f"--view {closed}: Permission denied")
    expect(view(closed / "in", "true", as_user=USER), 125, err="Permission denied")
    expect(view(tree / "a", "true"), 125, err="Not a directory")
    expect(view(tree / "nowhere", "true"), 125, err="No such file")
    expect(view(closed / "in", "true"))


def test_files_of_others_stay_closed():
    user(USER, "agentbox")
    user(OUTSIDER)
    directory, tree = place(USER)
    for name, owner, mode in (("theirs", OUTSIDER, 0o600), ("group", OUTSIDER, 0o640), ("roots", "root", 0o600), ("open", OUTSIDER, 0o666),
                              ("mine", USER, 0o400)):
        (tree / name).write_text(name)
        shutil.chown(tree / name, owner, USER if name == "group" else owner)
        os.chmod(tree / name, mode)
    (tree / "dir").mkdir()
    (tree / "dir/inside").write_text("inside")
    os.chmod(tree / "dir", 0o700)
    done = bothered(tree, "for f in theirs group roots open mine dir/inside; do cat $f 2>/dev/null && echo; done; echo x >open; cat open",
                    as_user=USER)
    assert done.out == "open\nmine\nopen", done
    # Another caller, who may come there as well: what was the first one's is not his.
    os.chmod(directory, 0o755)
    done = bothered(tree, "cat open mine a", as_user=user("boxother", "agentbox"), status=1)
    assert done.out == "open", done
    # root, whose right is to read everything, gives away what is root's own alone.
    done = bothered(tree, "cat roots theirs", status=1)
    assert done.out == "roots", done


def ask(connection, fd, argv=("true",), out=None, **more):
    """A run with a view that its caller asks the bus for, without agentbox."""
    null = os.open("/dev/null", os.O_RDWR)
    try:
        values = bus.run_values(argv, policy="view", options={"view": ("h", 3), **more})
        connection.manager("Run", bus.RUN, *values, fds=[null, out or null, out or null, fd])
    finally:
        os.close(null)


def refused(fd, **more):
    connection = bus.Bus(timeout=60 * box.SLOWNESS)
    try:
        ask(connection, fd, **more)
    except bus.BusError as e:
        return e.text
    finally:
        connection.close()
    raise AssertionError("granted")


def opened(path, flags=os.O_RDONLY | os.O_DIRECTORY):
    fd = os.open(path, flags)
    at_end(os.close, fd)
    return fd


def test_swap_between_look_and_use():
    """What was opened is what is seen, whatever stands at its name by then."""
    directory, tree = place()
    fd = opened(tree)
    os.rename(tree, directory / "moved")
    os.symlink("/etc", tree)
    connection = bus.Bus(timeout=60 * box.SLOWNESS)
    at_end(connection.close)
    reader, writer = os.pipe()
    ask(connection, fd, ["cat", "a"], out=writer)
    os.close(writer)
    with open(reader, encoding="utf-8") as f:
        assert f.read() == "alpha\n"
    # And where it went to is what the policy is held against.
    os.rename(directory / "moved", f"{base()}/live-view-away")
    at_end(shutil.rmtree, f"{base()}/live-view-away")
    assert "beneath nothing" in refused(fd)


def test_descriptors_of_other_things():
    directory, tree = place()
    reader, writer = os.pipe()
    for fd in (reader, writer):
        at_end(os.close, fd)
    rows = [(opened(tree, os.O_PATH), "not open for reading"), (opened(tree / "a", os.O_RDONLY), "no directory"),
            (opened(tree / "a", os.O_RDWR), "no directory"), (reader, "mount namespace of the host"),
            (opened("/dev/null", os.O_RDWR), "no directory|it is on devtmpfs"), (opened("/proc/self"), "it is on proc"),
            (opened("/sys/kernel"), "it is on sysfs"), (opened("/"), "beneath nothing|it is on overlay")]
    for fd, words in rows:
        found = refused(fd)
        assert re.search(words, found), (words, found)
    # With a mount of another kind put where the policy allows views.
    (directory / "proc").mkdir()
    sh(["mount", "-t", "proc", "proc", str(directory / "proc")])
    at_end(sh, ["umount", str(directory / "proc")])
    assert "it is on proc" in refused(opened(directory / "proc"))
    # One kind of run or the other.
    assert "either a view or files" in refused(opened(tree), **{"copy-in": ("h", 3)})


def from_namespace(how, path, prepare=""):
    """A directory as a process in mounts of its own has it."""
    ours, theirs = socket.socketpair()
    child = subprocess.Popen(["unshare", how, "/usr/bin/python3", "-c", f"""
import os, socket, subprocess
{prepare}
s = socket.socket(fileno=0)
socket.send_fds(s, [b"x"], [os.open("{path}", os.O_RDONLY | os.O_DIRECTORY)])
s.recv(1)
"""], stdin=theirs)
    at_end(child.wait)
    at_end(ours.close)
    theirs.close()
    _, fds, _, _ = socket.recv_fds(ours, 1, 1)
    at_end(os.close, fds[0])
    return fds[0]


def test_own_mount_namespace():
    """In a namespace of his own a caller can put anything at a name that the policy allows."""
    directory, tree = place()
    (directory / "fake").mkdir()
    shown = from_namespace("-Urm", directory / "fake", f"subprocess.run(['mount', '--bind', '/etc', '{directory}/fake'], check=True)")
    assert os.path.exists(f"/proc/self/fd/{shown}/passwd")
    assert "does not lie in the mount namespace of the host" in refused(shown)
    # The same of what would be granted otherwise.
    assert "does not lie in the mount namespace of the host" in refused(from_namespace("-m", tree))
    no_mounts()


def test_mounts_beneath():
    """What a mount covers, its caller cannot see; an overlay would."""
    directory, tree = place()
    (tree / "cover").mkdir()
    (tree / "cover/covered").write_text("secret")
    for unbindable in (False, True):
        sh(["mount", "-t", "tmpfs", "cover", str(tree / "cover")])
        if unbindable:
            sh(["mount", "--make-unbindable", str(tree / "cover")])
        try:
            done = expect(view(tree, "cat cover/covered"), 125, err="what that covers (would|might) be seen")
            assert done.out == "", done
            if not unbindable:  # which nothing tells the place of
                expect(view(tree / "src", "ls"), out="main.c")
        finally:
            sh(["umount", str(tree / "cover")])
    expect(view(tree, "cat cover/covered"), out="secret")
    no_mounts()


def test_with_what_it_cannot_be_together():
    directory, tree = place()
    expect(view(tree, "true", "--in", str(tree / "a")), 125, err="--view")
    expect(view(tree, "true", "--unit=scope", as_user=user(USER, "agentbox")), 125, err="--view: a scope")


# --- what comes out

def test_out_is_the_changes():
    user(USER, "agentbox")
    directory, tree = place(USER)
    (tree / "keep").mkdir()
    for i in range(20):
        (tree / f"keep/{i}").write_text(f"{i}")
    sh(["chown", "-R", f"{USER}:{USER}", str(tree)])
    shutil.chown(directory, USER)
    done = bothered(tree, """
        echo more >>a; echo new >src/new; rm src/main.c; rm -r src/deep; mkdir src/deep; echo z >src/deep/z; rm keep/7
        touch keep/8; chmod +x keep/9; ln -sf new link; mkdir -p fresh/er; echo f >fresh/er/f; echo gone >gone; rm gone""",
                    "--out", f".:{directory}/changes", "--out-summary", as_user=USER)
    out = directory / "changes"
    lines = [line.removeprefix("agentbox: ") for line in done.err.splitlines() if re.match("agentbox: [AMD] ", line)]
    assert lines == ["A fresh/er/f", "A src/deep/z", "A src/new", "M a", "M keep/9", "M link", "D keep/7", "D src/deep/x", "D src/deep/y",
                     "D src/main.c"], lines
    assert "3 added, 3 changed, 4 deleted, 1 as they were" in done.err, done
    assert tree_of(out) == ["a", "fresh", "fresh/er", "fresh/er/f", "keep", "keep/9", "link", "src", "src/deep", "src/deep/z",
                            "src/new"], tree_of(out)
    assert (out / "a").read_text() == "alpha\nmore\n" and (out / "a").stat().st_uid == tree.stat().st_uid
    reason = records(done.run, "copy-out")[0]["AGENTBOX_REASON"]
    assert reason.startswith("2 were deleted, or left out"), reason
    no_mounts()


def test_out_of_a_part():
    directory, tree = place()
    done = bothered(tree, "echo 1 >src/new; echo 2 >other; rm src/main.c", "--out", f"src:{directory}/src",
                    "--out", f"other:{directory}/other", "--out-summary")
    assert tree_of(directory / "src") == ["new"] and (directory / "other").read_text() == "2\n", done
    assert "D src/main.c" in done.err and "2 added, 0 changed, 1 deleted" in done.err, done
    # What did not change is no failure; what is not there is one.
    done = bothered(tree, "true", "--out", f"a:{directory}/a", "--out", f"src/deep:{directory}/deep", "--out-summary")
    assert "not copied out: a: as it was" in done.err and not (directory / "a").exists() and not (directory / "deep").exists(), done
    done = bothered(tree, "rm a; rm -r src", "--out", f"a:{directory}/a", "--out", f"src/main.c:{directory}/m",
                    "--out", f"no:{directory}/no", "--out-summary", status=125)
    assert "not copied out: a: deleted" in done.err and "D a" in done.err and "D src/main.c" in done.err, done
    assert "not copied out: no: not there" in done.err and "D no" not in done.err, done


def test_out_after_directories_were_replaced():
    """A directory that was deleted and made anew hides what the host's has: the kernel marks it, and no reader may see the mark."""
    directory, tree = place()
    (tree / "d/e/f").mkdir(parents=True)
    for name in ("d/1", "d/e/2", "d/e/f/3"):
        (tree / name).write_text(name)
    done = bothered(tree, "rm -r d; mkdir -p d/e; echo x >d/e/2; rm -r src; echo file >src; rm a; mkdir a",
                    "--out", f".:{directory}/o", "--out-summary")
    lines = sorted(line.removeprefix("agentbox: ") for line in done.err.splitlines() if re.match("agentbox: [AMD] ", line))
    assert lines == ["D d/1", "D d/e/f: with all that was in it", "M a", "M d/e/2", "M src"], lines
    done = bothered(tree, "rm -r d/e; rm -r src/deep", "--out", f".:{directory}/o2", "--out-summary")
    for line in ("D d/e: with all that was in it", "D src/deep: with all that was in it", "2 deleted"):
        assert line in done.err, (line, done)


def test_out_of_forged_deletions():
    """A run cannot make what the kernel makes of a deletion; nor would it be one, outside."""
    directory, tree = place()
    done = bothered(tree, r"""
import os
for name, mode, device in (("a2", 0o20600, 0), ("src/w", 0o20000, 0), ("z", 0o20600, os.makedev(0, 1)), ("fifo", 0o10600, 0)):
    try:
        os.mknod(name, mode, device)
        print(name)
    except OSError as e:
        pass
for name in ("user.overlay.opaque", "trusted.overlay.opaque", "user.overlay.whiteout"):
    try:
        os.setxattr("src", name, b"y")
    except OSError:
        pass
open("src/.wh.main.c", "w").close()
open("src/n", "w").close()
""", "--out", f".:{directory}/o", "--out-summary", python=True)
    assert " 0 deleted" in done.err and "D " not in done.err, done
    assert sorted(p for p in tree_of(directory / "o") if "fifo" not in p) == ["src", "src/.wh.main.c", "src/n"], tree_of(directory / "o")


def test_out_of_changed_files_is_gated():
    directory, tree = place()
    (tree / "run.sh").write_text("#!/bin/sh\n")
    os.chmod(tree / "run.sh", 0o755)
    done = bothered(tree, "echo echo >>run.sh; echo x >a; touch run.sh", "--out", f".:{directory}/o", "--out-deny-exec")
    assert "left out" in done.err and "run.sh" in done.err and tree_of(directory / "o") == ["a"], (done, tree_of(directory / "o"))


def test_out_after_it_was_killed():
    directory, tree = place()
    done = bothered(tree, "echo x >>a; rm link; sleep 60", "--out", f".:{directory}/o", "--out-summary",
                    "--timeout", f"{int(3 * box.SLOWNESS)}s", status=124)
    assert (directory / "o/a").read_text() == "alpha\nx\n" and "D link" in done.err, done
    no_mounts()


# --- bad days

def test_broker_restarted():
    """PID 1 keeps the changes and the view for the next one."""
    for n, restart in enumerate((broker_restart, lambda: os.kill(wait_for("the broker", broker_pid), signal.SIGKILL))):
        directory, tree = place()
        client = start("sh", "-c", "echo x >>a; rm -r src; mkdir src; echo done; read wait", policy="view", stdin=subprocess.PIPE,
                       options=["--view", str(tree), "--out", f".:{directory}/o", "--out-summary"])
        assert client.stdout.readline() == b"done\n"
        found = newest_run(lambda r: r["state"] == "running")["run"]
        restart()
        newest_run(lambda r, found=found: r["run"] == found)
        _out, err = client.communicate(b"go on\n", timeout=60 * box.SLOWNESS)
        assert client.returncode == 0 and (directory / "o/a").read_text() == "alpha\nx\n", (n, client.returncode, err)
        assert b"D src/main.c" in err and b"D src/deep: with all" in err, err
        wait_events(found, "run-ended")
        no_mounts()
    stored = sh(["systemctl", "show", "-P", "NFileDescriptorStore", box.BROKER_UNIT]).strip()
    assert stored in ("0", ""), stored


def test_broker_killed_without_out():
    _, tree = place()
    client = start("sleep", "60", policy="view", options=["--view", str(tree)])
    found = newest_run(lambda r: r["state"] == "running")["run"]
    os.kill(wait_for("the broker", broker_pid), signal.SIGKILL)
    time.sleep(1)
    client.kill()
    wait_events(found, "run-ended")
    no_mounts()


def test_nobody_mounts():
    """No view, no run: nothing weaker takes its place."""
    _, tree = place()
    sh(["systemctl", "stop", "agentbox-view.socket"])
    at_end(sh, ["systemctl", "start", "agentbox-view.socket"])
    done = expect(view(tree, "echo ran"), 125, err="agentbox-view.socket cannot be reached")
    assert done.out == "" and box.events(done.run)[-1] == "run-refused", box.events(done.run)
    expect(run_sh("echo ran"), out="ran")


def test_who_mounts_dies():
    _, tree = place()
    write_file("/run/systemd/system/agentbox-view@.service.d/50-host.conf", "[Service]\nExecStart=\nExecStart=/bin/false\n")
    at_end(sh, ["systemctl", "daemon-reload"])
    sh(["systemctl", "daemon-reload"])
    try:
        done = expect(view(tree, "echo ran"), 125, err="whoever was to mount it ended without an answer")
    finally:
        os.unlink("/run/systemd/system/agentbox-view@.service.d/50-host.conf")
        sh(["systemctl", "daemon-reload"])
    assert done.out == "", done
    no_mounts()


def check_root_alone_connects(path):
    user(USER, "agentbox")

    def connect():
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            s.connect(path)
        except OSError as e:
            return e.strerror
        return "connected"
    assert as_user(USER, connect) == "Permission denied"


def test_mounter_talks_to_root_alone():
    check_root_alone_connects("/run/agentbox-view.socket")
    # Of root, what is no request is answered as such, and nothing happens.
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect("/run/agentbox-view.socket")
    s.send(b"nonsense")
    s.settimeout(30 * box.SLOWNESS)
    assert s.recv(100)[4:8] == b"\1\0\0\0"
    s.close()
    no_mounts()


@box.heavy
@box.within(180)
def test_many_at_once():
    _, tree = place()
    before = snapshot(tree)
    clients = [start("sh", "-c", f"echo {i} >>a; tail -n 1 a", policy="view", options=["--view", str(tree)]) for i in range(20)]
    for i, client in enumerate(clients):
        out, err = client.communicate(timeout=150 * box.SLOWNESS)
        assert client.returncode == 0 and out == f"{i}\n".encode(), (out, err)
    assert snapshot(tree) == before
    no_mounts()
