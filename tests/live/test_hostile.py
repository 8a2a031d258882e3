# SPDX-License-Identifier: LGPL-2.1-or-later
"""A hostile program that has read the source: what it tries from inside, and what the host sees of it."""
import contextlib
import fcntl
import os
import pathlib
import socket
import struct
import subprocess
import termios
import threading
import time

from box import (at_end, broker_pid, events, expect, newest_run, only, outside_pid, policy, run, run_python, run_sh,
                 sandboxed_processes, sh, start, units, wait_for)
from test_tty import Terminal

# What each program starts with. attempt() prints a line: the name, and the result or the errno's name.
PRELUDE = """
import ctypes, errno, fcntl, os, signal, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
def call(number, *args):
    r = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    if r < 0:
        raise OSError(ctypes.get_errno(), '')
    return r
def mapped(size, prot, flags, fd=-1):
    p = libc.mmap(None, size, prot, flags, fd, 0)
    if p == 2 ** 64 - 1:
        raise OSError(ctypes.get_errno(), '')
    return p
def attempt(name, f):
    try:
        got = 'did ' + repr(f())
    except OSError as e:
        got = errno.errorcode.get(e.errno, str(e))
    print(name, got, flush=True)
"""

REFUSED = ("EACCES", "EPERM", "ENOENT", "EROFS", "ENOSYS", "ESRCH")


def attack(program, *args, **kw):
    """The lines that the program printed, as name: result."""
    done = run_python(PRELUDE + program, *args, **kw)
    assert done.stdout, done
    return dict(line.split(" ", 1) for line in done.out.splitlines() if " " in line)


def all_of(got, *allowed):
    wrong = {k: v for k, v in got.items() if v not in allowed}
    assert got and not wrong, wrong or "nothing was tried"


# --- what all of the host shares

def test_inotify_of_root_is_spared():
    got = attack("""
attempt('init', lambda: call(253))
attempt('init1', lambda: call(294, 0))
""")
    all_of(got, "ENOSYS")
    fd = int(sh(["python3", "-c", "import ctypes; print(ctypes.CDLL(None).inotify_init1(0))"]))
    assert fd >= 0


def test_asynchronous_requests_of_the_host_are_spared():
    before = pathlib.Path("/proc/sys/fs/aio-nr").read_text()
    client = start("/usr/bin/python3", "-c", PRELUDE + """
c = ctypes.c_ulong(0)
attempt('io_setup', lambda: call(206, 60000, ctypes.byref(c)))
time.sleep(60)""")
    assert client.stdout.readline() == b"io_setup ENOSYS\n"
    assert pathlib.Path("/proc/sys/fs/aio-nr").read_text() == before


def test_message_queues_are_not_charged_to_root():
    got = attack("""
attempt('mq_open', lambda: call(240, b'x', os.O_CREAT | os.O_RDWR, 0o600, 0))
attempt('by-path', lambda: os.open('/dev/mqueue/x', os.O_CREAT | os.O_RDWR, 0o600))
""")
    assert got["mq_open"] == "ENOSYS" and got["by-path"] in REFUSED + ("EMFILE", "ENOMEM"), got


def test_queued_signals_hardly_count_for_root():
    client = start("/usr/bin/python3", "-c", PRELUDE + """
signal.pthread_sigmask(signal.SIG_BLOCK, [40])
n = 0
while libc.sigqueue(os.getpid(), 40, None) == 0: n += 1
print(n, flush=True)
time.sleep(60)""")
    assert int(client.stdout.readline()) <= 256
    queued = next(l for l in pathlib.Path("/proc/self/status").read_text().splitlines() if l.startswith("SigQ:"))
    assert int(queued.split()[1].split("/")[0]) < 1000, queued


