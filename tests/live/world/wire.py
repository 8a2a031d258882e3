# SPDX-License-Identifier: LGPL-2.1-or-later
"""DNS messages as bytes, for the world's name server and for what asks from inside (where this text is part of the program)."""
import ipaddress
import struct

TYPES = {"A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "NULL": 10, "PTR": 12, "MX": 15, "TXT": 16, "AAAA": 28, "SRV": 33, "OPT": 41,
         "SVCB": 64, "HTTPS": 65, "ANY": 255}
RCODES = {0: "NOERROR", 1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED"}


def name_bytes(name):
    """Labels of a text; bytes are taken as the wire form that they are."""
    if isinstance(name, bytes):
        return name
    labels = [l.encode("latin-1") for l in name.rstrip(".").split(".") if l]
    return b"".join(bytes([len(l)]) + l for l in labels) + b"\0"


def question(name, qtype="A", ident=0x1234, flags=0x0100, edns=True, qdcount=1, tail=b"", qclass=1):
    qtype = TYPES.get(qtype, qtype)
    opt = b"\0" + struct.pack(">HHIH", 41, 1232, 0, 0) if edns else b""
    head = struct.pack(">HHHHHH", ident, flags, qdcount, 0, 0, 1 if edns else 0)
    return head + (name_bytes(name) + struct.pack(">HH", qtype, qclass)) * min(qdcount, 2) + opt + tail


def read_name(m, at):
    """The name at this place as text, and where it ends. Raises where a pointer does not lead back."""
    labels, end, limit = [], None, at
    while True:
        n = m[at]
        if n >= 0xc0:
            target = (n & 0x3f) << 8 | m[at + 1]
            end = at + 2 if end is None else end
            if target >= limit:
                raise ValueError("a compression pointer that does not lead back")
            at = limit = target
            continue
        at += 1
        if n == 0:
            return ".".join(labels), at if end is None else end
        labels.append(m[at:at + n].decode("latin-1"))
        at += n


def rdata_text(m, rtype, at, n):
    if rtype in (1, 28):
        return str(ipaddress.ip_address(m[at:at + n]))
    if rtype in (2, 5, 12):
        return read_name(m, at)[0]
    return m[at:at + n].hex()


def message(m):
    """A message taken apart; every byte of it must be accounted for."""
    ident, flags, qd, an, ns, ar = struct.unpack(">HHHHHH", m[:12])
    out = {"id": ident, "flags": flags, "opcode": flags >> 11 & 15, "rcode": RCODES.get(flags & 15, str(flags & 15)), "tc": bool(flags & 0x200),
           "questions": [], "answers": [], "authority": [], "opt": False, "ede": []}
    at = 12
    for _ in range(qd):
        name, at = read_name(m, at)
        out["questions"].append([name, *struct.unpack(">HH", m[at:at + 4])])
        at += 4
    for section, count in (("answers", an), ("authority", ns), ("additional", ar)):
        for _ in range(count):
            name, at = read_name(m, at)
            rtype, rclass, ttl, n = struct.unpack(">HHIH", m[at:at + 10])
            at += 10
            if rtype == 41:
                out["opt"] = True
                options = m[at:at + n]
                while len(options) >= 4:
                    code, size = struct.unpack(">HH", options[:4])
                    if code == 15:
                        out["ede"].append(struct.unpack(">H", options[4:6])[0])
                    options = options[4 + size:]
            else:
                out.setdefault(section, []).append([name, rtype, ttl, rdata_text(m, rtype, at, n)])
            at += n
    if at != len(m):
        raise ValueError(f"{len(m) - at} bytes behind the message")
    return out
