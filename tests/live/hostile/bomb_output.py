# SPDX-License-Identifier: LGPL-2.1-or-later
"""Output without end, on both streams. It is killed for it.

Walls: Output=; the relay, which keeps nothing
Alone: yes
"""
import os

while True:
    os.write(1, b"y\n" * 32768)
    os.write(2, b"y\n" * 32768)