def test_huge_pages_of_the_host_are_spared():
    all_of(attack("""
attempt('mmap', lambda: mapped(2 << 20, 3, 0x40022))
attempt('mmap-1G', lambda: mapped(1 << 30, 3, 0x40022 | 30 << 26))
attempt('memfd', lambda: call(319, b'x', 4))
attempt('shmget', lambda: call(29, 0, 2 << 20, 0o4600))
"""), "ENOMEM", "ENOSYS")


def test_flushing_all_file_systems_is_not_done():
    """Success without an effect: what a file of the host has dirty stays dirty."""
    got = attack("attempt('sync', lambda: call(162)); attempt('syncfs', lambda: call(306, os.open('/usr', os.O_RDONLY)))")
    all_of(got, "did 0")
    got = attack("attempt('sync', lambda: call(162))", policy=policy("live-nosync", "[Syscalls]\nDeny=@sync\n"))
    all_of(got, "EPERM")


# --- looking at the host

def test_a_pidfd_tells_nothing_about_the_host():
    got = attack("""
def info(pid):
    b = bytearray(64)
    struct.pack_into('Q', b, 0, 7)
    fcntl.ioctl(call(434, pid, 0), 3 << 30 | 64 << 16 | 0xff0b, b, True)
    return struct.unpack('Q8I', bytes(b[:40]))
for n in range(1, 11):
    attempt(f'namespace-{n}', lambda: fcntl.ioctl(call(434, 1, 0), 0xff00 | n))
attempt('1', lambda: info(1))
attempt('broker', lambda: info(int(sys.argv[1])))
attempt('getfd', lambda: call(438, call(434, 1, 0), 0, 0))
""", str(broker_pid() or 1))
    all_of(got, "ENOTTY", "EPERM", "ESRCH", "ENOSYS")


def test_signals_reach_nobody_outside():
    other = start("/bin/sh", "-c", "echo $$; exec sleep 60")
    inside = outside_pid(newest_run()["run"], int(other.stdout.readline()))
    got = attack("""
for pid in map(int, sys.argv[1:]):
    for s in (0, 9, 19):
        attempt(f'{pid}-{s}', lambda: os.kill(pid, s))
    attempt(f'{pid}-queue', lambda: call(129, pid, 9, bytes(128)))
    attempt(f'{pid}-pidfd', lambda: call(424, call(434, pid, 0), 9, 0, 0))
    attempt(f'{pid}-limit', lambda: call(302, pid, 7, struct.pack('QQ', 0, 0), 0))
    attempt(f'{pid}-own', lambda: (fcntl.fcntl(1, fcntl.F_SETOWN, pid), fcntl.fcntl(1, fcntl.F_GETOWN))[1] and None)
signal.signal(15, signal.SIG_IGN)
attempt('everybody', lambda: os.kill(-1, 15))
""", "1", str(broker_pid()), str(other.pid), str(inside))
    for name, result in got.items():
        # The limits of number 1 nobody changes, but the call says that it did.
        if not name.endswith("-own") and name not in ("everybody", "1-limit"):
            assert result in ("EPERM", "ESRCH"), got
    assert other.poll() is None and pathlib.Path(f"/proc/{inside}").exists()


def test_proc_of_the_jit_profile_hides_the_machine():
    name = policy("live-jit", "[Policy]\nExtends=default\n[Syscalls]\nProfile=jit\n")
    got = attack("""
for f in ('cmdline', 'keys', 'key-users', 'locks', 'iomem', 'ioports', 'kallsyms', 'modules', 'interrupts', 'partitions', 'diskstats',
          'swaps', 'config.gz', 'sys/kernel/random/boot_id', 'kcore', 'kmsg', 'timer_list', 'bus/pci/devices', 'pressure/cpu', '1/status'):
    attempt(f, lambda: len(open('/proc/' + f, 'rb').read(64)))
attempt('write-sysctl', lambda: open('/proc/sys/vm/swappiness', 'w'))
attempt('write-pressure', lambda: open('/proc/pressure/memory', 'w'))
attempt('needed', lambda: len(open('/proc/meminfo').read(1) + open('/proc/cpuinfo').read(1) + open('/proc/stat').read(1)))
""", policy=name)
    assert got.pop("needed") == "did 3", got
    all_of(got, *REFUSED)


