# SPDX-License-Identifier: LGPL-2.1-or-later
"""A world for the sandbox to reach, or not: a network namespace behind a veth pair, with the only route out of this machine. In it a
name server that this machine asks, and servers that remember who came. Its addresses count as public ones; nothing has them but this
namespace, and the machine that the tests run on (a lab, a guest) has no other uplink, which is checked.

    w = world.up()                          stands until the last test of the file
    with w.watch() as seen: ...             seen.flows() afterwards: what left by the uplink
    w.names(name=["93.184.216.20"])         what the name server says, undone after the test
    w.serve(address, port, function)        one more server, for this test
"""
import collections
import contextlib
import ctypes
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import threading

import box

from . import certificates, nameserver, servers
from .capture import Capture
from .nameserver import Answer

NAMESPACE, LINK = "agentbox-world", "uplink"
DIRECTORY = pathlib.Path("/srv/agentbox-world")  # what a sandbox may be shown of the world: its certificate authority
CA = DIRECTORY / "ca.pem"
KEPT = pathlib.Path("/run/agentbox-world")  # its keys, made once
RESOLV, RESOLV_BEFORE = "/etc/resolv.conf", "/etc/resolv.conf.before-the-world"

HOST4, GATE4, DNS4 = "93.184.216.2", "93.184.216.1", "93.184.216.53"
HOST6, GATE6 = "2a0f:ff00::2", "2a0f:ff00::1"
GITHUB, GITHUB6, ORG, NET, SPARE, HOLE = "93.184.216.10", "2a0f:ff00:1::10", "93.184.216.20", "93.184.216.30", "93.184.216.40", "93.184.216.66"
RULE4 = "192.0.2.77"
LOCAL = (DNS4, GITHUB, ORG, NET, SPARE, RULE4, GITHUB6)

RULES = ("tls github.com:443", "tls *.example.org:443", "http example.net:80", f"tcp {RULE4}:5432")

_standing = None


def in_namespace(function, *args):
    """The sockets and processes that function makes are the world's."""
    result, setns, clone_newnet = [], ctypes.CDLL(None, use_errno=True).setns, 0x40000000

    def work():
        fd = os.open(f"/run/netns/{NAMESPACE}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            if setns(fd, clone_newnet) != 0:
                raise OSError(ctypes.get_errno(), "setns")
            result.append((function(*args), None))
        except BaseException as e:  # pylint: disable=broad-except
            result.append((None, e))
        finally:
            os.close(fd)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    value, error = result[0]
    if error:
        raise error
    return value


def listening(address, port, kind=socket.SOCK_STREAM, backlog=4096):
    """A socket of the world."""
    def make():
        s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((address, port))
        if kind == socket.SOCK_STREAM:
            s.listen(backlog)
        return s
    return in_namespace(make)


def routes(text):
    box.sh(["ip", "-batch", "-"], input=text)


def uplink_up():
    """The link's own addresses and the way out; a link that goes down loses both."""
    routes(f"""
link set {LINK} up
addr replace {HOST4}/30 dev {LINK}
addr replace {HOST6}/64 dev {LINK} nodad
route replace default via {GATE4}
route replace ::/0 via {GATE6}
""")


def uplink_down():
    routes(f"link set {LINK} down")


def make_namespace():
    others = [l.split()[0] for l in box.sh(["ip", "-br", "link"]).splitlines() if not l.startswith(("lo ", f"{LINK}@"))]
    up = [l for l in others if "UP" in box.sh(["ip", "-br", "link", "show", l.split("@")[0]]).split()]
    if up:
        raise box.Skip(f"this machine has an uplink of its own ({', '.join(up)}); the tests' world must be the only one")
    box.sh(["ip", "netns", "add", NAMESPACE])
    routes(f"link add {LINK} type veth peer name eth0 netns {NAMESPACE}")
    in_namespace(routes, f"""
link set lo up
link set eth0 up
addr add {GATE4}/30 dev eth0
addr add {GATE6}/64 dev eth0 nodad
route add {HOLE}/32 dev eth0
route add local 0.0.0.0/0 dev lo table main
route add local ::/0 dev lo table main
""" + "".join(f"addr add {a}/128 dev lo nodad\n" if ":" in a else f"addr add {a}/32 dev lo\n" for a in LOCAL))
    uplink_up()


class World:
    def __init__(self):
        self._services, self.dns = [], None

    def start(self):
        make_namespace()
        self.certificates = certificates.make(KEPT)
        DIRECTORY.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.certificates / "ca.pem", CA)
        self.dns = nameserver.NameServer(listening(DNS4, 53, socket.SOCK_DGRAM), listening(DNS4, 53))
        self._zone()
        if not os.path.lexists(RESOLV_BEFORE):
            with contextlib.suppress(FileNotFoundError):
                os.rename(RESOLV, RESOLV_BEFORE)
        self.resolver(f"nameserver {DNS4}\n")
        tls = self.tls()
        self.https = [self._add(a, 443, servers.http, tls) for a in (GITHUB, ORG, GITHUB6)]
        self.http = self._add(NET, 80, servers.http)
        self.tcp = self._add(RULE4, 5432, servers.commands)

    def _add(self, address, port, function, tls=None):
        service = servers.Service(listening(address, port), function, tls)
        self._services.append(service)
        return service

    def _zone(self):
        self.dns.zone = {"github.com": Answer(GITHUB), "example.net": Answer(NET), "www.example.org": Answer(ORG), "a.b.example.org": Answer(ORG)}

    def tls(self, alpn=("http/1.1",)):
        return servers.tls_context(self.certificates, alpn)

    def resolver(self, text):
        """This machine's resolv.conf."""
        pathlib.Path(RESOLV).write_text(text, encoding="ascii")

    def names(self, **zone):
        """Answers for this test, __ standing for a dot; a list of addresses, an Answer, or a list of Answers that follow one another."""
        for name, answer in zone.items():
            if isinstance(answer, list) and answer and isinstance(answer[0], str):
                answer = Answer(*answer)
            self.dns.zone[name.replace("__", ".").replace("_", "-")] = answer
        box.at_end(self._zone)

    def serve(self, address, port, function, tls=None):
        """A server for this test."""
        service = servers.Service(listening(address, port), function, tls)
        box.at_end(service.close)
        return service

    def spawn(self, argv, **kw):
        """A program of the world, killed after the test with what it started."""
        process = in_namespace(lambda: subprocess.Popen(argv, start_new_session=True, **kw))

        def end():
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        box.at_end(end)
        return process

    def fresh(self):
        """Forgets what was seen."""
        self.dns.reset()
        for service in self._services:
            service.reset()

    @contextlib.contextmanager
    def watch(self):
        """Everything that leaves while this stands, and after."""
        self.fresh()
        capture = Capture(LINK)
        box.at_end(capture.close)
        yield capture

    def down(self):
        for service in self._services:
            service.close()
        if self.dns:
            self.dns.close()
        with contextlib.suppress(FileNotFoundError):
            os.rename(RESOLV_BEFORE, RESOLV)
        shutil.rmtree(DIRECTORY, ignore_errors=True)
        box.sh(["ip", "link", "del", LINK], check=False)
        box.sh(["ip", "netns", "del", NAMESPACE], check=False)


