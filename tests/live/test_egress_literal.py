# SPDX-License-Identifier: LGPL-2.1-or-later
"""Addresses as they stand, without a name: what no rule names is reset at once, in every spelling."""
import json

import world
from box import expect, run_python, start
from test_egress_upstream import embedded, services_of_the_host
from world import RULE4, attempt, denied, policy

RESET, REFUSED = ["", "ECONNRESET"], ["", "ECONNREFUSED"]

TALK = """
for address, port in json.loads(sys.argv[1]):
    say(talk(address, port))
"""


def talks(targets, **kw):
    """What each target answers, and the run."""
    return attempt(TALK, json.dumps(targets), **kw)


def test_public_addresses():
    policy()
    targets = [("1.2.3.4", 443), ("1.2.3.4", 1), ("8.8.8.8", 53), ("93.184.216.10", 443), ("93.184.216.53", 22), ("2606:4700:4700::1111", 443),
               ("2a0f:ff00::10", 443), ("1.2.3.4", 65535), ("::ffff:1.2.3.4", 443), ("10.0.0.5", 80), ("fd00::5", 80)]
    got, run = talks(targets)
    # DNS over TCP: whoever was asked, the warden answers; it waits for a question.
    assert got[2][0] == "" and [g for i, g in enumerate(got) if i != 2] == [RESET] * 10, got
    reasons = denied(run)
    assert reasons.pop(("dns", "8.8.8.8:53", "timeout")) == 1, reasons
    assert all(r == "no-rule" for _, _, r in reasons), reasons
    assert {n for _, n, _ in reasons} >= {"1.2.3.4:443", "1.2.3.4:1", "93.184.216.10:443", "2a0f:ff00::10:443"}, reasons
    assert sum(reasons.values()) == 10, reasons


def test_one_record_an_attempt():
    policy()
    got, run = attempt("""
called("dialler")
say([talk("1.2.3.4", 443) for i in range(5)])
""")
    assert got == [[RESET] * 5], got
    records = world.egress(run)
    assert len(records) == 5, records
    for r in records:
        assert (r["AGENTBOX_EVENT"], r["AGENTBOX_DEST_ADDR"], r["AGENTBOX_DEST_PORT"], r["AGENTBOX_PROTO"], r["AGENTBOX_REASON"], r["PRIORITY"]) \
            == ("egress-denied", "1.2.3.4", "443", "tcp", "no-rule", "5"), r
        assert r["AGENTBOX_COMM"] == "dialler" and int(r["AGENTBOX_PID"]) > 1 and world.count(r) == 1, r


METADATA = ("169.254.169.254", "169.254.170.2", "169.254.170.23", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd00:ec2::23",
            "fd20:ce::254", "169.254.0.1")
SPELLINGS = ("2852039166", "0xA9FEA9FE", "0251.0376.0251.0376", "169.254.43518", "169.16689662", "::ffff:a9fe:a9fe")


def test_metadata_services():
    policy()
    everywhere = METADATA + embedded("169.254.169.254")
    got, run = talks([(a, 80) for a in everywhere])
    assert got == [RESET] * len(everywhere), list(zip(everywhere, got))
    reasons = denied(run)  # which checks that each is a warning at least
    assert sum(reasons.values()) == len(everywhere) and {r for _, _, r in reasons} == {"metadata"}, reasons


def test_metadata_in_every_spelling():
    policy()
    got, run = attempt("""
for spelling in json.loads(sys.argv[1]):
    where = name_to(spelling, 80)
    say(talk(where[0], 80) if isinstance(where, list) else where)
""", json.dumps(SPELLINGS))
    assert got == [RESET] * len(SPELLINGS), list(zip(SPELLINGS, got))
    assert set(denied(run)) <= {("tcp", "169.254.169.254:80", "metadata"), ("tcp", "[::ffff:169.254.169.254]:80", "metadata"),
                                ("tcp", "::ffff:169.254.169.254:80", "metadata")}, denied(run)
    assert sum(denied(run).values()) == len(SPELLINGS), denied(run)


