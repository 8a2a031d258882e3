# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a run can write: so much and no more, felt by nobody else; in memory and on disk."""
import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import tempfile

import box
from box import agentbox, at_end, expect, policy, run, run_python, run_sh, sh, start, wait_for
from test_view import check_root_alone_connects

MIB = 1 << 20
STATE = pathlib.Path("/var/lib/agentbox")
PLACES = {"/workspace": "WorkspaceSize", "/tmp": "TmpSize", "/dev/shm": "ShmSize", "/var/tmp": "TmpSize"}


def sets(*keys):
    return [word for k in keys for word in ("--set", k)]


def free(path):
    s = os.statvfs(path)
    return s.f_bfree * s.f_frsize, s.f_ffree


# What each prints is the errno that ended it, and how many MiB or files were there by then.
ATTACK = """
import errno, os, sys
os.chdir(sys.argv[1])
MIB = 1 << 20
def until_refused(step):
    n = 0
    try:
        while n < 200000:
            step(n); n += 1
    except OSError as e:
        return n, errno.errorcode[e.errno]
    return n, 'none'
def opened(name):
    return os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
def whole(fd, at):
    n = 0
    while n < MIB:
        n += os.pwrite(fd, bytes(MIB - n), at + n)
def write(n):
    whole(f, n * MIB)
def fill_hole(n):
    whole(f, (1 << 40) - n * 2 * MIB)
def unlinked(n):
    fd = opened('gone'); os.unlink('gone'); whole(fd, 0)
def renamed(n):
    fd = opened('from'); whole(fd, 0); os.close(fd); os.rename('from', 'to%i' % n)
def mapped(n):
    os.posix_fallocate(f, n * MIB, MIB)
"""


def attack(how, place="/workspace", **kw):
    done = expect(run("/usr/bin/python3", "-c", ATTACK + how, place, **kw))
    return [tuple(int(w) if w.isdigit() else w for w in line.split()) for line in done.out.splitlines()]


def check_bytes(place, size, slack, **kw):
    """However they are written, no more MiB fit in than size, and at least size - slack."""
    ways = {"write": "f = opened('a'); print(*until_refused(write))",
            "fallocate": "f = opened('a'); print(*until_refused(mapped))",
            "holes": "f = opened('a'); os.ftruncate(f, 1 << 40); print(*until_refused(fill_hole))",
            "unlinked": "print(*until_refused(unlinked))",
            "renamed": "print(*until_refused(renamed))"}
    for way, how in ways.items():
        (count, error), = attack(how, place, **kw)
        assert error == "ENOSPC" and size - slack <= count <= size, (place, way, count, error)


def check_inodes(place, count, slack, **kw):
    """Whatever they are, no more of them than count."""
    ways = {"file": "print(*until_refused(lambda n: os.close(opened('%i' % n))))",
            "directory": "print(*until_refused(lambda n: os.mkdir('%i' % n)))",
            "symlink": "print(*until_refused(lambda n: os.symlink('x', '%i' % n)))",
            "fifo": "print(*until_refused(lambda n: os.mkfifo('%i' % n)))"}
    for way, how in ways.items():
        (made, error), = attack(how, place, **kw)
        assert error == "ENOSPC" and count - slack <= made <= count, (place, way, made, error)


def test_bytes_in_memory():
    for place, key in PLACES.items():
        check_bytes(place, 8, 0, options=sets(f"Files.{key}=8M"))


def test_inodes_in_memory():
    for place in PLACES:
        check_inodes(place, 1024, 16, options=sets("Files.WorkspaceInodes=1K"))


def test_links_and_attributes_take_room():
    """A name costs an inode; attributes, where this kernel lets a run have some, no more than there are inodes for."""
    (links, error), = attack("f = opened('a'); print(*until_refused(lambda n: os.link('a', 'l%i' % n)))", options=sets("Files.WorkspaceInodes=1K"))
    assert error == "ENOSPC" and links <= 1024, (links, error)
    (attributes, error), = attack("f = opened('a'); print(*until_refused(lambda n: os.setxattr('a', 'user.%i' % n, bytes(60000))))",
                                  options=sets("Files.WorkspaceInodes=1K", "Limits.Memory=128M"))
    assert error in ("ENOSPC", "ENOTSUP", "E2BIG", "EPERM") and attributes < 1024, (attributes, error)


