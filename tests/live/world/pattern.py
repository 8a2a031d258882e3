# SPDX-License-Identifier: LGPL-2.1-or-later
"""Bytes that both ends can make for themselves: no stretch of them is like another. Also part of programs that run inside."""
import hashlib
import random

_BLOCK = random.Random(1).randbytes(1 << 20)


def pattern(n):
    number = 0
    while n > 0:
        block = number.to_bytes(8, "big") + _BLOCK[8:min(n, len(_BLOCK))]
        block = block[:n]
        yield block
        n -= len(block)
        number += 1


def pattern_digest(n):
    h = hashlib.sha256()
    for block in pattern(n):
        h.update(block)
    return h.hexdigest()
