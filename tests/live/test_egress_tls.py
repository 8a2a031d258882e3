# SPDX-License-Identifier: LGPL-2.1-or-later
"""A tls rule: the ClientHello must ask for exactly the name whose address was dialled, in whatever pieces it comes."""
import world
from box import heavy, within
from world import GITHUB, ORG, attempt, denied, policy

ALERT = "alert 49"  # access_denied

TRY = """
where = [a for a in name_to("github.com") if "." in a][0]
def tries(raw, limit=8, pause=0):
    s = opened(where, 443, limit=limit)
    with s:
        try:
            for piece in raw if isinstance(raw, list) else [raw]:
                s.sendall(piece)
                if pause: time.sleep(pause)
        except OSError:
            pass
        first = b""
        try:
            while len(first) < 7:
                data = s.recv(7 - len(first))
                if not data: break
                first += data
        except OSError as e:
            return word(e)
        return tls_ending(first.decode("latin-1"), "EOF" if len(first) < 7 or first[:1] == b"\\x15" else "MORE")
def singles(data):
    return [bytes([b]) for b in data]
"""


def refused(lines, reason, n, ways=(ALERT,)):
    """Each hello gets an alert, each is on record with this reason, nothing leaves."""
    policy()
    got, run = attempt(TRY + lines)
    assert len(got) == n and all(g in ways for g in got), got
    reasons = denied(run)
    assert {r for _, _, r in reasons} == {reason} and sum(reasons.values()) == n, reasons
    return reasons


def passed(lines, n, to=GITHUB):
    policy()
    w = world.up()
    got, run = attempt(TRY + lines, flows=[f"tcp {to} 443"], asked=["github.com"])
    assert got == ["server"] * n, got
    assert denied(run) == {} and sum(world.allowed(run).values()) == n, (denied(run), world.allowed(run))
    return [c for s in w.https for c in s.accepted]


def test_another_name():
    reasons = refused("""
for name in (b"evil.example", b"www.github.com", b"github.co", b"github.comm", b"www.example.org"):
    say(tries(record(hello(name))))
""", "sni-mismatch", 5)
    assert {p for p, _, _ in reasons} == {"tls"}, reasons


@heavy
def test_the_name_asked_for_is_on_record():
    policy()
    _, run = attempt(TRY + "say(tries(record(hello(b'evil.example'))))")
    r, = world.egress(run)
    assert (r["AGENTBOX_ASKED_NAME"], r["AGENTBOX_DEST_NAME"], r["AGENTBOX_DEST_PORT"], r["AGENTBOX_RULE"]) \
        == ("evil.example", "github.com", "443", "tls github.com"), r


@heavy
def test_no_name_or_a_bad_one():
    refused(r"""
for h in (hello(sni=b""), hello(b""), hello(b"github.com", b"evil.example"), hello(b"github.com", b"github.com"), hello(b"198.18.0.1"),
          hello(b"github.com."), hello(b"github.com\0"), hello(b"github.com\0.evil.example"), hello(sni=server_names(b"github.com", kind=1)),
          hello(b"github..com"), hello(b"-github.com"), hello(sni=extension(0, b"")), hello(sni=extension(0, b"\0\0")),
          hello(sni=server_names(b"github.com") * 2), hello(b"github.com", extra=server_names(b"evil.example"))):
    say(tries(record(h)))
""", "sni-bad", 15)


def test_case_does_not_matter():
    came = passed("""
say(tries(record(hello(b"GitHub.COM"))))
say(tries(record(hello(b"github.com"))))
""", 2)
    assert [c.sni.lower() for c in came] == ["github.com"] * 2, came


def test_any_segmentation():
    passed("""
h = hello(b"github.com")
say(tries(singles(record(h))))
say(tries(singles(record(h)), pause=0.002))
say(tries(record(h, size=1)))
say(tries(record(h, size=7)))
say(tries(record(hello(b"github.com", grow=12000), size=500)))
say(tries([record(h)[:3], record(h)[3:70], record(h)[70:]], pause=0.05))
""", 6)
    refused("""
h = hello(b"evil.example")
say(tries(singles(record(h))))
say(tries(record(h, size=1)))
say(tries(record(hello(b"evil.example", grow=12000), size=500)))
say(tries([record(h)[:3], record(h)[3:70], record(h)[70:]], pause=0.05))
""", "sni-mismatch", 4)