def test_full_is_felt_by_nobody_else():
    """One run sits in a full workspace, /tmp and /dev/shm: others have theirs, the host's file systems are as before."""
    pid = box.broker_pid()
    hosts = [p for p in ("/", "/run", "/tmp", "/dev/shm", "/var") if os.path.exists(p)]
    before = {p: free(p) for p in hosts}
    client = start("/usr/bin/python3", "-u", "-c", ATTACK + """
for place in '/workspace', '/tmp', '/dev/shm':
    os.chdir(place); f = opened('a'); until_refused(write)
print('full'); import time; time.sleep(600)""", "/", options=["--timeout", "10min", *sets("Files.WorkspaceSize=64M", "Files.TmpSize=32M", "Files.ShmSize=32M")])
    assert client.stdout.readline() == b"full\n", client.stderr.read()
    run_id = box.newest_run(lambda r: r["state"] == "running")["run"]
    group = run_processes(run_id)
    root = f"/proc/{group[0]}/root"
    for place, size in (("/workspace", 64), ("/tmp", 32), ("/dev/shm", 32)):
        assert os.statvfs(root + place).f_bfree == 0 and os.statvfs(root + place).f_blocks * 4096 == size * MIB, place
    check_bytes("/workspace", 16, 0, options=sets("Files.WorkspaceSize=16M"))
    for p in hosts:
        assert abs(before[p][0] - free(p)[0]) < 8 * MIB, (p, before[p], free(p))
    client.send_signal(signal.SIGTERM)
    client.wait()
    assert box.broker_pid() == pid or pid == 0
    assert not box.leftovers()


def run_processes(run_id):
    out = sh("find /sys/fs/cgroup -path '*agentbox-" + run_id + ".service*' -name cgroup.procs -exec cat {} + 2>/dev/null", check=False)
    return sorted({int(w) for w in out.split() if int(w) > 0})


# ---- on disk

def host_disk(size="400M"):
    """The host's disk, of known size: what is taken and given back is seen to the byte."""
    STATE.mkdir(mode=0o700, exist_ok=True)
    sh(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(STATE)])
    at_end(sh, ["umount", "--lazy", str(STATE)])
    return free(STATE)[0]


def disk(name="disk", size="96M", inodes="1K", more=""):
    return policy(name, f"[Policy]\nExtends=default\n[Files]\nWorkspaceStore=disk\nWorkspaceSize={size}\nWorkspaceInodes={inodes}\n"
                        f"[Network]\nEgress=none\n[Limits]\nMemory=64M\nRuntime=5min\n{more}")


def given_back(before):
    wait_for("the room that a workspace took", lambda: free(STATE)[0] == before)
    assert not list(STATE.iterdir()), list(STATE.iterdir())
    assert not box.leftovers()


def test_disk_bytes_and_inodes():
    before = host_disk()
    name = disk()
    check_bytes("/workspace", 96, 6, policy=name)
    check_inodes("/workspace", 1024, 32, policy=name)
    given_back(before)


def test_disk_holds_more_than_memory():
    """Its pages are the run's own, and go when its memory is short: nothing is killed, nothing is lost."""
    before = host_disk()
    done = expect(run_sh("head -c 80M /dev/urandom >a && sync && sha256sum <a && cp a /tmp/x 2>/dev/null; cat a >/dev/null; sha256sum <a",
                         policy=disk(more="[Files]\nTmpSize=1M\n"), options=sets("Limits.Memory=32M")))
    first, second = done.out.split("\n")[:2]
    assert first == second and len(first) > 64, done
    assert "workspace" in done.result["verified"], done
    given_back(before)


