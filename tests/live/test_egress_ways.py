# SPDX-License-Identifier: LGPL-2.1-or-later
"""Every other way out than a TCP connection or a question for a name: none leads anywhere, and what can be seen is on record."""
import json
import os
import pathlib
import socket

import box
import world
from box import at_end, expect, run_sh
from world import attempt, denied, policy


def test_udp_443_is_refused_at_once():
    """QUIC then falls back to TCP."""
    policy()
    got, run = attempt("""
for address in ("1.2.3.4", "2606:4700:4700::1111", [a for a in name_to("github.com") if "." in a][0], "10.0.0.5", "192.0.2.77"):
    s = socket.socket(family_of(address), socket.SOCK_DGRAM); s.settimeout(5); s.connect((address, 443))
    try:
        s.send(b"x"); say(["answered", s.recv(1)])
    except OSError as e:
        say(word(e))
""")
    assert got == ["ECONNREFUSED"] * 5, got
    total = denied(run)
    assert sum(total.values()) == 5 and {(p, r) for p, _, r in total} <= {("udp", "no-rule"), ("udp", "port")}, total
    assert total[("udp", "1.2.3.4:443", "no-rule")] == 1, total


def test_datagrams_to_anything():
    policy()
    got, run = attempt("""
s4, s6 = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s4.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
sent = 0
for address in ("1.2.3.4", "10.0.0.5", "93.184.216.53", "192.0.2.77", "198.18.0.1", "240.0.0.1", "0.1.2.3",
                "2a0f:ff00::1", "::ffff:1.2.3.4", "64:ff9b::1.2.3.4"):
    for port in (1, 123, 443, 5353, 65535):
        s = s6 if ":" in address else s4
        try:
            s.sendto(b"datagram", (address, port)); sent += 1
        except OSError as e:
            say([address, port, word(e)])
say(sent)
""")
    # an IPv4-mapped address on an IPv6 socket is IPv4 as well
    assert got == [50], got
    total = denied(run)
    assert sum(total.values()) == 50 and {p for p, _, _ in total} == {"udp"}, total


def test_udp_to_the_metadata_service():
    policy()
    _, run = attempt("""
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.sendto(b"x", ("169.254.169.254", 80)); s.sendto(b"x", ("169.254.169.254", 123)); say(0)
""")
    assert denied(run) == {("udp", "169.254.169.254:80", "metadata"): 1, ("udp", "169.254.169.254:123", "metadata"): 1}, denied(run)


def test_multicast_datagrams():
    policy()
    got, run = attempt("""
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
six = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
for address in ("224.0.0.251", "239.255.255.250", "255.255.255.255", "ff02::1", "ff05::2"):
    try:
        (six if ":" in address else s).sendto(b"x", (address, 1900)); say("sent")
    except OSError as e:
        say(word(e))
""")
    assert all(g in ("sent", "ENETUNREACH", "EADDRNOTAVAIL", "ENODEV") for g in got), got
    assert sum(denied(run).values()) == 5, (denied(run), got)


def test_chosen_source_addresses():
    policy()
    got, _ = attempt("""
for family, source in ((socket.AF_INET, "192.0.2.2"), (socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "1.2.3.4"), (socket.AF_INET6, "2a0f:ff00::2")):
    s = socket.socket(family, socket.SOCK_DGRAM)
    try:
        s.bind((source, 0)); s.sendto(b"x", ("93.184.216.10" if family == socket.AF_INET else "2a0f:ff00::10", 443)); say("sent")
    except OSError as e:
        say(word(e))
    t = socket.socket(family); t.settimeout(5)
    try:
        t.bind((source, 0)); t.connect(("93.184.216.10" if family == socket.AF_INET else "2a0f:ff00::10", 443)); say(until_end(t)[1])
    except OSError as e:
        say(word(e))
""")
    assert len(got) == 8 and not any(g in ("EOF", "TIMEOUT") for g in got), got


def test_echo_requests():
    policy()
    got, _ = attempt("""
for family, protocol in ((socket.AF_INET, 1), (socket.AF_INET6, 58)):
    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
        try:
            socket.socket(family, kind, protocol); say("OPENED")
        except OSError as e:
            say(word(e))
""")
    assert len(got) == 4 and all(g in ("EPERM", "EACCES", "EPROTONOSUPPORT", "EAFNOSUPPORT") for g in got), got


