# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the tests' programs inside a sandbox are written with; this text, wire.py and pattern.py stand before each of them. Every
function answers with a word: what the kernel or the other end said."""
import errno
import json
import os
import select
import socket
import struct
import sys
import time

try:
    from .wire import message, name_bytes, question
except ImportError:
    pass  # inside: they stand above

SERVER4 = "192.0.2.1"
LIMIT = 25.0  # of one wait: longer than anything the wall may take


def word(e):
    if isinstance(e, socket.timeout):
        return "TIMEOUT"
    return errno.errorcode.get(e.errno, str(e.errno)) if isinstance(e, OSError) else f"{type(e).__name__}: {e}"


def say(value):
    """One line of JSON on stdout."""
    print(json.dumps(value), flush=True)


def family_of(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def name_to(name, port=443):
    """The addresses of a name, as getaddrinfo has them, or the words of its error."""
    try:
        return sorted({a[4][0] for a in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)})
    except socket.gaierror as e:
        return {"gaierror": e.errno, "text": e.strerror}


def opened(address, port, limit=LIMIT, **kw):
    s = socket.socket(kw.get("family") or family_of(address), socket.SOCK_STREAM, kw.get("protocol", 0))
    s.settimeout(limit)
    s.connect(socket.getaddrinfo(address, port)[0][4] if "%" in address else (address, port))
    return s


def called(name):
    """What this process is called from now on."""
    import ctypes
    ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)


def until_end(s, most=1 << 20):
    """What comes, and how it ends: EOF, or the word of an error."""
    got = b""
    try:
        while len(got) < most:
            data = s.recv(65536)
            if not data:
                return got, "EOF"
            got += data
        return got, "MORE"
    except OSError as e:
        return got, word(e)


def talk(address, port, send=b"", end=False, **kw):
    """Connects, says it, listens until the end. [what came as latin-1, how it ended]; a connection that was refused has no bytes.
    A reset is a reset, whether connect() saw it or a later call."""
    try:
        s = opened(address, port, **kw)
    except OSError as e:
        return ["", word(e)]
    with s:
        try:
            if send:
                s.sendall(send)
            if end:
                s.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # what the other end did is seen when reading
        got, how = until_end(s)
        return [got.decode("latin-1"), how]


def ask(name, qtype="A", server=SERVER4, tcp=False, raw=None, limit=5.0, port=53, **kw):
    """The name server's answer, taken apart; or a word: TIMEOUT where none came, EOF where it closed."""
    query = question(name, qtype, **kw) if raw is None else raw
    s = socket.socket(family_of(server), socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM)
    s.settimeout(limit)
    with s:
        try:
            s.connect((server, port))
            if tcp:
                s.sendall(struct.pack(">H", len(query)) + query)
                size = s.recv(2, socket.MSG_WAITALL)
                if len(size) < 2:
                    return "EOF"
                reply = s.recv(struct.unpack(">H", size)[0], socket.MSG_WAITALL)
            else:
                s.send(query)
                reply = s.recv(65535)
        except OSError as e:
            return word(e)
    out = message(reply)
    out["size"], out["bytes"] = len(reply), reply.hex()
    return out


def briefly(answer):
    """[rcode, how many answers, extended errors] of what ask() returns."""
    return answer if isinstance(answer, str) else [answer["rcode"], len(answer["answers"]), answer["ede"]]


# --- TLS by hand

def extension(kind, body):
    return struct.pack(">HH", kind, len(body)) + body


def server_names(*names, kind=0):
    entries = b"".join(struct.pack(">BH", kind, len(n)) + n for n in names)
    return extension(0, struct.pack(">H", len(entries)) + entries)


def hello(*names, extra=b"", sni=None, grow=0):
    """A ClientHello as a record; the names as bytes. sni: the extension as it stands, b"" for none."""
    sni = server_names(*names) if sni is None else sni
    # supported versions, groups, signature algorithms, a key share of X25519
    rest = extension(43, b"\x04\x03\x04\x03\x03") + extension(10, b"\x00\x02\x00\x1d") + extension(13, b"\x00\x02\x04\x03") \
        + extension(51, b"\x00\x24\x00\x1d\x00\x20" + bytes(range(32)))
    if grow:
        rest += extension(21, bytes(grow))
    extensions = sni + extra + rest
    body = b"\x03\x03" + bytes(range(32)) + b"\x20" + bytes(range(32)) + b"\x00\x04\x13\x01\xc0\x2b" + b"\x01\x00" \
        + struct.pack(">H", len(extensions)) + extensions
    return b"\x01" + struct.pack(">I", len(body))[1:] + body


def record(handshake, size=16384, kind=22):
    """A handshake message in records of at most this many bytes."""
    return b"".join(struct.pack(">BHH", kind, 0x0301, len(p)) + p for p in (handshake[i:i + size] for i in range(0, len(handshake), size)))


ALERT = b"\x15\x03".decode("latin-1")


def tls_ending(got, how):
    """"alert access_denied", "server" where a server answered the hello, or how it ended."""
    if len(got) >= 7 and got[0] == "\x15":
        return f"alert {ord(got[6])}" if how in ("EOF", "ECONNRESET") else f"alert {ord(got[6])}, then {how}"
    return "server" if got[:1] == "\x16" else how
