# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the live tests share: running agentbox, reading its records, looking for leftovers."""
import contextlib
import ctypes
import functools
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time

ENVS = ("lab", "vm", "nspawn", "masked")
EVERYWHERE = ("lab", "vm")  # the others are negative: only tests that name them run there
SLOWNESS = 1.0              # what a time limit is multiplied with; never part of an assertion
ENV = "lab"
PACKAGE = None              # the Debian package that agentbox was installed from, if it was
AGENTBOX = "/usr/bin/agentbox"
RUNTIME = pathlib.Path("/run/agentbox")
POLICY_DIR = pathlib.Path("/etc/agentbox/policy.d")
DROPIN_DIR = pathlib.Path("/run/systemd/system/agentbox-.service.d")
HERE = pathlib.Path(__file__).resolve().parent
# The manual and docs/: beside the tests where they were staged for a lab or guest, else in the source tree.
DOCUMENTS = HERE / "documents" if (HERE / "documents").is_dir() else HERE.parent.parent
BROKER_UNIT = "agentboxd.service"
USER, OUTSIDER = "boxuser", "outsider"

_undo = []
_undo_file = []
_clients = []


class Skip(Exception):
    pass


def set_env(env):
    global ENV, SLOWNESS
    ENV = env
    SLOWNESS = 12.0 if env == "vm" else 1.0


def only(*envs):
    def mark(function):
        function.envs = envs
        return function
    return mark


def packaged(function):
    """For where agentbox was installed from a package."""
    function.packaged = True
    return function


def within(seconds):
    def mark(function):
        function.seconds = seconds
        return function
    return mark


def heavy(function):
    """Too much for an emulated machine: the lab alone runs it."""
    @functools.wraps(function)
    def test():
        if ENV == "vm":
            raise Skip("too much work for an emulated machine; the lab runs it")
        function()
    return test


def at_end(function, *args):
    _undo.append((function, args))


def at_file_end(function, *args):
    """After the last test of this file: for what takes long to build."""
    _undo_file.append((function, args))


def undo(todo):
    while todo:
        function, args = todo.pop()
        with contextlib.suppress(Exception):
            function(*args)


def clean_up():
    undo(_undo)


def end_file():
    undo(_undo_file)