def test_nobody_answers_echo_requests():
    """Should a socket for them ever be had: the namespace itself does not answer."""
    policy()
    world.up()
    client = box.start("/bin/sh", "-c", "echo there; exec sleep 30", policy="egress")
    assert client.stdout.readline() == b"there\n", client.stderr.read()  # only now is it where it is to be
    found = box.newest_run(lambda r: r.get("policy") == "egress")
    pid = int(box.sh(["systemctl", "show", "-P", "MainPID", f"agentbox-{found['run']}.service"]))
    for name in ("ipv4/icmp_echo_ignore_all", "ipv6/icmp/echo_ignore_all"):
        value = box.sh(["nsenter", f"--net=/proc/{pid}/ns/net", "cat", f"/proc/sys/net/{name}"])
        assert value.strip() == "1", (name, value)
    client.kill()


def test_raw_and_packet_sockets():
    policy()
    got, _ = attempt("""
for family, kind, protocol in ((2, 3, 255), (2, 3, 6), (2, 3, 17), (10, 3, 255), (10, 3, 58), (17, 3, 0x300), (17, 2, 0x300), (17, 10, 0)):
    try:
        socket.socket(family, kind, protocol); say("OPENED")
    except OSError as e:
        say(word(e))
""")
    assert got == ["EPERM"] * 8, got


def test_other_families():
    policy()
    got, _ = attempt("""
families = {"vsock": 40, "alg": 38, "tipc": 30, "rds": 21, "smc": 43, "xdp": 44, "key": 15, "can": 29, "bluetooth": 31, "appletalk": 5, "x25": 9,
            "ax25": 3, "ipx": 4, "decnet": 12, "pppox": 24, "llc": 26, "ib": 27, "mpls": 28, "rxrpc": 33, "isdn": 34, "phonet": 35, "ieee802154": 36,
            "caif": 37, "nfc": 39, "kcm": 41, "qipcrtr": 42, "mctp": 45, "netrom": 6, "bridge": 7, "rose": 11, "ash": 18, "econet": 19, "wanpipe": 25}
for name, family in families.items():
    for kind in (1, 2, 3, 5):
        try:
            socket.socket(family, kind, 0); say([name, "OPENED"])
        except OSError as e:
            say([name, word(e)])
""")
    assert len(got) == 33 * 4, len(got)
    bad = [g for g in got if g[1] not in ("EAFNOSUPPORT", "EPERM")]
    assert bad == [], bad


def test_other_protocols():
    policy()
    got, _ = attempt("""
for family in (2, 10):
    for kind, protocol in ((1, 132), (5, 132), (6, 33), (2, 115), (2, 136), (1, 33), (3, 89), (1, 256)):
        try:
            socket.socket(family, kind, protocol); say(["OPENED", kind, protocol])
        except OSError as e:
            say(word(e))
""")
    assert len(got) == 16 and all(isinstance(g, str) for g in got), got


def test_fast_open_and_multipath():
    """Data in the first packet, and TCP by another name: caught, and who did it is known."""
    policy()
    got, run = attempt("""
called("fastopen")
s = socket.socket()  # no limit: that would make it a socket that does not wait
try:
    s.sendto(b"data in the first packet", 0x20000000, ("1.2.3.4", 443)); say(until_end(s)[1])
except OSError as e:
    say(word(e))
s = socket.socket(); s.settimeout(5)
try:
    s.setsockopt(socket.IPPROTO_TCP, 30, 1); s.connect(("1.2.3.4", 444)); s.send(b"x"); say(until_end(s)[1])
except OSError as e:
    say(word(e))
try:
    s = socket.socket(2, 1, 262); s.settimeout(5); s.connect(("1.2.3.4", 445)); say(until_end(s)[1])
except OSError as e:
    say(word(e))
""")
    refused = ("ECONNRESET", "EPIPE", "EPERM", "EOPNOTSUPP", "EPROTONOSUPPORT", "ENOPROTOOPT")
    assert len(got) == 3 and all(g in refused for g in got), got
    total = denied(run)
    assert total.get(("tcp", "1.2.3.4:444", "no-rule"), 1) == 1 and sum(total.values()) == len([g for g in got if g in ("ECONNRESET", "EPIPE")]), (total, got)
    assert {r["AGENTBOX_COMM"] for r in world.egress(run)} == {"fastopen"}, world.egress(run)


