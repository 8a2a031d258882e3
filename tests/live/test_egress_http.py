# SPDX-License-Identifier: LGPL-2.1-or-later
"""An http rule: every request of a connection is for the name, and in words that two readers read the same way."""
import json

import world
from box import heavy, within
from world import NET, attempt, denied, policy

TRY = r"""
where = [a for a in name_to("example.net") if "." in a][0]
def request(raw, limit=15):
    got, how = talk(where, 80, raw.encode("latin-1") if isinstance(raw, str) else raw, limit=limit)
    return [got.split("\r\n")[0], how]
OK = "GET /first HTTP/1.1\r\nHost: example.net\r\n\r\n"
"""


def answers(requests, status, reasons, flows=()):
    """Each request alone on a connection gets this status and is on record; the server never hears of it."""
    policy()
    w = world.up()
    got, run = attempt(TRY + "for raw in json.loads(sys.argv[1]):\n    say(request(raw))\n", json.dumps(requests), flows=flows,
                       asked=["example.net"] if flows else [])
    for raw, (line, how) in zip(requests, got):
        assert line.startswith(f"HTTP/1.1 {status} ") and how in ("EOF", "ECONNRESET"), (raw[:200], line, how)
    assert len(got) == len(requests), got
    found = denied(run)
    assert {r for _, _, r in found} <= set(reasons) and {p for p, _, _ in found} == {"http"} and sum(found.values()) == len(requests), found
    assert w.http.raw() == b"", w.http.raw()


def test_another_authority():
    answers(["GET http://evil.example/ HTTP/1.1\r\nHost: example.net\r\n\r\n",
             "GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
             "GET http://example.net/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
             "GET https://example.net/ HTTP/1.1\r\nHost: example.net\r\n\r\n",
             "GET http://user@example.net/ HTTP/1.1\r\nHost: example.net\r\n\r\n",
             "GET http://example.net:81/ HTTP/1.1\r\nHost: example.net\r\n\r\n",
             "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
             "GET / HTTP/1.1\r\nHost: example.net:81\r\n\r\n",
             "GET / HTTP/1.1\r\nHost: example.net.\r\n\r\n",
             "GET / HTTP/1.1\r\nHost: example.net, evil.example\r\n\r\n",
             "GET / HTTP/1.1\r\nHost: example.net\r\nHost: example.net\r\n\r\n",
             "GET / HTTP/1.1\r\nHost: example.net\r\nhost: evil.example\r\n\r\n",
             "GET / HTTP/1.1\r\nHost:\r\n\r\n",
             "GET / HTTP/1.1\r\n\r\n",
             "GET / HTTP/1.0\r\n\r\n",
             "CONNECT example.net:80 HTTP/1.1\r\nHost: example.net\r\n\r\n",
             "GET evil.example HTTP/1.1\r\nHost: example.net\r\n\r\n"], 400, ("host-mismatch", "bad-request"))


