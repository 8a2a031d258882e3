# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a hostile program finds inside: nothing that was not put there for it."""
import os
import pathlib
import socket
import subprocess

from box import (agentbox, at_end, cgroup_v2, expect, newest_run, outside_pid, policy, run, run_python, run_sh, sh, start,
                 systemd_version, write_file)

TRY = r"""
import os, sys, errno
def attempt(name, f):
    try:
        r = f()
        print(name, 'WORKED', r)
    except OSError as e:
        print(name, errno.errorcode.get(e.errno, e.errno))
"""


def results(done):
    expect(done)
    return dict(line.split(" ", 1) for line in done.out.splitlines())


def test_host_files_are_absent():
    write_file("/root/agentbox-secret", "hunter2")
    write_file("/srv/agentbox-secret", "hunter2")
    write_file("/tmp/agentbox-secret", "hunter2")
    os.chmod("/tmp/agentbox-secret", 0o644)
    for path in ("/root/agentbox-secret", "/srv/agentbox-secret", "/tmp/agentbox-secret", "/etc/shadow", "/etc/machine-id",
                 "/etc/ssh", "/var/log", "/var/lib", "/home/x", "/opt", "/mnt", "/media", "/boot", "/etc/agentbox",
                 "/run/agentbox", "/etc/ssl/private", "/etc/sudoers"):
        done = run("/bin/ls", "-d", path)
        if done.status == 0:
            done = run_sh(f"ls -A {path} | head -3")
            assert done.status != 0 or done.stdout == b"", (path, done)


def test_the_root_holds_only_what_belongs():
    done = expect(run_sh("ls -A / | sort | tr '\\n' ' '"))
    allowed = {"bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "sys", "tmp", "usr", "var", "workspace",
               "home", "root"}
    extra = set(done.out.split()) - allowed
    assert all(e.startswith((".", "zz")) for e in extra), extra
    done = expect(run_sh("ls -A /etc | sort"))
    assert not {"shadow", "gshadow", "ssh", "sudoers", "agentbox", "machine-id", "polkit-1", "systemd"} & set(done.out.split()), done


def test_run_is_empty():
    # 255 and later leave a link to the host's os-release, which leads nowhere.
    done = expect(run_sh("find /run -mindepth 1 2>/dev/null | head; cat /run/host/os-release 2>/dev/null; true"))
    assert set(done.out.split()) <= {"/run/systemd", "/run/systemd/incoming", "/run/host", "/run/host/incoming", "/run/host/os-release"}, done


def test_sys_is_hidden():
    done = run_sh("find /sys -mindepth 1 2>/dev/null | head")
    assert done.stdout == b"", done


def test_writable_places_are_three():
    done = expect(run_sh("find / -xdev -maxdepth 3 -writable ! -type l ! -path '/proc/*' 2>/dev/null; "
                         "find /dev /usr /etc /var -writable ! -type l 2>/dev/null; true"))
    allowed = ("/workspace", "/tmp", "/var/tmp", "/dev/shm", "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom",
               "/dev/tty", "/dev/ptmx", "/dev/mqueue", "/proc")
    odd = [p for p in done.out.split() if p not in allowed and not p.startswith(("/proc/", "/dev/fd", "/dev/std"))]
    assert odd == [], odd


def test_mount_table_has_no_host_file_system_writable():
    done = expect(run("/bin/cat", "/proc/self/mountinfo"))
    for line in done.out.splitlines():
        left, right = line.split(" - ")
        target, options, fstype = left.split()[4], left.split()[5].split(","), right.split()[0]
        if "rw" in options:
            assert fstype in ("tmpfs", "proc", "mqueue", "devpts", "devtmpfs") or target in ("/proc",), line
        if fstype in ("ext4", "btrfs", "xfs", "overlay"):
            assert "ro" in options and "nosuid" in options, line


def test_devices():
    done = expect(run_sh("ls -l /dev | awk '/^[bc]/ {print $NF}' | sort | tr '\\n' ' '"))
    assert set(done.out.split()) <= {"full", "null", "ptmx", "random", "tty", "urandom", "zero"}, done
    got = results(run_python(TRY + """
for d in ('/dev/kmsg', '/dev/mem', '/dev/vda', '/dev/sda', '/dev/net/tun', '/dev/kvm', '/dev/fuse', '/dev/ptmx', '/dev/pts/0'):
    attempt(d, lambda: os.open(d, os.O_RDWR))
import stat
attempt('mknod', lambda: os.mknod('/workspace/mem', 0o600 | stat.S_IFCHR, os.makedev(1, 1)))
"""))
    assert all(v in ("ENOENT", "EACCES", "EPERM", "ENODEV", "ENXIO", "EIO") for v in got.values()), got