def test_a_process_that_is_gone_is_still_named():
    policy()
    _, run = attempt("""
pid = os.fork()
if pid == 0:
    called("shortlived")
    s = socket.socket(); s.setblocking(False); s.connect_ex(("1.2.3.4", 443)); os._exit(0)
os.waitpid(pid, 0); time.sleep(0.3); say(0)
""")
    r, = world.egress(run)
    assert r["AGENTBOX_COMM"] == "shortlived" and int(r["AGENTBOX_PID"]) > 1, r


def test_io_uring():
    policy()
    got, _ = attempt("""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for call in (425, 426, 427):
    say([libc.syscall(call, 8, ctypes.create_string_buffer(256), 0, 0, 0, 0), errno.errorcode[ctypes.get_errno()]])
""")
    assert got == [[-1, "EPERM"]] * 3, got


def test_socket_options():
    policy()
    got, _ = attempt(r"""
def option(level, name, value, family=2, kind=1):
    with socket.socket(family, kind) as s:
        try:
            s.setsockopt(level, name, value); return "SET"
        except OSError as e:
            return word(e)
one = struct.pack("i", 1)
say([option(1, 36, one), option(0, 19, one), option(41, 75, one, 10), option(1, 33, one), option(1, 12, struct.pack("i", 7))])
route = bytes([131, 7, 4]) + socket.inet_aton("93.184.216.10") + b"\0"
say([option(0, 4, route), option(0, 4, bytes([137]) + route[1:]), option(0, 4, route, kind=2)])
say([option(41, 57, bytes([0, 2, 0, 1]) + bytes(20), 10, 2), option(41, 57, bytes([6, 2, 4, 1]) + bytes(20), 10, 2), option(41, 54, bytes(8), 10, 2)])
say([option(1, 25, b"lo\0"), option(0, 50, struct.pack("I", 1)), option(6, 31, b"tls")])
""")
    assert got[0] == ["EPERM"] * 5, got
    assert all(g in ("EPERM", "EINVAL") for g in got[1] + got[2]), got
    # A device of its own can be chosen; there is only one. Nothing else is on top of TCP.
    assert got[3][2] != "SET", got


def test_changes_to_the_network():
    policy()
    world.up()
    for command in ("ip route add 93.184.216.0/24 dev lo", "ip route del default", "ip route del local default dev lo", "ip link set lo down",
                    "ip addr add 1.2.3.4/32 dev lo",
                    "ip rule add from all lookup 7", "ip link add v0 type veth peer name v1", "ip neigh add 1.2.3.4 lladdr 00:00:00:00:00:01 dev lo",
                    "ip -6 route add 2a0f::/16 dev lo", "ip tunnel add t0 mode gre remote 1.2.3.4", "ip xfrm state flush"):
        done = run_sh(command, policy="egress")
        assert done.status != 0 and any(w in done.err for w in ("not permitted", "denied", "No such", "Unknown")), (command, done)
    got, _ = attempt("""
for protocol in (0, 4, 6, 9, 12, 15, 16, 20):
    try:
        s = socket.socket(16, 3, protocol); s.bind((0, 0))
        if protocol == 0:
            say("route"); continue
        say(["OPENED", protocol])
    except OSError as e:
        say(word(e))
# NETLINK_ROUTE: a new route, by hand: RTM_NEWROUTE, local, of everything, main table
s = None
try:
    s = socket.socket(16, 3, 0)
    body = struct.pack("BBBBBBBBI", 2, 0, 0, 0, 254, 3, 253, 1, 0) + struct.pack("HHI", 8, 4, 1)
    s.send(struct.pack("IHHII", 16 + len(body), 24, 0x605, 1, 0) + body)
    reply = s.recv(4096); say(errno.errorcode[-struct.unpack("i", reply[16:20])[0]])
except OSError as e:
    say(word(e))
""")
    assert all(g in ("route", "EPERM", "EPROTONOSUPPORT", "EAFNOSUPPORT", "EACCES") for g in got), got
    assert got[-1] == "EPERM" or got[-1] == "EAFNOSUPPORT", got


