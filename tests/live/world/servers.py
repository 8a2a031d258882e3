# SPDX-License-Identifier: LGPL-2.1-or-later
"""The world's servers. Each remembers who came, and what it was sent."""
import contextlib
import hashlib
import ipaddress
import json
import socket
import ssl
import struct
import threading
import time

from .pattern import pattern

KEPT = 1 << 20  # of what one connection sent


def plain(address):
    """::ffff:1.2.3.4 is 1.2.3.4."""
    a = ipaddress.ip_address(address)
    return str(getattr(a, "ipv4_mapped", None) or a)


class Connection:
    """One that was accepted. sni: None without TLS."""

    def __init__(self, c):
        self.socket, self.raw, self.sni, self.lost, self.ended = c, bytearray(), None, None, threading.Event()
        self.received = 0  # bytes in all
        self.to, self.peer = (plain(c.getsockname()[0]), c.getsockname()[1]), c.getpeername()[:2]

    def read(self, n=65536):
        data = self.socket.recv(n)
        self.received += len(data)
        if len(self.raw) < KEPT:
            self.raw += data[:KEPT - len(self.raw)]
        return data

    def send(self, data):
        self.socket.sendall(data)

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


class Service:
    """A listener with a function for each connection, in a thread of its own."""

    def __init__(self, listener, function, tls=None):
        self.accepted, self._listener, self._function, self._tls = [], listener, function, tls
        threading.Thread(target=self._serve, daemon=True).start()

    def reset(self):
        self.accepted.clear()

    def close(self):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def raw(self):
        """All that was received, by all."""
        return b"".join(bytes(c.raw) for c in self.accepted)

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                c = self._listener.accept()[0]
                try:
                    connection = Connection(c)
                except OSError:  # reset before anybody could ask who it was
                    c.close()
                    continue
                self.accepted.append(connection)
                threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection):
        try:
            with contextlib.suppress(ValueError):
                if self._tls:
                    self._wrap(connection)
                self._function(connection)
        except (OSError, EOFError) as e:
            connection.lost = e
        finally:
            connection.ended.set()
            connection.socket.close()

    def _wrap(self, connection):
        connection.socket = self._tls.wrap_socket(connection.socket, server_side=True, do_handshake_on_connect=False)
        connection.socket.world = connection
        connection.socket.do_handshake()


def tls_context(directory, alpn=("http/1.1",)):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "leaf.pem", directory / "leaf.key")
    context.set_alpn_protocols(list(alpn))

    def sni(s, name, _context):
        s.world.sni = name
    context.sni_callback = sni
    return context


# --- what they speak

class Lines:
    """Reads heads and bodies off a connection."""

    def __init__(self, connection):
        self.connection, self.rest = connection, b""

    def until(self, mark, limit=1 << 17):
        while mark not in self.rest:
            data = self.connection.read()
            if not data or len(self.rest) > limit:
                raise EOFError
            self.rest += data
        head, self.rest = self.rest.split(mark, 1)
        return head

    def exactly(self, n):
        """In pieces, as they come."""
        while n > 0:
            data = self.rest or self.connection.read(1 << 18)
            if not data:
                raise EOFError
            self.rest = data[n:]
            yield data[:n]
            n -= len(data[:n])


def http(connection):
    """HTTP/1.1, kept alive. Says what it understood as JSON; /bytes/N sends N bytes, a body is answered with its digest."""
    lines = Lines(connection)
    while True:
        head = lines.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ")
        fields = {name.strip().lower(): value.strip() for name, _, value in (l.partition(":") for l in head[1:])}
        digest, length = hashlib.sha256(), 0
        if fields.get("expect") == "100-continue":
            connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        for piece in body_of(lines, fields):
            digest.update(piece)
            length += len(piece)
        if target.startswith("/bytes/"):
            n = int(target.split("/")[2])
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n" % n)
            for piece in pattern(n):
                connection.send(piece)
            continue
        text = json.dumps({"method": method, "target": target, "host": fields.get("host"), "length": length, "sha256": digest.hexdigest(),
                           "sni": connection.sni}).encode() + b"\n"
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
        if fields.get("connection") == "close":
            return


def body_of(lines, fields):
    if fields.get("transfer-encoding") != "chunked":
        yield from lines.exactly(int(fields.get("content-length", 0)))
        return
    while True:
        size = int(lines.until(b"\r\n"), 16)
        if size == 0:
            lines.until(b"\r\n")
            return
        yield from lines.exactly(size)
        lines.until(b"\r\n")


def commands(connection):
    """A first line says what to do: ECHO; GET N; PUT N (answers with the digest); EOF (reads to the end, then answers with the digest);
    LAST TEXT (says it and shuts down its own direction, then reads to the end); HANG (never reads again); RESET; FIRST (it speaks first)."""
    lines = Lines(connection)
    words = lines.until(b"\n").decode().split()
    digest = hashlib.sha256()
    if words[0] == "ECHO":
        data = lines.rest
        while data or (data := connection.read()):
            connection.send(data)
            data = b""
    elif words[0] == "GET":
        for piece in pattern(int(words[1])):
            connection.send(piece)
    elif words[0] == "PUT":
        for piece in lines.exactly(int(words[1])):
            digest.update(piece)
        connection.send(digest.hexdigest().encode() + b"\n")
    elif words[0] == "EOF":
        digest.update(lines.rest)
        while data := connection.read(1 << 18):
            digest.update(data)
        connection.send(digest.hexdigest().encode() + b"\n")
    elif words[0] == "LAST":
        connection.send(words[1].encode())
        connection.socket.shutdown(socket.SHUT_WR)
        while connection.read():
            pass
    elif words[0] == "HANG":
        time.sleep(float(words[1]))
    elif words[0] == "RESET":
        connection.reset()


def banner(connection):
    """Speaks first, as SSH does, then echoes."""
    connection.send(b"SSH-2.0-world\r\n")
    while data := connection.read():
        connection.send(data)
