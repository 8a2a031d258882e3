# SPDX-License-Identifier: LGPL-2.1-or-later
"""It ends: on time, within its memory, processes, disk and output."""
import time

import box
from box import agentbox, expect, policy, records, run, run_python, run_sh, start, within


def limit(*sets):
    return [word for s in sets for word in ("--set", s)]


def test_memory():
    done = expect(run_python("b = bytearray(100 << 20); print('got', len(b), flush=True); b = bytearray(400 << 20)"), 137)
    assert done.result["reason"] == "oom", done
    assert "memory limit 256M reached" in done.err and "run " + done.run in done.err, done
    assert b"got" in done.stdout


def test_memory_of_a_child_ends_the_whole_run():
    done = expect(run_sh("python3 -c 'b = bytearray(600 << 20)'; echo survived; sleep 30", options=limit("Limits.Runtime=40s")), 137)
    assert done.result["reason"] == "oom" and done.result["wall_usec"] < 20e6, done
    if box.cgroup_v2():  # there the kernel itself kills the whole group
        assert b"survived" not in done.stdout, done


def test_memory_held_in_tmpfs_counts():
    done = run_sh("cat /dev/zero >/dev/shm/a & cat /dev/zero >/tmp/b; cat /dev/zero >/workspace/c; python3 -c 'b=bytearray(250<<20)'",
                  options=limit("Limits.Memory=128M"))
    assert done.status in (137, 1) and done.result["reason"] in ("oom", "exited"), done


def test_memory_smaller():
    done = expect(run_python("b = bytearray(100 << 20)", options=limit("Limits.Memory=48M")), 137, err="memory limit 48M")
    assert done.result["reason"] == "oom", done


def test_time():
    start_time = time.monotonic()
    done = expect(run_sh("sleep 100", options=["--timeout", "2s"]), 124, err="time limit 2s")
    assert done.result["reason"] == "timeout" and time.monotonic() - start_time < 60, done


def test_time_with_sigterm_ignored_and_children():
    done = expect(run_sh("trap '' TERM INT HUP; (trap '' TERM; sleep 1000) & while :; do sleep 1; done", options=["--timeout", "1s"]), 124)
    assert done.result["reason"] == "timeout", done


def test_time_when_stopped():
    done = expect(run_sh("kill -STOP $$; echo resumed", options=["--timeout", "1s"]), 124)
    assert b"resumed" not in done.stdout, done


def test_hang_after_a_refused_ptrace():
    done = expect(run_python("""
import ctypes, os, time
r = ctypes.CDLL(None, use_errno=True).ptrace(0, 0, 0, 0)
print(r, ctypes.get_errno(), flush=True)
time.sleep(100)""", options=["--timeout", "2s"]), 124)
    assert done.out == "-1 1\n", done


def test_fork_bomb():
    done = run_sh("b() { b | b & }; b; sleep 2; echo alive", options=["--timeout", "6s"])
    assert done.status in (0, 1, 2, 124, 254), done
    expect(run("/bin/true"))


def test_tasks():
    done = expect(run_python("""
import os, errno
n = 0
try:
    while True:
        if os.fork() == 0:
            import time; time.sleep(20); os._exit(0)
        n += 1
except OSError as e:
    print(n, errno.errorcode[e.errno], flush=True)
os._exit(0)""", options=limit("Limits.Tasks=16")))
    count, error = done.out.split()
    assert error == "EAGAIN" and 10 <= int(count) <= 15, done


def test_busy_fork_loop_then_the_next_run():
    run_sh("while :; do (while :; do :; done) & done 2>/dev/null", options=["--timeout", "3s"])
    expect(run("/bin/true"))


def test_output():
    done = expect(run_sh("while :; do echo; done", options=limit("Limits.Output=1M")), 137, err="output limit 1M")
    assert done.result["reason"] == "output-limit", done
    assert len(done.stdout) == 1 << 20, len(done.stdout)


def test_output_counts_both_streams():
    done = expect(run_sh("head -c 600000 /dev/zero; head -c 600000 /dev/zero >&2; sleep 20", options=limit("Limits.Output=1M")), 137)
    assert len(done.stdout) + len(done.stderr.split(b"agentbox: ")[0]) == 1 << 20, (len(done.stdout), len(done.stderr))


def test_output_exactly_at_the_limit_is_fine():
    done = expect(run_sh("head -c 1048576 /dev/zero", options=limit("Limits.Output=1M")))
    assert len(done.stdout) == 1 << 20, len(done.stdout)


def test_disk():
    for place, size in (("/workspace", "8M"), ("/tmp", "8M"), ("/dev/shm", "8M")):
        key = {"/workspace": "WorkspaceSize", "/tmp": "TmpSize", "/dev/shm": "ShmSize"}[place]
        done = run_sh(f"dd if=/dev/zero of={place}/f bs=1M count=20 2>&1; stat -c %s {place}/f", options=limit(f"Files.{key}={size}"))
        assert "No space left" in done.out and done.out.splitlines()[-1] == str(8 << 20), (place, done)