def test_the_wardens_own_port():
    """Nobody inside sits down in its place, and nobody who listens on all addresses gets what is for others."""
    policy()
    got, run = attempt("""
def bound(address, port, family=2, kind=1):
    s = socket.socket(family, kind)
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        s.setsockopt(socket.SOL_SOCKET, option, 1)
    try:
        s.bind((address, port))
        if kind == 1: s.listen()
        return s
    except OSError as e:
        return word(e)
for address, port, family, kind in (("192.0.2.1", 1, 2, 1), ("fd00:ab::1", 1, 10, 1), ("192.0.2.1", 53, 2, 2), ("0.0.0.0", 1, 2, 1), ("0.0.0.0", 53, 2, 2)):
    s = bound(address, port, family, kind); say(s if isinstance(s, str) else "BOUND")
wide, six = bound("0.0.0.0", 8443), bound("::", 8444, 10)
udp = bound("0.0.0.0", 8443, 2, 2)
say([isinstance(s, socket.socket) for s in (wide, six, udp)])
say([talk("1.2.3.4", 8443), talk("2a0f:ff00::10", 8444)])
wide.settimeout(0); six.settimeout(0); udp.settimeout(0)
c = socket.socket(2, 2); c.settimeout(5); c.connect(("1.2.3.4", 8443))
try:
    c.send(b"x"); c.recv(1)
except OSError as e:
    say(word(e))
for s in (wide, six):
    try:
        s.accept(); say("ACCEPTED")
    except BlockingIOError:
        say("nobody")
try:
    say(udp.recv(10).decode())
except BlockingIOError:
    say("nobody")
""")
    assert all(g in ("EADDRINUSE", "EACCES") for g in got[:5]), got
    assert got[5] == [True] * 3 and got[6] == [["", "ECONNRESET"]] * 2, got
    assert got[7:] == ["ECONNREFUSED"] + ["nobody"] * 3, got
    assert sum(denied(run).values()) == 3, denied(run)


def test_servers_inside_work():
    policy()
    got, run = attempt("""
import threading
for listen_at, dial in (("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("0.0.0.0", "127.0.0.1"), ("0.0.0.0", "192.0.2.2"), ("192.0.2.2", "192.0.2.2"),
                        ("fd00:ab::2", "fd00:ab::2"), ("::", "127.0.0.1"), ("127.3.3.3", "127.3.3.3"), ("0.0.0.0", "0.0.0.0")):
    s = socket.socket(family_of(listen_at)); s.bind((listen_at, 0)); s.listen(); port = s.getsockname()[1]
    threading.Thread(target=lambda s=s: s.accept()[0].sendall(b"hello"), daemon=True).start()
    c = opened(dial, port); say(c.recv(5).decode())
    u = socket.socket(family_of(listen_at), socket.SOCK_DGRAM); u.bind((listen_at, 0)); u.settimeout(5)
    v = socket.socket(family_of(dial), socket.SOCK_DGRAM); v.sendto(b"udp", (dial, u.getsockname()[1])); say(u.recv(5).decode())
""")
    assert got == ["hello", "udp"] * 9, got
    assert denied(run) == {}, denied(run)


def test_user_namespaces():
    policy()
    world.up()
    for command in ("unshare -Urn true", "unshare -rn true", "unshare -n true", "nsenter -t 1 -n true", "ip netns exec agentbox-world true"):
        done = run_sh(command, policy="egress")
        assert done.status != 0 and any(w in done.err for w in ("not permitted", "No such", "denied")), (command, done)


def test_abstract_sockets_of_the_host():
    policy()
    world.up()
    s = socket.socket(socket.AF_UNIX)
    s.bind("\0agentbox-world-abstract")
    s.listen()
    at_end(s.close)
    s.settimeout(0)
    got, _ = attempt(r"""
try:
    socket.socket(socket.AF_UNIX).connect("\0agentbox-world-abstract"); say("CONNECTED")
except OSError as e:
    say(word(e))
""")
    assert got == ["ECONNREFUSED"], got
    try:
        s.accept()
        raise AssertionError("somebody came")
    except BlockingIOError:
        pass