def test_a_wide_rule_does_not_open_metadata():
    policy("egress", "tcp 169.254.0.0/15:80", "tcp 0.0.0.0/0:443", "tcp 100.64.0.0/10:80")
    world.up()
    with services_of_the_host(443) as accepted:
        got, run = talks([("169.254.169.254", 80), ("100.100.100.200", 80), ("169.254.169.254", 443), ("168.63.129.16", 443), (world.HOST4, 443),
                          ("127.0.0.1", 443)])
        assert accepted == [], accepted
    assert got == [RESET] * 5 + [REFUSED], got
    assert sorted(r for _, _, r in denied(run)) == ["host-local"] + ["metadata"] * 4, denied(run)


def test_loopback_is_the_sandboxs_own():
    policy()
    world.up()
    with services_of_the_host(7643) as accepted:
        got, run = talks([("0.0.0.0", 7643), ("::", 7643), ("127.0.0.1", 7643), ("127.9.9.9", 7643), ("::1", 7643), ("::ffff:127.0.0.1", 7643),
                          ("192.0.2.2", 7643), ("fd00:ab::2", 7643)])
        assert accepted == [], accepted
    assert got == [REFUSED] * 8, got
    assert denied(run) == {}, denied(run)


def test_multicast_and_broadcast():
    policy()
    got, run = talks([("224.0.0.1", 80), ("239.1.2.3", 443), ("255.255.255.255", 80), ("ff02::1", 80), ("ff0e::1", 80)])
    assert got == [["", "ENETUNREACH"]] * 5, got
    assert sum(denied(run).values()) == 5, denied(run)


def test_link_local():
    policy()
    got, run = attempt("""
say(talk("fe80::1", 80))
say(talk("fe80::1%lo", 80))
""")
    assert got[0] == ["", "EINVAL"] and got[1] in (RESET, REFUSED), got
    assert denied(run) == {("tcp", "fe80::1:80", "metadata"): 2}, denied(run)


def test_class_e_and_this_network():
    policy()
    got, run = talks([("240.0.0.1", 80), ("0.1.2.3", 80), ("255.255.255.254", 80)])
    assert got == [RESET] * 3, got
    assert sum(denied(run).values()) == 3, denied(run)


def test_port_0():
    policy()
    got, run = talks([("1.2.3.4", 0)])
    assert got[0][0] == "" and got[0][1] in ("ECONNRESET", "ECONNREFUSED", "EADDRNOTAVAIL"), got
    assert sum(denied(run).values()) == 1, denied(run)


def test_addresses_that_were_never_given_out():
    policy()
    got, run = attempt("""
ours = name_to("github.com")
four = [a for a in ours if "." in a][0]
a, b = (int(x) for x in four.split(".")[2:])
guesses = [f"198.18.{(a + 7) % 256}.{b}", f"198.19.{a}.{(b + 9) % 256}", "198.18.0.0", "198.19.255.255"]
six = [a for a in ours if ":" in a][0]
guesses.append(str(ipaddress.IPv6Address(int(ipaddress.IPv6Address(six)) ^ 0x4321)))
say([g for g in guesses if g not in ours])
for g in guesses:
    say(talk(g, 443))
""")
    assert got[1:] == [RESET] * 5, got
    assert sum(denied(run).values()) == 5 and {r for _, _, r in denied(run)} == {"no-mapping"}, denied(run)


def test_addresses_of_another_run():
    policy()
    world.up()
    other = expect(run_python(world.program("say(name_to('github.com'))"), policy="egress"))
    holder = start("/bin/sleep", "20", policy="egress")
    got, run = attempt("""
mine = name_to("github.com")
for a in json.loads(sys.argv[1]):
    say([a in mine, talk(a, 443)])
""", other.out)
    assert len(got) == 2 and holder.poll() is None, got
    assert got == [[False, RESET]] * 2, got
    # Of IPv6 each run has a range of its own; to this one it is an address like any other.
    assert sorted(r for _, _, r in denied(run)) == ["no-mapping", "no-rule"], denied(run)


def test_wrong_port():
    policy()
    got, run = attempt("""
for name, port in (("github.com", 22), ("github.com", 80), ("x.example.org", 8443), ("example.net", 443)):
    for a in name_to(name):
        say(talk(a, port))
""")
    assert got == [RESET] * 8, got
    assert denied(run) == {("tcp", f"{n}:{p}", "port"): 2 for n, p in (("github.com", 22), ("github.com", 80), ("x.example.org", 8443),
                                                                      ("example.net", 443))}, denied(run)


