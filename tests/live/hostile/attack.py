# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the attack programs share. Each attempt prints a line, "stopped", "harmless" or "ESCAPED", a tab, and what it was.

A refusal counts only where its errno says that something refused: EINVAL or EFAULT would mean that the attempt itself is
wrong, which is printed as UNCLEAR, and fails the suite as an escape does.
"""
import ctypes
import errno
import os
import platform

libc = ctypes.CDLL(None, use_errno=True)

REFUSALS = {errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EROFS, errno.ENOENT, errno.ESRCH, errno.ENETUNREACH,
            errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT,
            errno.ENOPROTOOPT, errno.ENXIO, errno.ENODEV, errno.EOPNOTSUPP, errno.ENOTTY}

# Numbers of system calls: x86_64, and the generic table that aarch64 has; None where a machine has no such call.
NUMBERS = {
    "accept4": (288, 242), "acct": (163, 89), "add_key": (248, 217), "adjtimex": (159, 171), "bpf": (321, 280),
    "chroot": (161, 51), "clock_settime": (227, 112), "clone": (56, 220), "clone3": (435, 435),
    "delete_module": (176, 106), "fanotify_init": (300, 262), "finit_module": (313, 273), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fsopen": (430, 430), "fspick": (433, 433), "init_module": (175, 105),
    "inotify_init1": (294, 26), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425), "ioperm": (173, None), "iopl": (172, None), "ioprio_set": (251, 30),
    "kcmp": (312, 272), "kexec_file_load": (320, 294), "kexec_load": (246, 104), "keyctl": (250, 219),
    "lookup_dcookie": (212, 18), "memfd_secret": (447, 447), "mlockall": (151, 230), "mount": (165, 40),
    "mount_setattr": (442, 442), "move_mount": (429, 429), "move_pages": (279, 239), "mq_open": (240, 180),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "open_tree": (428, 428),
    "perf_event_open": (298, 241), "personality": (135, 92), "pidfd_getfd": (438, 438), "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424), "pivot_root": (155, 41), "prctl": (157, 167), "process_madvise": (440, 440),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "ptrace": (101, 117), "quotactl": (179, 60),
    "quotactl_fd": (443, 443), "reboot": (169, 142), "request_key": (249, 218), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "sched_setattr": (314, 274), "sched_setscheduler": (144, 119),
    "setdomainname": (171, 162), "sethostname": (170, 161), "setns": (308, 268), "settimeofday": (164, 170),
    "splice": (275, 76), "swapoff": (168, 225), "swapon": (167, 224), "syslog": (103, 116), "tee": (276, 77),
    "umount2": (166, 39), "unshare": (272, 97), "userfaultfd": (323, 282), "vhangup": (153, 58), "vmsplice": (278, 75),
}


def call(name, *args):
    """A system call by its name; raises OSError."""
    number = NUMBERS[name][0 if platform.machine() == "x86_64" else 1]
    if number is None:
        raise OSError(errno.ENOSYS, "")
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    words += [ctypes.c_long(0)] * (6 - len(words))
    result = libc.syscall(ctypes.c_long(number), *words)
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


def say(verdict, what, detail):
    # Descriptor 1 itself: nothing is left in a buffer for a child to write again.
    os.write(1, f"{verdict}\t{what}: {detail}\n".encode())


def stopped(what, attempt, *more):
    """The attempt must be refused; more: errnos that stand for a refusal here beside those above."""
    try:
        result = attempt()
    except OSError as e:
        name = errno.errorcode.get(e.errno, str(e.errno))
        say("stopped" if e.errno in REFUSALS or e.errno in more else "UNCLEAR", what, name)
        return
    say("ESCAPED", what, f"gave {result!r}")


def holds(what, condition, detail=""):
    """The attempt was made, and the condition says that it had no effect."""
    say("harmless" if condition else "ESCAPED", what, detail)


def in_child(function):
    """In a process of its own, as the attempt may end it; its status as waitpid's."""
    pid = os.fork()
    if pid == 0:
        try:
            function()
        finally:
            os._exit(0)
    return os.waitpid(pid, 0)[1]
