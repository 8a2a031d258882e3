# SPDX-License-Identifier: LGPL-2.1-or-later
"""Decoys and the metadata service: whoever touches one is on record, seen from outside; what a thief cannot do about it; that
nothing else is disturbed by decoys that stand there."""
import hashlib
import os
import re
import subprocess

from box import (BROKER_UNIT, USER, Skip, agentbox, at_end, broker_pid, broker_stop, cgroup_v2, expect, heavy, journal, newest_run, only, policy, records,
                 run, run_python, run_sh, sh, start, user, wait_events, wait_for, within)

HOME = "/home/agent"
AWS = f"{HOME}/.aws/credentials"
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"
DECOYS = (AWS, f"{HOME}/.config/gcloud/application_default_credentials.json", f"{HOME}/.env", f"{HOME}/.kube/config",
          f"{HOME}/.ssh/id_ed25519", TOKEN)


def trap(name="live-trap", action="log", more="[Network]\nEgress=none\n"):
    return policy(name, f"[Audit]\nDecoys=yes\nOnTripwire={action}\n{more}")


def tripped(done_or_id, reason="decoy"):
    """The records of decoys that were opened, once the run is over."""
    run_id = getattr(done_or_id, "run", done_or_id)
    wait_events(run_id, "run-ended")
    return [r for r in records(run_id, "tripwire") if r["AGENTBOX_REASON"] == reason]


def total(rows, decoy=None):
    return sum(int(r["AGENTBOX_COUNT"]) for r in rows if decoy in (None, r["AGENTBOX_DECOY"]))


# --- that it is seen

def test_each_decoy_is_a_tripwire():
    done = expect(run_sh(f"echo $HOME; cat {' '.join(DECOYS)} >/dev/null", policy=trap()), out=f"^{HOME}$")
    rows = tripped(done)
    assert sorted(r["AGENTBOX_DECOY"] for r in rows) == sorted(DECOYS), rows
    for r in rows:
        assert r["AGENTBOX_COMM"] == "cat" and int(r["AGENTBOX_PID"]) > 1 and r["AGENTBOX_COUNT"] == "1", r
        assert r["PRIORITY"] == "4" and r["AGENTBOX_ACTION"] == "log" and r["AGENTBOX_POLICY"] == "live-trap", r
        assert r["_SYSTEMD_UNIT"] == BROKER_UNIT and r["_UID"] == "0", r
    assert done.result["tripwires"] == len(DECOYS), done
    assert records(done.run, "run-ended")[0]["AGENTBOX_TRIPWIRES"] == str(len(DECOYS))


def test_every_way_of_opening_is_one():
    program = f"""
import mmap, os, shutil
P = {AWS!r}
with open(P, 'rb') as f: print(len(f.read()))
fd = os.open(P, os.O_RDONLY); m = mmap.mmap(fd, 0, prot=mmap.PROT_READ); print(len(m[:]))
os.symlink(P, '/workspace/link'); open('/workspace/link').close()
os.link(P, os.path.expanduser('~/other')); open(os.path.expanduser('~/other')).close()
os.rename(P, os.path.expanduser('~/moved')); open(os.path.expanduser('~/moved')).close()
o = os.open(os.path.expanduser('~/moved'), os.O_PATH); open(f'/proc/self/fd/{{o}}').close()
d = os.open(os.path.expanduser('~'), os.O_RDONLY); os.close(os.open('moved', os.O_WRONLY | os.O_APPEND, dir_fd=d))
try: os.link({TOKEN!r}, '/workspace/token')
except OSError as e: print(e.errno)
"""
    rows = tripped(expect(run_python(program, policy=trap())))
    assert total(rows, AWS) == 7 and {r["AGENTBOX_DECOY"] for r in rows} == {AWS}, rows
    assert rows[0]["AGENTBOX_COUNT"] == "1" and {r["AGENTBOX_COMM"] for r in rows} == {"python3"}, rows


def test_looking_at_names_is_none():
    done = expect(run_sh(f"ls -laR ~ >/dev/null; stat {AWS} {TOKEN} >/dev/null; find / -name credentials 2>/dev/null; test -r {AWS}; "
                         "du -sh ~; cp /dev/null ~/x; rm ~/.env", policy=trap(), options=["--set", "Limits.Runtime=50s"]))
    assert tripped(done) == [] and done.result["tripwires"] == 0, done
    # With O_PATH nothing can be read; the other half is in the test above.
    done = expect(run_python(f"import os\nfd = os.open({AWS!r}, os.O_PATH)\ntry: os.read(fd, 1)\nexcept OSError as e: print(e.errno)",
                             policy=trap()), out="^9$")
    assert tripped(done) == []


