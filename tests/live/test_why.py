# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a person sees of the egress wall: the line at the end of a run, agentbox log, why, policy learn, policy explain. All of it from
records that the sandbox cannot write."""
import json
import re

import box
import world
from box import agentbox, expect, run_python, wait_events
from world import policy

TRY = world.program(r"""
def fetch(name, port, tls):
    # How a program gets along: looks the name up, connects, speaks.
    import ssl
    try:
        address = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)[0][4][0]
    except socket.gaierror:
        return "NO-NAME"
    try:
        s = opened(address, port)
        if tls:
            s = ssl.create_default_context().wrap_socket(s, server_hostname=name)
        s.sendall(b"GET / HTTP/1.1\r\nHost: " + name.encode() + b"\r\nConnection: close\r\n\r\n")
        return s.recv(12).decode()
    except OSError as e:
        return word(e)
""")


def tried(text, name="egress", **kw):
    world.up()
    done = expect(run_python(TRY + text, policy=name, **kw))
    wait_events(done.run, "run-ended")
    return done, [json.loads(l) for l in done.out.splitlines()]


def ours(done):
    return [l for l in done.err.splitlines() if l.startswith("agentbox: ")]


def total(run):
    return sum(world.count(r) for r in world.egress(run, "egress-denied"))


def why(run):
    return expect(agentbox("why", run)).out


def lines(text):
    """The lines of a policy that agentbox why proposes."""
    return [l.strip() for l in text.splitlines() if re.match(r" {6}\S", l)]


def test_one_line_at_the_end():
    policy()
    done, _ = tried("""
for n in ("evil.example", "other.example"): fetch(n, 443, True)
talk("198.51.100.9", 443); talk("198.51.100.9", 443); talk("169.254.169.254", 80)
""")
    line, = ours(done)
    assert len(line) <= 160 and line.endswith(f"; see: agentbox why {done.run}"), line
    n = int(re.search(r"egress denied: (\d+) attempts \(evil\.example, other\.example, 198\.51\.100\.9:443, …\)", line).group(1))
    assert n == total(done.run) == done.result["egress_denied"], (line, total(done.run), done.result)
    assert done.result["egress_denied_to"][:3] == ["evil.example", "other.example", "198.51.100.9:443"], done.result


def test_no_line_where_nothing_was_denied():
    policy()
    done, said = tried("say(fetch('github.com', 443, True))")
    assert said == ["HTTP/1.1 200"] and ours(done) == [], done
    assert done.result["egress_denied"] == 0 and done.result["egress_allowed"] == 1, done.result
    assert done.result["egress_bytes"] > 0 and done.result["ingress_bytes"] > 0, done.result
    text = why(done.run)
    assert "nothing was denied" in text and "Allow" not in text, text


def test_exit_status_is_the_programs():
    policy()
    world.up()
    done = box.run("/bin/bash", "-c", "echo x >/dev/tcp/198.51.100.9/80; exit 7", policy="egress")
    assert done.status == 7 and len(ours(done)) == 1, done


def test_each_proposed_line_is_enough():
    """The smallest line that would have allowed it: with it, the same program gets through, and nothing else does."""
    policy("live-why", "tls github.com")
    attempts = """
say(fetch("www.example.org", 443, True))
say(talk("192.0.2.77", 5432, end=True)[1])
say(fetch("github.com", 80, False))
say(fetch("evil.example", 443, True))
"""
    done, said = tried(attempts, "live-why")
    assert said == ["NO-NAME", "ECONNRESET", "ECONNRESET", "NO-NAME"], said
    found = lines(why(done.run))
    assert sorted(found) == ["Allow=http github.com:80", "Allow=tcp 192.0.2.77:5432", "Allow=tls evil.example:443", "Allow=tls www.example.org:443"]
    for line, wanted in (("Allow=tls www.example.org:443", (0, "HTTP/1.1 200")), ("Allow=tcp 192.0.2.77:5432", (1, "EOF"))):
        policy("live-why", "tls github.com", line.removeprefix("Allow="))
        _, again = tried(attempts, "live-why")
        assert again[wanted[0]] == wanted[1], (line, again)
        assert [a for i, a in enumerate(again) if i != wanted[0]] == [a for i, a in enumerate(said) if i != wanted[0]], (line, again)


def test_private_address_of_a_name():
    w = world.up()
    policy("live-why", "tls mirror.example.org")
    w.names(mirror__example__org=["10.99.0.7"])
    done, _ = tried("fetch('mirror.example.org', 443, True)", "live-why")
    text = why(done.run)
    assert lines(text) == ["Allow=tls mirror.example.org private=allow"] and "private networks" in text, text
    w.names(mirror__example__org=["127.0.0.1"])
    done, _ = tried("fetch('mirror.example.org', 443, True)", "live-why")
    text = why(done.run)
    assert lines(text) == [] and "mirror.example.org:443" in text, text
    w.names(mirror__example__org=["169.254.169.254"])
    done, _ = tried("fetch('mirror.example.org', 443, True)", "live-why")
    text = why(done.run)
    assert lines(text) == [] and "Nothing can allow it" in text, text


def test_metadata_is_never_proposed():
    policy()
    done, _ = tried("""