CANARY = "canary-of-the-host-83125"


def test_no_file_of_the_host_but_programs():
    """A file that everybody may read, in each place where hosts keep theirs."""
    places = ["/etc", "/etc/ssl", "/etc/default", "/var/lib", "/var/log", "/var/cache", "/var/tmp", "/tmp", "/home", "/root", "/opt", "/srv",
              "/run", "/run/user", "/dev/shm", "/boot", "/mnt", "/media", "/usr/.."]
    for place in places:
        if pathlib.Path(place).is_dir():
            path = pathlib.Path(place) / CANARY
            path.write_text(CANARY)
            path.chmod(0o644)
            at_end(path.unlink)
    done = expect(run_sh(f"find / -name '{CANARY}' 2>/dev/null; cat {' '.join(p + '/' + CANARY for p in places)} 2>/dev/null; echo end"))
    assert done.out == "end\n", done
    done = expect(run_sh("find / -xdev -type f -readable 2>/dev/null; true"))
    allowed = ("/etc/ssl/openssl.cnf", "/etc/ssl/cert.pem")
    assert all(os.path.dirname(f) == "/etc" or f in allowed for f in done.out.split()), done


def test_nothing_else_can_be_written():
    got = attack("""
kept = []
for top, dirs, files in os.walk('/'):
    if top == '/':
        dirs[:] = [d for d in dirs if d not in ('proc', 'usr')]
    try:
        open(top + '/.probe', 'w').close()
        os.unlink(top + '/.probe')
        kept.append(top)
    except OSError:
        pass
for top in ('/usr', '/usr/bin', '/usr/local', '/usr/lib/agentbox', '/usr/share'):
    attempt(top, lambda: os.open(top + '/.probe', os.O_CREAT | os.O_WRONLY))
attempt('places', lambda: sorted(kept))
for f in ('mem', 'loginuid', 'autogroup', 'oom_score_adj', 'uid_map', 'setgroups', 'attr/exec', 'attr/current', 'timens_offsets'):
    attempt('self-' + f, lambda: open('/proc/self/' + f, 'r+b', buffering=0).write(b'-1'))
""")
    assert got.pop("places") == "did ['/dev/shm', '/tmp', '/var/tmp', '/workspace']", got
    all_of(got, *REFUSED, "EINVAL")


# --- code that was written inside, under strict

def test_strict_maps_no_written_code():
    got = attack("""
code = bytes([0xb8, 42, 0, 0, 0, 0xc3]) * 600
for flags in (0, 1, 8, 9, 16):
    attempt(f'memfd-{flags}', lambda: call(319, b'x', flags))
for d in ('/workspace', '/tmp', '/var/tmp', '/dev/shm'):
    f = os.open(d + '/code', os.O_RDWR | os.O_CREAT, 0o700)
    os.write(f, code)
    for flags in (1, 2):
        attempt(f'{d}-{flags}', lambda: mapped(4096, 5, flags, f))
    os.close(f)
    attempt(d + '-exec', lambda: os.execv(d + '/code', ['x']))
p = mapped(4096, 3, 0x22)
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
def protect():
    if libc.mprotect(p, 4096, 5): raise OSError(ctypes.get_errno(), '')
attempt('mprotect', protect)
attempt('write-execute', lambda: mapped(4096, 7, 0x22))
attempt('pkey', lambda: call(329, p, 4096, 5, -1))
attempt('shm', lambda: call(29, 0, 4096, 0o1700))
attempt('personality', lambda: call(135, 0x400000))
attempt('execveat', lambda: call(322, -100, b'/bin/true', 0, 0, 0))
attempt('map-files', lambda: os.open('/proc/self/map_files/' + os.listdir('/proc/self/map_files')[0], os.O_RDWR))
attempt('mem', lambda: os.open('/proc/self/mem', os.O_RDWR))
""", policy="strict")
    all_of(got, "EPERM", "EACCES", "ENOSYS", "ENOENT")
    done = run_sh("cp /bin/true /workspace/true; /lib64/ld-linux-x86-64.so.2 /workspace/true", policy="strict")
    assert done.status != 0, done