def test_disk_is_mounted_as_promised():
    host_disk()
    script = """
import os
print([w for w in open('/proc/self/mountinfo').read().splitlines() if ' /workspace ' in w])
print(sorted(os.listdir('/workspace')), oct(os.stat('/workspace').st_mode), os.stat('/workspace').st_uid == os.getuid())
open('x', 'w').write('#!/bin/sh\\necho ran\\n'); os.chmod('x', 0o755)
print(oct(os.stat('x').st_mode), os.path.exists('/dev/loop0'), os.path.exists('/dev/loop-control'))
import subprocess
try: print(subprocess.run(['./x'], capture_output=True, text=True).stdout)
except OSError as e: print(e.errno)
try: os.mknod('d', 0o60666, os.makedev(7, 0)); print('made')
except OSError as e: print(e.errno)
"""
    done = expect(run_python(script, policy=disk()))
    lines = done.out.splitlines()
    assert " - ext4 " in lines[0] and "nosuid" in lines[0] and "nodev" in lines[0] and "noexec" not in lines[0], done
    assert lines[1] == "[] 0o40755 True" and lines[2].endswith("False False") and lines[3] == "ran" and lines[-1] == "1", done
    done = run_sh("grep -c 'noexec.* - ext4' /proc/self/mountinfo; cp /bin/true t; ./t", policy=disk(more="[Syscalls]\nProfile=strict\n"))
    assert done.out.startswith("1\n") and done.status == 126, done


def test_disk_copies_in_and_out():
    before = host_disk()
    name = disk()
    with tempfile.TemporaryDirectory() as d:
        os.makedirs(f"{d}/in/sub")
        pathlib.Path(f"{d}/in/sub/f").write_text("kept\n", encoding="utf-8")
        done = expect(run_sh("cat in/sub/f; echo more >>in/sub/f; truncate -s 32M in/hole; ln -s sub/f in/l", policy=name,
                             options=["--in", f"{d}/in", "--out", f"in:{d}/out", *sets("Files.CopyOutSize=64M")]))
        assert done.out == "kept\n", done
        assert pathlib.Path(f"{d}/out/sub/f").read_text(encoding="utf-8") == "kept\nmore\n"
        assert os.stat(f"{d}/out/hole").st_size == 32 * MIB and os.stat(f"{d}/out/hole").st_blocks == 0
        assert os.readlink(f"{d}/out/l") == "sub/f"
        done = run_sh("true", policy=disk(size="16M", inodes="64"), options=["--in", f"{d}/in", "--in", "/usr/bin:x"])
        assert done.status == 125 and "WorkspaceSize=16M" in done.err, done
    given_back(before)


def test_disk_is_given_back_however_it_ends():
    before = host_disk()
    name = disk()
    fill = "head -c 32M /dev/zero >a; "
    expect(run_sh(fill + "kill -9 $$", policy=name), 137)
    given_back(before)
    expect(run_sh(fill + "sleep 100", policy=name, options=["--timeout", "2s"]), 124)
    given_back(before)
    expect(run_python("open('a', 'w').write('x' * 1000); b = bytearray(200 << 20)", policy=name), 137)
    given_back(before)
    client = start("/bin/sh", "-c", fill + "echo up; sleep 100", policy=name)
    client.stdout.readline()
    client.kill()
    client.wait()
    given_back(before)


def test_disk_outlives_the_broker_and_no_longer():
    """A broker that is killed leaves the run its workspace; the next one has the results of it."""
    before = host_disk()
    with tempfile.TemporaryDirectory() as d:
        client = start("/bin/sh", "-c", "echo 1 >a; echo up; read x; echo 2 >>a", policy=disk(), options=["--out", f"a:{d}/a"],
                       stdin=subprocess.PIPE)
        client.stdout.readline()
        taken = before - free(STATE)[0]
        assert 95 * MIB < taken < 97 * MIB, taken
        os.kill(box.broker_pid(), signal.SIGKILL)
        wait_for("the next broker", lambda: agentbox("ps").status == 0 and box.broker_pid() > 0)
        assert "nothing is left over" in agentbox("doctor").out
        client.communicate(b"go\n")
        assert client.returncode == 0, client
        assert pathlib.Path(f"{d}/a").read_text(encoding="utf-8") == "1\n2\n"
    given_back(before)


def test_disk_killed_broker_between_all_steps():
    """Killed while it makes them, again and again: nothing of any is left."""
    before = host_disk()
    name = disk(inodes="1K")
    for i in range(12):
        client = start("/bin/true", policy=name)
        pid = wait_for("a broker", box.broker_pid)
        subprocess.run(["sleep", str(0.004 * i)], check=True)
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        client.communicate()
    wait_for("the next broker", lambda: agentbox("ps").status == 0)
    given_back(before)
    expect(run("/bin/true", policy=name))


