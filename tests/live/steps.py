# SPDX-License-Identifier: LGPL-2.1-or-later
"""SIGKILL at a step of a program: a small BPF program at the entry of system calls counts those that change something outside of the
process that makes them, and ends who makes the one with the wanted number. Between two of these nothing differs that anybody else could
see, so all steps of a run are all the states that it can be interrupted in. Nothing of the product takes part, nothing is traced (a
traced shim or warden would not be verified), and children that a program forks are counted as the program.

    with Steps() as steps:
        steps.arm("agentboxd", 17)      the 17th from now on is the last one; 0: none, they are counted only
        steps.count(), steps.killed()   how many there were; not 0 where one was the last
"""
import ctypes
import os
import platform
import struct

from box import Skip, cgroup_v2

SYS_BPF = 321
MAP_CREATE, MAP_LOOKUP, MAP_UPDATE, PROG_LOAD, RAW_TRACEPOINT_OPEN = 0, 1, 2, 5, 17
MAP_TYPE_ARRAY, PROG_TYPE_RAW_TRACEPOINT = 2, 17
HELPERS = {"map_lookup_elem": 1, "get_current_comm": 16, "send_signal": 109, "probe_read_kernel": 113, "get_current_pid_tgid": 14,
           "get_current_ancestor_cgroup_id": 123}
COMM_SIZE, N_CALLS = 16, 512
COUNT, STOP_AT, KILLED, COMM, KINDS = 0, 8, 16, 24, 40  # where what stands in the one value of the map
VALUE_SIZE = KINDS + N_CALLS
THIRD_ARGUMENT = 96     # of struct pt_regs
O_CREAT = os.O_CREAT
ALWAYS, WHERE_IT_CREATES = 1, 2

# Of x86-64. What only takes, looks or waits is left out, and so is what dies with the process: its descriptors and mappings.
CALLS = {
    "write": 1, "pwrite64": 18, "writev": 20, "pipe": 22, "sendfile": 40, "connect": 42, "sendto": 44, "sendmsg": 46, "shutdown": 48, "bind": 49,
    "listen": 50, "umount2": 166, "setsockopt": 54, "clone": 56, "fork": 57, "vfork": 58, "execve": 59, "kill": 62, "ftruncate": 77, "rename": 82, "mkdir": 83,
    "rmdir": 84, "link": 86, "unlink": 87, "symlink": 88, "fchmod": 91, "fchown": 93, "setuid": 105, "setgid": 106, "setgroups": 116,
    "setresuid": 117, "setresgid": 119, "capset": 126, "prctl": 157, "chroot": 161, "sethostname": 170, "setxattr": 188, "tgkill": 234,
    "exit_group": 231, "mkdirat": 258, "fchownat": 260, "unlinkat": 263, "renameat": 264, "linkat": 265, "symlinkat": 266, "fchmodat": 268,
    "unshare": 272, "splice": 275, "utimensat": 280, "fallocate": 285, "pwritev": 296, "prlimit64": 302, "sendmmsg": 307, "setns": 308,
    "renameat2": 316, "seccomp": 317, "memfd_create": 319, "bpf": 321, "execveat": 322, "copy_file_range": 326, "pidfd_send_signal": 424,
    "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "clone3": 435, "mount_setattr": 442, "landlock_restrict_self": 446,
}
CALLS_WITH_FLAGS = {"openat": 257}


def instruction(code, to=0, of=0, offset=0, value=0):
    return struct.pack("<BBhi", code, to | of << 4, offset, value)


def constant(register, value, source=0):
    return instruction(0x18, register, source, 0, ctypes.c_int32(value & 0xffffffff).value) + instruction(0, 0, 0, 0, value >> 32)


def call(helper):
    return instruction(0x85, value=HELPERS[helper])


def move(to, of):
    return instruction(0xbf, to, of)


def put(to, value):
    return instruction(0xb7, to, value=value)


def add(to, value):
    return instruction(0x07, to, value=value)


def load(to, of, offset, code=0x79):
    return instruction(code, to, of, offset)