def test_foreign_calls_kill():
    for program in ("call(0x40000000 | 39)", "call(0x40000000 | 520, 0, 0, 0)",
                    "p = mapped(4096, 7, 0x22); ctypes.memmove(p, bytes([0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3]), 8); ctypes.CFUNCTYPE(ctypes.c_int)(p)()"):
        done = expect(run_python(PRELUDE + program + "\nprint('survived')"), 128 + 31)
        assert b"survived" not in done.stdout and done.result["reason"] == "signal", done


# --- crashes

def test_no_crash_handler_sees_a_crash():
    """To a pipe in core_pattern only a limit of exactly 1 says no; so it must be that, and stay that."""
    got = attack("""
import resource
attempt('at-first', lambda: resource.getrlimit(resource.RLIMIT_CORE))
for value in ((0, 0), (0, 1), (-1, -1)):
    attempt(f'set-{value[0]}-{value[1]}', lambda: call(302, 0, 4, struct.pack('qq', *value), 0))
attempt('setrlimit', lambda: call(160, 4, struct.pack('QQ', 0, 1)))
attempt('then', lambda: resource.getrlimit(resource.RLIMIT_CORE))
""")
    assert got["at-first"] == got["then"] == "did (1, 1)", got
    done = run_sh("python3 -c 'import ctypes; ctypes.string_at(0)'; ls /workspace /tmp | wc -w; kill -SEGV $$")
    assert done.status == 128 + 11 and done.out.split()[-1] == "2", done  # the two names that ls prints as headings


@only("vm")  # the pattern is the whole kernel's
def test_the_crash_handler_of_this_host_is_not_run():
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern")
    at_end(pattern.write_text, pattern.read_text())
    seen, handler = pathlib.Path("/var/tmp/agentbox-live-crashes"), pathlib.Path("/var/tmp/agentbox-live-handler")
    handler.write_text(f"#!/bin/sh\necho $1 >>{seen}\ncat >/dev/null\n")
    handler.chmod(0o755)
    at_end(handler.unlink)
    at_end(lambda: seen.unlink(missing_ok=True))
    pattern.write_text(f"|{handler} %u")
    subprocess.run(["prlimit", "--core=0", "sh", "-c", "kill -SEGV $$"], check=False)
    wait_for("the handler's note of a crash outside", seen.exists)
    run_sh("kill -SEGV $$")
    run_sh("prlimit --core=0; ulimit -c 0; kill -SEGV $$")
    run_python(PRELUDE + "call(302, 0, 4, struct.pack('QQ', 0, 0), 0); ctypes.string_at(0)", policy="strict")
    time.sleep(1)
    assert seen.read_text() == "0\n", seen.read_text()


def test_a_crash_loop_writes_no_records():
    done = expect(run_python(PRELUDE + """
end = time.monotonic() + 2
while time.monotonic() < end:
    if os.fork() == 0: ctypes.string_at(0)
    os.wait()
"""))
    assert len(events(done.run)) <= 5, events(done.run)


# --- what the program starts with