def test_sockets_of_host_services():
    policy()
    world.up()
    agent = "/run/agentbox-world/ssh-agent"
    paths = ["/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/dbus/system_bus_socket", "/run/systemd/journal/socket",
             "/run/systemd/journal/stdout", "/run/systemd/journal/dev-log", "/dev/log", "/run/systemd/private",
             "/run/systemd/notify", agent, "/run/snapd.socket"]
    for path in paths[0], agent:
        if not os.path.exists(path):
            s = socket.socket(socket.AF_UNIX)
            s.bind(path)
            s.listen()
            at_end(pathlib.Path(path).unlink)
            at_end(s.close)
    assert os.path.exists("/run/systemd/journal/socket") and os.path.exists(agent)
    done = box.run_python(world.program("""
for path in sys.argv[1:]:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        try:
            socket.socket(socket.AF_UNIX, kind).connect(path); say(["CONNECTED", path])
        except OSError as e:
            say(word(e))
say(os.environ.get("SSH_AUTH_SOCK"))
"""), *paths, policy="egress", env={"SSH_AUTH_SOCK": agent})
    got = [json.loads(l) for l in expect(done).out.splitlines()]
    assert got == ["ENOENT"] * (2 * len(paths)) + [None], list(zip(paths * 2, got))


def test_forged_records():
    policy()
    world.up()
    mark = "agentbox-world-forged"
    got, run = attempt(rf"""
text = b"MESSAGE={mark}\nAGENTBOX_EVENT=egress-allowed\nAGENTBOX_RUN_ID=aaaaaaaaaa\nPRIORITY=6\n"
for path in ("/run/systemd/journal/socket", "/dev/log", "/run/systemd/journal/stdout", "/run/systemd/journal/syslog"):
    try:
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(text, path); say("SENT")
    except OSError as e:
        say(word(e))
import syslog
syslog.syslog("{mark}")
# what a workload prints is its output, not a record
sys.stderr.write("AGENTBOX_EVENT=egress-allowed\nMESSAGE={mark}\n<3>{mark}\n")
# and a name cannot carry a second field into its own record
for name in ("a\nMESSAGE={mark}", "a\nAGENTBOX_EVENT=egress-allowed\n"):
    say(briefly(ask(bytes([len(name)]) + name.encode() + b"\7example\3com\0")))
""")
    assert got[:4] == ["ENOENT"] * 4 and got[4:] == [["NXDOMAIN", 0, [15]]] * 2, got
    box.sh(["journalctl", "--sync"], check=False)
    assert box.journal(f"MESSAGE={mark}") == [] and box.journal("AGENTBOX_RUN_ID=aaaaaaaaaa") == [], "a forged record"
    assert world.egress(run, "egress-allowed") == [] and sum(denied(run).values()) == 2, denied(run)
    for r in world.egress(run):
        assert isinstance(r["AGENTBOX_DEST_NAME"], str) and r["AGENTBOX_DEST_NAME"].isprintable(), r


def test_sockets_that_the_caller_has_open():
    """None of them comes along."""
    policy()
    w = world.up()
    s = socket.create_connection((world.RULE4, 5432))
    at_end(s.close)
    os.set_inheritable(s.fileno(), True)
    done = box.run_python("""
import os
for n in range(3, 1024):
    try:
        print(n, os.fstat(n))
    except OSError:
        pass
""", policy="egress", pass_fds=[s.fileno()])
    assert expect(done).out == "" and w.tcp.raw() == b"", done


def test_given_up_before_it_is_accepted():
    """The kernel holds the last acknowledgement back, and then there is a reset: nothing is ever accepted, but it was tried."""
    policy()
    got, run = attempt("""
DEFER, QUICKACK = (socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 5), (socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
MINTTL = (socket.IPPROTO_IP, 21, 255)
for address, port, option in (("1.2.3.4", 443, DEFER), ("2a0f:ff00::4", 443, QUICKACK), ("169.254.169.254", 80, DEFER), ("192.0.2.77", 5433, QUICKACK),
                              ("1.2.3.5", 80, MINTTL), ("192.0.2.77", 5432, DEFER), ("9.9.9.9", 53, QUICKACK)):
    for i in range(3):
        s = socket.socket(family_of(address)); s.setsockopt(*option); s.setblocking(False)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        try:
            s.connect((address, port)); say("connected")
        except OSError as e:
            say(word(e))
        s.close()
""")
    assert got == ["EINPROGRESS"] * 21, got
    total = denied(run)
    assert total == {("tcp", "1.2.3.4:443", "no-rule"): 3, ("tcp", "2a0f:ff00::4:443", "no-rule"): 3, ("tcp", "169.254.169.254:80", "metadata"): 3,
                     ("tcp", "192.0.2.77:5433", "port"): 3, ("tcp", "1.2.3.5:80", "no-rule"): 3, ("tcp", "192.0.2.77:5432", "connect-failed"): 3,
                     ("dns", "9.9.9.9:53", "malformed"): 3}, total
