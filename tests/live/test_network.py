# SPDX-License-Identifier: LGPL-2.1-or-later
"""What leaves: nothing but what the policy names; never the metadata service."""
import socket
import threading
import time

import box
from box import agentbox, at_end, expect, policy, run, run_python, run_sh, sh

CONNECT = r"""
import socket, sys, errno
def connect(address, port, family=socket.AF_INET, kind=socket.SOCK_STREAM):
    try:
        s = socket.socket(family, kind)
        s.settimeout(3)
        s.connect((address, port))
        if kind == socket.SOCK_DGRAM:
            s.send(b'x'); import time; time.sleep(0.1); s.send(b'x')
        else:
            s.recv(1)  # the warden accepts, and then resets
        return 'CONNECTED'
    except socket.timeout:
        return 'TIMEOUT'
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e.errno))
"""
PUBLIC = [("1.1.1.1", 443), ("8.8.8.8", 853), ("192.0.2.77", 5432), ("10.0.0.1", 80), ("169.254.169.254", 80)]


def listener(address, port, family=socket.AF_INET):
    """A host's service, on an address that this test adds to lo; returns the list of accepted peers."""
    prefix = "128" if family == socket.AF_INET6 else "32"
    if not address.startswith("127.") and address != "::1":
        sh(f"ip addr add {address}/{prefix} dev lo" + (" nodad" if family == socket.AF_INET6 else ""))
        at_end(sh, f"ip addr del {address}/{prefix} dev lo")
    s = socket.socket(family)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((address, port))
    s.listen()
    accepted = []

    def serve():
        try:
            while True:
                c, peer = s.accept()
                accepted.append(peer)
                c.close()
        except OSError:
            pass
    threading.Thread(target=serve, daemon=True).start()

    def close():
        s.shutdown(socket.SHUT_RDWR)
        s.close()
    at_end(close)
    return accepted


def tries(targets, **kw):
    program = CONNECT + f"for a, p in {targets!r}: print(connect(a, p, socket.AF_INET6 if ':' in a else socket.AF_INET))"
    return expect(run_python(program, **kw)).out.split()


def test_default_refuses_everything_at_once():
    got = tries(PUBLIC + [("2606:4700::1111", 443), ("fd00:ec2::254", 80)])
    assert set(got) <= {"ECONNRESET"}, got


def test_offline_reaches_nothing():
    got = tries(PUBLIC + [("2606:4700::1111", 443)], policy="offline")
    assert set(got) <= {"ENETUNREACH", "EADDRNOTAVAIL", "ECONNREFUSED", "EPERM"}, got


def test_the_hosts_loopback_is_not_ours():
    accepted = listener("127.0.0.1", 7643)
    for name in ("default", "offline", "strict"):
        got = tries([("127.0.0.1", 7643), ("0.0.0.0", 7643)], policy=name)
        assert set(got) <= {"ECONNREFUSED", "ENETUNREACH", "EPERM", "EACCES"}, (name, got)
    assert accepted == [], accepted


def test_server_and_client_inside():
    program = """
import socket, threading
for family, address in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')):
    s = socket.socket(family); s.bind((address, 0)); s.listen()
    threading.Thread(target=lambda: s.accept()[0].sendall(b'hello')).start()
    c = socket.socket(family); c.connect(s.getsockname()[:2]); print(c.recv(5))
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('127.0.0.1', 0)); u.sendto(b'udp', u.getsockname()); print(u.recv(3))
"""
    for name in ("default", "offline"):
        assert expect(run_python(program, policy=name)).out.count("hello") == 2, name


def test_udp_and_icmp_go_nowhere():
    program = CONNECT + """
print(connect('1.1.1.1', 443, kind=socket.SOCK_DGRAM))
for args in ((socket.AF_INET, socket.SOCK_RAW, 1), (socket.AF_PACKET, socket.SOCK_RAW, 0), (40, socket.SOCK_STREAM, 0), (38, 5, 0)):
    try:
        socket.socket(*args); print('OPENED', args)
    except OSError as e:
        print(errno.errorcode[e.errno])
"""
    got = expect(run_python(program)).out.split("\n")
    assert got[0] in ("ECONNREFUSED", "ENETUNREACH", "EPERM"), got
    assert not any("OPENED" in g for g in got), got