def test_something_else_than_tls():
    policy()
    got, run = attempt(TRY + r"""
for raw in (b"SSH-2.0-evil\r\n", b"GET / HTTP/1.1\r\nHost: github.com\r\n\r\n", b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10", b"\0\0\0\0", b"hello",
            record(hello(b"github.com"), kind=23), record(hello(b"github.com"), kind=21), b"\x16\x02\0\0\x05aaaaa", b"\x16\x03\x01\0\0"):
    say(tries(raw))
""")
    assert all(g in ("ECONNRESET", ALERT) for g in got) and got[:2] == ["ECONNRESET"] * 2, got
    reasons = denied(run)
    assert {r for _, _, r in reasons} == {"not-tls"} and sum(reasons.values()) == 9, reasons


@heavy
def test_hello_too_large():
    policy()
    got, run = attempt(TRY + """
say(tries(record(hello(b"github.com", grow=17000))))
say(tries(record(hello(b"github.com", grow=60000))))
say(tries(b"\\x16\\x03\\x01\\xff\\xff" + bytes(1000)))
""")
    assert all(g in ("ECONNRESET", ALERT) for g in got), got
    assert sum(denied(run).values()) == 3, denied(run)


ECH = "extension(0xfe0d, b'\\0\\0\\1\\0\\1\\7\\0\\x20' + bytes(32) + b'\\0\\x40' + bytes(64))"


@heavy
def test_encrypted_hello():
    refused(f"""
say(tries(record(hello(b"github.com", extra={ECH}))))
say(tries(record(hello(b"github.com", extra=extension(0xffce, bytes(40))))))
""", "ech", 2)


@heavy
def test_encrypted_hello_where_the_rule_says_so():
    policy("egress", "tls github.com ech=allow")
    got, run = attempt(TRY + f"""
say(tries(record(hello(b"github.com", extra={ECH}))))
say(tries(record(hello(b"evil.example", extra={ECH}))))
""", flows=[f"tcp {GITHUB} 443"], asked=["github.com"])
    assert got[1] == ALERT and got[0] == "server", got
    r, = world.egress(run, "egress-allowed")
    assert "ech=allow" in r["AGENTBOX_RULE"], r
    assert denied(run) == {("tls", next(n for _, n, _ in denied(run)), "sni-mismatch"): 1}, denied(run)


@heavy
def test_early_data_is_held_back():
    """What comes with a hello goes nowhere before the hello is found good, and whole when it is."""
    policy()
    w = world.up()
    got, run = attempt(TRY + """
say(tries(record(hello(b"evil.example", extra=extension(42, b""))) + record(b"SECRET" * 100, kind=23)))
say(tries([record(hello(b"github.com", extra=extension(42, b"")))[:100]] + [record(b"SECRET" * 100, kind=23)]))
""")
    assert got[0] == ALERT and got[1] in (ALERT, "ECONNRESET"), got
    assert b"SECRET" not in b"".join(s.raw() for s in w.https), "early data left"
    assert sum(denied(run).values()) == 2, denied(run)


@within(60)
@heavy
def test_slow_hello():
    """Nobody may sit there for ever."""
    policy()
    got, run = attempt(TRY + """
h = record(hello(b"github.com"))
say(tries([h[:1]], limit=20)); say(tries([], limit=20))
""")
    assert all(g in ("ECONNRESET", ALERT, "EOF") for g in got), got
    assert {r for _, _, r in denied(run)} == {"timeout"} and sum(denied(run).values()) == 2, denied(run)


@heavy
def test_hang_up_before_the_hello():
    """An attempt that ends by itself is one attempt as well."""
    policy()
    got, run = attempt(TRY + """
s = opened(where, 443); s.close()
s = opened(where, 443); s.sendall(record(hello(b"github.com"))[:40]); s.shutdown(socket.SHUT_WR); say(until_end(s)[1]); s.close()
say("done")
""")
    assert got[-1] == "done", got
    assert sum(denied(run).values()) == 2 and all(p in ("tls", "tcp") for p, _, _ in denied(run)), denied(run)
    assert world.allowed(run) == {}, world.allowed(run)


@heavy
def test_wildcard():
    policy()
    w = world.up()
    w.names(deep__down__example__org=[ORG])
    got, run = attempt(TRY + """
where = name_to("deep.down.example.org")[0]
say(tries(record(hello(b"deep.down.example.org"))))
say(tries(record(hello(b"other.example.org"))))
say(tries(record(hello(b"example.org"))))
""", flows=[f"tcp {ORG} 443"], asked=["deep.down.example.org"])
    assert got == ["server", ALERT, ALERT], got
    assert world.allowed(run) == {("tls", "deep.down.example.org:443", "tls *.example.org"): 1}, world.allowed(run)
    assert {r for _, _, r in denied(run)} == {"sni-mismatch"}, denied(run)