def test_no_cgroup_of_the_host_is_visible():
    """From 257 on PID 1 gives the run a cgroup namespace where there is one hierarchy; else its own group's name is to be seen, and no
    more."""
    lines = expect(run("/bin/cat", "/proc/self/cgroup")).out.splitlines()
    paths = {line.split(":", 2)[2] for line in lines}
    assert paths, lines
    if systemd_version() >= 257 and cgroup_v2():
        assert paths == {"/"}, lines
    else:
        assert all(path == "/" or path.startswith("/agentbox") for path in paths), lines


def test_no_process_of_the_host_is_visible():
    done = expect(run_sh("ls /proc | grep '^[0-9]' | while read p; do cat /proc/$p/comm 2>/dev/null; done; true"))
    assert set(done.out.split()) <= {"sh", "ls", "grep", "cat", "agentbox-exec"}, done
    got = results(run_python(TRY + """
for p in ('/proc/1/environ', '/proc/1/root', '/proc/1/cwd', '/proc/1/fd', f'/proc/{os.getppid()}/environ', f'/proc/{os.getppid()}/root/etc'):
    attempt(p, lambda: os.listdir(p) if p.endswith(('fd', 'root', 'etc', 'cwd')) else open(p).read())
attempt('kill-1', lambda: os.kill(1, 0))
attempt('kill-another', lambda: os.kill(2 if os.getpid() != 2 else 3, 9))
"""))
    assert all(v in ("ENOENT", "EACCES", "EPERM", "ESRCH") for v in got.values()), got


def test_another_run_is_out_of_reach():
    other = start("/bin/sh", "-c", "echo $$ $(id -u); exec sleep 60", options=["--timeout", "90s", "-e", "SECRET=x"])
    inside, uid = other.stdout.readline().split()
    pid = outside_pid(newest_run()["run"], int(inside))
    done = run_python(TRY + f"""
attempt('own-uid', lambda: print('uid', os.getuid()))
attempt('kill', lambda: os.kill({int(pid)}, 9))
attempt('environ', lambda: open('/proc/{int(pid)}/environ').read())
attempt('mem', lambda: os.open('/proc/{int(pid)}/mem', os.O_RDWR))
""")
    got = results(done)
    assert got["kill"] in ("EPERM", "ESRCH") and got["environ"] in ("EACCES", "ENOENT") and got["mem"] in ("EACCES", "ENOENT"), got
    assert got["uid"] != uid.decode(), got
    assert other.poll() is None


def test_kernel_interfaces_are_closed():
    got = results(run_python(TRY + """
for p in ('/proc/kallsyms', '/proc/kcore', '/proc/kmsg', '/proc/sysrq-trigger', '/proc/sys/kernel/core_pattern', '/proc/keys',
          '/proc/sys/kernel/hostname', '/proc/cpuinfo', '/proc/modules', '/proc/timer_list', '/proc/config.gz', '/proc/acpi'):
    attempt(p, lambda: len(open(p, 'rb').read(10)))
attempt('write-hostname', lambda: open('/proc/sys/kernel/hostname', 'w'))
attempt('oom-adj', lambda: open('/proc/self/oom_score_adj', 'w').write('-1000'))
"""))
    got.pop("/proc/cpuinfo")
    assert all(v in ("ENOENT", "EACCES", "EPERM", "EROFS") for v in got.values()), got


