# SPDX-License-Identifier: LGPL-2.1-or-later
"""Secrets of the host and of the caller: each kind is planted first, then looked for from inside, with the means that whoever is
after it would use. And the one way in for a secret that a task must have."""
import ctypes
import os
import pathlib
import socket
import subprocess

from box import (Skip, USER, agentbox, at_end, dropin, expect, leftovers, policy, run, run_python, run_sh, sh, start, units, user,
                 wait_for, write_file)

# In pieces: this file itself may be readable somewhere.
CANARY = "canary-" + "5f1d0a77"
SECRET = "s3cret-" + "b41e60c9"
CREDENTIALS = "/etc/agentbox/credentials"
JIT = "live-secrets-jit"

TRY = r"""
import ctypes, errno, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, f):
    try:
        print(name, 'WORKED', repr(f()))
    except OSError as e:
        print(name, errno.errorcode.get(e.errno, e.errno))
def call(number, *args):
    r = libc.syscall(number, *args)
    if r < 0:
        raise OSError(ctypes.get_errno(), 'x')
    return r
def read(path):
    with open(path, 'rb') as f:
        return f.read(200)
"""


def results(done):
    expect(done)
    return dict(line.split(" ", 1) for line in done.out.splitlines())


def refused(got):
    worked = {name: said for name, said in got.items() if said.startswith("WORKED")}
    assert got and not worked, worked
    return got


def policies():
    """Those that differ in what of the system is visible."""
    policy(JIT, "[Network]\nEgress=none\n[Syscalls]\nProfile=jit\n[Limits]\nMemory=1G\n")
    return "default", "offline", "strict", JIT


def plant(path, mode=0o644):
    write_file(path, f"{CANARY} in {path}\n")
    os.chmod(path, mode)
    return path


def readable(*paths):
    """Readable by everybody outside: it is not the mode that keeps a run from it."""
    return [plant(p) for p in paths]


SEARCH = TRY + """
canary = sys.argv[1].encode()
seen = 0
for top, directories, files in os.walk('/'):
    if top in ('/', '/usr'):
        directories[:] = [d for d in directories if d not in ('proc', 'usr', 'bin', 'sbin') and not d.startswith('lib')]
    for name in files:
        try:
            with open(os.path.join(top, name), 'rb') as f:
                if os.fstat(f.fileno()).st_mode & 0o170000 == 0o100000:
                    seen += 1
                    if canary in f.read(1 << 20):
                        print('FOUND', os.path.join(top, name))
        except OSError:
            pass
for path in sys.argv[2:]:
    attempt(path, lambda: read(path))
print('seen', seen)
"""


def search(paths, name="default"):
    done = expect(run_python(SEARCH, CANARY, *paths, policy=name))
    assert CANARY not in done.out and "FOUND" not in done.out, done
    got = results(done)
    assert int(got.pop("seen")) > 3, done  # it has searched something: /etc
    assert set(got) == set(paths), done
    assert all(v in ("ENOENT", "EACCES", "EPERM", "ENOTDIR") for v in got.values()), got


def test_directories_of_the_host():
    paths = readable("/etc/canary.conf", "/etc/default/canary", "/home/canary/notes", "/root/canary", "/var/lib/canary/state",
                     "/var/log/canary.log", "/var/cache/canary", "/srv/canary", "/opt/canary/license", "/mnt/canary", "/media/canary",
                     "/run/canary", "/boot/canary", "/tmp/canary", "/var/tmp/canary", "/dev/shm/canary")
    for name in policies():
        search(paths, name)


def test_what_is_exposed_is_all_that_is_visible():
    paths = readable("/srv/canary-hidden/x", "/opt/canary-hidden")
    policy("live-shown", "[Files]\nExpose=/srv/shown\n")
    write_file("/srv/shown/x", "shown\n")
    search(paths, "live-shown")
    # And the search finds what is there.
    plant("/srv/shown/canary")
    expect(run_python(SEARCH, CANARY, policy="live-shown"), out="FOUND /srv/shown/canary\n")


def test_service_account_tokens():
    search(readable("/var/run/secrets/kubernetes.io/serviceaccount/token", "/run/secrets/kubernetes.io/serviceaccount/token",
                    "/run/secrets/eks.amazonaws.com/serviceaccount/token", "/var/run/secrets/db-password", "/run/credentials/canary/token",
                    "/var/lib/kubelet/pki/canary.pem", "/etc/kubernetes/admin.conf"))