def test_who_it_was():
    """pid and comm are the kernel's and the process's own word, of processes that are gone at once, too."""
    script = f"cp /bin/cat /tmp/thief; /tmp/thief {AWS} >/dev/null; for i in 1 2 3; do (exec head -c1 {TOKEN} >/dev/null) & done; wait"
    rows = tripped(expect(run_sh(script, policy=trap())))
    assert [r["AGENTBOX_COMM"] for r in rows if r["AGENTBOX_DECOY"] == AWS] == ["thief"], rows
    heads = [r for r in rows if r["AGENTBOX_DECOY"] == TOKEN]
    assert len({r["AGENTBOX_PID"] for r in heads}) == 3 and {r["AGENTBOX_COMM"] for r in heads} == {"head"}, rows


def test_a_name_that_forges_nothing():
    program = rf"""
import ctypes
ctypes.CDLL(None).prctl(15, b'x\nAGENTBOX_Z=1\n', 0, 0, 0)
open({AWS!r}).close()
"""
    rows = tripped(expect(run_python(program, policy=trap())))
    assert len(rows) == 1 and "AGENTBOX_Z" not in rows[0] and "\\x0a" in rows[0]["MESSAGE"], rows
    assert "\n" not in rows[0]["MESSAGE"], rows


@within(200)
def test_a_flood_is_counted_exactly():
    program = f"""
import os
for _ in range(10000):
    os.close(os.open({AWS!r}, os.O_RDONLY))
"""
    done = expect(run_python(program, policy=trap(), options=["--set", "Limits.Runtime=55s"]))
    rows = tripped(done)
    assert total(rows) == 10000 and done.result["tripwires"] == 10000, (total(rows), done)
    assert len(rows) < 200, len(rows)


@heavy
@within(200)
def test_a_flood_by_ever_new_processes_is_counted_exactly():
    program = f"""
import os
for _ in range(1500):
    pid = os.fork()
    if pid == 0:
        os.open({TOKEN!r}, os.O_RDONLY)
        os._exit(0)
    os.waitpid(pid, 0)
"""
    done = expect(run_python(program, policy=trap(), options=["--set", "Limits.Runtime=55s"]))
    rows = tripped(done)
    assert total(rows) == 1500, (total(rows), done)
    assert len(rows) < 1500, len(rows)
    # What was told together has no one who did it.
    assert all("AGENTBOX_PID" in r or int(r["AGENTBOX_COUNT"]) > 1 for r in rows), rows


def test_a_flood_slows_no_other_run():
    """Another run's decoys and files answer while one floods."""
    flood = start("/usr/bin/python3", "-c", f"import os\nwhile True: os.close(os.open({AWS!r}, os.O_RDONLY))", policy=trap())
    first = newest_run(lambda r: r["state"] == "running")
    wait_for("the flood", lambda: records(first["run"], "tripwire"))
    done = expect(run_sh(f"cat {TOKEN} >/dev/null; echo there", policy=trap()), out="there")
    assert total(tripped(done)) == 1
    expect(agentbox("kill", first["run"]))
    flood.wait()


# --- that they are worth nothing, and tell where they were

def test_two_runs_have_nothing_in_common():
    texts = [expect(run_sh(f"cat {' '.join(DECOYS)}", policy=trap())).out for _ in range(2)]
    words = [set(re.findall(r"[A-Za-z0-9_+/-]{20,}", t)) for t in texts]
    shared = {w for w in words[0] & words[1] if not w.startswith(("aws_", "eyJ", "b3BlbnNzaC1r", "insecure-"))}
    assert words[0] and not shared, shared


def test_a_leak_is_traced_to_its_run():
    done = expect(run_sh(f"cat {AWS}", policy=trap()))
    key = re.search(r"AKIA[A-Z2-7]{16}", done.out).group()
    mark = hashlib.sha256(key.encode()).hexdigest()[:16]
    found = journal(f"_SYSTEMD_UNIT={BROKER_UNIT}", f"AGENTBOX_DECOY_FINGERPRINT={mark}")
    assert [r["AGENTBOX_RUN_ID"] for r in found] == [done.run], found
    assert key not in str(journal(f"AGENTBOX_RUN_ID={done.run}"))


def test_an_ssh_key_of_the_right_form():
    done = expect(run_sh("cat ~/.ssh/id_ed25519", policy=trap()))
    if subprocess.run(["sh", "-c", "command -v ssh-keygen"], capture_output=True, check=False).returncode == 0:
        said = subprocess.run(["ssh-keygen", "-y", "-f", "/dev/stdin"], input=done.stdout, capture_output=True, check=False)
        assert b"ssh-ed25519" in said.stdout or b"permissions" in said.stderr.lower() or b"UNPROTECTED" in said.stderr, said
    assert done.out.startswith("-----BEGIN OPENSSH PRIVATE KEY-----\n"), done