def test_no_capability_and_no_way_to_one():
    done = expect(run_sh("grep -E '^(Cap|NoNewPrivs|Seccomp:|Groups|Uid)' /proc/self/status"))
    facts = dict(line.split(":\t", 1) for line in done.out.splitlines())
    assert all(int(facts[c], 16) == 0 for c in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")), facts
    assert facts["NoNewPrivs"] == "1" and facts["Seccomp"] == "2", facts
    assert len(set(facts["Uid"].split())) == 1, facts
    got = results(run_python(TRY + """
attempt('setuid', lambda: os.setuid(0))
attempt('setgid', lambda: os.setgid(0))
attempt('setgroups', lambda: os.setgroups([0]))
attempt('chroot', lambda: os.chroot('/workspace'))
attempt('nice', lambda: os.nice(-5))
attempt('suid', lambda: (open('/workspace/s', 'w').close(), os.chmod('/workspace/s', 0o4755))[1])
attempt('chown', lambda: os.chown('/workspace/s', 0, 0))
"""))
    assert all(not v.startswith("WORKED") for v in got.values()), got


def test_descriptors_of_the_caller_stay_outside():
    secret = os.open("/etc/shadow", os.O_RDONLY)
    os.dup2(secret, 3, inheritable=True)
    os.dup2(secret, 900, inheritable=True)
    for fd in (secret, 3, 900):
        at_end(os.close, fd)
    done = subprocess.run(["agentbox", "run", "--", "/bin/sh", "-c", "ls /proc/self/fd | tr '\\n' ' '; cat <&3; cat <&900"],
                          close_fds=False, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    assert set(done.stdout.split()) <= {b"0", b"1", b"2", b"3"}, done  # 3: ls itself reading the directory
    assert b"root:" not in done.stdout, done


def test_stdio_is_not_the_callers():
    with open("/tmp/agentbox-stdio", "wb+") as f:
        at_end(os.unlink, "/tmp/agentbox-stdio")
        f.write(b"before\n")
        f.flush()
        subprocess.run(["agentbox", "run", "--", "/bin/sh", "-c", "readlink /proc/self/fd/1; truncate -s 0 /proc/self/fd/1 2>/dev/null"],
                       stdout=f, stdin=subprocess.DEVNULL, check=False)
        f.seek(0)
        assert f.read().startswith(b"before\npipe:"), "the sandbox reached the caller's file"


def test_host_sockets_are_absent():
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("\0agentbox-live-abstract")
    listener.listen()
    at_end(listener.close)
    program = TRY + """
import socket
def connect(a):
    s = socket.socket(socket.AF_UNIX)
    s.connect(a)
attempt('abstract', lambda: connect('\\0agentbox-live-abstract'))
for p in ('/run/dbus/system_bus_socket', '/run/systemd/private', '/run/systemd/journal/socket', '/run/systemd/journal/dev-log', '/dev/log',
          '/run/systemd/notify', '/run/systemd/userdb/io.systemd.DynamicUser', '/var/run/docker.sock', '/run/docker.sock', '/run/nscd/socket'):
    attempt(p, lambda: connect(p))
"""
    for name in ("default", "offline", "strict"):
        got = results(run_python(program, policy=name))
        abstract = got.pop("abstract")
        assert abstract in ("ECONNREFUSED", "EAFNOSUPPORT", "EPERM"), (name, abstract)
        assert all(v in ("ENOENT", "EACCES", "EAFNOSUPPORT", "EPERM", "ENOTDIR") for v in got.values()), (name, got)


def test_abstract_sockets_of_the_host_under_open():
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("\0agentbox-live-open")
    listener.listen()
    at_end(listener.close)
    policy("live-open", "[Network]\nEgress=open\n")
    got = results(run_python(TRY + """
import socket
attempt('abstract', lambda: socket.socket(socket.AF_UNIX).connect('\\0agentbox-live-open'))
a, b = socket.socketpair()
a.send(b'x'); print('pair', b.recv(1))
""", policy="live-open"))
    assert got["abstract"] in ("EAFNOSUPPORT", "EPERM"), got


def test_identity_inside():
    done = expect(run_sh("id -u; id -un; whoami; hostname; echo $HOME $USER; getent passwd $(id -u) | cut -d: -f1,6"))
    uid, name, who, host, home, entry = done.out.splitlines()
    assert 61184 <= int(uid) <= 65519 and name == who == "agent", done
    assert host != os.uname().nodename, done
    assert entry == "agent:/workspace" and home == "/workspace agent", done


def test_keyrings_and_ipc():
    sh("ipcmk -M 4096")
    at_end(sh, "ipcs -m | awk '/^0x/ {print $2}' | xargs -rn1 ipcrm -m")
    done = expect(run_sh("cat /proc/sysvipc/shm 2>/dev/null | wc -l; ls /dev/mqueue /dev/shm 2>/dev/null | wc -l"))
    assert done.out.split()[0] in ("0", "1"), done


def test_shm_does_not_survive():
    expect(run_sh("echo residue >/dev/shm/left; echo residue >/tmp/left; echo residue >/workspace/left"))
    done = run_sh("cat /dev/shm/left /tmp/left /workspace/left")
    assert done.status != 0 and b"residue" not in done.stdout, done
    assert not pathlib.Path("/dev/shm/left").exists()


def test_setuid_programs_give_nothing():
    done = run_sh("for p in /usr/bin/su /usr/bin/mount /usr/bin/passwd /usr/bin/newgrp /usr/bin/sudo; do [ -u $p ] && "
                  "/usr/bin/setpriv --dump 2>/dev/null | head -2; done; cp /usr/bin/id /workspace/id; chmod 4755 /workspace/id 2>&1; /workspace/id -u")
    assert b"\n0\n" not in b"\n" + done.stdout, done


def test_exec_shim_is_gone():
    done = expect(run_sh("cat /proc/1/comm 2>/dev/null; ps ax 2>/dev/null | grep -c agentbox-exec || true; tr '\\0' ' ' </proc/self/cmdline"))
    assert "/usr/lib/agentbox" not in done.out, done


def test_properties_do_not_show_argv_or_environment():
    client = start("/bin/sh", "-c", "echo ready; exec sleep 30 # argv-marker-7431", options=["-e", "TOKEN=env-marker-7432"])
    assert client.stdout.readline() == b"ready\n"
    shown = sh("systemctl show 'agentbox-*.service'; systemctl cat 'agentbox-*.service' 2>&1 || true", check=False)
    assert "argv-marker-7431" not in shown and "env-marker-7432" not in shown
    assert "agentbox-exec" in shown
    agentbox("kill", "--all")
