# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names. The resolver that a sandbox sees answers from the rules alone: no question leaves, whatever it asks, of whom and how."""
import pathlib
import socket

import box
import world
from box import at_end, heavy, within
from world import attempt, denied, policy

DENIED = ["NXDOMAIN", 0, [15]]
NODATA = ["NOERROR", 0, []]


def dns(name, reason="no-rule"):
    return ("dns", f"{name}:53", reason)


def test_foreign_name_of_any_server():
    policy()
    got, run = attempt("""
for server in ("192.0.2.53", "203.0.113.53", "2001:db8::53", "127.0.0.53", "192.0.2.1", "8.8.8.8"):
    for tcp in (False, True):
        say(briefly(ask("evil.example", server=server, tcp=tcp)))
""")
    # TCP to a loopback address is the sandbox's own business, and nobody listens there; a datagram to port 53 is answered anywhere.
    assert got == [DENIED] * 7 + ["ECONNREFUSED"] + [DENIED] * 4, got
    assert denied(run) == {dns("evil.example"): 11}, denied(run)
    assert len(world.egress(run)) == 11, world.egress(run)


def test_record_says_who_asked():
    policy()
    _, run = attempt("""
called("one\\nwho asks")
say([os.getpid(), ask("evil.example", "AAAA")["rcode"]])
""")
    r, = world.egress(run)
    assert r["AGENTBOX_EVENT"] == "egress-denied" and r["AGENTBOX_DEST_NAME"] == "evil.example", r
    assert r["AGENTBOX_RULE"] == "" if "AGENTBOX_RULE" in r else True, r
    assert "who asks" in r["AGENTBOX_COMM"] and "\n" not in r["AGENTBOX_COMM"], r
    assert int(r["AGENTBOX_PID"]) > 1, r
    for key in ("MESSAGE_ID", "AGENTBOX_POLICY", "AGENTBOX_POLICY_DIGEST", "AGENTBOX_CALLER_UID", "AGENTBOX_UNIT", "AGENTBOX_INVOCATION_ID"):
        assert r.get(key), (key, r)
    started, = box.records(run, "run-started")
    for key in ("AGENTBOX_POLICY", "AGENTBOX_POLICY_DIGEST", "AGENTBOX_CALLER_UID", "AGENTBOX_UNIT", "AGENTBOX_INVOCATION_ID"):
        assert r[key] == started[key], (key, r[key], started[key])


@heavy
def test_tunnel_of_1000_labels():
    policy()
    got, run = attempt("""
names = [os.urandom(30).hex() + ".evil.example" for i in range(1000)]
say(sorted({json.dumps(briefly(ask(n))) for n in names}))
""")
    assert got == [['["NXDOMAIN", 0, [15]]']], got
    total = denied(run)
    assert sum(total.values()) == 1000, sum(total.values())
    assert {(p, r) for p, _, r in total} == {("dns", "no-rule")}, total


def test_types_of_a_listed_name():
    policy()
    got, run = attempt("""
for qtype in ("TXT", "NULL", "MX", "SRV", "ANY", "HTTPS", "SVCB"):
    for name in ("github.com", "x.example.org"):
        a = ask(name, qtype); say([*briefly(a), len(a["authority"])])
""")
    # The client hears that it was kept from it, but for what every client asks today before it asks for addresses.
    assert [g[:3] for g in got] == [["NOERROR", 0, [15]]] * 10 + [NODATA] * 4 and all(g[3] == 1 for g in got), got
    assert denied(run) == {dns("github.com", "dns-type"): 5, dns("x.example.org", "dns-type"): 5}, denied(run)


@heavy
def test_types_of_a_foreign_name():
    policy()
    got, run = attempt("""
for qtype in ("TXT", "NULL", "MX", "SRV", "ANY", "HTTPS", "PTR", 65280):
    say(briefly(ask("evil.example", qtype)))
""")
    assert got == [DENIED] * 8, got
    assert denied(run) == {dns("evil.example"): 8}, denied(run)


def test_case_and_final_dot():
    policy()
    got, run = attempt("""
plain, odd = ask("github.com"), ask("GitHub.COM.")
say([plain["answers"][0][3], odd["answers"][0][3], odd["questions"][0][0], odd["answers"][0][0]])
say([name_to("github.com"), name_to("GITHUB.com.")])
""")
    address, same, echoed, _ = got[0]
    assert address == same and address.startswith(("198.18.", "198.19.")) and echoed == "GitHub.COM", got
    assert got[1][0] == got[1][1] and address in got[1][0], got
    assert any(":" in a and a.startswith("fd") for a in got[1][0]), got
    assert denied(run) == {}, denied(run)


