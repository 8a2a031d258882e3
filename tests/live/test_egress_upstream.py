# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the host's resolver answers is not trusted either: every address is checked, and the one that was checked is dialled."""
import contextlib
import ipaddress
import socket
import subprocess
import threading

import box
import world
from box import at_end, heavy, within
from world import GITHUB, HOLE, HOST4, HOST6, NET, Answer, attempt, denied, policy
from world.nameserver import NXDOMAIN, SERVFAIL, SILENCE

RULES = ("tls *.example.org", "tcp *.example.net:5432")

SPECIAL4 = ("127.0.0.1", "127.8.8.8", "10.0.0.5", "172.16.0.5", "172.31.255.5", "192.168.1.5", "100.64.0.5", "100.127.255.5", "0.0.0.0", "0.1.2.3",
            "192.0.0.8", "192.0.2.9", "198.18.0.5", "198.19.255.5", "198.51.100.5", "203.0.113.5", "192.88.99.5", "224.0.0.5", "239.255.255.5", "240.0.0.5",
            "255.255.255.255")
SPECIAL6 = ("::1", "::", "fc00::1", "fdff::1", "fec0::1", "ff02::1", "ff0e::1", "100::1", "2001:db8::1", "2001:2::1", "2001:10::1", "3fff::1", "5f00::1",
            "4000::1", "1000::1")


def embedded(v4):
    """An IPv4 address in IPv6 in every way."""
    a = int(ipaddress.IPv4Address(v4))
    high, low = a >> 16, a & 0xffff
    return (f"::ffff:{v4}", f"::{v4}", f"64:ff9b::{v4}", f"64:ff9b:1::{v4}", f"2002:{high:x}:{low:x}::1", f"2001:0:{high:x}:{low:x}::1",
            f"2001:0:5db8:d80a:0:0:{high ^ 0xffff:x}:{low ^ 0xffff:x}", f"2a0f:ff00::5efe:{v4}", f"2a0f:ff00::200:5efe:{v4}")


def each(addresses):
    """{a name under example.net: an address}, said by the world's name server."""
    names = {f"a{i}.example.net": a for i, a in enumerate(addresses)}
    world.up().dns.zone.update({n: Answer(a) for n, a in names.items()})
    return names


TRY = """
import sys
for name in sys.argv[1:]:
    where = name_to(name, 5432)
    say([name, *talk(where[0], 5432, b"ECHO\\nhello", end=True, limit=20)] if isinstance(where, list) else [name, "", where])
"""


def blocked(addresses, reason):
    """Each address as the answer for a name of its own: reset, that reason, no packet."""
    policy("egress", *RULES)
    names = each(addresses)
    got, run = attempt(TRY, *names, asked=sorted(names))
    assert {n: [data, how] for n, data, how in got} == {n: ["", "ECONNRESET"] for n in names}, [(names[n], d, h) for n, d, h in got if h != "ECONNRESET"]
    on_record = {n.split(":")[0]: r for (_, n, r), times in denied(run).items() if times == 1}
    assert on_record == {n: reason for n in names}, {names.get(n, n): r for n, r in on_record.items() if r != reason}
    return run


@contextlib.contextmanager
def services_of_the_host(port):
    """Listeners on this machine's loopback and its own addresses; who connected."""
    accepted, listeners = [], []

    def serve(s):
        with contextlib.suppress(OSError):
            while True:
                accepted.append(s.accept()[1])
    for address in ("0.0.0.0", "::"):
        s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        if ":" in address:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((address, port))
        s.listen()
        listeners.append(s)
        threading.Thread(target=serve, args=(s,), daemon=True).start()
    yield accepted
    for s in listeners:
        with contextlib.suppress(OSError):
            s.shutdown(socket.SHUT_RDWR)
        s.close()


@within(120)
def test_special_ipv4():
    world.up()
    with services_of_the_host(5432) as accepted:
        blocked(SPECIAL4, "addr-blocked")
        assert accepted == [], accepted


@within(120)
@heavy
def test_special_ipv6():
    world.up()
    with services_of_the_host(5432) as accepted:
        blocked(SPECIAL6, "addr-blocked")
        assert accepted == [], accepted


@within(120)
@heavy
def test_ipv4_embedded_in_ipv6():
    world.up()
    with services_of_the_host(5432) as accepted:
        blocked(embedded("127.0.0.1") + embedded("10.0.0.5"), "addr-blocked")
        assert accepted == [], accepted


@within(120)
def test_metadata():
    blocked(("169.254.169.254", "169.254.170.2", "169.254.170.23", "169.254.1.1", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254",
             "fd00:ec2::23", "fd20:ce::254", "fe80::1", *embedded("169.254.169.254"), *embedded("100.100.100.200")), "metadata")


def test_own_addresses_of_the_host():
    world.up()
    with services_of_the_host(5432) as accepted:
        blocked((HOST4, HOST6), "host-local")
        assert accepted == [], accepted
    blocked(("93.184.216.3",), "addr-blocked")  # what the uplink's network calls broadcast