def test_disk_without_room_is_refused_before_it_starts():
    before = host_disk("100M")
    done = run_sh("echo ran", policy=disk())
    assert done.status == 125 and "no room for WorkspaceSize=96M" in done.err and b"ran" not in done.stdout, done
    given_back(before)
    client = start("/bin/sh", "-c", "echo up; sleep 100", policy=disk(size="48M"))
    client.stdout.readline()
    done = run_sh("echo ran", policy=disk(size="48M"))
    assert done.status == 125 and "no room" in done.err, done
    expect(run("/bin/true"))


def test_disk_full_is_felt_by_nobody_else():
    """Each has its own, whole from the start: what one fills, writes and forces out changes nothing of the other's, nor the host's."""
    host_disk()
    name = disk()
    client = start("/bin/sh", "-c", "cat /dev/zero >a; echo full; while :; do sync; rm -f b; cp a b; done", policy=name, stderr=subprocess.DEVNULL)
    assert client.stdout.readline() == b"full\n"
    room = free(STATE)[0]
    check_bytes("/workspace", 96, 6, policy=name)
    wait_for("the other's room", lambda: free(STATE)[0] == room)
    client.kill()
    client.wait()


def test_disk_refused_by_name_where_the_host_cannot():
    host_disk()
    sh(["mount", "--bind", "/dev/null", "/sbin/mke2fs"])
    undo = ["umount", "/sbin/mke2fs"]
    try:
        done = run_sh("echo ran", policy=disk())
        assert done.status == 125 and "mke2fs" in done.err and b"ran" not in done.stdout, done
        assert "no workspace can be on disk" in agentbox("doctor").out
        expect(run("/bin/true"))
    finally:
        sh(undo)
    with maker_with("DeviceAllow="):
        done = run_sh("echo ran", policy=disk())
        assert done.status == 125 and "no loop devices" in done.err and b"ran" not in done.stdout, done
        assert "no workspace can be on disk: there are no loop devices" in agentbox("doctor").out
    expect(run("/bin/true", policy=disk()))


@contextlib.contextmanager
def maker_with(settings):
    """A drop-in of the host for who makes workspaces."""
    drop = pathlib.Path("/run/systemd/system/agentbox-disk@.service.d/50-host.conf")
    drop.parent.mkdir(parents=True, exist_ok=True)
    drop.write_text(f"[Service]\n{settings}\n", encoding="utf-8")
    sh(["systemctl", "daemon-reload"])
    try:
        yield
    finally:
        drop.unlink()
        sh(["systemctl", "daemon-reload"])
        sh(["systemctl", "stop", "agentbox-disk@*"])


def makers():
    return sh(["systemctl", "list-units", "--all", "--plain", "--no-legend", "agentbox-disk@*"]).split("\n")[:-1]


def test_disk_that_nobody_makes():
    """No workspace on disk, no run: nothing in memory takes its place."""
    before = host_disk()
    name = disk()
    expect(run("/bin/true", policy=name))
    sh(["systemctl", "stop", "agentbox-disk.socket"])
    at_end(sh, ["systemctl", "start", "agentbox-disk.socket"])
    done = expect(run_sh("echo ran", policy=name), 125, err="agentbox-disk.socket cannot be reached")
    assert done.out == "" and box.events(done.run)[-1] == "run-refused", box.events(done.run)
    assert "no workspace can be on disk: agentbox-disk.socket" in agentbox("doctor").out
    expect(run_sh("echo ran"), out="ran")
    given_back(before)


def test_disk_whose_maker_dies():
    before = host_disk()
    with maker_with("ExecStart=\nExecStart=/bin/false"):
        done = expect(run_sh("echo ran", policy=disk()), 125, err="agentbox-disk, which was to make it, ended without an answer")
        assert "no workspace can be on disk: agentbox-disk" in agentbox("doctor").out
    assert done.out == "", done
    given_back(before)


