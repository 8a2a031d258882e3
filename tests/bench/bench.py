# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the measurements share: who is compared, how a turn is timed, how a table is printed.

A contender is a name and a function that makes a command of a command: the same work inside each one's sandbox. One that
is not installed, or does not start here, is left out by name with its reason.
"""
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

# Not a property of the sandbox, or not to be said twice.
NOT_ITS = ("ExecStart", "ExecStartEx", "StandardInput", "StandardOutput", "StandardError", "Description", "CollectMode",
           "Slice", "SyslogIdentifier", "Type", "RemainAfterExit", "BindsTo", "After")
SHOWN = ("/usr", "/etc/ld.so.cache", "/etc/alternatives")
LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}


def skipped(name, reason):
    print(f"skipped: {name}: {reason}", flush=True)


def timed(command):
    """Seconds from the start to the exit; the command must succeed."""
    start = time.monotonic()
    done = subprocess.run(command, check=False, **QUIET)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]}: status {done.returncode}: {done.stderr.decode(errors='replace')[-300:]}")
    return time.monotonic() - start


# --- who

def agentbox(policy, *options):
    return lambda command: ["agentbox", "run", "-p", policy, *options, "--", *command]


def systemd_run(*properties):
    return lambda command: ["systemd-run", "--quiet", "--wait", "--pipe", "--collect", *properties, *command]


def properties_of_a_run():
    """The settings of the unit of a run without network, as options of systemd-run."""
    run = subprocess.run(["agentbox", "run", "-p", "offline", "--detach", "--timeout", "60s", "--", "/bin/sleep", "60"],
                         capture_output=True, text=True, check=True).stdout.strip()
    unit = pathlib.Path(f"/run/systemd/transient/agentbox-{run}.service")
    text = unit.read_text(encoding="utf-8")
    for drop_in in sorted(pathlib.Path(f"{unit}.d").glob("*.conf")):
        text += drop_in.read_text(encoding="utf-8")
    # The run's root goes with it: one like it, made once.
    root = pathlib.Path(tempfile.mkdtemp(prefix="bench-root-", dir="/run"))
    shutil.copytree(f"/run/agentbox/{run}/root", root, symlinks=True, dirs_exist_ok=True)
    subprocess.run(["agentbox", "kill", run], check=False, capture_output=True)
    options = ["--slice=agentbox.slice"]
    for line in text.splitlines():
        name, sep, value = line.partition("=")
        if sep and not line.startswith("#") and name not in NOT_ITS:
            options += ["-p", f"{name}={value}".replace(f"/run/agentbox/{run}/root", str(root))]
    return options


def bubblewrap(command):
    shown = [w for p in SHOWN if os.path.exists(p) for w in ("--ro-bind", p, p)]
    links = [w for name, target in LINKS.items() for w in ("--symlink", target, f"/{name}")]
    return ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL", *shown, *links,
            "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/workspace", "--chdir", "/workspace", *command]


def firejail(command):
    return ["firejail", "--quiet", "--noprofile", "--private", "--private-dev", "--private-tmp", "--net=none", "--caps.drop=all",
            "--seccomp", "--nonewprivs", "--noroot", *command]


class Oci:
    """A bundle with the host's programs, read-only, no network, no capability, the runtime's default seccomp: none."""

    def __init__(self, runtime):
        self.runtime = runtime
        self.bundle = pathlib.Path(tempfile.mkdtemp(prefix="bench-oci-", dir="/run"))
        root = self.bundle / "rootfs"
        root.mkdir()
        for name, target in LINKS.items():
            (root / name).symlink_to(target)
        for path in ("usr", "proc", "dev", "tmp", "workspace", "etc/alternatives"):
            (root / path).mkdir(parents=True, exist_ok=True)
        (root / "etc/ld.so.cache").touch()
        self.count = 0

    def __call__(self, command):
        self.count += 1
        tmpfs = [{"destination": p, "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "size=64m"]}
                 for p in ("/tmp", "/workspace")]
        binds = [{"destination": p, "type": "bind", "source": p, "options": ["rbind", "ro"]} for p in SHOWN if os.path.exists(p)]
        bundle = self.bundle / str(self.count)
        bundle.mkdir()
        config = {
            "ociVersion": "1.0.2",
            "process": {"user": {"uid": 65534, "gid": 65534}, "args": list(command), "cwd": "/workspace", "noNewPrivileges": True,
                        "env": ["PATH=/usr/bin:/bin"], "capabilities": {}},
            "root": {"path": str(self.bundle / "rootfs"), "readonly": True},
            "hostname": "sandbox",
            "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"},
                       {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"]},
                       *tmpfs, *binds],
            "linux": {"namespaces": [{"type": t} for t in ("pid", "network", "ipc", "uts", "mount")]},
        }
        (bundle / "config.json").write_text(json.dumps(config), encoding="utf-8")
        return [self.runtime, "run", "--bundle", str(bundle), f"bench-{os.getpid()}-{self.count}"]


def why_not(make, name):
    """A contender must start, and be one: firejail, for instance, runs a command as it is where it thinks itself inside of another
    sandbox. None where all is well."""
    try:
        done = subprocess.run(make(["/usr/bin/readlink", "/proc/self/ns/mnt"]), stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=False)
    except OSError as e:
        return str(e)
    if done.returncode != 0:
        return f"status {done.returncode}: {done.stderr[-300:]}"
    if done.stdout.strip() == os.readlink("/proc/self/ns/mnt") and "no property" not in name:
        return "it starts the command in the host's own mount namespace here"
    return None


def contenders():
    """Those that are here and do start, in the order of the table; each has proved it once."""
    peers = {
        "agentbox, no network": agentbox("offline"),
        "agentbox, filtered": agentbox("default"),
        "systemd-run, the same properties": None,
        "systemd-run, no property": systemd_run(),
        "bubblewrap": bubblewrap,
        "firejail": firejail,
        "crun": "crun",
        "runc": "runc",
        "runsc": "runsc",
    }
    found = {}
    for name, make in peers.items():
        if isinstance(make, str):
            if not shutil.which(make):
                skipped(name, "not installed")
                continue
            make = Oci(make)
        if make is None:
            make = systemd_run(*properties_of_a_run())
        reason = why_not(make, name)
        if reason:
            skipped(name, " ".join(reason.split()))
            continue
        found[name] = make
    return found


# --- how

def in_turns(work, rounds):
    """work: name to function that gives a number. Each has its turn in each round, so that all see the same machine; the first
    round warms up. The medians, by name; who fails once is out, by name as well."""
    figures = {name: [] for name in work}
    for i in range(rounds + 1):
        for name in list(figures):
            try:
                value = work[name]()
            except RuntimeError as e:
                skipped(name, " ".join(str(e).split()))
                del figures[name]
                continue
            if i > 0:
                figures[name].append(value)
    return {name: statistics.median(values) for name, values in figures.items()}


def report(title, unit, medians, base, factor=1.0):
    """A table with the ratio to one of its rows, and the same as a line of JSON."""
    if base not in medians:
        raise SystemExit(f"{title}: without {base} there is nothing to compare with")
    print(f"\n{title}")
    for name, value in medians.items():
        print(f"  {name:34} {value * factor:10.2f} {unit:8} {value / medians[base]:7.2f}", flush=True)
    print(json.dumps({"bench": title, "unit": unit, "base": base, "median": {n: v * factor for n, v in medians.items()}}), flush=True)


def machine():
    """What the figures are from."""
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8") if line.startswith("model name")), "?")
    memory = int(next(line.split()[1] for line in open("/proc/meminfo", encoding="utf-8") if line.startswith("MemTotal"))) >> 20
    version = subprocess.run(["systemctl", "--version"], capture_output=True, text=True, check=False).stdout.split()[1:2]
    return {"cpu": cpu, "cpus": os.cpu_count(), "memory_gib": memory, "kernel": os.uname().release, "systemd": "".join(version),
            "cgroup": 2 if os.path.exists("/sys/fs/cgroup/cgroup.controllers") else 1}


def rounds(default):
    return int(sys.argv[1]) if len(sys.argv) > 1 else default