def test_metadata_is_closed_under_open():
    policy("live-open", "[Network]\nEgress=open\n")
    accepted = listener("169.254.169.254", 80) + listener("100.100.100.200", 80)
    six = listener("fd00:ec2::254", 80, socket.AF_INET6)
    free = listener("192.0.2.99", 8099)
    got = tries([("169.254.169.254", 80), ("100.100.100.200", 80), ("fd00:ec2::254", 80), ("192.0.2.99", 8099),
                 ("::ffff:169.254.169.254", 80), ("168.63.129.16", 80), ("169.254.170.2", 80)], policy="live-open")
    assert got[3] == "CONNECTED" and len(free) == 1, got
    assert all(g in ("EPERM", "TIMEOUT", "EACCES", "ECONNREFUSED", "ENETUNREACH") for i, g in enumerate(got) if i != 3), got
    assert accepted == [] and six == [], (accepted, six)


def test_addresses():
    policy("live-addresses", "[Network]\nEgress=addresses\nAllow=192.0.2.96/28\n")
    allowed, denied, loop = listener("192.0.2.98", 8098), listener("192.0.2.120", 8120), listener("127.0.0.1", 7644)
    got = tries([("192.0.2.98", 8098), ("192.0.2.120", 8120), ("127.0.0.1", 7644), ("169.254.169.254", 80)], policy="live-addresses")
    assert got[0] == "CONNECTED" and len(allowed) == 1, got
    assert all(g in ("EPERM", "TIMEOUT", "EACCES", "ENETUNREACH") for g in got[1:]), got
    assert denied == [] and loop == [], (denied, loop)


def test_no_filter_makes_the_start_slow():
    policy("live-open", "[Network]\nEgress=open\n")
    policy("live-addresses", "[Network]\nEgress=addresses\nAllow=192.0.2.96/28\n")
    best = {}
    for name in ("default", "live-open", "live-addresses") * 5:
        before = time.monotonic()
        expect(run("/bin/true", policy=name))
        best[name] = min(best.get(name, 1000), time.monotonic() - before)
    assert max(best.values()) < best["default"] + 0.07 * box.SLOWNESS, best


def test_addresses_around_the_metadata_service():
    policy("live-addresses", "[Network]\nEgress=addresses\nAllow=169.254.0.0/15\n")
    accepted = listener("169.254.169.254", 80)
    got = tries([("169.254.169.254", 80)], policy="live-addresses")
    assert got[0] in ("EPERM", "TIMEOUT", "EACCES") and accepted == [], (got, accepted)
    policy("live-metadata", "[Network]\nEgress=addresses\nAllow=169.254.169.254\n")
    expect(run("/bin/true", policy="live-metadata"), 125, err="metadata")


def test_rules_without_a_warden_are_refused_by_name():
    policy("live-rules", "[Network]\nAllow=tls example.org\n")
    done = run("/bin/true", policy="live-rules")
    if done.status != 0:
        expect(done, 125, err="Allow")


def test_network_namespace_cannot_be_changed():
    for command in ("ip link add dummy0 type dummy", "ip route add 1.0.0.0/8 dev lo", "ip link set lo down", "ip addr add 10.0.0.1/8 dev lo",
                    "unshare -Urn true", "unshare -n true", "nsenter -t 1 -n true", "nsenter -t $PPID -n true", "ip netns add x"):
        done = run_sh(f"{command}")
        assert done.status != 0 and any(w in done.err for w in ("not permitted", "No such", "denied", "Read-only")), (command, done)
    done = expect(run_sh("ip -o link show; ip -o addr show dev lo"))
    assert done.out.startswith("1: lo:") and "2: " not in done.out, done


def test_only_lo():
    for name in ("default", "offline"):
        done = expect(run_sh("tail -n +3 /proc/self/net/dev | cut -d: -f1", policy=name))
        assert done.out.split() == ["lo"], (name, done)


def test_ambient_proxy_variables_do_not_arrive():
    done = expect(run("/usr/bin/env", env={"https_proxy": "http://proxy:1", "ALL_PROXY": "x"}))
    assert "proxy" not in done.out.lower(), done


def test_policy_show_names_what_open_lacks():
    policy("live-open", "[Network]\nEgress=open\n")
    done = expect(agentbox("policy", "explain", "live-open"))
    assert "169.254" not in done.out or "IPAddressAllow" in done.out, done