# --- that they are in nobody's way

def test_home_is_writable_and_no_decoy_is_in_the_workspace(tmp="/tmp/live-trap"):
    os.makedirs(tmp, exist_ok=True)
    at_end(sh, ["rm", "-rf", tmp])
    with open(f"{tmp}/.env", "w", encoding="utf-8") as f:
        f.write("MINE=1\n")
    script = "mkdir -p ~/.cache/x ~/.ssh ~/.config/pip && touch ~/.ssh/known_hosts && cat .env && ls -A && grep -r . . >/dev/null"
    done = expect(run_sh(script, policy=trap(), options=["--in", f"{tmp}/.", "--out", f".:{tmp}/out"]), out="MINE=1\n.env\n")
    assert tripped(done) == [] and sorted(os.listdir(f"{tmp}/out")) == [".env"], os.listdir(f"{tmp}/out")
    done = expect(run_sh("stat -fc %T ~; stat -c %a:%U ~; dd if=/dev/zero of=$HOME/big bs=1M count=65 2>&1", policy=trap()), 1)
    assert done.out.startswith("tmpfs\n700:agent\n") and "No space left" in done.out, done


def test_without_decoys_nothing_is_there():
    policy("live-plain", "[Network]\nEgress=none\n")
    done = expect(run_sh(f"echo $HOME; cat {AWS} {TOKEN}; ls -A ~ /home /var", policy="live-plain"), 2, err="No such file")
    assert done.out.startswith("/workspace\n") and ".aws" not in done.out and "run" not in done.out.split(), done
    assert done.result["tripwires"] is None, done


def test_shipped_policies():
    for name, want in (("default", "no"), ("offline", "no"), ("strict", "yes"), ("build", "no")):
        assert re.search(rf"Decoys\s*=?\s*{want}", expect(agentbox("policy", "explain", name)).out), name
    done = expect(run_sh(f"cat {AWS} >/dev/null", policy="strict"))
    assert total(tripped(done)) == 1


def test_callers_may_only_tighten():
    user(USER, "agentbox")
    trap("live-log", "freeze")
    for given in ("Audit.Decoys=no", "Audit.OnTripwire=log"):
        expect(run("/bin/true", policy="live-log", options=["--set", given], as_user=USER), 125, err="wider than the policy allows")
    policy("live-plain", "[Network]\nEgress=none\n")
    done = run_sh(f"cat {AWS}; echo went on", policy="live-plain", options=["--set", "Audit.Decoys=yes", "--set", "Audit.OnTripwire=kill"],
                  as_user=USER)
    assert done.status == 137 and "went on" not in done.out and done.result["reason"] == "killed", done


def test_a_scope_has_none():
    policy("live-scope-decoys", "[Files]\nRoot=/\n[Network]\nEgress=open\n[Audit]\nDecoys=yes\n")
    user(USER, "agentbox")
    expect(run("/bin/true", policy="live-scope-decoys", options=["--unit=scope"], as_user=USER), 125, err="Decoys")


# --- what is done about it

def test_kill():
    done = run_sh(f"cat {AWS} && echo read it; sleep 20; echo went on", policy=trap(action="kill"))
    assert done.status == 137 and done.out == "" and done.result["reason"] == "killed", done
    assert "tripwire" in done.err and done.result["message"] == "it touched a tripwire (OnTripwire=)", done
    rows = tripped(done)
    assert total(rows) >= 1 and rows[0]["AGENTBOX_ACTION"] == "kill", rows
    out = expect(agentbox("why", done.run)).out
    assert out.index("tripwire") < out.index("was ended") and AWS in out, out
    out = expect(agentbox("log", done.run)).out
    assert AWS in out and "killed" in out, out
    assert AWS in expect(agentbox("log", done.run, "--denied")).out


def test_freeze_is_refused_by_name_where_pid_1_cannot():
    if cgroup_v2():
        raise Skip("here PID 1 can")
    expect(run("/bin/true", policy=trap(action="freeze")), 125, err="OnTripwire=freeze")