def test_nothing_is_inherited():
    got = attack("""
status = dict(l.rstrip("\\n").split(':\\t', 1) for l in open('/proc/self/status') if ':\\t' in l)
attempt('signals', lambda: [int(status[k], 16) for k in ('SigPnd', 'ShdPnd', 'SigBlk')])
attempt('environment', lambda: sorted(os.environ))
attempt('parent-death', lambda: (libc.prctl(2, ctypes.byref(x := ctypes.c_int(9))), x.value)[1])
attempt('timers', lambda: (signal.getitimer(0), open('/proc/self/timers').read()))
attempt('session', lambda: os.getsid(0) == os.getpid())
attempt('umask', lambda: oct(os.umask(0)))
attempt('cwd', os.getcwd)
attempt('descriptors', lambda: sorted(os.listdir('/proc/self/fd'))[:3])
attempt('fd-3', lambda: os.fstat(3))
""", env={"SECRET": "x", "LD_PRELOAD": "", "NOTIFY_SOCKET": "/x"})
    assert got["signals"] == "did [0, 0, 0]", got
    assert got["environment"] == "did ['HOME', 'LANG', 'LOGNAME', 'PATH', 'SHELL', 'TMPDIR', 'USER']", got
    assert got["parent-death"] == "did 0" and got["timers"] == "did ((0.0, 0.0), '')", got
    assert got["session"] == "did True" and got["umask"] == "did '0o22'" and got["cwd"] == "did '/workspace'", got
    assert got["fd-3"] == "EBADF", got


def test_programs_with_file_capabilities_have_none():
    done = expect(run_sh("for p in /usr/bin/ping /usr/bin/newuidmap /usr/bin/mtr-packet /usr/bin/su; do getcap $p 2>/dev/null; done; "
                         "cp /usr/bin/grep g; ./g CapEff /proc/self/status; setcap cap_net_raw+ep g 2>&1; ./g CapEff /proc/self/status"))
    assert "CapEff:\t0000000000000000" in done.out and done.out.count("CapEff:\t0000000000000000") == 2, done


# --- the relay

def test_own_ends_of_the_pipes_and_no_others():
    done = expect(run_sh("echo out >/dev/stdout; echo err >/dev/stderr; cat /dev/stdin", stdin=b"in\n"))
    assert done.stdout == b"out\nin\n" and done.stderr == b"err\n", done
    got = attack("""
for name, mode in (('stdout', os.O_RDONLY), ('stdout', os.O_RDWR), ('stderr', os.O_RDONLY), ('stdin', os.O_WRONLY), ('stdin', os.O_RDWR)):
    attempt(f'{name}-{mode}', lambda: os.open('/dev/' + name, mode | os.O_NONBLOCK))
attempt('chmod', lambda: os.fchmod(1, 0o777))
attempt('chown', lambda: call(93, 1, os.getuid(), -1))
""")
    all_of(got, "EACCES", "EPERM")


def test_tricks_with_the_pipes_do_not_hold_the_client():
    done = expect(run_python(PRELUDE + """
for fd in (0, 1, 2):
    fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)
    for size in (1 << 20, 4096): fcntl.fcntl(fd, 1031, size)
    for what in (fcntl.F_SETLEASE, fcntl.F_NOTIFY):
        try: fcntl.fcntl(fd, what, fcntl.F_WRLCK)
        except OSError: pass
signal.signal(signal.SIGIO, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while True: time.sleep(1)
left = 300000
while left:
    try: left -= os.write(1, b'x' * min(left, 4096))
    except BlockingIOError: time.sleep(0.001)
os._exit(6)
""", timeout=40), 6)
    assert done.stdout == b"x" * 300000, len(done.stdout)


def test_flow_control_does_not_hold_the_client():
    t = Terminal("/usr/bin/python3", "-c", "import os, termios; os.write(1, b'before'); termios.tcflow(1, termios.TCOOFF); os._exit(3)")
    assert t.wait() == 3 and t.modes() == t.before
    t = Terminal("/usr/bin/python3", "-c", "import os, termios; termios.tcflow(1, termios.TCOOFF); os.write(1, bytes(100000))",
                 options=["--timeout", "2s"])
    assert t.wait() == 124 and t.modes() == t.before


def test_a_writer_that_stays_does_not_hold_the_terminal():
    t = Terminal("/usr/bin/python3", "-c", PRELUDE + """
if os.fork() == 0:
    signal.signal(1, signal.SIG_IGN)
    os.setsid()
    while True:
        try: os.write(1, b'y' * 4096)
        except OSError: time.sleep(0.1)
time.sleep(0.3)
os._exit(5)""")
    assert t.wait() == 5 and t.modes() == t.before


