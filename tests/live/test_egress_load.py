# SPDX-License-Identifier: LGPL-2.1-or-later
"""Much of everything: what is allowed keeps its bytes, what is denied is counted to the last, nobody slows another."""
import os
import pathlib
import subprocess
import threading
import time

import box
import world
from box import expect, heavy, only, run, start, wait_for, within
from world import RULE4, attempt, denied, inside, policy, program
from world.pattern import pattern_digest

MANY = "[Limits]\nOpenFiles=8192\nTasks=256\nMemory=1G\nRuntime=5min\nCPUQuota=200%\n"


def warden_of(run_id):
    """The pid of a run's warden."""
    return int(box.sh(["systemctl", "show", "-P", "MainPID", f"agentbox-warden-{run_id}.service"]).strip())


def own_memory(pid):
    """Bytes that this process shares with nobody."""
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    return sum(int(l.split()[1]) for l in text.splitlines() if l.startswith(("Private_Clean", "Private_Dirty"))) << 10


def processes():
    return sum(name.isdigit() for name in os.listdir("/proc"))


def running(policy_name):
    return box.newest_run(lambda r: r.get("policy") == policy_name)["run"]


def exact(done_run, wanted):
    """Records, result and sum agree."""
    total = denied(done_run)
    assert sum(total.values()) == wanted, (sum(total.values()), wanted)
    return total


@within(120)
@heavy
def test_500_megabytes_each_way():
    policy(more=MANY)
    w = world.up()
    size = 500 << 20
    got, run_id = attempt(f"""
s = opened("192.0.2.77", 5432); s.sendall(b"GET {size}\\n"); h = hashlib.sha256(); n = 0
while data := s.recv(1 << 20):
    h.update(data); n += len(data)
say([n, h.hexdigest()])
s = opened("192.0.2.77", 5432); s.sendall(b"PUT {size}\\n")
for piece in pattern({size}): s.sendall(piece)
say(until_end(s)[0].decode().strip())
""", flows=[f"tcp {RULE4} 5432"])
    digest = pattern_digest(size)
    assert got == [[size, digest], digest], got
    closed = sorted(world.egress(run_id, "egress-closed"), key=lambda r: int(r["AGENTBOX_BYTES_SENT"]))
    assert [(int(r["AGENTBOX_BYTES_SENT"]), int(r["AGENTBOX_BYTES_RECEIVED"])) for r in closed] \
        == [(len(f"GET {size}\n"), size), (size + len(f"PUT {size}\n"), 65)], closed
    assert w.tcp.accepted[0].lost is None, w.tcp.accepted[0].lost


@within(120)
@heavy
def test_500_megabytes_over_tls():
    policy(more=MANY)
    world.up()
    size = 250 << 20
    got, _ = attempt(f"""
import ssl, http.client
c = http.client.HTTPSConnection("www.example.org", timeout=60, context=ssl.create_default_context())
c.request("GET", "/bytes/{size}"); r = c.getresponse(); h = hashlib.sha256()
while data := r.read(1 << 20): h.update(data)
say(h.hexdigest())
c.request("PUT", "/", body=pattern({size}), headers={{"Content-Length": "{size}"}}); say(json.loads(c.getresponse().read())["sha256"])
""", flows=[f"tcp {world.ORG} 443"], asked=["www.example.org"])
    assert got == [pattern_digest(size)] * 2, got


def test_half_close():
    policy()
    w = world.up()
    got, _ = attempt("""
data = b"".join(pattern(300000))
s = opened("192.0.2.77", 5432); s.sendall(b"EOF\\n" + data); s.shutdown(socket.SHUT_WR)
say([until_end(s)[0].decode().strip(), hashlib.sha256(data).hexdigest()])
# the server ends its own direction first, and still reads
s = opened("192.0.2.77", 5432); s.sendall(b"LAST word\\n"); say(until_end(s)[0].decode())
for i in range(50): s.sendall(bytes([i]) * 1000); time.sleep(0.01)
s.close()
# neither direction says anything
s = opened("192.0.2.77", 5432); s.shutdown(socket.SHUT_WR); say(until_end(s)[1])
""", flows=[f"tcp {RULE4} 5432"])
    assert got[0][0] == got[0][1] and got[1] == "word" and got[2] in ("EOF", "ECONNRESET"), got
    wait_for("the second connection's end", w.tcp.accepted[1].ended.is_set)
    assert bytes(w.tcp.accepted[1].raw) == b"LAST word\n" + b"".join(bytes([i]) * 1000 for i in range(50))