def down():
    global _standing  # pylint: disable=global-statement
    if _standing:
        _standing.down()
        _standing = None


def up():
    """The world, nothing seen yet; it goes after the last test of this file."""
    global _standing  # pylint: disable=global-statement
    if not _standing:
        if not shutil.which("openssl") or not shutil.which("ip"):
            raise box.Skip("no openssl(1) or no ip(8) here")
        box.at_file_end(down)
        _standing = World()
        _standing.start()
    _standing.fresh()
    return _standing


# --- from inside

def program(text):
    """A program for a sandbox's python3, with inside.py's words."""
    here = pathlib.Path(__file__).parent
    return "".join((here / f"{name}.py").read_text(encoding="utf-8") + "\n" for name in ("wire", "pattern", "inside")) + text


def inside(text, *args, policy="egress", **kw):
    """Runs it under a policy; returns (what it said: the JSON values of its lines, the finished command)."""
    done = box.run_python(program(text), *args, policy=policy, **kw)
    assert done.status == 0, done
    return [json.loads(line) for line in done.out.splitlines()], done


def policy(name="egress", *rules, more=""):
    """A policy with these rules, and those of the list of cases where none is given. The world's authority is known inside."""
    ca = "".join(f"Set={v}={CA}\n" for v in ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE",
                                           "PIP_CERT"))
    allow = "".join(f"Allow={r}\n" for r in rules or RULES)
    return box.policy(name, f"[Files]\nExpose={DIRECTORY}\n[Environment]\n{ca}[Network]\nEgress=filtered\n{allow}{more}")


# --- on record

def egress(run_id, event=None):
    """The warden's records of a run, as journald says who wrote them."""
    box.sh(["journalctl", "--sync"], check=False)
    found = [r for unit in (f"agentbox-warden-{run_id}.service", box.BROKER_UNIT)
             for r in box.journal(f"AGENTBOX_RUN_ID={run_id}", f"_SYSTEMD_UNIT={unit}") if r["AGENTBOX_EVENT"].startswith("egress-")]
    return [r for r in found if event in (None, r["AGENTBOX_EVENT"])]


def where(r):
    """The destination of a record: by name where it has one."""
    return f"{r.get('AGENTBOX_DEST_NAME') or r.get('AGENTBOX_DEST_ADDR')}:{r.get('AGENTBOX_DEST_PORT', '')}"


def count(r):
    return int(r.get("AGENTBOX_COUNT", 1))


def denied(run_id):
    """{(protocol, destination, reason): how often}: everything that was denied, with the priority that it must have."""
    total = collections.Counter()
    for r in egress(run_id, "egress-denied"):
        wanted = 4 if r["AGENTBOX_REASON"] == "metadata" else 5
        assert int(r["PRIORITY"]) == wanted or r["AGENTBOX_REASON"] == "metadata" and int(r["PRIORITY"]) < 4, r
        total[r["AGENTBOX_PROTO"], where(r), r["AGENTBOX_REASON"]] += count(r)
    return dict(total)


def allowed(run_id):
    """{(protocol, destination, rule): how often}."""
    total = collections.Counter()
    for r in egress(run_id, "egress-allowed"):
        assert int(r["PRIORITY"]) == 6, r
        total[r["AGENTBOX_PROTO"], where(r), r["AGENTBOX_RULE"]] += count(r)
    return dict(total)


def attempt(text, *args, flows=(), asked=(), **kw):
    """A program under a policy, watched: what it said, its run's id. Nothing left but to these places ("tcp 192.0.2.77 5432"; the
    question for a name counts as "udp DNS4 53"), and nobody was asked for other names than these."""
    w = up()
    with w.watch() as seen:
        said, done = inside(text, *args, **kw)
    left, names = seen.flows(), [n.lower() for n in w.dns.names()]
    if asked:
        left.discard(f"icmp {DNS4} 0")  # this machine's kernel, to an answer that came when nobody waited any more
    assert left == set(flows) | ({DNS} if asked else set()), (left, done)
    assert names == sorted(asked), (names, done)
    return said, done.run


DNS = f"udp {DNS4} 53"