def test_tcp_rule_for_an_address():
    policy()
    world.up().serve(RULE4, 5433, world.servers.commands)
    got, run = attempt("""
say(talk("192.0.2.77", 5432, b"ECHO\\nhello", end=True))
say(talk("::ffff:192.0.2.77", 5432, b"ECHO\\nhello", end=True))
say(talk("192.0.2.77", 5433, b"ECHO\\nhello", end=True))
say(talk("192.0.2.78", 5432, b"ECHO\\nhello", end=True))
""", flows=[f"tcp {RULE4} 5432"])
    assert got == [["hello", "EOF"], ["hello", "EOF"], RESET, RESET], got
    assert denied(run) == {("tcp", f"{RULE4}:5433", "port"): 1, ("tcp", "192.0.2.78:5432", "no-rule"): 1}, denied(run)
    opened = world.egress(run, "egress-allowed")
    assert len(opened) == 2 and {r["AGENTBOX_RULE"] for r in opened} == {f"tcp {RULE4}:5432"}, opened
    closed = world.egress(run, "egress-closed")
    assert len(closed) == 2 and all((r["AGENTBOX_BYTES_SENT"], r["AGENTBOX_BYTES_RECEIVED"]) == ("10", "5") for r in closed), closed


def test_ranges():
    policy("egress", "tcp 93.184.216.0/28:5432", "tcp 10.0.0.0/8:5432")
    w = world.up()
    w.serve("93.184.216.10", 5432, world.servers.commands)
    got, run = attempt("""
for a in ("93.184.216.10", "93.184.216.20", "93.184.217.10"):
    say(talk(a, 5432, b"ECHO\\nhello", end=True))
""", flows=["tcp 93.184.216.10 5432"])
    assert got == [["hello", "EOF"], RESET, RESET], got
    assert {r for _, _, r in denied(run)} == {"no-rule"}, denied(run)


def test_nothing_is_left_to_the_default_policy():
    """No rule at all: everything is refused the same way, and recorded."""
    world.up()
    got, run = attempt("""
say(talk("1.2.3.4", 443)); say(talk("192.0.2.77", 5432)); say(briefly(ask("github.com")))
""", policy="default")
    assert got == [RESET, RESET, ["NXDOMAIN", 0, [15]]], got
    assert sum(denied(run).values()) == 3, denied(run)


def test_a_connection_made_before_the_listener_is_asked():
    """SO_ERROR and poll: a non-blocking connect sees the reset, no time-out."""
    policy()
    got, _ = attempt("""
s = socket.socket(); s.setblocking(False)
say(word(OSError(s.connect_ex(("1.2.3.4", 443)), "")))
select.select([], [s], [], 10)
p = select.poll(); p.register(s, select.POLLIN | select.POLLOUT); time.sleep(0.2)
say(bool(p.poll(10000)[0][1] & (select.POLLERR | select.POLLHUP)))
say(word(OSError(s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), "")))
""")
    assert got[0] in ("EINPROGRESS", "0") and got[1:] == [True, "ECONNRESET"], got


def test_no_rule_names_a_metadata_service():
    """Naming one is an error of the policy, in every spelling; nothing runs under it."""
    for rule in ("tcp 169.254.169.254:80", "tcp 100.100.100.200/32:80", "tcp 168.63.129.16:53", "tcp fd00:ec2::254:80", "tcp [fd00:ec2::254]:80",
                 "tcp 64:ff9b::a9fe:a9fe:80", "tcp [64:ff9b::a9fe:a9fe]:80", "tcp [::ffff:169.254.169.254]:80", "tcp 169.254.0.0/16:80",
                 "tls metadata.google.internal", "http metadata.goog"):
        policy("egress", rule)
        done = run_python("print('ran')", policy="egress")
        assert done.status == 125 and "ran" not in done.out and "egress.policy:" in done.err, (rule, done)
        assert any(w in done.err for w in ("metadata", "IPv4 address in IPv6 clothes")) or rule[4:6] in ("fd", "64"), (rule, done)