def test_reset_is_passed_on():
    policy()
    w = world.up()
    got, _ = attempt("""
s = opened("192.0.2.77", 5432); s.sendall(b"RESET\\n"); say(until_end(s)[1])
s = opened("192.0.2.77", 5432); s.sendall(b"ECHO\\nx"); say(s.recv(1).decode())
s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)); s.close(); say("closed")
time.sleep(1)
""", flows=[f"tcp {RULE4} 5432"])
    assert got == ["ECONNRESET", "x", "closed"], got
    assert isinstance(w.tcp.accepted[1].lost, ConnectionResetError), w.tcp.accepted[1].lost


@within(90)
@heavy
def test_thousand_connections_at_once():
    policy(more="Connections=1500\n" + MANY)
    world.up()
    got, run_id = attempt("""
s = [opened("192.0.2.77", 5432) for i in range(1000)]
for i, c in enumerate(s): c.sendall(b"ECHO\\n" + i.to_bytes(4, "big") * 250)
say([c.recv(1000, socket.MSG_WAITALL) == i.to_bytes(4, "big") * 250 for i, c in enumerate(s)].count(True))
for c in s: c.close()
# and as fast as one after another
say(sum(talk("192.0.2.77", 5432, b"ECHO\\nx", end=True) == ["x", "EOF"] for i in range(1000)))
""", flows=[f"tcp {RULE4} 5432"])
    assert got == [1000, 1000], got
    assert denied(run_id) == {} and sum(world.allowed(run_id).values()) == 2000, (denied(run_id), sum(world.allowed(run_id).values()))


@within(180)
@heavy
def test_as_many_connections_as_a_policy_may_have():
    """Connections= at its maximum is had, with what that takes of the warden's descriptors and memory; one more is one too many."""
    ports = (5501, 5502, 5503)  # the kernel makes so many connections to one that nobody accepts
    policy("egress", *(f"tcp {RULE4}:{p}" for p in ports),
           more="Connections=8192\n" + MANY.replace("OpenFiles=8192", "OpenFiles=16384") + "[Audit]\nAllowedEgress=no\n")
    world.up()
    listeners = [world.listening(RULE4, p) for p in ports]
    got, run_id = attempt("""
def stands(s):
    try:
        s.recv(1)
    except BlockingIOError:
        return True
    except ConnectionResetError:
        pass
    return False
s = [opened("192.0.2.77", 5501 + i % 3) for i in range(8192 + 5)]
for c in s: c.setblocking(False)
end = time.monotonic() + 30
while any(map(stands, s[8192:])) and time.monotonic() < end: time.sleep(0.2)
say(sum(map(stands, s[:8192]))); say(sum(map(stands, s[8192:])))
""", flows=[f"tcp {RULE4} {p}" for p in ports])
    for l in listeners:
        l.close()
    assert got == [8192, 0], got
    assert {r for _, _, r in exact(run_id, 5)} == {"limit"}


def test_connections_over_the_limit():
    policy(more="Connections=8\n")
    world.up()
    got, run_id = attempt("""
held = [opened("192.0.2.77", 5432) for i in range(8)]
for s in held: s.sendall(b"ECHO\\nx"); s.recv(1)
say([talk("192.0.2.77", 5432) for i in range(3)])
say([talk(name_to("github.com")[0], 443) for i in range(2)])
held.pop().close(); time.sleep(0.5)
say(talk("192.0.2.77", 5432, b"ECHO\\nx", end=True))
for s in held: s.sendall(b"y"); say(s.recv(1).decode())
""", flows=[f"tcp {RULE4} 5432"])
    assert got[0] == [["", "ECONNRESET"]] * 3 and got[1] == [["", "ECONNRESET"]] * 2 and got[2:] == [["x", "EOF"]] + ["y"] * 7, got
    total = exact(run_id, 5)
    assert {r for _, _, r in total} == {"limit"}, total


