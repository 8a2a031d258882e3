# SPDX-License-Identifier: LGPL-2.1-or-later
"""What leaves by the uplink, packet by packet."""
import ctypes
import ipaddress
import socket
import struct

ETH_P_ALL, PACKET_OUTGOING = 3, 4
SOL_PACKET, PACKET_STATISTICS = 263, 6
# Neighbours, routers, group membership: the kernel's own talk on the link.
LINK_ICMPV6 = range(130, 144)
# What is kept, for the kernel (a classic program on the packet from its IP header on): of what goes out all that is no TCP, and of TCP
# what opens or breaks a connection. Its other packets go where these do, and would fill the store.
KEEP = ((0x20, 0, 0, 0xfffff004), (0x15, 0, 13, PACKET_OUTGOING), (0x30, 0, 0, 0), (0x74, 0, 0, 4), (0x15, 0, 5, 4),
        (0x30, 0, 0, 9), (0x15, 0, 7, 6), (0xb1, 0, 0, 0), (0x50, 0, 0, 13), (0x05, 0, 0, 3),
        (0x30, 0, 0, 6), (0x15, 0, 2, 6), (0x30, 0, 0, 53), (0x45, 0, 1, 0x06), (0x06, 0, 0, 128), (0x06, 0, 0, 0))
PROTOCOLS = {1: "icmp", 6: "tcp", 17: "udp", 58: "icmpv6"}


def take_apart(packet):
    """(protocol, destination, port, TCP flags), None for what is no IP or is the link's own."""
    version = packet[0] >> 4
    if version == 4:
        protocol, header = packet[9], (packet[0] & 15) * 4
        destination = ipaddress.ip_address(packet[16:20])
    elif version == 6:
        protocol, header = packet[6], 40
        destination = ipaddress.ip_address(packet[24:40])
        if protocol == 0:  # hop-by-hop options, as group membership reports have them
            protocol, header = packet[40], 48
        if protocol == 58 and packet[header] in LINK_ICMPV6:
            return None
    else:
        return None
    port = struct.unpack(">H", packet[header + 2:header + 4])[0] if protocol in (6, 17) else 0
    return PROTOCOLS.get(protocol, str(protocol)), str(destination), port, packet[header + 13] if protocol == 6 else 0


class Capture:
    """From its making on. The socket's buffer is the store: a packet is in it before the call that sent it returns."""

    def __init__(self, link):
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
        self._socket.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
        program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *i) for i in KEEP))
        self._socket.setsockopt(socket.SOL_SOCKET, 26, struct.pack("HxxxxxxP", len(KEEP), ctypes.addressof(program)))  # SO_ATTACH_FILTER
        self._socket.bind((link, ETH_P_ALL))
        self._socket.setblocking(False)
        self._out = []

    def close(self):
        self._socket.close()

    def packets(self):
        """All that went out so far; none may have been missed."""
        while True:
            try:
                packet, address = self._socket.recvfrom(128)
            except BlockingIOError:
                break
            if address[2] == PACKET_OUTGOING and address[1] in (0x0800, 0x86dd):
                seen = take_apart(packet)
                if seen:
                    self._out.append(seen)
        _, dropped = struct.unpack("II", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        assert dropped == 0, f"the capture missed {dropped} packets"
        return list(self._out)

    def flows(self):
        """The set of "protocol destination port" that anything was sent to."""
        return {f"{p} {d} {port}" for p, d, port, _ in self.packets()}

    def dialled(self):
        """Where TCP connections were tried, one entry for each first packet (repetitions included)."""
        return [(d, port) for p, d, port, flags in self.packets() if p == "tcp" and flags & 0x12 == 0x02]