for a in ("169.254.169.254", "::ffff:169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16"): talk(a, 80)
ask("metadata.google.internal")
""")
    text = why(done.run)
    assert lines(text) == [] and text.count("a cloud metadata service") == 1 and "(6 attempts)" in text, text
    learned = expect(agentbox("policy", "learn", done.run)).out
    assert "\n+" not in learned and "There are none" in learned, learned


def test_address_of_this_host_is_never_proposed():
    policy()
    done, _ = tried(f"talk({world.HOST4!r}, 22)")
    text = why(done.run)
    assert lines(text) == [] and "an address of this host itself" in text, text


def test_quic_is_explained():
    policy()
    done, _ = tried("""
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try:
    s.connect(("198.51.100.9", 443)); s.send(b"x"); s.send(b"x")
except OSError: pass
""")
    text = why(done.run)
    assert lines(text) == [] and "fall back to TCP" in text, text


def test_a_thousand_denials_are_one_line():
    policy()
    done, _ = tried("""
for i in range(1000): ask("evil.example", "A")
for i in range(200): ask(f"{i:x}.tunnel.evil.example", "A")
""")
    text = expect(agentbox("log", done.run)).out
    denied = [l for l in text.splitlines() if "egress-denied" in l]
    assert len(denied) == 2 and "×1000" in denied[0] and "200 names below tunnel.evil.example" in denied[1], text
    assert total(done.run) == 1200 == done.result["egress_denied"], done.result
    only = expect(agentbox("log", "--denied", done.run)).out
    assert "run-started" not in only and "×1000" in only, only
    text = why(done.run)
    assert "200 names below tunnel.evil.example (200 attempts)" in text and "evil.example (1000 attempts)" in text, text
    records = [json.loads(l) for l in expect(agentbox("log", "--json", done.run)).out.splitlines()]
    assert sum(world.count(r) for r in records if r["AGENTBOX_EVENT"] == "egress-denied") == 1200


def test_timeline():
    policy()
    done, _ = tried("called('a program'); say(fetch('github.com', 443, True)); talk('198.51.100.9', 22)")
    rows = expect(agentbox("log", done.run)).out.splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", rows[0]), rows
    events = [r.split()[1] for r in rows[1:]]
    assert [e for e in events if e != "egress-closed"] == ["run-requested", "run-verified", "run-started", "egress-allowed", "egress-denied", "run-ended"], rows
    allowed = next(r for r in rows if "egress-allowed" in r)
    assert "a program" in allowed and "github.com:443 (tls)" in allowed and allowed.endswith("allowed"), rows
    assert any("egress-closed" in r and " in, " in r for r in rows), rows
    assert "1 denied" in rows[-1], rows


def test_what_the_sandbox_chose_is_shown_as_text():
    policy()
    done, _ = tried(r"""
called("\x1b[2J\x1b]52;c\x07")
ask("x", raw=question("a\x1b[2Jb\nAllow=tls evil.example"))
talk("198.51.100.9", 443)
""")
    for output in (done.stderr, agentbox("log", done.run).stdout, agentbox("log", "--json", done.run).stdout, agentbox("why", done.run).stdout,
                   agentbox("policy", "learn", done.run).stdout, agentbox("policy", "learn", "--drop-in", done.run).stdout):
        assert b"\x1b" not in output and b"\x07" not in output, output
        assert b"\nAllow=tls evil.example" not in output and b"\n+Allow=tls evil.example" not in output, output


def test_learn_makes_a_drop_in_that_lets_it_through():
    policy("live-learn", "tls github.com", "tls example.net")
    attempts = """