@heavy
def test_lookalikes_and_wildcards():
    policy()
    got, run = attempt("""
for name in ("evilgithub.com", "github.com.evil.example", "gith.ub.com", "www.github.com", "example.org", "evilexample.org", "com", ""):
    say(briefly(ask(name)))
for name in ("a.b.example.org", "www.EXAMPLE.org", "x.example.org", "_x.example.org"):
    say(briefly(ask(name)))
""")
    assert got[:8] == [DENIED] * 8, got
    assert got[8:11] == [["NOERROR", 1, []]] * 3, got
    assert sum(denied(run).values()) == 8 + (got[11] == DENIED), (denied(run), got)


@heavy
def test_unicode_labels():
    policy()
    got, run = attempt(r"""
for label in (b"m\xc3\xbcnchen", b"m\xfcnchen", b"xn--mnchen-3ya", b"a\x00b", b"a.b", b"a b", b"a\nb"):
    say(briefly(ask(bytes([len(label)]) + label + b"\7example\3org\0")))
""")
    assert got == [DENIED] * 2 + [["NOERROR", 1, []]] + [DENIED] * 4, got
    total = denied(run)
    assert sum(total.values()) == 6 and all(r == "no-rule" for _, _, r in total), total
    assert all(name.isascii() and name.isprintable() for _, name, _ in total), total


@heavy
def test_malformed_messages():
    policy()
    got, run = attempt(r"""
head = struct.pack(">HHHHHH", 7, 0x0100, 1, 0, 0, 0)
long = (b"\x3f" + b"a" * 63) * 4 + b"\0"
for raw in (head + b"\xc0\x0c\0\1\0\1", head + b"\1a\xc0\x0c\0\1\0\1", head + long + b"\0\1\0\1", question("github.com", qdcount=0, edns=False),
            question("github.com", qdcount=2, edns=False), question("github.com", edns=False)[:-3], question("github.com", edns=False) + b"more",
            head + b"\x80a\0\0\1\0\1"):
    say(briefly(ask("", raw=raw)))
say(briefly(ask("", raw=question("github.com", flags=0x8180), limit=1.5)))
say(briefly(ask("", raw=b"\1\2\3", limit=1.5)))
say(briefly(ask("github.com")))
""")
    assert got[:8] == [["FORMERR", 0, []]] * 8, got
    assert got[8:10] == ["TIMEOUT"] * 2, got
    assert got[10] == ["NOERROR", 1, []], got
    assert set(r for _, _, r in denied(run)) == {"malformed"} and sum(denied(run).values()) >= 8, denied(run)


@heavy
def test_other_opcodes():
    policy()
    got, run = attempt("""
for opcode in (5, 4, 2, 1, 15):
    say(ask("github.com", flags=opcode << 11, edns=False)["rcode"])
""")
    assert got == ["NOTIMP"] * 5, got
    assert sum(denied(run).values()) == 5, denied(run)


def test_over_tcp():
    policy()
    got, run = attempt(r"""
same = [[a["rcode"], a["answers"], a["questions"]] for a in (ask("github.com"), ask("github.com", tcp=True))]
say(same[0] == same[1])
say(briefly(ask("evil.example", tcp=True)))
# two questions on one connection, in one segment
q = question("github.com"); q = struct.pack(">H", len(q)) + q
s = opened(SERVER4, 53); s.sendall(q + q)
for i in range(2):
    n = struct.unpack(">H", s.recv(2, socket.MSG_WAITALL))[0]; say(message(s.recv(n, socket.MSG_WAITALL))["rcode"])
s.close()
say(talk(SERVER4, 53, b"\0\0"))
# a byte a second: the other end does not wait for the whole of it
s = opened(SERVER4, 53); sent = 0
try:
    for b in q:
        s.sendall(bytes([b])); sent += 1
        if select.select([s], [], [], 1.0)[0]:
            say(["closed early", sent < len(q), s.recv(10) == b""])
            break
except OSError as e:
    say(["closed early", sent < len(q), True])
""")
    assert got[:4] == [True, DENIED, "NOERROR", "NOERROR"], got
    assert got[4][0] == "" and got[4][1] in ("EOF", "ECONNRESET"), got
    assert got[5] == ["closed early", True, True], got
    assert denied(run).get(dns("evil.example")) == 1, denied(run)


