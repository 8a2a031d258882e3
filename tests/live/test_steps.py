# SPDX-License-Identifier: LGPL-2.1-or-later
"""SIGKILL for each of our programs at each step of a run that copies in, asks for a name, connects, is refused a connection and a system
call, and copies out; of one that sees a directory, of a detached one, of a scope, and of who reads what is on record. Afterwards nothing
is left, the run's end is on record exactly once, its results are there whole or not at all, and whoever waited for it knows how it ended.

AGENTBOX_STEPS is how many steps of each program are taken, spread over all of them; "all": each one. With AGENTBOX_STEPS_SHOWN each
is a line."""
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
import test_alert
import world
from box import AGENTBOX, BROKER_UNIT, Skip, at_end, broker_pid, expect, heavy, leftovers, sh, start, systemd_version, wait_for, within
from steps import Steps
from test_baddays import broker_with
from test_detach import stream
from test_scope import start_scope
from test_view import no_mounts, snapshot
from test_workspace import given_back, host_disk

POINTS = os.environ.get("AGENTBOX_STEPS", "36")
VERBOSE = "AGENTBOX_STEPS_SHOWN" in os.environ
SECONDS = 600 if POINTS != "all" else 3000
KERNEL = tuple(int(n) for n in re.match(r"(\d+)\.(\d+)", os.uname().release).groups())
ENDS = ("run-ended", "run-refused", "run-unverified")
PATIENCE = 60   # nobody waits as long as this

SCRIPT = """
mkdir part && cp -r in part/in && echo here
exec 3<>/dev/tcp/example.net/80 && printf 'GET / HTTP/1.1\\r\\nHost: example.net\\r\\nConnection: close\\r\\n\\r\\n' >&3 && cat <&3 >part/page
(exec 4<>/dev/tcp/1.2.3.4/443)
unshare --user true
mv part o
read -r word
exit 3
"""
KEPT = b"here\nthere\n" + b"%05000d\n" % 7 + b"end"   # what a detached run prints
DETACHED = "echo here; echo there; printf '%05000d\\n' 7; sleep $0; exec 3<>/dev/tcp/1.2.3.4/443; printf end; exit 3"
HELPERS = "systemctl list-units --plain --no-legend 'agentbox-*@*'"
WHOLE = {"in", "in/a", "in/b", "in/b/c"}   # and what came from the network, where it came


class Scene:
    """A caller's directory, and what is on record from here on."""
    policy, works, silent = "egress", 3, ()
    unknown = 0     # how often the shim was killed and the command is on record as started

    def __init__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="live-steps-"))
        at_end(shutil.rmtree, self.directory, True)
        (self.directory / "in/b").mkdir(parents=True)
        (self.directory / "in/a").write_text("a" * 5000)
        (self.directory / "in/b/c").write_text("c")
        self.n = 0

    def begin(self):
        self.n += 1
        self.out, self.said = self.directory / f"o{self.n}", b""
        self.since = box.journal_position()
        self.client = self.start()

    def start(self):
        return start("/bin/bash", "-c", SCRIPT, policy=self.policy, stdin=subprocess.PIPE, options=[
            "--timeout", "20s", *self.source(), "--out", f"o:{self.out}"])

    def source(self):
        return ["--in", self.directory / "in"]

    def has_begun(self):
        """Waits for its first word."""
        self.said = self.client.stdout.readline()
        assert self.said == b"here\n", self.said

    def finish(self):
        """Its status and what it said. Nobody waits for ever."""
        try:
            out, err = self.client.communicate(b"go\n" if self.client.stdin else None, timeout=PATIENCE * box.SLOWNESS)
        except subprocess.TimeoutExpired:
            self.client.kill()
            raise AssertionError(f"the client hangs: {self.client.communicate()}") from None
        return self.client.returncode, self.said + out, err

    def events_of(self, *matches):
        found = {}
        for r in box.journal_since(self.since, *matches or [f"_SYSTEMD_UNIT={BROKER_UNIT}"]):
            if r.get("AGENTBOX_RUN_ID"):
                found.setdefault(r["AGENTBOX_RUN_ID"], []).append(r["AGENTBOX_EVENT"])
        return found

    def events(self):
        """Of each run that was asked for."""
        return list(self.events_of().values())

    def runs(self):
        return set(self.events_of())

    def temporaries(self):
        return [p.name for p in self.directory.iterdir() if p.name.startswith(".agentbox-")]

    def must_have_worked(self, done):
        """With nobody killed: it takes all the steps that it is to take."""
        assert done[0] == self.works, done
        decided = {e for events in self.events_of("_SYSTEMD_SLICE=agentbox-warden.slice").values() for e in events}
        assert {"egress-allowed", "egress-denied", "syscall-denied"} <= decided, decided

    def must_be_clean(self, status, out, err):
        """What holds however it ended."""
        wait_for("the end on record", lambda: all(set(ENDS) & set(events) for events in self.events()), 20)
        left = leftovers(wait=10 * box.SLOWNESS)
        assert not left, left
        wait_for("whoever served it to be gone", lambda: not sh(HELPERS).strip())
        for events in self.events():
            assert sum(events.count(e) for e in ENDS) == 1, events
        assert b"here" not in out or any("run-started" in e for e in self.events()), "it ran without a record"
        self.must_be_whole_or_nothing(status, out, err)
        # 141: the workload's own end, whose connection was cut, came before that of its unit.
        assert status in (self.works, 125, 137, 141, 143, -signal.SIGKILL), status
        assert status in (self.works, -signal.SIGKILL, *self.silent) or b"agentbox: " in err, "no word of how it ended"
        assert b"memory limit was reached" not in err, "a reason that nobody can know"

    def must_be_whole_or_nothing(self, status, _out, err):
        result = {str(p.relative_to(self.out)) for p in self.out.rglob("*")} if self.out.exists() else None
        assert result in (None, WHOLE, WHOLE | {"page"}), f"half of the results: {result}"
        assert status != 3 or result or b"nothing is copied out" in err, "no results, and no word of it"