@heavy
def test_tls_rule_tells_the_client():
    """Where a ClientHello has come, the answer is an alert: the client then says who refused, and does not try again."""
    policy("egress", *RULES)
    world.up().names(private__example__org=["10.0.0.5"])
    got, run = attempt("""
say(tls_ending(*talk(name_to("private.example.org")[0], 443, record(hello(b"private.example.org")))))
""", asked=["private.example.org"])
    assert got[0] in ("alert 49", "ECONNRESET"), got
    assert denied(run) == {("tls", "private.example.org:443", "addr-blocked"): 1}, denied(run)


def test_private_where_the_rule_says_so():
    policy("egress", "tcp *.example.net:5432 private=allow")
    w = world.up()
    names = each(["10.0.0.5", "169.254.169.254", "127.0.0.1", HOST4, "::1", "100.100.100.200", "224.0.0.5"])
    box.sh(["ip", "-n", world.NAMESPACE, "addr", "add", "10.0.0.5/32", "dev", "lo"])
    at_end(box.sh, ["ip", "-n", world.NAMESPACE, "addr", "del", "10.0.0.5/32", "dev", "lo"])
    w.serve("10.0.0.5", 5432, world.servers.commands)
    with services_of_the_host(5432) as accepted:
        got, run = attempt(TRY, *names, asked=sorted(names), flows=["tcp 10.0.0.5 5432"])
        assert accepted == [], accepted
    assert got[0][1:] == ["hello", "EOF"] and all(g[1:] == ["", "ECONNRESET"] for g in got[1:]), got
    reasons = {n.split(":")[0]: r for _, n, r in denied(run)}
    assert reasons == {"a1.example.net": "metadata", "a2.example.net": "addr-blocked", "a3.example.net": "host-local", "a4.example.net": "addr-blocked",
                       "a5.example.net": "metadata", "a6.example.net": "addr-blocked"}, reasons


@heavy
def test_mixed_answers():
    """Of several addresses only the good ones are dialled."""
    policy("egress", *RULES)
    w = world.up()
    w.serve(NET, 5432, world.servers.commands)
    w.names(mixed__example__net=["10.0.0.5", "127.0.0.1", NET, "169.254.169.254"], turned__example__net=["169.254.169.254", "fd00:ec2::254", NET])
    got, run = attempt(TRY, "mixed.example.net", "turned.example.net", asked=["mixed.example.net", "turned.example.net"], flows=[f"tcp {NET} 5432"])
    assert [g[1:] for g in got] == [["hello", "EOF"]] * 2, got
    assert sum(world.allowed(run).values()) == 2, world.allowed(run)


def test_rebinding():
    policy("egress", *RULES)
    w = world.up()
    w.serve(NET, 5432, world.servers.commands)
    w.names(rebind__example__net=[Answer(NET, ttl=0), Answer("10.0.0.5", ttl=0)], again__example__net=[Answer(NET, ttl=0), Answer("169.254.169.254", ttl=0)])
    got, run = attempt(TRY, "rebind.example.net", "rebind.example.net", "again.example.net", "again.example.net",
                       asked=["again.example.net", "rebind.example.net"], flows=[f"tcp {NET} 5432"])
    assert [g[1:] for g in got] == [["hello", "EOF"], ["", "ECONNRESET"]] * 2, got
    assert denied(run) == {("tcp", "rebind.example.net:5432", "addr-blocked"): 1, ("tcp", "again.example.net:5432", "metadata"): 1}, denied(run)
    # What was dialled is what was checked, and is on record.
    assert {r["AGENTBOX_DEST_ADDR"] for r in world.egress(run, "egress-allowed")} == {NET}, world.egress(run)


@heavy
def test_cname_into_private():
    policy("egress", *RULES)
    w = world.up()
    w.names(alias__example__net=Answer("10.0.0.5", through=["inner.corp.example"]),
            good__example__net=Answer(NET, through=["one.cdn.example", "two.cdn.example"]))
    w.serve(NET, 5432, world.servers.commands)
    got, run = attempt(TRY, "alias.example.net", "good.example.net", asked=["alias.example.net", "good.example.net"], flows=[f"tcp {NET} 5432"])
    assert [g[1:] for g in got] == [["", "ECONNRESET"], ["hello", "EOF"]], got
    assert denied(run) == {("tcp", "alias.example.net:5432", "addr-blocked"): 1}, denied(run)


@heavy
def test_thousand_records():
    policy("egress", *RULES)
    w = world.up()
    many = [f"10.{i >> 8}.{i & 255}.1" for i in range(1000)]
    w.names(private__example__net=many, public__example__net=[NET] * 1000)
    w.serve(NET, 5432, world.servers.commands)
    got, run = attempt(TRY, "private.example.net", "public.example.net", asked=["private.example.net", "public.example.net"],
                       flows=[f"tcp {NET} 5432", f"tcp {world.DNS4} 53"])
    assert [g[1:] for g in got] == [["", "ECONNRESET"], ["hello", "EOF"]], got
    assert denied(run) == {("tcp", "private.example.net:5432", "addr-blocked"): 1}, denied(run)