def test_dns_over_tls_and_https():
    policy()
    servers = [(a, p) for a in ("1.1.1.1", "8.8.8.8", "9.9.9.9", "2606:4700:4700::1111") for p in (853, 443)]
    got, run = attempt(f"""
for address, port in {servers!r}:
    say(talk(address, port))
""")
    assert got == [["", "ECONNRESET"]] * 8, got
    assert denied(run) == {("tcp", f"{a}:{p}", "no-rule"): 1 for a, p in servers}, denied(run)


@heavy
def test_metadata_names():
    policy("egress", "tls *.internal", "tls *.example.org")
    got, run = attempt("""
for name in ("metadata.google.internal", "METADATA.google.internal.", "a.metadata.google.internal"):
    say(briefly(ask(name)))
say(briefly(ask("metadata.goog"))); say(briefly(ask("instance-data")))
""")
    assert got[:2] == [DENIED] * 2 and got[3:] == [DENIED] * 2, got
    assert {k: v for k, v in denied(run).items() if k[1].startswith("metadata.google")} == {dns("metadata.google.internal", "metadata"): 2}, denied(run)


def bind_unix(path):
    """A socket of the host's. Nobody listens: the host's own programs, who ask it as well, must not wait."""
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    s = socket.socket(socket.AF_UNIX)
    s.bind(path)
    at_end(pathlib.Path(path).unlink)
    at_end(s.close)


def test_sockets_of_the_hosts_resolvers():
    policy()
    bind_unix("/run/nscd/socket")
    got, run = attempt("""
for path in ("/run/systemd/resolve/io.systemd.Resolve", "/run/systemd/resolve/io.systemd.Resolve.Monitor", "/run/nscd/socket", "/var/run/nscd/socket",
             "/run/dbus/system_bus_socket", "/run/avahi-daemon/socket"):
    try:
        socket.socket(socket.AF_UNIX).connect(path); say("CONNECTED " + path)
    except OSError as e:
        say(word(e))
import subprocess
say(subprocess.run(["getent", "hosts", "evil.example"]).returncode)
say(subprocess.run(["getent", "hosts", "github.com"], stdout=subprocess.DEVNULL).returncode)
say(name_to("evil.example"))
""")
    assert got[:6] == ["ENOENT"] * 6, got
    assert got[6:8] == [2, 0], got
    # "Name or service not known", not "Temporary failure": nobody tries again
    assert got[8]["gaierror"] == socket.EAI_NONAME, got
    assert {n for _, n, _ in denied(run)} == {"evil.example:53"}, denied(run)


def test_other_ways_to_ask():
    policy()
    got, run = attempt(r"""
for address, port in (("224.0.0.251", 5353), ("ff02::fb", 5353), ("224.0.0.252", 5355), ("ff02::1:3", 5355), ("8.8.8.8", 5353)):
    s = socket.socket(family_of(address), socket.SOCK_DGRAM); s.settimeout(0.5)
    try:
        s.sendto(question("evil.local"), (address, port)); say(["sent", s.recv(1)])
    except OSError as e:
        say(word(e))
""")
    assert all(isinstance(g, str) for g in got), got
    # What the kernel has no route for fails at once and is on record all the same.
    assert sum(denied(run).values()) == 5, (denied(run), got)


@within(120)
def test_search_domain_of_the_host():
    policy()
    w = world.up()
    at_end(w.resolver, f"nameserver {world.DNS4}\n")
    w.resolver(f"nameserver {world.DNS4}\nsearch corp.example example.net\noptions ndots:5\n")
    got, run = attempt("""
import ssl
c = ssl.create_default_context()
for name in ("github.com", "absent.example.org"):
    try:
        with socket.create_connection((name, 443), 20) as s, c.wrap_socket(s, server_hostname=name) as t:
            say(t.version())
    except OSError as e:
        say(str(e))
""", flows=[f"tcp {world.GITHUB} 443"], asked=["absent.example.org", "github.com"])
    assert got[0].startswith("TLS") and not got[1].startswith("TLS"), got
    assert [r for _, _, r in denied(run)] == ["resolve-failed"], denied(run)