@only("vm")
@within(300)
def test_freeze_and_thaw():
    user(USER, "agentbox")
    client = start("/bin/sh", "-c", f"cat {AWS} >/dev/null; echo went on; cat {TOKEN} >/dev/null; echo twice", policy=trap(action="freeze"))
    frozen = newest_run(lambda r: r["state"] == "frozen")["run"]
    assert "frozen" in agentbox("ps").out and "frozen" in expect(agentbox("show", frozen)).out
    assert agentbox("thaw", frozen, as_user=USER).status != 0
    expect(agentbox("thaw", frozen))
    # It froze again, at the next one.
    wait_for("the second record", lambda: len(records(frozen, "tripwire")) == 2)
    newest_run(lambda r: r["state"] == "frozen")
    expect(agentbox("thaw", frozen))
    out, _ = client.communicate()
    assert out == b"went on\ntwice\n" and client.returncode == 0, (out, client.returncode)
    assert agentbox("thaw", frozen).status != 0


@only("vm")
@within(300)
def test_a_frozen_run_is_killed_on_request_and_by_its_time():
    client = start("/bin/sh", "-c", f"cat {AWS}; sleep 1000", policy=trap(action="freeze"))
    frozen = newest_run(lambda r: r["state"] == "frozen")["run"]
    expect(agentbox("kill", frozen))
    assert client.wait(timeout=120) == 137
    wait_events(frozen, "run-ended")
    done = run_sh(f"cat {AWS}; sleep 1000", policy=trap(action="freeze"), options=["--timeout", "15s"])
    assert done.status == 124 and done.result["reason"] == "timeout", done


# --- that nobody is left unwatched

def test_the_next_broker_watches_on():
    client = start("/bin/sh", "-c", f"read x; cat {AWS} >/dev/null; read x; cat {TOKEN} >/dev/null; echo end", policy=trap(),
                   stdin=subprocess.PIPE)
    here = newest_run(lambda r: r["state"] == "running")["run"]
    before = broker_pid()
    sh(["systemctl", "kill", "--signal=KILL", BROKER_UNIT])
    # Nobody may be there: an open waits for the next one.
    client.stdin.write(b"\n")
    client.stdin.flush()
    wait_for("the next broker", lambda: broker_pid() not in (0, before))
    wait_for("the first record", lambda: records(here, "tripwire"))
    client.stdin.write(b"\n")
    client.stdin.flush()
    client.wait(timeout=60)
    rows = tripped(here)
    assert [r["AGENTBOX_DECOY"] for r in rows] == [AWS, TOKEN] and tripped(here, "not-watched") == [], rows


def test_a_broker_that_was_stopped_leaves_no_silence():
    """With it goes what PID 1 kept; whoever opened one meanwhile is on no record, and that is on record."""
    client = start("/bin/sh", "-c", f"read x; cat {AWS} >/dev/null; echo end", policy=trap(), stdin=subprocess.PIPE)
    here = newest_run(lambda r: r["state"] == "running")["run"]
    broker_stop()
    expect(agentbox("ps"))
    client.stdin.write(b"\n")
    client.stdin.flush()
    client.wait(timeout=60)
    assert total(tripped(here), AWS) == 1 and len(tripped(here, "not-watched")) == 1, records(here)


def test_many_runs_at_once():
    clients = [start("/bin/cat", AWS, policy=trap()) for _ in range(12)]
    texts = {c.communicate()[0] for c in clients}
    assert len(texts) == 12 and all(c.returncode == 0 for c in clients), texts


# --- the metadata service

def test_attempts_on_metadata_are_tripwires():
    policy("live-meta", "[Network]\nEgress=filtered\n")
    program = """
import socket
for address in ('169.254.169.254', '100.100.100.200', '169.254.169.254'):
    s = socket.socket()
    s.settimeout(3)
    try: s.connect((address, 80)); s.recv(1)
    except OSError: pass
"""
    done = expect(run_python(program, policy="live-meta"))
    rows = tripped(done, "metadata")
    assert sum(int(r["AGENTBOX_COUNT"]) for r in rows) == 3, rows
    assert all(r["PRIORITY"] == "4" for r in rows) and done.result["tripwires"] == 3, (rows, done)
    denied = [r for r in journal(f"AGENTBOX_RUN_ID={done.run}", "AGENTBOX_EVENT=egress-denied")]
    assert sum(int(r.get("AGENTBOX_COUNT", 1)) for r in denied) == 3 and {r["AGENTBOX_REASON"] for r in denied} == {"metadata"}, denied


def test_metadata_kills_where_it_is_to():
    policy("live-meta", "[Network]\nEgress=filtered\n[Audit]\nOnTripwire=kill\n")
    program = """
import socket, time
s = socket.socket(); s.settimeout(3)
try: s.connect(('169.254.169.254', 80)); s.recv(1)
except OSError: pass
time.sleep(30)
"""
    done = run_python(program, policy="live-meta")
    assert done.status == 137 and done.result["reason"] == "killed" and "tripwire" in done.err, done