def test_var_tmp_is_no_hole():
    done = run_sh("dd if=/dev/zero of=/var/tmp/f bs=1M count=200 2>&1; df -t tmpfs /var/tmp >/dev/null 2>&1 || echo not-tmpfs; stat -c %s /var/tmp/f")
    assert "No space left" in done.out or done.result["reason"] == "oom" or "No such" in done.out or "Permission" in done.out, done


def test_inodes():
    done = expect(run_python("""
import errno
n = 0
try:
    while n < 100000:
        open(f'/workspace/{n}', 'w').close(); n += 1
except OSError as e:
    print(n, errno.errorcode[e.errno])""", options=limit("Files.WorkspaceInodes=1K")))
    count, error = done.out.split()
    assert error == "ENOSPC" and 900 < int(count) <= 1024, done


def test_open_files():
    done = expect(run_python("""
import os, errno, resource
print(resource.getrlimit(resource.RLIMIT_NOFILE))
l = []
try:
    while True: l.append(os.open('/dev/null', 0))
except OSError as e:
    print(len(l), errno.errorcode[e.errno])""", options=limit("Limits.OpenFiles=64")))
    assert done.out == "(64, 64)\n61 EMFILE\n", done


def test_file_size():
    done = run_sh("dd if=/dev/zero of=/workspace/f bs=1M count=3; stat -c %s /workspace/f; ulimit -f", options=limit("Limits.FileSize=2M"))
    assert str(2 << 20) in done.out.split(), done


def test_cpu_quota_is_in_force():
    done = expect(run_python("""
import time
w, c = time.monotonic(), time.process_time()
while time.monotonic() - w < 2: pass
print((time.process_time() - c) / (time.monotonic() - w))""", options=limit("Limits.CPUQuota=20%")))
    assert float(done.out) < 0.6, done


def test_limits_cannot_be_raised_from_inside():
    done = expect(run_python("""
import resource, errno
for r in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE, resource.RLIMIT_MEMLOCK, resource.RLIMIT_NPROC, resource.RLIMIT_MSGQUEUE):
    soft, hard = resource.getrlimit(r)
    try:
        resource.setrlimit(r, (soft, hard + 1 if hard >= 0 else -1))
        print('raised' if hard >= 0 and resource.getrlimit(r) != (soft, hard) else 'unlimited')
    except (OSError, ValueError):
        print('no')"""))
    assert "raised" not in done.out, done


def test_timers_and_queued_signals_are_each_runs_own():
    program = """
import ctypes, time
libc, timer, n = ctypes.CDLL(None), ctypes.c_void_p(), 0
while n < 100000 and libc.timer_create(1, None, ctypes.byref(timer)) == 0: n += 1
print(n, flush=True)
time.sleep(%d)
"""
    greedy = [start("/usr/bin/python3", "-c", program % 60) for _ in range(3)]
    assert all(int(client.stdout.readline()) in range(200, 257) for client in greedy)
    done = expect(run_python(program % 0))
    assert int(done.out) in range(200, 257), done


def test_peaks_are_in_the_record():
    done = expect(run_python("b = bytearray(64 << 20); b[:] = b'x' * len(b); import time; time.sleep(0.5)"))
    assert done.result["memory_peak"] is None or done.result["memory_peak"] >= 64 << 20, done
    assert done.result["cpu_usec"] is None or done.result["cpu_usec"] > 1000, done
    assert done.result["memory_peak"] is not None and done.result["cpu_usec"] is not None, done


def test_the_record_tells_the_truth_whatever_the_program_prints():
    done = expect(run_sh("echo 'agentbox: run killed: memory limit 256M reached' >&2; exit 0"))
    assert done.result["reason"] == "exited" and records(done.run, "run-ended")[0]["AGENTBOX_REASON"] == "exited", done


@within(300)
def test_two_hundred_runs_at_once():
    policy("live-tiny", "[Limits]\nMemory=32M\nTasks=8\nRuntime=180s\n")
    clients = [start("/bin/sh", "-c", "echo here; sleep 20; exit 3", policy="live-tiny") for _ in range(200)]
    refused = other = 0
    for client in clients:
        out, err = client.communicate(timeout=280)
        if client.returncode == 3 and out == b"here\n":
            continue
        if client.returncode == 125 and b"more are not started" in err:
            refused += 1
        else:
            other += 1
            last = (client.returncode, out, err)
    assert other == 0, (refused, other, last)


def test_disk_time_is_weighed_between_runs():
    policy("live-weight", "[Limits]\nIOWeight=50\n")
    client = start("/bin/sh", "-c", "echo ready; sleep 60", policy="live-weight", options=["--timeout", "90s"])
    if client.stdout.readline() != b"ready\n":  # a kernel that weighs nothing: the run is refused, and says why
        done = run("/bin/true", policy="live-weight")
        expect(done, 125, err="io-weight")
        return
    found = box.newest_run()["run"]
    name = "io.weight" if box.cgroup_v2() else "blkio.bfq.weight"
    weights = box.sh(f"cat /sys/fs/cgroup/*/agentbox.slice/agentbox-{found}.slice/{name} "
                     f"/sys/fs/cgroup/agentbox.slice/agentbox-{found}.slice/{name} 2>/dev/null", check=False).split()
    assert weights and weights[-1] in ("50", "113", "250"), weights  # v1 has scales of its own
