# SPDX-License-Identifier: LGPL-2.1-or-later
"""Socket families and protocols whose code is where recent kernels were broken, and socket options that lead there.

Walls: seccomp of agentbox (family, type, protocol, option); a network namespace of its own; without record: seccomp of systemd (RestrictAddressFamilies=)
"""
import socket

from attack import stopped

FAMILIES = {"AX25": 3, "IPX": 4, "APPLETALK": 5, "NETROM": 6, "X25": 9, "ROSE": 11, "KEY": 15, "PACKET": 17, "RDS": 21,
            "IRDA": 23, "PPPOX": 24, "LLC": 26, "IB": 27, "MPLS": 28, "CAN": 29, "TIPC": 30, "BLUETOOTH": 31, "RXRPC": 33,
            "ISDN": 34, "PHONET": 35, "IEEE802154": 36, "CAIF": 37, "ALG": 38, "NFC": 39, "VSOCK": 40, "KCM": 41,
            "QIPCRTR": 42, "SMC": 43, "XDP": 44, "MCTP": 45}
NETLINK = {"USERSOCK": 2, "SOCK_DIAG": 4, "NFLOG": 5, "XFRM": 6, "SELINUX": 7, "ISCSI": 8, "AUDIT": 9, "FIB_LOOKUP": 10,
           "CONNECTOR": 11, "NETFILTER": 12, "KOBJECT_UEVENT": 15, "GENERIC": 16, "CRYPTO": 21, "SMC": 22}
PROTOCOLS = {"SCTP": 132, "DCCP": 33, "UDPLITE": 136, "L2TP": 115, "GRE": 47, "ESP": 50, "RAW": 255}

for name, number in FAMILIES.items():
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        stopped(f"AF_{name}, type {int(kind)}", lambda n=number, k=kind: socket.socket(n, k, 0))
for name, number in NETLINK.items():
    stopped(f"NETLINK_{name}", lambda n=number: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, n))
for family in (socket.AF_INET, socket.AF_INET6):
    for name, number in PROTOCOLS.items():
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):
            stopped(f"{family.name} {name}, type {int(kind)}", lambda f=family, k=kind, n=number: socket.socket(f, k, n))


def option(level, number, value):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
        s.setsockopt(level, number, value)


stopped("TCP_ULP, kernel TLS", lambda: option(socket.IPPROTO_TCP, 31, b"tls\0"))
stopped("SO_MARK", lambda: option(socket.SOL_SOCKET, 36, b"\1\0\0\0"))
stopped("SO_BINDTODEVICE", lambda: option(socket.SOL_SOCKET, 25, b"lo\0"))
stopped("IP_TRANSPARENT", lambda: option(socket.IPPROTO_IP, 19, b"\1\0\0\0"))
stopped("IPT_SO_SET_REPLACE", lambda: option(socket.IPPROTO_IP, 64, bytes(84)))
stopped("IP_ADD_MEMBERSHIP", lambda: option(socket.IPPROTO_IP, 35, bytes([224, 0, 0, 9, 0, 0, 0, 0])))