class Program:
    """Instructions, and jumps to the end."""

    def __init__(self):
        self.code, self.jumps = b"", []

    def __iadd__(self, code):
        self.code += code
        return self

    def end_if(self, code, register, other=0, value=0):
        self.jumps.append(len(self.code))
        self.code += instruction(code, register, other, 0, value)

    def finish(self):
        end = len(self.code)
        code = bytearray(self.code + put(0, 0) + instruction(0x95))
        for at in self.jumps:
            struct.pack_into("<h", code, at + 2, (end - at) // 8 - 1)
        return bytes(code)


EQUAL, NOT_EQUAL, ABOVE, DIFFERS, SAME, ALWAYS_JUMP = 0x15, 0x55, 0x25, 0x5d, 0x1d, 0x05  # the first three with a value, two with a register
LEVELS = 8  # of cgroups above this machine's own, at most


def beneath(group):
    """Goes on where the process is in this cgroup or beneath it: whatever namespaces it has, it is of this machine and not of another lab."""
    steps = [put(1, level) + call("get_current_ancestor_cgroup_id") for level in range(LEVELS)]
    rest = [sum(len(s) // 8 + 1 for s in steps[i + 1:]) for i in range(LEVELS)]  # instructions behind the jump of each
    return constant(7, group) + b"".join(s + instruction(SAME, 0, 7, n + 1) for s, n in zip(steps, rest))


def program(map_fd, group):
    p = Program()
    p += move(6, 1)
    p += load(7, 6, 8)                          # the system call's number
    p.end_if(ABOVE, 7, value=N_CALLS - 1)
    p += instruction(0x62, 10, 0, -4, 0)        # the key
    p += constant(1, map_fd, source=1) + move(2, 10) + add(2, -4) + call("map_lookup_elem")
    p.end_if(EQUAL, 0)
    p += move(8, 0) + move(9, 0) + instruction(0x0f, 9, 7) + load(9, 9, KINDS, code=0x71)
    p.end_if(EQUAL, 9)
    p += move(1, 10) + add(1, -24) + put(2, COMM_SIZE) + call("get_current_comm")
    for i in (0, 8):
        p += load(1, 10, -24 + i) + load(2, 8, COMM + i)
        p.end_if(DIFFERS, 1, 2)
    p += beneath(group)
    p.end_if(ALWAYS_JUMP, 0)
    flags = instruction(0x7a, 10, 0, -40, 0) + move(1, 10) + add(1, -40) + put(2, 8) + load(3, 6, 0) + add(3, THIRD_ARGUMENT) + \
        call("probe_read_kernel") + load(1, 10, -40) + instruction(0x57, 1, value=O_CREAT)
    p += instruction(NOT_EQUAL, 9, 0, len(flags) // 8 + 1, WHERE_IT_CREATES)
    p += flags
    p.end_if(EQUAL, 1)
    p += put(1, 1) + instruction(0xdb, 8, 1, COUNT, 0x01)   # one more; which one it is, stays in the register
    p += add(1, 1) + load(2, 8, STOP_AT)
    p.end_if(DIFFERS, 1, 2)
    p += call("get_current_pid_tgid") + instruction(0x7b, 8, 0, KILLED)
    p += put(1, 9) + call("send_signal")
    return p.finish()


class Steps:
    def __init__(self):
        if platform.machine() != "x86_64":
            raise Skip("the steps of a program are counted on x86-64 alone")
        group = "/sys/fs/cgroup" if cgroup_v2() else "/sys/fs/cgroup/unified"
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._log = ctypes.create_string_buffer(1 << 16)
        self._program = self._tracepoint = -1
        self._map = self._bpf(MAP_CREATE, struct.pack("<IIII", MAP_TYPE_ARRAY, 4, VALUE_SIZE, 1))
        code, licence = ctypes.create_string_buffer(program(self._map, os.stat(group).st_ino)), ctypes.create_string_buffer(b"GPL")
        self._program = self._bpf(PROG_LOAD, struct.pack(
            "<IIQQIIQ", PROG_TYPE_RAW_TRACEPOINT, (len(code) - 1) // 8, ctypes.addressof(code), ctypes.addressof(licence), 1, len(self._log),
            ctypes.addressof(self._log)))
        where = ctypes.create_string_buffer(b"sys_enter")
        self._tracepoint = self._bpf(RAW_TRACEPOINT_OPEN, struct.pack("<QI", ctypes.addressof(where), self._program))

    def _bpf(self, command, attributes):
        buffer = ctypes.create_string_buffer(attributes.ljust(128, b"\0"))
        result = self._libc.syscall(SYS_BPF, command, buffer, 128)
        if result < 0:
            error = os.strerror(ctypes.get_errno())
            raise Skip(f"this kernel does not let system calls be counted: bpf command {command}: {error} {self._log.value.decode()}")
        return result

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for fd in (self._tracepoint, self._program, self._map):
            os.close(fd)

    def _value(self, command, value):
        key = ctypes.c_uint32(0)
        self._bpf(command, struct.pack("<IxxxxQQ", self._map, ctypes.addressof(key), ctypes.addressof(value)))

    def arm(self, name, number):
        kinds = bytearray(N_CALLS)
        for calls, kind in ((CALLS, ALWAYS), (CALLS_WITH_FLAGS, WHERE_IT_CREATES)):
            for n in calls.values():
                kinds[n] = kind
        value = struct.pack("<QQQ16s", 0, number, 0, name.encode()[:COMM_SIZE - 1]) + bytes(kinds)
        self._value(MAP_UPDATE, ctypes.create_string_buffer(value, VALUE_SIZE))

    def disarm(self):
        self.arm("", 0)

    def _read(self, at):
        value = ctypes.create_string_buffer(VALUE_SIZE)
        self._value(MAP_LOOKUP, value)
        return struct.unpack_from("<Q", value.raw, at)[0]

    def count(self):
        return self._read(COUNT)

    def killed(self):
        return self._read(KILLED)