def sh(command, check=True, **kw):
    """A command outside of any sandbox; its stdout as text."""
    done = subprocess.run(command, shell=isinstance(command, str), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, errors="replace", check=False, **kw)
    if check and done.returncode != 0:
        raise AssertionError(f"{command!r}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Done:
    """A finished agentbox command."""

    def __init__(self, args, status, out, err, result):
        self.args, self.status, self.stdout, self.stderr, self.result = args, status, out, err, result

    @property
    def out(self):
        return self.stdout.decode(errors="replace")

    @property
    def err(self):
        return self.stderr.decode(errors="replace")

    @property
    def run(self):
        return self.result and self.result.get("run")

    def __repr__(self):
        return (f"status {self.status}, stdout {self.stdout[-2000:]!r}, stderr {self.stderr[-3000:]!r}, "
                f"result {self.result}")


def agentbox(*args, stdin=b"", as_user=None, env=None, timeout=None, **kw):
    """Any agentbox command, its output as bytes."""
    argv = [AGENTBOX, *args]
    if as_user:
        argv = ["setpriv", f"--reuid={as_user}", f"--regid={as_user}", "--init-groups", "--"] + argv
    done = subprocess.run(argv, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          env=os.environ | (env or {}), timeout=timeout and timeout * SLOWNESS, **kw)
    return Done(argv, done.returncode, done.stdout, done.stderr, None)


def run(*command, policy=None, options=(), **kw):
    """agentbox run with a result record; command is argv."""
    with tempfile.TemporaryDirectory() as directory:
        if kw.get("as_user"):
            os.chmod(directory, 0o777)
        path = os.path.join(directory, "result")
        chosen = ["-p", policy] if policy else []
        done = agentbox("run", *chosen, *options, "--result", path, "--", *command, **kw)
        with contextlib.suppress(FileNotFoundError):
            with open(path, encoding="utf-8") as f:
                done.result = json.load(f)
        return done


def run_sh(script, **kw):
    return run("/bin/sh", "-c", script, **kw)


def run_python(program, *args, **kw):
    return run("/usr/bin/python3", "-c", program, *args, **kw)


def start(*command, policy=None, options=(), **kw):
    """A client in the background, as a Popen."""
    chosen = ["-p", policy] if policy else []
    kw.setdefault("stdin", subprocess.DEVNULL)
    kw.setdefault("stdout", subprocess.PIPE)
    kw.setdefault("stderr", subprocess.PIPE)
    client = subprocess.Popen([AGENTBOX, "run", *chosen, *options, "--", *command], **kw)
    _clients.append(client)
    return client


def stop_clients():
    """Their runs must end with them; what does not is a leftover."""
    while _clients:
        client = _clients.pop()
        client.kill()
        with contextlib.suppress(ValueError):  # where the test has closed a stream already
            client.communicate()
        client.wait()


def expect(done, status=0, out=None, err=None):
    """The status and, where given, a pattern that stdout or stderr must contain."""
    assert done.status == status, f"expected status {status}: {done}"
    if out is not None:
        assert re.search(out, done.out), f"expected {out!r} on stdout: {done}"
    if err is not None:
        assert re.search(err, done.err), f"expected {err!r} on stderr: {done}"
    return done


def wait_for(what, condition, seconds=20):
    end = time.monotonic() + seconds * SLOWNESS
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"waited in vain for: {what}"
        time.sleep(0.05 * SLOWNESS)


# --- records

def journal(*matches):
    out = sh(["journalctl", "-o", "json", "--no-pager", "--all", "-q", *matches], check=False)
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def journal_position():
    """Where the journal ends now, for journal_since()."""
    return sh("journalctl -q -n 0 --show-cursor").split()[-1]


def journal_since(position, *matches):
    """Not by --after-cursor: with a match, journalctl of systemd 252 leaves out the first record that it finds."""
    return [r for r in journal(f"--cursor={position}", *matches) if r["__CURSOR"] != position]


def write_as_warden(run_id, text):
    """What root alone can do: a record that journald knows as one of the warden of that run, with these fields. Who wrote it lives until
    journald has looked who it was."""
    program = ("import socket, sys, time; s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); "
               "s.connect('/run/systemd/journal/socket'); s.send(sys.stdin.buffer.read()); time.sleep(2)")
    sh(["systemd-run", "-q", "--wait", "--collect", "--pipe", f"--unit=agentbox-warden-{run_id}", "--slice=agentbox-warden.slice",
        "/usr/bin/python3", "-c", program], input=text)


def records(run_id, event=None):
    """The trusted records of a run: written by the broker, as journald itself says."""
    matches = [f"AGENTBOX_RUN_ID={run_id}", f"_SYSTEMD_UNIT={BROKER_UNIT}"]
    if event:
        matches.append(f"AGENTBOX_EVENT={event}")
    return journal(*matches)


def events(run_id):
    return [r["AGENTBOX_EVENT"] for r in records(run_id)]


def wait_events(run_id, last):
    return wait_for(f"record {last} of run {run_id}", lambda: last in events(run_id) and events(run_id))


def runs():
    return [json.loads(l) for l in agentbox("ps", "--json").out.splitlines() if l.strip()]


def newest_run(condition=lambda r: True):
    return wait_for("a run in agentbox ps", lambda: next((r for r in runs() if condition(r)), None))


# --- what must not stay

def units():
    out = sh(["systemctl", "list-units", "--all", "--plain", "--no-legend", "agentbox-*.service", "agentbox-*.scope"],
             check=False)
    return [line.split()[0] for line in out.splitlines() if line.strip() and "@" not in line.split()[0]]


def directories():
    if not RUNTIME.exists():
        return []
    return sorted(str(p) for p in RUNTIME.iterdir() if p.name not in ("policy.d", "lock"))


def sandboxed_processes():
    """Every process with a uid that DynamicUser= gives."""
    found = []
    for p in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            uid = p.stat().st_uid
            if 61184 <= uid <= 65519:
                found.append(f"pid {p.name} ({(p / 'comm').read_text().strip()})")
    return found


def mounts():
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        return [line.split()[4] for line in f if "/run/agentbox/" in line]


def network_namespaces():
    """Those of descriptors that somebody holds."""
    found = set()
    for link in pathlib.Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            target = os.readlink(link)
            if target.startswith("net:["):
                found.add(target)
    return sorted(found)


def stored_descriptors():
    """What PID 1 keeps for the next broker."""
    n = sh(["systemctl", "show", "-P", "NFileDescriptorStore", BROKER_UNIT], check=False).strip()
    return [f"{n} descriptors with PID 1"] if n not in ("", "0") else []


def cgroups():
    out = sh("find /sys/fs/cgroup -type d \\( -name 'agentbox-*.service' -o -name 'agentbox-*.scope' \\) 2>/dev/null", check=False)
    return out.split()


def ipc_objects():
    out = sh("cat /proc/sysvipc/shm /proc/sysvipc/sem /proc/sysvipc/msg", check=False)
    return [f"ipc {l.split()[1]}" for l in out.splitlines()
            if any(61184 <= int(w) <= 65519 for w in l.split() if w.isdigit() and len(w) == 5)]


def leftovers(wait=10):
    def now():
        return units() + directories() + sandboxed_processes() + mounts() + cgroups() + ipc_objects() + stored_descriptors()
    end = time.monotonic() + wait
    left = now()
    while left and time.monotonic() < end:
        time.sleep(0.2)
        left = now()
    return left


# --- changing the host, undone at the end of the test

def write_file(path, text):
    path = pathlib.Path(path)
    before = path.read_text(encoding="utf-8") if path.exists() else None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    if before is None:
        at_end(path.unlink)
    else:
        at_end(lambda: path.write_text(before, encoding="utf-8"))


def policy(name, text):
    write_file(POLICY_DIR / f"{name}.policy", text)
    return name


def dropin(text, name="50-host.conf"):
    """A drop-in of the host for every run's unit."""
    at_end(sh, ["systemctl", "daemon-reload"])
    write_file(DROPIN_DIR / name, text)
    sh(["systemctl", "daemon-reload"])


def user(name, *groups):
    """A plain account for this test."""
    if subprocess.run(["id", name], capture_output=True, check=False).returncode != 0:
        sh(["useradd", "--no-create-home", "--shell", "/bin/sh", "--user-group", name])
        at_end(sh, ["userdel", name])
    if groups:
        sh(["usermod", "-a", "-G", ",".join(groups), name])
    return name


def cgroup_v2():
    return pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists()


def systemd_version():
    return int(sh(["systemctl", "--version"]).split()[1])


def outside_pid(run_id, inside):
    """The host's number of the process that counts as this one inside; the same before systemd 257."""
    for p in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            pids = next(l for l in (p / "status").read_text().splitlines() if l.startswith("NSpid:")).split()
            if pids[-1] == str(inside) and f"agentbox-{run_id}." in (p / "cgroup").read_text():
                return int(pids[1])
    return None


def landlock_version():
    """0 where the kernel has none."""
    create_ruleset, version = 444, 1
    return max(0, ctypes.CDLL(None).syscall(create_ruleset, None, 0, version))


def broker_pid():
    return int(sh(["systemctl", "show", "-P", "MainPID", BROKER_UNIT]).strip() or 0)


def broker_stop():
    """A client that waits for it may start it anew at once, which cancels the job."""
    wait_for("the broker to stop", lambda: subprocess.run(["systemctl", "stop", BROKER_UNIT], capture_output=True, check=False).returncode == 0)


def broker_restart():
    sh(["systemctl", "restart", BROKER_UNIT])