class ViewScene(Scene):
    """The same of a run that sees the directory instead of a copy."""

    def __init__(self):
        super().__init__()
        self.tree = self.directory / "tree"
        self.tree.mkdir()
        os.rename(self.directory / "in", self.tree / "in")
        self.policy = world.policy("egress-view", more=f"[Files]\nView={self.directory}\n")
        self.before = snapshot(self.tree)

    def source(self):
        return ["--view", self.tree]

    def must_be_clean(self, status, out, err):
        super().must_be_clean(status, out, err)
        assert snapshot(self.tree) == self.before, "the directory has changed"
        no_mounts()


class DiskScene(Scene):
    """The same of a run whose workspace is on disk, of which nothing is left: no file, and no device, which would hold it."""

    def __init__(self):
        super().__init__()
        self.before = host_disk()
        self.policy = world.policy("egress-disk", more="[Files]\nWorkspaceStore=disk\nWorkspaceSize=64M\nWorkspaceInodes=1K\n")

    def must_be_clean(self, status, out, err):
        super().must_be_clean(status, out, err)
        given_back(self.before)


class DetachedScene(Scene):
    """Its output is kept by a process of its own; somebody else waits for it."""
    seconds = "0.3"

    def start(self):
        return start("/bin/bash", "-c", DETACHED, self.seconds, policy=self.policy, options=["--detach", "--timeout", "20s", *self.source()])

    def has_begun(self):
        wait_for("its first word", lambda: any(stream(run).startswith(b"here\n") for run in self.runs()))

    def finish(self):
        done = super().finish()
        if done[0] == 0:
            self.client = subprocess.Popen([AGENTBOX, "wait", done[1].split()[-1]], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            done = super().finish()
        return done

    def must_have_worked(self, done):
        assert done[0] == self.works, done
        assert [stream(run) for run in self.runs()] == [KEPT]

    def must_be_whole_or_nothing(self, status, _out, err):
        kept = [stream(run) for run in self.runs()]
        assert all(KEPT.startswith(k.removesuffix(b"\n")) for k in kept), kept
        assert status != self.works or kept == [KEPT] or b"output" in err, f"not all of its output, and no word of it: {kept}"


class AdoptedScene(DetachedScene):
    """It is not over when its first word has been seen in the journal: of a run that was, nobody but the log knows when its broker dies."""
    seconds = "4"


class ReaderScene(Scene):
    """Who may not read the journal asks for a run of their own, which is over."""
    works = 0
    script = "agentbox log --json $0 && agentbox log --output $0 && agentbox why $0"

    def __init__(self):
        super().__init__()
        box.user(box.USER, "agentbox")
        self.run = expect(box.agentbox("run", "--detach", "-p", "offline", "--", "/bin/echo", "here", as_user=box.USER)).out.split()[-1]
        expect(box.agentbox("wait", self.run, as_user=box.USER))
        self.whole = None

    def start(self):
        return subprocess.Popen(["setpriv", f"--reuid={box.USER}", f"--regid={box.USER}", "--init-groups", "--", "/bin/sh", "-c", self.script,
                                 self.run], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def must_have_worked(self, done):
        assert done[0] == 0 and done[1].count(b"run-ended") == 1 and b"\nhere\n" in done[1], done
        self.whole = done[1]

    def must_be_clean(self, status, out, err):
        wait_for("whoever served it to be gone", lambda: not sh(HELPERS).strip())
        assert self.events() == [] and leftovers() == []
        assert self.whole is None or out == self.whole if status == 0 else b"agentbox: " in err, f"a part, and no word of it: {self.whole}"


class ScopeScene(Scene):
    """The caller's own process; without files or a network of its own. A shim that is killed in execve is a command that is."""
    silent = (137,)

    def start(self):
        return start_scope("/bin/sh", "-c", "echo here; read -r word; exit 3", options=["--timeout", "20s"], stdin=subprocess.PIPE)

    def must_have_worked(self, done):
        assert done[0] == self.works, done

    def must_be_whole_or_nothing(self, status, out, _err):
        assert status != self.works or out == b"here\n", out


class AlertScene(Scene):
    """An administrator is told of a denial by a service that is started with the run, and again after each death."""

    def __init__(self):
        super().__init__()
        box.write_file(f"/run/systemd/system/{test_alert.UNIT}.d/50-live.conf", "[Unit]\nStartLimitIntervalSec=0\n[Service]\nRestartSec=100ms\n")
        sh("systemctl daemon-reload")
        at_end(sh, "systemctl daemon-reload")
        on_air = contextlib.ExitStack()
        on_air.enter_context(test_alert.on_air())
        at_end(on_air.close)

    def start(self):
        sh(["systemctl", "--no-block", "restart", test_alert.UNIT])
        return start("/bin/bash", "-c", "echo here; (exec 4<>/dev/tcp/1.2.3.4/443); exit 3", policy=self.policy)

    def must_have_worked(self, done):
        assert done[0] == self.works, done

    def finish(self):
        done = super().finish()
        wait_for("the alert", self.told)
        sh(["systemctl", "stop", test_alert.UNIT])
        return done

    def told(self):
        """How often of this run."""
        return sum(a["AGENTBOX_RUN_ID"] in self.runs() for a in test_alert.alerts())

    def must_be_whole_or_nothing(self, _status, _out, _err):
        found = [a["AGENTBOX_RUN_ID"] for a in test_alert.alerts()]
        # Over one of them it can have been killed, and over the next it can have been stopped.
        assert max(map(found.count, found)) <= 3, f"more often than it ended over it: {found}"


def points(n):
    """Which of n steps are taken."""
    wanted = n if POINTS == "all" else min(n, int(POINTS))
    return sorted({1 + i * n // wanted for i in range(wanted)})


def from_the_beginning(scene, arm):
    arm()
    scene.begin()


def kill_the_first(scene, arm):
    """The broker that began the run; what is armed is the next one."""
    scene.begin()
    scene.has_begun()
    arm()
    os.kill(wait_for("the broker", broker_pid), signal.SIGKILL)


def one(steps, scene, name, number, begin):
    begin(scene, lambda: steps.arm(name, number))
    done = scene.finish()
    made, killed = steps.count(), steps.killed()
    steps.disarm()
    return done, made, killed


def sweep(name, judge=lambda scene, killed, done: None, begin=from_the_beginning, scene_of=Scene):
    """Each step of one program."""
    world.up()
    world.policy()
    broker_with("")
    wrong = []
    with Steps() as steps:
        scene = scene_of()
        one(steps, scene, "", 0, begin)  # nothing is made for the first time
        done, n, _ = one(steps, scene, name, 0, begin)
        assert n > 0, f"{name} takes no step"
        scene.must_be_clean(*done)
        scene.must_have_worked(done)
        chosen = points(n)
        for number in chosen:
            began = time.monotonic()
            done, made, killed = one(steps, scene, name, number, begin)
            try:
                scene.must_be_clean(*done)
                assert killed or made < number, (made, killed)
                judge(scene, killed, done)
            except AssertionError as e:
                wrong.append(f"step {number} of {n}: {e}; events {scene.events()}, client {done}")
            if VERBOSE:
                print(f"  step {number} of {n}: {time.monotonic() - began:.1f} s, killed {killed}, {scene.events()}, {done} {wrong[-1:]}", flush=True)
    print(f"  {name}: {n} steps, {len(chosen)} taken", flush=True)
    assert not wrong, f"{len(wrong)} of {len(chosen)}:\n" + "\n".join(wrong)


def no_temporary(scene, _killed, _done):
    assert not scene.temporaries(), scene.temporaries()


def no_start_without_execve(scene, killed, done):
    """From its last word to the end of execve, four steps, nobody can know whether the shim still was one."""
    no_temporary(scene, killed, done)
    scene.unknown += done[0] != scene.works and any("run-started" in events for events in scene.events())
    assert scene.unknown <= 4, "on record as started, and it cannot have been"


def tells_the_end(scene, killed, done):
    """A client that was told of the beginning is told of the end, by whichever broker: the kernel keeps how a process ended (since 6.15)."""
    no_temporary(scene, killed, done)
    if KERNEL >= (6, 15) and b"here" in done[1]:
        assert done[0] == 3, "how it ended is not known"


@heavy
@within(SECONDS)
def test_client():
    """What it was writing when it died, the next one to the same directory clears away."""
    sweep("agentbox")


@heavy
@within(SECONDS)
def test_broker():
    sweep("agentboxd", tells_the_end)


@heavy
@within(SECONDS)
def test_next_broker():
    """The one that takes a run over, which ends meanwhile, is killed, too. Where it had settled the run before anybody could ask for it,
    the third one knows nothing of it but what is on record, and says so."""
    def judge(scene, killed, done):
        if done[0] == 125 and b"is lost: no run" in done[2]:
            no_temporary(scene, killed, done)
        else:
            tells_the_end(scene, killed, done)

    sweep("agentboxd", judge, kill_the_first)


@heavy
@within(SECONDS)
def test_shim():
    sweep("agentbox-exec", no_start_without_execve)


@heavy
@within(SECONDS)
def test_init():
    """What the shim is to its PID namespace, once its child is the one that goes on."""
    if systemd_version() < 257:
        raise Skip("before systemd 257 a run has no PID namespace of its own, and no init")
    sweep("agentbox-init", no_temporary)


@heavy
@within(SECONDS)
def test_warden():
    sweep("agentbox-warden", no_temporary)


@heavy
@within(SECONDS)
def test_resolver():
    sweep("agentbox-resolver", no_temporary)


@heavy
@within(SECONDS)
def test_reader_of_results():
    sweep("agentbox-copyout", no_temporary)


@heavy
@within(SECONDS)
def test_who_mounts_a_view():
    sweep("agentbox-view", no_temporary, scene_of=ViewScene)


@heavy
@within(SECONDS)
def test_broker_of_a_view():
    sweep("agentboxd", tells_the_end, scene_of=ViewScene)


@heavy
@within(SECONDS)
def test_client_of_a_view():
    sweep("agentbox", scene_of=ViewScene)


@heavy
@within(SECONDS)
def test_who_makes_a_disk():
    sweep("agentbox-disk", no_temporary, scene_of=DiskScene)


@heavy
@within(SECONDS)
def test_what_fills_a_disk():
    sweep("mke2fs", no_temporary, scene_of=DiskScene)


@heavy
@within(SECONDS)
def test_broker_of_a_disk():
    sweep("agentboxd", tells_the_end, scene_of=DiskScene)


@heavy
@within(SECONDS)
def test_collector_of_output():
    sweep("agentbox-output", scene_of=DetachedScene)


@heavy
@within(SECONDS)
def test_client_of_a_detached_run():
    sweep("agentbox", scene_of=DetachedScene)


@heavy
@within(SECONDS)
def test_broker_of_a_detached_run():
    sweep("agentboxd", scene_of=DetachedScene)


@heavy
@within(SECONDS)
def test_next_broker_of_a_detached_run():
    sweep("agentboxd", begin=kill_the_first, scene_of=AdoptedScene)


@heavy
@within(SECONDS)
def test_reader_of_records():
    sweep("agentbox-journal", scene_of=ReaderScene)


@heavy
@within(SECONDS)
def test_who_tells_an_administrator():
    sweep("agentbox-alert", scene_of=AlertScene)


@heavy
@within(SECONDS)
def test_client_of_a_scope():
    sweep("agentbox", scene_of=ScopeScene)


@heavy
@within(SECONDS)
def test_shim_of_a_scope():
    sweep("agentbox-exec", no_start_without_execve, scene_of=ScopeScene)


@heavy
@within(SECONDS)
def test_broker_of_a_scope():
    sweep("agentboxd", scene_of=ScopeScene)


@heavy
@within(SECONDS)
def test_next_broker_of_a_scope():
    sweep("agentboxd", begin=kill_the_first, scene_of=ScopeScene)