def test_cloud_and_developer_credential_files():
    for home in ("/root", "/home/canary"):
        search(readable(*(f"{home}/{p}" for p in (
            ".aws/credentials", ".config/gcloud/application_default_credentials.json", ".azure/accessTokens.json", ".kube/config",
            ".docker/config.json", ".netrc", ".git-credentials", ".config/gh/hosts.yml", ".npmrc", ".pypirc", ".ssh/id_ed25519",
            ".gnupg/private-keys-v1.d/canary.key", ".bash_history"))))
    search(readable("/etc/boto.cfg", "/var/lib/cloud/instance/user-data.txt", "/etc/ssl/private/canary.pem", "/etc/ssh/canary_key",
                    "/etc/credstore/canary", "/var/lib/systemd/credential.canary"))


def test_the_callers_environment():
    planted = {"AWS_SECRET_ACCESS_KEY": CANARY, "GITHUB_TOKEN": CANARY, "SSH_AUTH_SOCK": f"/tmp/{CANARY}", "HTTPS_PROXY": f"http://{CANARY}@x",
               "XDG_RUNTIME_DIR": f"/run/{CANARY}", "DBUS_SESSION_BUS_ADDRESS": f"unix:path=/{CANARY}", "LD_LIBRARY_PATH": f"/{CANARY}",
               "NOTIFY_SOCKET": f"/{CANARY}", "AGENTBOX_SECRET": CANARY}
    for name in policies():
        done = expect(run("/usr/bin/env", policy=name, env=planted))
        assert CANARY not in done.out, done
        got = {line.split("=", 1)[0] for line in done.out.splitlines()}
        assert got == {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TMPDIR"}, got
    done = expect(run_sh("cat /proc/[0-9]*/environ | tr '\\0' '\\n'; cat /proc/[0-9]*/cmdline | tr '\\0' ' '", env=planted))
    assert "PATH=" in done.out and CANARY not in done.out, done


def test_variables_that_inject_code_are_refused():
    names = ("LD_PRELOAD", "LD_AUDIT", "LIBX_PRELOAD", "GCONV_PATH", "BASH_ENV", "ENV", "PYTHONSTARTUP", "PYTHONPATH", "PERL5OPT",
             "RUBYOPT", "NODE_OPTIONS", "JAVA_TOOL_OPTIONS", "GIT_SSH_COMMAND", "GCC_EXEC_PREFIX", "OPENSSL_CONF", "npm_config_script_shell")
    for name in names:
        expect(run("/bin/true", options=["-e", f"{name}=/workspace/x"]), status=125, err=name)
        expect(run("/bin/true", options=["-e", name], env={name: "/workspace/x"}), status=125, err=name)
    policy("live-inject", "[Environment]\nSet=PYTHONPATH=/workspace/set\nPass=PERL5LIB\n")
    done = expect(run("/usr/bin/env", policy="live-inject", options=["-e", "PERL5LIB=/workspace/p"]))
    assert "PYTHONPATH=/workspace/set\n" in done.out and "PERL5LIB=/workspace/p\n" in done.out, done
    expect(run("/usr/bin/env", policy="live-inject", options=["-e", "RUBYLIB=/x"]), status=125, err="RUBYLIB")


def x86_64():
    if os.uname().machine != "x86_64":
        raise Skip("the numbers of system calls in this test are those of x86-64")


def test_kernel_keyrings():
    x86_64()
    libc = ctypes.CDLL(None, use_errno=True)
    add_key, keyctl, unlink, session, user_ring, user_session = 248, 250, 9, -3, -4, -5
    payload = CANARY.encode()
    keys = []
    for ring in (session, user_ring, user_session):
        keys.append(libc.syscall(add_key, b"user", b"agentbox-canary", payload, len(payload), ring))
        at_end(libc.syscall, keyctl, unlink, keys[-1], ring)
    assert any(k > 0 for k in keys), ctypes.get_errno()
    program = TRY + """
for ring in (-1, -2, -3, -4, -5, -8):
    attempt(f'get-{ring}', lambda: call(250, 0, ring, 0))
    attempt(f'search-{ring}', lambda: call(250, 10, ring, b'user', b'agentbox-canary', 0))
attempt('request_key', lambda: call(249, b'user', b'agentbox-canary', None, -3))
attempt('add_key', lambda: call(248, b'user', b'x', b'y', 1, -3))
attempt('persistent', lambda: call(250, 22, 0, -3))
for key in map(int, sys.argv[1:]):
    attempt(f'read-{key}', lambda: call(250, 11, key, None, 0))
    attempt(f'link-{key}', lambda: call(250, 8, key, -3))
for p in ('/proc/keys', '/proc/key-users'):
    attempt(p, lambda: read(p))
"""
    for name in policies():
        refused(results(run_python(program, *(str(k) for k in keys if k > 0), policy=name)))


def listen(path):
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    s = socket.socket(socket.AF_UNIX)
    s.bind(path)
    os.chmod(path, 0o777) if path[0] == "/" else None
    s.listen()
    at_end(os.unlink, path)
    at_end(s.close)
    return path


def test_agent_sockets():
    paths = [listen(p) for p in ("/tmp/ssh-canary/agent.1", "/run/user/0/gnupg/S.gpg-agent", "/run/user/0/keyring/ssh", "/run/user/0/canary-bus",
                                 "/run/canary.sock", "/var/lib/canary-agent.sock")]
    program = TRY + """
for p in sys.argv[1:]:
    attempt(p, lambda: socket.socket(socket.AF_UNIX).connect(p))
"""
    for name in policies():
        refused(results(run_python(program, *paths, policy=name, env={"SSH_AUTH_SOCK": paths[0]})))


def test_core_dumps():
    search(readable("/var/lib/systemd/coredump/core.canary", "/var/crash/canary.crash", "/tmp/core"))
    before = set(pathlib.Path("/var/lib/systemd/coredump").iterdir())
    done = run_sh("cd /workspace; ulimit -c unlimited; ulimit -c; sh -c 'kill -SEGV $$'; echo status $?; ls -A /workspace")
    assert "status 139" in done.out and "core" not in done.out and "unlimited" not in done.out, done
    assert set(pathlib.Path("/var/lib/systemd/coredump").iterdir()) == before
    refused(results(run_python(TRY + "attempt('core_pattern', lambda: open('/proc/sys/kernel/core_pattern', 'w').write('x'))\n")))


def test_processes_of_others():
    x86_64()
    holder = subprocess.Popen(["/bin/sleep", "300"], env={"TOKEN": CANARY})
    at_end(holder.wait)
    at_end(holder.kill)
    broker = sh(["systemctl", "show", "-P", "MainPID", "agentboxd.service"]).strip()
    program = TRY + """
for pid in sys.argv[1:]:
    for what in ('environ', 'cmdline', 'maps', 'mem', 'status', 'stack', 'auxv', 'root/etc/shadow', 'cwd/.', 'fd/1', 'ns/mnt', 'comm'):
        attempt(f'{pid}-{what}', lambda: read(f'/proc/{pid}/{what}'))
    attempt(f'{pid}-vm_readv', lambda: call(310, int(pid), None, 0, None, 0, 0))
    attempt(f'{pid}-ptrace', lambda: call(101, 16, int(pid), None, None))
    attempt(f'{pid}-pidfd', lambda: call(434, int(pid), 0))
    attempt(f'{pid}-kcmp', lambda: call(312, int(pid), os.getpid(), 0, 0, 0))
"""
    for name in policies():
        got = results(run_python(program, str(holder.pid), broker, "1", policy=name))
        # The numbers are those of the run's own world where it has one; there must be nothing of the host behind them.
        worked = {k: v for k, v in got.items() if v.startswith("WORKED") and "-pidfd" not in k}
        assert not worked and CANARY not in str(got), worked


def test_kernel_log_and_addresses():
    x86_64()
    program = TRY + """
buffer = ctypes.create_string_buffer(4096)
for action in (2, 3, 4, 9, 10):
    attempt(f'syslog-{action}', lambda: call(103, action, buffer, 4096))
for p in ('/dev/kmsg', '/proc/kmsg', '/proc/kallsyms', '/proc/kcore', '/proc/modules', '/proc/iomem', '/proc/vmallocinfo', '/proc/slabinfo',
          '/sys/kernel/notes', '/sys/kernel/vmcoreinfo', '/sys/kernel/debug', '/sys/module', '/sys/kernel/btf/vmlinux',
          '/sys/firmware/dmi/tables/DMI', '/sys/firmware/efi', '/boot/System.map', '/proc/config.gz', '/proc/cmdline', '/proc/sched_debug'):
    attempt(p, lambda: read(p))
"""
    for name in policies():
        refused(results(run_python(program, policy=name)))


def test_block_devices():
    nodes = [str(p) for p in pathlib.Path("/dev").iterdir() if p.is_block_device()]
    program = TRY + """
for p in sys.argv[1:]:
    attempt(p, lambda: os.close(os.open(p, os.O_RDONLY)))
for p in ('/proc/partitions', '/proc/diskstats', '/proc/mdstat', '/sys/block', '/sys/class/block'):
    attempt(p, lambda: os.listdir(p) if os.path.isdir(p) else read(p))
import stat
for major, minor in ((8, 0), (254, 0), (253, 0), (259, 0), (7, 0), (1, 0)):
    attempt(f'mknod-{major}', lambda: os.mknod('/workspace/b', 0o600 | stat.S_IFBLK, os.makedev(major, minor)))
print('blocks', [e for e in os.listdir('/dev') if stat.S_ISBLK(os.lstat('/dev/' + e).st_mode)])
"""
    for name in policies():
        got = results(run_python(program, "/dev/sda", "/dev/vda", "/dev/loop0", "/dev/mapper/control", "/dev/dm-0", *nodes, policy=name))
        assert got.pop("blocks") == "[]", got
        refused(got)


def test_host_name_and_machine_id():
    name = "canary-" + "host-77"
    before = socket.gethostname()
    machine_id = pathlib.Path("/etc/machine-id").read_text(encoding="ascii").strip()
    assert len(machine_id) == 32, machine_id
    sh(["hostname", name])
    at_end(sh, ["hostname", before])
    boot_id = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    program = TRY + """
import platform
print('node', platform.node(), socket.gethostname(), os.uname().nodename)
for p in ('/etc/machine-id', '/var/lib/dbus/machine-id', '/run/machine-id', '/sys/class/dmi/id/product_uuid', '/sys/class/net',
          '/proc/sys/kernel/random/boot_id', '/sys/hypervisor/uuid', '/run/systemd/machines', '/proc/sys/kernel/hostname'):
    attempt(p, lambda: os.listdir(p) if os.path.isdir(p) else read(p))
print('etc', open('/etc/hostname').read().strip(), open('/etc/hosts').read().split())
"""
    for which in policies():
        done = run_python(program, policy=which)
        got = results(done)
        assert name not in done.out and machine_id not in done.out and boot_id not in done.out, done
        assert got.pop("node") == "sandbox sandbox sandbox" and got.pop("etc").startswith("sandbox "), done
        shown = got.pop("/proc/sys/kernel/hostname")
        assert not shown.startswith("WORKED") or "sandbox" in shown, shown
        refused(got)


# ---- Credential=

def credential(name, content=SECRET, mode=0o600):
    path = f"{CREDENTIALS}/{name}"
    os.makedirs(CREDENTIALS, exist_ok=True)
    os.chmod(CREDENTIALS, 0o700)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as f:
        f.write(content if isinstance(content, bytes) else content.encode())
    os.chmod(path, mode)
    at_end(lambda: os.path.lexists(path) and os.unlink(path))
    return path


def with_credentials(*items, more=""):
    return policy("live-credential", "[Files]\n" + "".join(f"Credential={i}\n" for i in items) + more)


def test_credential_is_a_read_only_file_of_the_run():
    binary = bytes(range(256)) * 16
    items = [f"token:{credential('token')}", f"bin.ary-2:{credential('binary', binary)}", f"empty:{credential('empty', b'')}"]
    for egress in ("filtered", "none"):
        name = with_credentials(*items, more=f"[Network]\nEgress={egress}\n")
        done = run_python(TRY + """
d = os.environ['CREDENTIALS_DIRECTORY']
print('token', read(d + '/token').decode())
print('binary', open(d + '/bin.ary-2', 'rb').read() == bytes(range(256)) * 16)
print('empty', read(d + '/empty'))
print('names', sorted(os.listdir(d)))
print('run', [p for p in os.listdir('/run') if p not in ('systemd', 'host', 'credentials')], os.listdir('/run/credentials') == [os.path.basename(d)])
attempt('write', lambda: open(d + '/token', 'w'))
attempt('append', lambda: open(d + '/token', 'a'))
attempt('new', lambda: open(d + '/new', 'w'))
attempt('unlink', lambda: os.unlink(d + '/token'))
attempt('chmod', lambda: os.chmod(d + '/token', 0o644))
attempt('chmod-d', lambda: os.chmod(d, 0o755))
attempt('rename', lambda: os.rename(d + '/token', d + '/x'))
attempt('beside', lambda: os.mkdir('/run/credentials/x'))
attempt('exec', lambda: os.execv(d + '/token', ['x']))
""", policy=name)
        got = results(done)
        assert got.pop("token") == SECRET and got.pop("binary") == "True" and got.pop("empty") == "b''", done
        assert got.pop("names") == "['bin.ary-2', 'empty', 'token']" and got.pop("run") == "[] True", done
        refused(got)
        assert "credentials" in done.result["verified"] and "mounts" in done.result["verified"], done
    assert "credentials" not in expect(run("/bin/true")).result["verified"]


def visible_outside():
    """All that anybody could ask the host about the run."""
    yield sh("systemctl show 'agentbox*'; systemctl cat 'agentbox-*.service' 2>&1; systemctl status --no-pager -l 'agentbox*' 2>&1", check=False)
    yield sh("busctl tree --list org.freedesktop.systemd1 | grep agentbox_2d | while read p; do "
             "busctl call org.freedesktop.systemd1 $p org.freedesktop.DBus.Properties GetAll s ''; done", check=False)
    yield sh("cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'", check=False)
    yield sh("journalctl --no-pager --all -o export", check=False)
    yield sh("grep -r . /run/systemd/transient /run/systemd/units /run/agentbox 2>/dev/null | head -c 4000000", check=False)
    yield agentbox("ps", "--json").out
    yield agentbox("policy", "show", "live-credential").out
    yield agentbox("policy", "explain", "live-credential", "--json").out


def test_credential_is_nowhere_outside():
    path = credential("token")
    name = with_credentials(f"token:{path}")
    client = start("/bin/sh", "-c", "cat $CREDENTIALS_DIRECTORY/token >/workspace/x && echo ready; exec sleep 60", policy=name,
                   options=["--timeout", "90s"])
    assert client.stdout.readline() == b"ready\n", client.stderr.read()
    unit = next(u for u in units() if "warden" not in u)
    loaded = sh(["busctl", "get-property", "org.freedesktop.systemd1", sh(["busctl", "call", "org.freedesktop.systemd1",
                 "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager", "GetUnit", "s", unit]).split('"')[1],
                 "org.freedesktop.systemd1.Service", "LoadCredential"])
    assert loaded.strip() == f'a(ss) 1 "token" "{path}"', loaded
    for text in visible_outside():
        assert SECRET not in text, text[max(0, text.index(SECRET) - 300):][:600]
    user(USER)
    for command in (f"cat /run/credentials/{unit}/token", f"ls /run/credentials/{unit}", f"cat {path}"):
        done = subprocess.run(["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "sh", "-c", command], capture_output=True,
                              check=False)
        assert done.returncode != 0 and SECRET.encode() not in done.stdout, done
    other = run_sh(f"cat /run/credentials/{unit}/token /run/credentials/*/*; ls -R /run", policy="default")
    assert SECRET not in other.out and "token" not in other.out and "credentials" not in other.out, other
    agentbox("kill", "--all")
    wait_for("the credential is gone", lambda: not pathlib.Path(f"/run/credentials/{unit}").exists())
    assert not leftovers()
    assert SECRET not in sh("journalctl --no-pager --all -o export", check=False)


def test_each_run_has_its_own_credentials():
    with_credentials(f"token:{credential('token')}")
    policy("live-credential-2", f"[Files]\nCredential=other:{credential('other', 'another')}\n")
    client = start("/bin/sh", "-c", "echo ready; exec sleep 60", policy="live-credential", options=["--timeout", "90s"])
    assert client.stdout.readline() == b"ready\n", client.stderr.read()
    done = expect(run_sh("cat $CREDENTIALS_DIRECTORY/other; ls /run/credentials | wc -l; cat /run/credentials/*/token 2>&1", policy="live-credential-2"),
                  status=1)
    assert done.out.startswith("another1\n") and SECRET not in done.out, done
    agentbox("kill", "--all")


def test_credential_that_is_no_secret_is_refused():
    path = credential("token")
    name = with_credentials(f"token:{path}")
    expect(run("/bin/true", policy=name))
    for mode in (0o640, 0o604, 0o660, 0o644):
        os.chmod(path, mode)
        expect(run("/bin/true", policy=name), status=125, err=f"Credential=token:{path}.*mode 0{mode:o}")
    os.chmod(path, 0o600)
    uid = int(sh(["id", "-u", user(USER)]))
    os.chown(path, uid, 0)
    expect(run("/bin/true", policy=name), status=125, err=f"belongs to user {uid}")
    os.chown(path, 0, 0)
    os.chmod(CREDENTIALS, 0o770)
    expect(run("/bin/true", policy=name), status=125, err="can be written by others than root")
    os.chmod(CREDENTIALS, 0o700)
    os.unlink(path)
    expect(run("/bin/true", policy=name), status=125, err=f"Credential=token:{path}.*No such file")
    os.symlink("/etc/shadow", path)
    expect(run("/bin/true", policy=name), status=125, err="symbolic link")
    os.unlink(path)
    os.mkfifo(path, 0o600)
    expect(run("/bin/true", policy=name), status=125, err="not a regular file")
    os.unlink(path)
    listen(path)
    expect(run("/bin/true", policy=name), status=125, err="not a regular file")
    os.unlink(path)
    os.mkdir(path)
    expect(run("/bin/true", policy=name), status=125, err="not a regular file")
    os.rmdir(path)
    credential("token", b"x" * ((1 << 20) + 1))
    expect(run("/bin/true", policy=name), status=125, err="1M")
    credential("token", b"x" * 900_000)
    done = expect(run_sh("wc -c <$CREDENTIALS_DIRECTORY/token", policy=name))
    assert done.out.strip() == "900000", done
    assert not leftovers()


def test_credential_is_not_for_the_caller_to_choose():
    path, more = credential("token"), credential("more")
    name = with_credentials(f"token:{path}")
    user(USER, "agentbox")
    expect(run_sh("cat $CREDENTIALS_DIRECTORY/token", policy=name, as_user=USER), out=SECRET)
    for item in (f"more:{more}", f"token:{more}", f"token:{path} more:{more}"):
        done = run_sh("cat $CREDENTIALS_DIRECTORY/*", policy=name, as_user=USER, options=["--set", f"Files.Credential={item}"])
        expect(done, status=125, err="more than the policy allows")
        assert SECRET not in done.out, done
    done = expect(run_sh("echo ${CREDENTIALS_DIRECTORY-none}; ls /run", policy=name, as_user=USER, options=["--set", "Files.Credential="]), out="none")
    assert "credentials" not in done.out, done
    expect(run("/bin/true", policy=name, as_user=USER, options=["-e", "CREDENTIALS_DIRECTORY=/workspace"]), status=125, err="CREDENTIALS_DIRECTORY")
    expect(run("/bin/true", policy=name, as_user=USER, options=["--unit=scope"]), status=125, err="Credential=")


def test_credential_that_the_host_adds_is_noticed():
    credential("other", "another")
    for name in (with_credentials(f"token:{credential('token')}"), "default"):
        for line in (f"LoadCredential=more:{CREDENTIALS}/other", "SetCredential=more:x", f"LoadCredential=token:{CREDENTIALS}/other"):
            dropin(f"[Service]\n{line}\n")
            done = run("/bin/true", policy=name)
            # Where the policy's own comes first, PID 1 takes that one and no other of its name.
            if done.status == 0:
                assert name == "live-credential" and "token" in line, done
                assert expect(run_sh("cat $CREDENTIALS_DIRECTORY/token", policy=name)).out == SECRET
            else:
                expect(done, status=125, err="redential")
    os.unlink("/run/systemd/system/agentbox-.service.d/50-host.conf")
    sh(["systemctl", "daemon-reload"])


def test_credential_survives_a_reload_of_pid_1():
    """What PID 1 wrote into the unit's file it must be able to read again."""
    name = with_credentials(f"token:{credential('token')}", f"a.b_c-d:{credential('with,=+@signs')}")
    client = start("/bin/sh", "-c", "echo ready; read line; cat $CREDENTIALS_DIRECTORY/token", policy=name, stdin=subprocess.PIPE,
                   options=["--timeout", "90s"])
    assert client.stdout.readline() == b"ready\n", client.stderr.read()
    sh(["systemctl", "daemon-reload"])
    unit = next(u for u in units() if "warden" not in u)
    assert sh(["systemctl", "show", "-P", "LoadState", unit]).strip() == "loaded"
    out, _ = client.communicate(b"\n", timeout=60)
    assert out.decode() == SECRET, out