@heavy
def test_framing():
    answers(["POST / HTTP/1.1\r\nHost: example.net\r\n" + fields + "\r\n\r\n" + body for fields, body in (
        ("Content-Length: 5\r\nTransfer-Encoding: chunked", "0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\nContent-Length: 5", "0\r\n\r\n"),
        ("Content-Length: 5\r\nContent-Length: 6", "hello!"),
        ("Content-Length: 5\r\nContent-Length: 5", "hello"),
        ("Content-Length: 5, 5", "hello"),
        ("Content-Length: +5", "hello"),
        ("Content-Length: -5", "hello"),
        ("Content-Length: 0x5", "hello"),
        ("Content-Length: 5 5", "hello"),
        ("Content-Length: 99999999999999999999", "hello"),
        ("Content-Length:", "hello"),
        ("Transfer-Encoding: gzip, chunked", "0\r\n\r\n"),
        ("Transfer-Encoding: chunked, chunked", "0\r\n\r\n"),
        ("Transfer-Encoding: identity", "hello"),
        ("Transfer-Encoding: xchunked", "0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "0\r\n\r\n"),
        ("Transfer-Encoding: \x0bchunked", "0\r\n\r\n"),
        ("Transfer-Encoding : chunked", "0\r\n\r\n"))], 400, ("bad-request",))


@heavy
def test_bytes():
    answers(["GET / HTTP/1.1\r\nHost: example.net\r\n" + rest for rest in (
        "X: a\r\n b\r\n\r\n", "X: a\r\n\tb\r\n\r\n", "X: a\rb\r\n\r\n", "X: a\nY: b\r\n\r\n", "X : a\r\n\r\n", "X: a\0b\r\n\r\n", "X\r\n\r\n", ": a\r\n\r\n",
        "X: \x01\r\n\r\n", "X\0: a\r\n\r\n", "(x): a\r\n\r\n", "X: a\x7f\r\n\r\n")] + [
        " GET / HTTP/1.1\r\nHost: example.net\r\n\r\n", "GET  / HTTP/1.1\r\nHost: example.net\r\n\r\n", "GET / HTTP/1.1 \r\nHost: example.net\r\n\r\n",
        "GET /\tHTTP/1.1\r\nHost: example.net\r\n\r\n", "GET / HTTP/2.0\r\nHost: example.net\r\n\r\n", "GET / http/1.1\r\nHost: example.net\r\n\r\n",
        "GET / HTTP/1.1\nHost: example.net\n\n", "GET /\r\n\r\n", "G\0T / HTTP/1.1\r\nHost: example.net\r\n\r\n",
        "GET /\0 HTTP/1.1\r\nHost: example.net\r\n\r\n"], 400, ("bad-request",))


@heavy
def test_upgrades():
    answers(["GET / HTTP/1.1\r\nHost: example.net\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
             "GET / HTTP/1.1\r\nHost: example.net\r\nUpgrade: h2c\r\n\r\n",
             "GET / HTTP/1.1\r\nHost: example.net\r\nConnection: keep-alive, upgrade\r\n\r\n",
             "GET / HTTP/1.1\r\nHost: example.net\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n",
             "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"], 400, ("bad-request",))


@heavy
def test_large():
    head = "GET / HTTP/1.1\r\nHost: example.net\r\n"
    answers([head + "".join(f"X-{i}: {'a' * 900}\r\n" for i in range(20)) + "\r\n",
             head + "".join(f"X-{i}: a\r\n" for i in range(101)) + "\r\n",
             head + "X: " + "a" * 17000 + "\r\n\r\n"], 431, ("too-large",))
    answers(["GET /" + "a" * 9000 + " HTTP/1.1\r\nHost: example.net\r\n\r\n"], 414, ("too-large",))


@within(60)
@heavy
def test_slow_head():
    policy()
    w = world.up()
    got, run = attempt(TRY + r"""
s = opened(where, 80); sent = 0
try:
    for b in (OK * 3).encode():
        s.sendall(bytes([b])) ; sent += 1
        if select.select([s], [], [], 1.0)[0] or sent == 16:
            break
    if sent == 16: s.settimeout(20)
except OSError:
    pass
say([sent <= 16, until_end(s)[0].decode("latin-1").split("\r\n")[0]])
""")
    assert got[0][0] and got[0][1].startswith("HTTP/1.1 408 "), got
    assert denied(run) == {("http", "example.net:80", "timeout"): 1}, denied(run)
    assert w.http.raw() == b"", w.http.raw()


def test_later_requests_are_checked_too():
    policy()
    w = world.up()
    bad = ["GET /second HTTP/1.1\r\nHost: evil.example\r\n\r\n", "GET http://evil.example/second HTTP/1.1\r\nHost: example.net\r\n\r\n",
           "GET /second HTTP/1.1\r\nHost: example.net\r\nUpgrade: h2c\r\n\r\n", "SMUGGLED\r\n\r\n"]
    got, run = attempt(TRY + r"""
for bad in json.loads(sys.argv[1]):
    # in one segment with the first, and after its answer
    say([talk(where, 80, (OK + bad).encode("latin-1"))[0].count("200 OK") <= 1])
    s = opened(where, 80); s.sendall(OK.encode()); first = s.recv(65536)
    s.sendall(bad.encode("latin-1")); rest, how = until_end(s)
    say([first.startswith(b"HTTP/1.1 200 "), b"200 OK" in rest, how])
""", json.dumps(bad), flows=[f"tcp {NET} 80"], asked=["example.net"])
    assert got == [[True], [True, False, got[1][2]]] * 4, got
    raw = w.http.raw()
    assert raw == b"GET /first HTTP/1.1\r\nHost: example.net\r\n\r\n" * raw.count(b"first") and b"second" not in raw and b"SMUGGLED" not in raw, raw
    assert sum(denied(run).values()) == 8, denied(run)


@heavy
def test_smuggling_in_bodies():
    """What stands in a body is body, whatever it looks like; what comes after it is a request."""
    policy()
    w = world.up()
    got, run = attempt(TRY + r"""
inner = "GET /inner HTTP/1.1\r\nHost: evil.example\r\n\r\n"
say(request("POST /cl HTTP/1.1\r\nHost: example.net\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(inner), inner)))
say(request("POST /te HTTP/1.1\r\nHost: example.net\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(inner), inner)))
for size in ("5;x=y", "5 ", "0x5", "+5", "-1", "ffffffffffffffff1", "", "5\n"):
    odd = "POST /chunk HTTP/1.1\r\nHost: example.net\r\nTransfer-Encoding: chunked\r\n\r\n%s\r\nhello\r\n0\r\n\r\n%s" % (size, inner)
    say(talk(where, 80, odd.encode())[0].count("evil"))
""", flows=[f"tcp {NET} 80"], asked=["example.net"])
    assert got[0][0].startswith("HTTP/1.1 200 ") and got[1][0].startswith("HTTP/1.1 200 ") and got[2:] == [0] * 8, got
    for c in w.http.accepted:
        assert c.raw.count(b"Host: evil.example") == (c.raw.startswith((b"POST /cl", b"POST /te"))), bytes(c.raw)
    assert sum(denied(run).values()) == 8, denied(run)


def test_good_requests():
    policy()
    w = world.up()
    requests = ["GET / HTTP/1.1\r\nHost: example.net\r\n\r\n", "GET /a?b HTTP/1.1\r\nHost: EXAMPLE.net:80\r\nX:  a\tb \r\n\r\n",
                "GET http://example.net/abs HTTP/1.1\r\nHost: example.net\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: example.net\r\n\r\n",
                "HEAD / HTTP/1.0\r\nHost: example.net\r\n\r\n", "POST / HTTP/1.1\r\nHost: example.net\r\nContent-Length: 5\r\n\r\nhello",
                "POST / HTTP/1.1\r\nHost: example.net\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"]
    last = "GET /last HTTP/1.1\r\nHost: example.net\r\nConnection: close\r\n\r\n"
    got, run = attempt(TRY + r"""
requests = json.loads(sys.argv[1])
text = "".join(requests).encode("latin-1")
got, how = talk(where, 80, text); say([got.count("HTTP/1.1 200 OK"), how])
# a byte at a time
s = opened(where, 80)
for b in text:
    s.sendall(bytes([b]))
got, how = until_end(s); say([got.count(b"HTTP/1.1 200 OK"), how])
""", json.dumps(requests + [last]), flows=[f"tcp {NET} 80"], asked=["example.net"])
    assert got == [[8, "EOF"], [8, "EOF"]], got
    assert [bytes(c.raw) for c in w.http.accepted] == ["".join(requests + [last]).encode()] * 2, w.http.raw()
    assert denied(run) == {} and world.allowed(run) == {("http", "example.net:80", "http example.net"): 2}, (denied(run), world.allowed(run))


@heavy
def test_tls_on_an_http_rule():
    policy()
    got, run = attempt(TRY + r"""
say(tls_ending(*talk(where, 80, record(hello(b"example.net")))))
say(talk(where, 80, b"SSH-2.0-x\r\n")[0].split(" ")[:2])
""")
    assert got[0] in ("ECONNRESET", "alert 49", "EOF") or got[0].startswith("H"), got
    assert got[1] in (["HTTP/1.1", "400"], [""]), got
    assert {r for _, _, r in denied(run)} <= {"bad-request"} and sum(denied(run).values()) == 2, denied(run)
