# SPDX-License-Identifier: LGPL-2.1-or-later
"""The cloud's metadata service, this host, and the way out by name.

Walls: a network namespace without a way out; the warden (address gate, names never asked upstream); packet filter of the cgroup
"""
import errno
import socket

from attack import stopped

ADDRESSES = ("169.254.169.254", "169.254.170.2", "fd00:ec2::254", "::ffff:169.254.169.254", "100.100.100.200",
             "168.63.129.16", "192.0.0.192", "10.0.0.1", "172.17.0.1", "192.168.0.1", "198.51.100.1", "2001:db8::1")
NAMES = ("metadata.google.internal", "metadata", "instance-data", "secret-in-a-name.attacker.example", "localhost.attacker.example")


def ask(address, port):
    """The warden takes the connection and resets it: nothing may ever answer."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.settimeout(30)
        s.connect((address, port))
        s.send(b"GET / HTTP/1.0\r\n\r\n")
        answer = s.recv(100)
        if not answer:
            raise OSError(errno.ECONNRESET, "")
        return answer


for address in ADDRESSES:
    for port in (80, 443):
        stopped(f"{address} port {port}", lambda a=address, p=port: ask(a, p), errno.ECONNRESET, errno.EPIPE)


def look_up(name):
    try:
        return socket.getaddrinfo(name, 80)
    except socket.gaierror as e:
        raise OSError(2, str(e)) from None


for name in NAMES:
    stopped(f"looking up {name}", lambda n=name: look_up(n))
