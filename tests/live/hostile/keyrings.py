# SPDX-License-Identifier: LGPL-2.1-or-later
"""The kernel's key store: keys of others, and room for its own.

Walls: seccomp of agentbox; a keyring of its own (KeyringMode=private); without record: seccomp of systemd
"""
import ctypes

from attack import call, stopped

SESSION, USER, USER_SESSION = -3, -4, -5
kind, name = ctypes.c_char_p(b"user"), ctypes.c_char_p(b"stolen")

stopped("add_key", lambda: call("add_key", kind, name, ctypes.c_char_p(b"x"), 1, SESSION))
stopped("request_key", lambda: call("request_key", kind, name, None, SESSION))
for command in (0, 1, 2, 6, 7, 8, 10, 11, 15, 18, 22, 29, 32):
    stopped(f"keyctl {command}", lambda c=command: call("keyctl", c, USER if c % 2 else USER_SESSION, USER, 0, 0))