def test_disk_is_waited_for_by_its_own_run_alone():
    """Whoever makes it never answers: the broker does, and other runs start and end."""
    before = host_disk()
    name = disk()
    with maker_with("ExecStart=\nExecStart=/bin/sleep infinity"):
        client = start("/bin/sh", "-c", "echo ran", policy=name)
        waiting = wait_for("a run that waits", lambda: [r for r in box.runs() if r["state"] == "starting"])
        expect(run("/bin/true"))
        assert [r["run"] for r in box.runs()] == [waiting[0]["run"]]
        assert len(makers()) == 1, makers()
        client.kill()
        client.wait()
        wait_for("its end", lambda: not box.runs())
    given_back(before)
    expect(run("/bin/true", policy=name))


def test_disk_that_takes_too_long_is_refused():
    before = host_disk()
    with maker_with("ExecStart=\nExecStart=/bin/sleep infinity\nRuntimeMaxSec=1s"):
        done = expect(run_sh("echo ran", policy=disk()), 125, err="agentbox-disk, which was to make it, ended without an answer")
    assert done.out == "", done
    given_back(before)


def test_disk_s_maker_is_gone_before_the_run_begins():
    """Of it nothing stays: no process, no unit, and the device is held by the run's mounts alone."""
    before = host_disk()
    client = start("/bin/sh", "-c", "echo up; sleep 100", policy=disk())
    client.stdout.readline()
    wait_for("the end of who made it", lambda: not makers())
    held = sh("ls -l /proc/[0-9]*/fd 2>/dev/null | grep -c '/loop[0-9]'", check=False).strip()
    assert held == "0", sh("ls -l /proc/[0-9]*/fd 2>/dev/null | grep '/loop[0-9]'", check=False)
    client.kill()
    client.wait()
    given_back(before)


def test_disk_s_maker_talks_to_root_alone():
    host_disk()
    agentbox("ps")
    check_root_alone_connects("/run/agentbox-disk.socket")
    # Of root, what is no request is answered as such, and nothing happens.
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.connect("/run/agentbox-disk.socket")
        s.send(b"nonsense")
        s.settimeout(30 * box.SLOWNESS)
        assert b"the request was not understood" in s.recv(1000)
    wait_for("its end", lambda: not makers())


def test_disk_who_may_ask():
    """Memory is less than disk, and a smaller disk less than a larger one."""
    user = box.user(box.USER, "agentbox")
    host_disk()
    name = disk()
    done = run_sh("grep -c ' /workspace .* tmpfs' /proc/self/mountinfo", policy=name, as_user=user, options=sets("Files.WorkspaceStore=memory"))
    assert done.out == "1\n", done
    done = run_sh("df -B1 --output=size /workspace | tail -1", policy=name, as_user=user, options=sets("Files.WorkspaceSize=32M"))
    assert 28 * MIB < int(done.out) <= 32 * MIB, done
    for key in ("Files.WorkspaceSize=1G", "Files.WorkspaceInodes=1M"):
        assert run_sh("true", policy=name, as_user=user, options=sets(key)).status == 125, key
    done = run_sh("true", as_user=user, options=sets("Files.WorkspaceStore=disk"))
    assert done.status == 125 and "Files.WorkspaceStore" in done.err, done


def test_disk_is_none_of_udev_s_business():
    """What a run writes is not looked into by root: no device manager keeps a file system's or a RAID's name for the device."""
    if sh("systemctl is-active systemd-udevd", check=False).strip() != "active":
        raise box.Skip("no udevd here")
    client = start("/bin/sh", "-c", "echo up; sleep 100", policy=disk())
    client.stdout.readline()
    ours = [p.parent.parent for p in pathlib.Path("/sys/block").glob("loop*/loop/backing_file") if "/var/lib/agentbox/" in p.read_text()]
    assert len(ours) == 1, ours
    sh(["udevadm", "trigger", "--settle", str(ours[0])])
    properties = sh(["udevadm", "info", "--query=property", str(ours[0])])
    assert "ID_FS_TYPE" not in properties and "UDEV_DISABLE_PERSISTENT_STORAGE_RULES_FLAG=1" in properties, properties
    assert not pathlib.Path(f"/run/udev/watch/{ours[0].name}").exists()
    client.kill()
    client.wait()


def test_disk_is_explained():
    name = disk()
    shown = agentbox("policy", "explain", name).out
    assert "Files.WorkspaceStore=disk" in shown and "verified as workspace" in shown, shown
