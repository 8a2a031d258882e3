# SPDX-License-Identifier: LGPL-2.1-or-later
"""The world's authoritative name server: answers by script, remembers every question."""
import contextlib
import ipaddress
import socket
import struct
import threading
import time

from . import wire


class Answer:
    """What one question gets. addresses of either family; through: names of a chain of CNAMEs before them."""

    def __init__(self, *addresses, ttl=60, rcode=0, through=(), after=0.0, silent=False, raw=None):
        self.addresses = [ipaddress.ip_address(a) for a in addresses]
        self.ttl, self.rcode, self.through, self.after, self.silent, self.raw = ttl, rcode, through, after, silent, raw

    def message(self, query, question, udp):
        """The answer's bytes."""
        name, qtype, _ = question
        version = {wire.TYPES["A"]: 4, wire.TYPES["AAAA"]: 6}.get(qtype)
        found, owner = [], b"\xc0\x0c"
        for alias in self.through:
            target = wire.name_bytes(alias)
            found.append(owner + struct.pack(">HHIH", wire.TYPES["CNAME"], 1, self.ttl, len(target)) + target)
            owner = target
        for a in self.addresses:
            if a.version == version:
                found.append(owner + struct.pack(">HHIH", qtype, 1, self.ttl, len(a.packed)) + a.packed)
        end = 12
        while query[end]:
            end += 1 + query[end]
        body = query[12:end + 5] + b"".join(found)
        truncated = udp and len(body) > 1220
        if truncated:
            body, found = query[12:end + 5], []
        flags = 0x8580 | self.rcode | (0x200 if truncated else 0)
        return query[:2] + struct.pack(">HHHHH", flags, 1, len(found), 0, 0) + body


NXDOMAIN, SERVFAIL, SILENCE = Answer(rcode=3), Answer(rcode=2), Answer(silent=True)


class NameServer:
    """zone: a name to one Answer, or to a list of them that are given one after another, the last one for ever: one for each
    time that the name is looked up (A and AAAA of one look-up count as one)."""

    def __init__(self, udp, tcp):
        self.zone, self.log, self.default = {}, [], NXDOMAIN
        self._asked, self._lock, self._sockets = {}, threading.Lock(), [udp, tcp]
        threading.Thread(target=self._serve_udp, args=(udp,), daemon=True).start()
        threading.Thread(target=self._serve_tcp, args=(tcp,), daemon=True).start()

    def close(self):
        for s in self._sockets:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
            s.close()

    def reset(self):
        with self._lock:
            self.log.clear()
            self._asked.clear()
        self.default = NXDOMAIN

    def names(self):
        """Every name that was asked for, as it came."""
        with self._lock:
            return sorted({name for name, _, _ in self.log})

    def _choose(self, name, qtype, how):
        with self._lock:
            self.log.append((name, qtype, how))
            answer = self.zone.get(name.lower(), self.default)
            if not isinstance(answer, (list, tuple)):
                return answer
            step = self._asked[name.lower(), qtype] = self._asked.get((name.lower(), qtype), 0) + 1
            return answer[min(step, len(answer)) - 1]

    def _answer(self, query, udp):
        question = wire.message(query)["questions"][0]
        answer = self._choose(question[0], question[1], "udp" if udp else "tcp")
        if answer.after:
            time.sleep(answer.after)
        if answer.silent:
            return None
        return query[:2] + answer.raw if answer.raw else answer.message(query, question, udp)

    def _serve_udp(self, s):
        def one(query, peer):
            with contextlib.suppress(OSError, ValueError, IndexError, struct.error):
                reply = self._answer(query, True)
                if reply:
                    s.sendto(reply, peer)
        with contextlib.suppress(OSError):
            while True:
                query, peer = s.recvfrom(4096)
                threading.Thread(target=one, args=(query, peer), daemon=True).start()

    def _serve_tcp(self, s):
        def one(c):
            with c, contextlib.suppress(OSError, ValueError, IndexError, struct.error):
                c.settimeout(30)
                while True:
                    size = c.recv(2, socket.MSG_WAITALL)
                    if len(size) < 2:
                        return
                    reply = self._answer(c.recv(struct.unpack(">H", size)[0], socket.MSG_WAITALL), False)
                    if reply is None:
                        time.sleep(30)
                        return
                    c.sendall(struct.pack(">H", len(reply)) + reply)
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=one, args=(s.accept()[0],), daemon=True).start()