def test_terminal_requests_end_at_the_pty():
    t = Terminal("/usr/bin/python3", "-c", PRELUDE + """
for name, request in (('sti', 0x5412), ('cons', 0x541d), ('linux', 0x541c), ('setd', 0x5423), ('hangup', 0x5437), ('packet', 0x5420),
                      ('peer', 0x5441), ('lock', 0x40045431), ('keymap', 0x4b47)):
    attempt(name, lambda: fcntl.ioctl(0, request, bytes(64)))
attempt('exclusive', lambda: fcntl.ioctl(0, 0x540c))
print('done')""")
    t.read_until(b"done")
    t.wait()
    got = dict(l.split(" ", 1) for l in t.seen.decode().replace("\r", "").splitlines() if " " in l)
    assert got.pop("exclusive") == "did 0", got
    all_of({k: v for k, v in got.items() if k in ("sti", "cons", "linux", "setd", "hangup", "packet", "peer", "lock", "keymap")},
           "EPERM", "ENOTTY", "EINVAL", "EIO")
    assert t.modes() == t.before and struct.unpack("HHHH", fcntl.ioctl(t.slave, termios.TIOCGWINSZ, bytes(8)))[:2] == (41, 97)


# --- lifetime and verdict

def test_nothing_outlives_a_fork_race():
    """Children fork on while the run is torn down."""
    done = run_python(PRELUDE + """
def spin():
    os.setsid()
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while True:
        try:
            if os.fork() == 0: os.setsid()
        except OSError: pass
for _ in range(8):
    try:
        if os.fork() == 0: spin()
    except OSError: pass
os._exit(7)""")
    assert done.status == 7 and done.result["reason"] == "exited", done
    wait_for("the end of all processes", lambda: not sandboxed_processes() and not units(), 5)


def test_statuses_cannot_be_mistaken_in_the_record():
    for status in (124, 125, 126, 127, 137):
        done = expect(run_sh(f"exit {status}"), status)
        assert done.result["reason"] == "exited" and done.result["exit_code"] == status, done
    done = expect(run_sh("kill -KILL $$"), 137)
    assert done.result["reason"] == "signal" and done.result["signal"] == 9, done


# --- the network

def listen_everywhere(seen):
    """Listeners of the host on all addresses; what reaches them is noted."""
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            s = socket.socket(family, kind)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            s.bind((address, 47811))
            if kind == socket.SOCK_STREAM:
                s.listen()

            def serve(s=s, kind=kind):
                with contextlib.suppress(OSError):
                    while True:
                        if kind == socket.SOCK_DGRAM:
                            seen.append(s.recvfrom(99))
                            continue
                        with s.accept()[0] as c:
                            seen.append(c.getsockname())
            threading.Thread(target=serve, daemon=True).start()
            at_end(s.close)
            if kind == socket.SOCK_STREAM:
                at_end(s.shutdown, socket.SHUT_RDWR)


CONNECT = """
def tcp(address, protocol=0):
    s = socket.socket(socket.AF_INET6 if ':' in address else socket.AF_INET, socket.SOCK_STREAM, protocol)
    s.settimeout(0.5)
    s.connect((address, 47811))
def udp(address):
    s = socket.socket(socket.AF_INET6 if ':' in address else socket.AF_INET, socket.SOCK_DGRAM)
    s.sendto(b'x', (address, 47811))
def fast_open(address):
    s = socket.socket(socket.AF_INET6 if ':' in address else socket.AF_INET)
    s.settimeout(0.5)
    s.sendto(b'x', socket.MSG_FASTOPEN, (address, 47811))
for a in sys.argv[1:]:
    attempt('tcp-' + a, lambda: tcp(a))
    attempt('mptcp-' + a, lambda: tcp(a, 262))
    attempt('udp-' + a, lambda: udp(a))
    attempt('fast-' + a, lambda: fast_open(a))
"""