def test_bytes_over_the_limit():
    """To the byte, however many go out at a time."""
    limit = (32 << 20) + 12345
    policy(more=f"EgressBytes={limit}\n")
    w = world.up()
    got, run_id = attempt("""
s = opened("192.0.2.77", 5432); s.sendall(b"PUT 100000000\\n"); sent = 0
try:
    for piece in pattern(100000000):
        for i in range(0, len(piece), 65536): s.sendall(piece[i:i + 65536])
    say("ALL SENT")
except OSError as e:
    say(word(e))
say(talk("192.0.2.77", 5432, b"ECHO\\nx", end=True)[0])
""", flows=[f"tcp {RULE4} 5432"])
    assert got[0] in ("ECONNRESET", "EPIPE") and got[1] == "", got
    assert 0 < w.tcp.accepted[0].received <= limit, w.tcp.accepted[0].received
    closed = world.egress(run_id, "egress-closed")
    assert any(r["AGENTBOX_REASON"] == "bytes-limit" for r in closed + world.egress(run_id, "egress-denied")), world.egress(run_id)
    assert sum(int(r["AGENTBOX_BYTES_SENT"]) for r in closed) == limit, closed


@within(90)
@heavy
def test_readers_that_never_read():
    """Both ends of 64 connections stop reading; the warden holds no more of it than its share."""
    policy(more=MANY)
    world.up()
    client = start("/usr/bin/python3", "-c", program("""
s = [opened("192.0.2.77", 5432) for i in range(64)]
for c in s[:32]: c.sendall(b"GET 1000000000\\n")
for c in s[32:]: c.sendall(b"HANG 60\\n"); c.setblocking(False)
full = 0
for c in s[32:]:
    try:
        while True: c.send(bytes(65536))
    except BlockingIOError:
        full += 1
say(full); time.sleep(60)
"""), policy="egress", options=["--timeout", "60s"])
    assert client.stdout.readline().strip() == b"32", client.stderr.read()
    time.sleep(2)
    memory = own_memory(warden_of(running("egress")))
    assert memory < (8 << 20) + 64 * 2 * (64 << 10), memory
    client.kill()


@within(120)
@heavy
def test_2000_denied_connects_beside_another_run():
    policy(more=MANY)
    policy("egress-quiet")
    world.up()
    other = start("/usr/bin/python3", "-c", program("""
say("there"); n = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    assert talk("192.0.2.77", 5432, b"ECHO\\nhello", end=True) == ["hello", "EOF"]; n += 1
say(n)
"""), policy="egress-quiet", stdin=subprocess.PIPE, options=["--timeout", "60s"])
    assert other.stdout.readline().strip() == b'"there"'
    got, done = inside("""
s = [socket.socket() for i in range(2000)]
p = select.poll()
for i, c in enumerate(s):
    c.setblocking(False); c.connect_ex(("1.2.3.4", 1000 + i)); p.register(c, 0)
left, end = {c.fileno(): c for c in s}, time.monotonic() + 30
while left and time.monotonic() < end:
    for fd, event in p.poll(1000):
        left.pop(fd, None); p.unregister(fd)
say([len(left), sorted({word(OSError(c.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), "")) for c in s})])
""")
    other.stdin.close()
    rounds = int(other.stdout.readline())
    assert other.wait() == 0, other.stderr.read()
    assert got == [[0, ["ECONNRESET"]]], got
    total = exact(done.run, 2000)
    assert {(p, r) for p, _, r in total} == {("tcp", "no-rule")}, list(total)[:5]
    assert done.result["egress_denied"] == 2000, done.result
    assert rounds > 3, rounds