@heavy
def test_upstream_failures():
    policy("egress", *RULES)
    w = world.up()
    w.names(nx__example__net=NXDOMAIN, servfail__example__net=SERVFAIL, empty__example__net=Answer(), refused__example__net=Answer(rcode=5),
            silent__example__net=SILENCE)
    names = ["empty.example.net", "nx.example.net", "refused.example.net", "servfail.example.net", "silent.example.net"]
    got, run = attempt(TRY, *names, asked=names)
    assert [g[1:] for g in got] == [["", "ECONNRESET"]] * 5, got
    assert denied(run) == {("tcp", f"{n}:5432", "resolve-failed"): 1 for n in names}, denied(run)


@heavy
def test_lying_resolver():
    """Answers that are none: cut, for another question, with a loop; and one after them works."""
    policy("egress", *RULES)
    w = world.up()
    loop = bytes.fromhex("8180000100010000000001610765786d61706c65036e657400c00cc00c")
    other = world.wire.question("b.example.net", flags=0x8180, edns=False)[2:]
    w.names(cut__example__net=Answer(raw=b"\x81\x80\0\1"), loop__example__net=Answer(raw=loop), other__example__net=Answer(raw=other),
            good__example__net=[NET])
    w.serve(NET, 5432, world.servers.commands)
    names = ["cut.example.net", "good.example.net", "loop.example.net", "other.example.net"]
    got, run = attempt(TRY, *names, asked=names, flows=[f"tcp {NET} 5432"])
    assert {g[0]: g[2] for g in got} == {n: "EOF" if n.startswith("good") else "ECONNRESET" for n in names}, got
    assert {r for _, _, r in denied(run)} == {"resolve-failed"} and sum(denied(run).values()) == 3, denied(run)


@heavy
def test_dead_and_slow_resolver():
    policy("egress", *RULES)
    w = world.up()
    w.serve(NET, 5432, world.servers.commands)
    w.names(slow__example__net=Answer(NET, after=1.5))
    w.resolver(f"nameserver {world.DNS4}\noptions timeout:3\n")
    at_end(w.resolver, f"nameserver {world.DNS4}\n")
    got, run = attempt(TRY, "slow.example.net", asked=["slow.example.net"], flows=[f"tcp {NET} 5432"])
    assert got[0][1:] == ["hello", "EOF"], got
    # Nobody is there at all; what needs no name goes on.
    w.resolver(f"nameserver {HOLE}\n")
    policy("egress", *RULES, f"tcp {world.RULE4}:5432")
    with w.watch() as seen:
        got, done = world.inside("""
say(talk(name_to("x.example.net", 5432)[0], 5432, b"ECHO\\nhello", end=True))
say(talk("192.0.2.77", 5432, b"ECHO\\nhello", end=True))
""")
    assert got == [["", "ECONNRESET"], ["hello", "EOF"]], got
    assert seen.flows() == {f"udp {HOLE} 53", f"tcp {world.RULE4} 5432"}, seen.flows()
    assert denied(done.run) == {("tcp", "x.example.net:5432", "resolve-failed"): 1}, denied(done.run)


def test_ipv6_upstream():
    policy()
    w = world.up()
    w.names(github__com=[world.GITHUB6])
    got, run = attempt("""
for a in name_to("github.com"):
    say(tls_ending(*talk(a, 443, record(hello(b"github.com")), limit=2)))
""", asked=["github.com"], flows=[f"tcp {world.GITHUB6} 443"])
    assert got == ["server", "server"], got
    assert world.allowed(run) == {("tls", "github.com:443", "tls github.com"): 2}, world.allowed(run)


@within(120)
@heavy
def test_black_hole():
    policy("egress", *RULES)
    w = world.up()
    w.names(hole__example__net=[HOLE], refused__example__net=[GITHUB])
    got, run = attempt(TRY, "hole.example.net", "refused.example.net", asked=["hole.example.net", "refused.example.net"],
                       flows=[f"tcp {HOLE} 5432", f"tcp {GITHUB} 5432"])
    assert [g[1:] for g in got] == [["", "ECONNRESET"]] * 2, got
    reasons = denied(run)
    assert reasons.pop(("tcp", "refused.example.net:5432", "connect-failed")) == 1, reasons
    (key, times), = reasons.items()
    assert key[1] == "hole.example.net:5432" and key[2] in ("connect-failed", "timeout") and times == 1, reasons


@within(120)
def test_uplink_down_and_back():
    policy("egress", *RULES, f"tcp {world.RULE4}:5432")
    w = world.up()
    at_end(world.uplink_up)
    program = world.program("""
for line in sys.stdin:
    say(talk("192.0.2.77", 5432, b"ECHO\\nhello", end=True))
""")
    client = box.start("/usr/bin/python3", "-c", program, policy="egress", options=["--timeout", "60s"], stdin=subprocess.PIPE)

    def once():
        client.stdin.write(b"\n")
        client.stdin.flush()
        return client.stdout.readline().decode().strip()
    assert once() == '["hello", "EOF"]'
    world.uplink_down()
    assert once() == '["", "ECONNRESET"]'
    world.uplink_up()
    assert once() == '["hello", "EOF"]'
    client.stdin.close()
    assert client.wait() == 0, client.stderr.read()
    assert w.tcp.accepted, "nothing came"