def test_listeners_of_the_host_are_out_of_reach():
    seen = []
    listen_everywhere(seen)
    for name in ("default", "offline"):
        got = attack(CONNECT, "127.0.0.1", "0.0.0.0", "192.0.2.2", "::1", "::", "::ffff:127.0.0.1", "127.1.2.3", policy=name)
        assert not any(v == "did None" for k, v in got.items() if k.startswith(("tcp", "mptcp"))), got
    time.sleep(0.2)
    assert not seen, seen


def test_the_metadata_service_in_every_spelling():
    addresses = ["169.254.169.254", "100.100.100.200", "fd00:ec2::254", "64:ff9b::a9fe:a9fe"]
    for a in addresses:
        sh(["ip", "addr", "add", a + ("/128" if ":" in a else "/32"), "dev", "lo"] + (["nodad"] if ":" in a else []))
        at_end(sh, ["ip", "addr", "del", a + ("/128" if ":" in a else "/32"), "dev", "lo"])
    seen = []
    listen_everywhere(seen)
    name = policy("live-metadata-open", "[Network]\nEgress=open\n")
    attack(CONNECT, *addresses, "::ffff:169.254.169.254", "::ffff:100.100.100.200", policy=name)
    time.sleep(0.2)
    assert not seen, seen
    attack(CONNECT, "127.0.0.1", policy=name)
    wait_for("what is allowed to arrive", lambda: seen)


def test_two_runs_do_not_meet_on_the_network():
    other = start("/usr/bin/python3", "-c", "import socket; s = socket.create_server(('', 47812)); print('ready', flush=True); s.accept(); print('met')")
    assert other.stdout.readline() == b"ready\n"
    got = attack("""
for a in ('127.0.0.1', '192.0.2.2'):
    attempt(a, lambda: socket.create_connection((a, 47812), 1))
""")
    all_of(got, "ECONNREFUSED")


def test_abstract_names_of_the_host_cannot_be_taken():
    """A name that a service of the host would use, or that a client of it trusts."""
    name = policy("live-squat", "[Network]\nEgress=open\n")
    client = start("/usr/bin/python3", "-c", PRELUDE + """
def take():
    global s
    s = socket.socket(socket.AF_UNIX)
    s.bind('\\0agentbox-live-squat')
    s.listen()
attempt('bind', take)
time.sleep(60)""", policy=name)
    assert client.stdout.readline().split()[1] in (b"EAFNOSUPPORT", b"EPERM", b"EACCES")
    with socket.socket(socket.AF_UNIX) as s:
        assert s.connect_ex("\0agentbox-live-squat") != 0


def test_families_and_protocols_that_are_closed():
    got = attack("""
for family, kind, protocol in ((2, 3, 1), (2, 3, 255), (2, 1, 132), (2, 2, 136), (2, 6, 33), (10, 3, 58), (17, 3, 0x300), (40, 1, 0), (38, 5, 0),
                               (16, 3, 12), (16, 3, 6), (16, 3, 9), (16, 3, 15), (16, 3, 16), (29, 3, 1), (21, 5, 0), (33, 2, 2), (44, 3, 0),
                               (30, 1, 0), (43, 1, 0), (31, 3, 1), (8, 3, 0)):
    attempt(f'{family}-{kind}-{protocol}', lambda: socket.socket(family, kind, protocol))
""")
    all_of(got, "EPERM", "EAFNOSUPPORT")


def test_a_lock_on_a_program_ends_with_the_run():
    """The files below /usr are the host's own, so locks on them are seen there; no longer than the run lives."""
    done = run_python("import fcntl; f = open('/usr/bin/env'); fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)")
    assert done.status == 0, done
    with open("/usr/bin/env", "rb") as f:
        fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert subprocess.run(["/usr/bin/env", "true"], check=False).returncode == 0
    expect(run("/bin/true"))