@within(150)
@heavy
def test_flood_of_100000():
    """Every attempt is in the sum, whatever the journal's rate limits are."""
    policy(more=MANY)
    world.up()
    _, done = inside("""
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(100000): s.sendto(b"x", ("1.2.3.4", 1000 + i % 1000))
say(0)
""")
    total = exact(done.run, 100000)
    # Of those that came too fast even for the kernel's ring the number is known, and no more.
    assert {(p, r) for p, _, r in total} <= {("udp", "no-rule"), ("other", "no-rule")}, list(total)[:5]
    assert done.result["egress_denied"] == 100000, done.result
    # Far fewer records than attempts; how many, is a matter of how long a busy machine takes over them.
    assert len(world.egress(done.run)) < 20000, len(world.egress(done.run))


@within(150)
@heavy
def test_flood_of_connects_and_questions():
    policy(more=MANY)
    world.up()
    _, done = inside("""
def connects(n, base):
    for i in range(n):
        s = socket.socket()
        try:
            s.connect((f"1.2.3.{i % 4}", 443)); s.recv(1)
        except OSError:
            pass
        s.close()
children = []
for k in range(4):
    pid = os.fork()
    if pid == 0:
        connects(2500, k); os._exit(0)
    children.append(pid)
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.settimeout(5); u.connect((SERVER4, 53)); answers = 0
for i in range(5000):
    u.send(question(f"n{i}.evil.example")); answers += len(u.recv(512)) > 0
for pid in children: os.waitpid(pid, 0)
say(answers)
""")
    total = exact(done.run, 15000)
    by = {p: sum(n for (q, _, _), n in total.items() if q == p) for p in ("tcp", "dns")}
    assert by == {"tcp": 10000, "dns": 5000}, by
    assert done.result["egress_denied"] == 15000, done.result


def test_policy_file_replaced_during_a_run():
    policy()
    world.up()
    client = start("/usr/bin/python3", "-c", program("""
say("there"); sys.stdin.readline()
say(talk("192.0.2.77", 5432, b"ECHO\\nhello", end=True)); say(talk("1.2.3.4", 443)); say(briefly(ask("github.com")))
"""), policy="egress", stdin=subprocess.PIPE, options=["--timeout", "30s"])
    assert client.stdout.readline().strip() == b'"there"'
    (box.POLICY_DIR / "egress.policy").write_text("[Network]\nEgress=open\nAllow=nonsense\n", encoding="ascii")
    out, err = client.communicate(b"\n")
    assert client.returncode == 0, err
    assert [l for l in out.decode().splitlines()] == ['["hello", "EOF"]', '["", "ECONNRESET"]', '["NOERROR", 1, []]'], out
    expect(run("/bin/true", policy="egress"), 125, err="egress.policy")


@only("lab")
@within(240)
def test_200_runs_at_once():
    """Each with a warden of its own, small."""
    policy(more="[Limits]\nMemory=64M\nRuntime=3min\n")
    world.up()
    n = 200
    before = processes()
    client = []
    limit = threading.Semaphore(8)

    def one():
        with limit:
            c = start("/bin/sh", "-c", "echo there; read x; exec 3<>/dev/null; exit 7", policy="egress", stdin=subprocess.PIPE)
            assert c.stdout.readline() == b"there\n", c.stderr.read()
            client.append(c)
    threads = [threading.Thread(target=one) for _ in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(client) == n, len(client)
    wardens = [int(p) for p in box.sh("pgrep -x agentbox-warden", check=False).split()]
    assert len(wardens) == 2 * n, len(wardens)  # each with its witness
    memory = sorted(own_memory(p) for p in wardens)
    assert memory[-1] < 4 << 20, memory[-5:]
    for c in client:
        c.stdin.write(b"\n")
        c.stdin.close()
    assert [c.wait() for c in client] == [7] * n
    wait_for("their end", lambda: not box.sh("pgrep -x agentbox-warden", check=False).split(), 60)
    wait_for("their last process to go", lambda: processes() < before + 30, 60)
