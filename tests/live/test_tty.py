# SPDX-License-Identifier: LGPL-2.1-or-later
"""agentbox run -t: a terminal of its own."""
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

from box import SLOWNESS, at_end, run, wait_for


class Terminal:
    """A client on a pty of ours, which plays the user's terminal."""

    def __init__(self, *command, options=()):
        self.master, slave = pty.openpty()
        at_end(os.close, self.master)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 41, 97, 0, 0))
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        at_end(os.close, slave)
        self.client = subprocess.Popen(["agentbox", "run", "-t", *options, "--", *command], stdin=slave, stdout=slave, stderr=slave,
                                       start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        at_end(self.client.kill)
        self.seen = b""

    def read_until(self, text, seconds=30):
        end = time.monotonic() + seconds * SLOWNESS
        while text not in self.seen:
            assert time.monotonic() < end, f"no {text!r} in {self.seen!r}"
            if select.select([self.master], [], [], 0.2)[0]:
                try:
                    self.seen += os.read(self.master, 65536)
                except OSError:
                    break
        assert text in self.seen, self.seen
        return self.seen

    def wait(self):
        def ended():
            if select.select([self.master], [], [], 0)[0]:
                try:
                    self.seen += os.read(self.master, 65536)
                except OSError:
                    pass
            return self.client.poll() is not None
        wait_for("the client to end", ended, 40)
        return self.client.returncode

    def modes(self):
        return termios.tcgetattr(self.slave)


def test_is_a_terminal_with_the_size():
    t = Terminal("/bin/sh", "-c", "test -t 0 && test -t 1 && test -t 2 && echo yes; stty size; exit 3")
    t.read_until(b"41 97")
    assert t.wait() == 3 and b"yes" in t.seen
    assert t.modes() == t.before


def test_resize_arrives():
    t = Terminal("/bin/sh", "-c", "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.1; done")
    t.read_until(b"ready")
    fcntl.ioctl(t.master, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
    t.client.send_signal(signal.SIGWINCH)
    t.read_until(b"33 77")
    t.wait()


def test_control_c_interrupts_inside():
    t = Terminal("/bin/sh", "-c", "trap 'echo interrupted; exit 9' INT; echo ready; while :; do sleep 0.1; done")
    t.read_until(b"ready")
    os.write(t.master, b"\x03")
    t.read_until(b"interrupted")
    assert t.wait() == 9
    assert t.modes() == t.before


def test_typed_text_arrives():
    t = Terminal("/bin/sh", "-c", "stty -echo; echo ready; read x; echo \"<$x>\"")
    t.read_until(b"ready")
    os.write(t.master, b"hello there\n")
    t.read_until(b"<hello there>")
    assert t.wait() == 0


def test_modes_are_restored_after_a_kill():
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        t = Terminal("/bin/sh", "-c", "trap '' INT; echo ready; sleep 30")
        t.read_until(b"ready")
        for _ in range(4):
            if t.client.poll() is None:
                t.client.send_signal(number)
                time.sleep(0.3)
        t.wait()
        assert t.modes() == t.before, number


def test_sti_and_friends_are_refused():
    program = ("import fcntl, errno\n"
               "for request in (0x5412, 0x100005412, 0x541C, 0x5423):\n"
               "    try:\n"
               "        fcntl.ioctl(0, request & 0xffffffff if request < 1 << 32 else request, b'X')\n"
               "        print('WORKED', hex(request))\n"
               "    except (OSError, OverflowError) as e: print('refused', getattr(e, 'errno', 'overflow'))\n"
               "print('done')\n")
    t = Terminal("/usr/bin/python3", "-c", program)
    t.read_until(b"done")
    t.wait()
    assert b"WORKED" not in t.seen and t.seen.count(b"refused") == 4, t.seen


def test_the_terminal_is_not_the_callers():
    t = Terminal("/bin/sh", "-c", "cat /proc/self/stat | cut -d' ' -f7; ls /dev/pts | wc -l; echo done")
    t.read_until(b"done")
    t.wait()
    ours = os.fstat(t.slave).st_rdev
    assert str(ours).encode() not in t.seen, t.seen


def test_without_a_terminal_it_says_so():
    done = run("/bin/true", options=["-t"])
    assert done.status == 125 and "terminal" in done.err, done


def test_term_is_set():
    t = Terminal("/bin/sh", "-c", "echo term=$TERM.")
    t.read_until(b"term=" + os.environ.get("TERM", "").encode())
    t.wait()
