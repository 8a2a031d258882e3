# SPDX-License-Identifier: LGPL-2.1-or-later
"""A D-Bus client that says whatever it is told to: well-formed or not, with any descriptors, reading its answers or not."""
import array
import os
import socket
import struct

SYSTEM_BUS = "/run/dbus/system_bus_socket"
MANAGER = "org.agentbox1.Manager"
ALIGNMENT = {"y": 1, "b": 4, "n": 2, "q": 2, "i": 4, "u": 4, "x": 8, "t": 8, "d": 8, "s": 4, "o": 4, "h": 4, "g": 1, "v": 1,
             "a": 4, "(": 8, "{": 8}
NUMBERS = {"y": "<B", "b": "<I", "n": "<h", "q": "<H", "i": "<i", "u": "<I", "x": "<q", "t": "<Q", "d": "<d", "h": "<I"}
CALL, RETURN, ERROR, SIGNAL = 1, 2, 3, 4
NO_REPLY, NO_START, INTERACTIVE = 1, 2, 4
PATH, INTERFACE, MEMBER, ERROR_NAME, REPLY_SERIAL, DESTINATION, SENDER, SIGNATURE, FDS = range(1, 10)


def next_type(sig):
    """The first complete type of a signature."""
    if sig[0] == "a":
        return "a" + next_type(sig[1:])
    if sig[0] not in "({":
        return sig[0]
    depth = 0
    for i, c in enumerate(sig):
        depth += (c in "({") - (c in ")}")
        if depth == 0:
            return sig[:i + 1]
    raise ValueError(sig)


def split(sig):
    while sig:
        one = next_type(sig)
        yield one
        sig = sig[len(one):]


def pad(out, n):
    out += bytes(-len(out) % n)


def put(out, sig, value):
    kind = sig[0]
    pad(out, ALIGNMENT[kind])
    if kind in NUMBERS:
        out += struct.pack(NUMBERS[kind], value)
    elif kind in "so":
        raw = value if isinstance(value, bytes) else value.encode()
        out += struct.pack("<I", len(raw)) + raw + b"\0"
    elif kind == "g":
        out += bytes([len(value)]) + value.encode() + b"\0"
    elif kind == "v":
        put(out, "g", value[0])
        put(out, value[0], value[1])
    elif kind == "a":
        at = len(out)
        out += bytes(4)
        pad(out, ALIGNMENT[sig[1]])
        start = len(out)
        if sig[1] == "y":
            out += bytes(value)
        else:
            for v in value.items() if isinstance(value, dict) else value:
                put(out, sig[1:], v)
        out[at:at + 4] = struct.pack("<I", len(out) - start)
    else:
        for one, v in zip(split(sig[1:-1]), value, strict=True):
            put(out, one, v)


def get(data, at, sig):
    kind = sig[0]
    at += -at % ALIGNMENT[kind]
    if kind in NUMBERS:
        (value,) = struct.unpack_from(NUMBERS[kind], data, at)
        return value, at + struct.calcsize(NUMBERS[kind])
    if kind in "so":
        (n,) = struct.unpack_from("<I", data, at)
        return data[at + 4:at + 4 + n].decode(), at + 5 + n
    if kind == "g":
        return data[at + 1:at + 1 + data[at]].decode(), at + 2 + data[at]
    if kind == "v":
        inner, at = get(data, at, "g")
        return get(data, at, inner)
    if kind == "a":
        (n,) = struct.unpack_from("<I", data, at)
        at += 4
        at += -at % ALIGNMENT[sig[1]]
        end, found = at + n, []
        while at < end:
            value, at = get(data, at, sig[1:])
            found.append(value)
        return (dict(found) if sig[1] == "{" else bytes(found) if sig[1] == "y" else found), at
    values = []
    for one in split(sig[1:-1]):
        value, at = get(data, at, one)
        values.append(value)
    return tuple(values), at


class BusError(Exception):
    def __init__(self, name, text):
        super().__init__(f"{name}: {text}")
        self.name, self.text = name, text


class Bus:
    def __init__(self, timeout=30):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(timeout)
        self.sock.connect(SYSTEM_BUS)
        self.serial, self.buffer = 0, bytearray()
        self.sock.sendall(b"\0AUTH EXTERNAL " + str(os.geteuid()).encode().hex().encode() + b"\r\n")
        self._line()
        self.sock.sendall(b"NEGOTIATE_UNIX_FD\r\n")
        self._line()
        self.sock.sendall(b"BEGIN\r\n")
        self.name = self.call("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "Hello")[0]

    def _line(self):
        text = b""
        while not text.endswith(b"\r\n"):
            text += self.sock.recv(1)
        if not text.startswith((b"OK", b"AGREE")):
            raise OSError(text)

    def send(self, to, path, interface, member, sig="", values=(), fds=(), flags=0, n_fds=None, body=None):
        self.serial += 1
        if body is None:
            body = bytearray()
            for one, v in zip(split(sig), values, strict=True):
                put(body, one, v)
        fields = [(PATH, ("o", path)), (MEMBER, ("s", member)), (DESTINATION, ("s", to))]
        if interface:
            fields.append((INTERFACE, ("s", interface)))
        if sig:
            fields.append((SIGNATURE, ("g", sig)))
        if fds or n_fds:
            fields.append((FDS, ("u", len(fds) if n_fds is None else n_fds)))
        head = bytearray(struct.pack("<cBBBII", b"l", CALL, flags, 1, len(body), self.serial))
        put(head, "a(yv)", fields)
        pad(head, 8)
        control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        data = bytes(head) + bytes(body)
        sent = self.sock.sendmsg([data[:65536]], control)
        self.sock.sendall(data[sent:])
        return self.serial

    def manager(self, member, sig="", *values, **kw):
        return self.wait(self.send("org.agentbox1", "/org/agentbox1", MANAGER, member, sig, values, **kw))

    def call(self, to, path, interface, member, sig="", *values, **kw):
        return self.wait(self.send(to, path, interface, member, sig, values, **kw))

    def receive(self):
        """One message: (type, fields, body values)."""
        while True:
            if len(self.buffer) >= 16:
                size, n_fields = struct.unpack_from("<I", self.buffer, 4)[0], struct.unpack_from("<I", self.buffer, 12)[0]
                start = 16 + n_fields
                start += -start % 8
                if len(self.buffer) >= start + size:
                    break
            data = self.sock.recv(65536)
            if not data:
                raise ConnectionResetError("the bus closed the connection")
            self.buffer += data
        data = bytes(self.buffer[:start + size])
        del self.buffer[:start + size]
        fields, _ = get(data, 12, "a(yv)")
        fields = dict(fields)
        values, at = [], 0
        for one in split(fields.get(SIGNATURE, "")):
            value, at = get(data[start:], at, one)
            values.append(value)
        return data[1], fields, values

    def wait(self, serial):
        while True:
            kind, fields, values = self.receive()
            if fields.get(REPLY_SERIAL) != serial:
                continue
            if kind == ERROR:
                raise BusError(fields[ERROR_NAME], values[0] if values else "")
            return values

    def close(self):
        self.sock.close()


RUN = "sasaayaaya{sv}ah"


def run_values(argv=("true",), policy="default", tightenings=(), env=(), options=None, n_fds=3):
    return (policy, list(tightenings), [a if isinstance(a, bytes) else a.encode() for a in argv],
            [e if isinstance(e, bytes) else e.encode() for e in env], options or {}, list(range(n_fds)))