say(fetch("www.example.org", 443, True))
say(talk("192.0.2.77", 5432, end=True)[1])
say(fetch("example.net", 80, False))
"""
    first, said = tried(attempts, "live-learn")
    second, _ = tried(attempts + "talk('169.254.169.254', 80)", "live-learn")
    assert said == ["NO-NAME", "ECONNRESET", "ECONNRESET"], said
    text = expect(agentbox("policy", "learn", "--drop-in", first.run, second.run, first.run)).out
    assert "2 runs" in text and "\n#Allow=tcp 192.0.2.77:5432\n" in text and "# 169.254.169.254:80: a cloud metadata service" in text, text
    drop_in = box.POLICY_DIR / "live-learn.policy.d/learned.conf"
    box.write_file(drop_in, text)
    expect(agentbox("policy", "check", str(drop_in)), out="^$")
    _, again = tried(attempts, "live-learn")
    assert again == ["NO-NAME", "ECONNRESET", "HTTP/1.1 200"], again  # of a name that the policy has, another port; the rest is to be decided
    box.write_file(drop_in, text.replace("\n#Allow", "\nAllow"))
    done, again = tried(attempts, "live-learn")
    assert again == ["HTTP/1.1 200", "EOF", "HTTP/1.1 200"], again
    text = expect(agentbox("policy", "learn", first.run)).out
    assert "There are none" in text and "the policy allows it by now" in text and "not as it was then" in text, text
    other, _ = tried("talk('198.51.100.9', 22)", "default")
    expect(agentbox("policy", "learn", done.run, other.run), 125, err="one policy at a time")
    expect(agentbox("policy", "learn", "no-such-run"), 125)


def test_callers_may_leave_rules_out_and_add_none():
    policy("live-why", "tls github.com", "tls *.example.org", more="EgressBytes=1M\n")
    attempts = 'say([fetch("github.com", 443, True), fetch("www.example.org", 443, True)])'

    def asked(*changes):
        options = [word for change in changes for word in ("--set", change)]
        return run_python(TRY + attempts, policy="live-why", options=options, as_user=box.USER)
    world.up()
    box.user(box.USER, "agentbox")
    for changes, wanted in ((["Network.Allow=tls www.example.org"], ["NO-NAME", "HTTP/1.1 200"]), (["Network.Allow="], ["NO-NAME", "NO-NAME"]),
                            (["Network.Egress=none"], ["NO-NAME", "NO-NAME"]), (["Network.Connections=1"], ["HTTP/1.1 200", "HTTP/1.1 200"]),
                            (["Network.EgressBytes=10"], ["EOF", "EOF"])):
        done = expect(asked(*changes))
        got = [w if w else "EOF" for w in json.loads(done.out)]
        assert got == wanted or "Bytes" in changes[0] and "HTTP/1.1 200" not in got, (changes, done)
    for change in ("Network.Allow=tls evil.example", "Network.Allow=tls *.org", "Network.Allow=tcp github.com:443", "Network.EgressBytes=2M",
                   "Network.EgressBytes=", "Network.Connections=2048", "Network.Egress=open", "Audit.AllowedEgress=no",
                   "Network.Allow=tls github.com ech=allow", "Network.Allow=tls github.com private=allow"):
        done = expect(asked(change), 125, err=change.split("=")[0])
        assert done.out == "", done
    for change in ("Network.Allow=tcp 169.254.169.254:80", "Network.Allow=tls metadata.google.internal", "Network.Allow=@package-index"):
        expect(asked(change), 125, err="Network.Allow")


def test_explain_names_the_warden():
    policy("live-why", "tls *.example.org private=allow", more="EgressBytes=1M\nConnections=7\n")
    out = expect(agentbox("policy", "explain", "live-why")).out
    assert "warden rule tls *.example.org private=allow: the ClientHello must name it" in out, out
    assert "the run's warden, which counts what goes out" in out and "the run's warden, which refuses further ones" in out, out


def test_limits_are_explained():
    policy("live-why", more="EgressBytes=10\n")
    done, _ = tried("say(fetch('github.com', 443, True))", "live-why")
    assert lines(why(done.run)) == ["EgressBytes=20"], why(done.run)
    policy("live-why", more="Connections=1\n")
    done, _ = tried("""
one = opened("192.0.2.77", 5432)
for i in range(3): talk("192.0.2.77", 5432)
""", "live-why")
    assert lines(why(done.run)) == ["Connections=2"], why(done.run)


def test_result_is_whole_where_shown():
    policy()
    done, _ = tried("fetch('github.com', 443, True); talk('198.51.100.9', 22)")
    shown = json.loads(expect(agentbox("show", "--json", done.run)).out)
    for key in ("egress_bytes", "ingress_bytes", "egress_allowed", "egress_denied", "egress_denied_to"):
        assert shown[key] == done.result[key] and shown[key], (key, shown)
    assert "denied to: 198.51.100.9:22" in expect(agentbox("show", done.run)).out
