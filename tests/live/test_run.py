# SPDX-License-Identifier: LGPL-2.1-or-later
"""agentbox run: statuses, streams, arguments, environment."""
import hashlib
import os
import signal
import subprocess
import sys
import threading

from box import agentbox, at_end, expect, newest_run, only, records, run, run_python, run_sh, start, wait_events, wait_for, within


def test_exit_status():
    for status in (0, 1, 2, 42, 124, 125, 126, 127, 128, 255):
        done = expect(run_sh(f"exit {status}"), status)
        assert done.result["reason"] == "exited" and done.result["exit_code"] == status, done
        assert done.result["signal"] is None, done


def test_streams_are_separate_and_exact():
    blob = bytes(range(256)) * 5
    done = expect(run_sh("cat; echo to-stderr >&2", stdin=blob))
    assert done.stdout == blob, done
    assert done.stderr == b"to-stderr\n", done


def test_arguments_are_exact():
    args = ["", " ", "a b", "$HOME", "%n", "${X}", "\\", "'\"", "\x01\x7f", "*", "--", "-x", "ü", "\n"]
    program = "import sys; sys.stdout.buffer.write(b'|'.join(a.encode('utf-8', 'surrogateescape') for a in sys.argv[1:]))"
    done = expect(run_python(program, *args))
    assert done.stdout == "|".join(args).encode(), done


def test_arguments_need_not_be_text():
    done = expect(run("/usr/bin/printf", "%s", b"\xff\xfe\x80"))
    assert done.stdout == b"\xff\xfe\x80", done


def test_ten_thousand_arguments():
    expect(run_sh('echo $#', policy=None), out=r"^0")
    done = expect(run("/bin/sh", "-c", "echo $#", "sh", *(["x" * 20] * 10000)))
    assert done.out == "10000\n", done


def test_two_mebibytes_of_environment():
    options = [f"-eV{i}={'y' * 100000}" for i in range(20)]
    done = run_sh("echo ${#V0} ${#V19}", options=options)
    assert (done.status, done.out) == (0, "100000 100000\n") or (done.status == 126 and "long" in done.err), done


def test_one_argument_too_long_says_so():
    program = ["/bin/echo", "x" * 131071]
    expect(run(*program))
    with_one_more = run("/bin/sh", "-c", "echo $0; exec /bin/echo \"$0$0\"", "x" * 100000)
    assert with_one_more.status in (2, 126), with_one_more


def test_not_found_and_not_executable():
    done = expect(run("no-such-command"), 127, err=r"no-such-command")
    assert done.err.startswith("agentbox: "), done
    expect(run("/workspace/none"), 127)
    expect(run("/usr"), 126)
    expect(run("/etc/passwd"), 126)
    expect(run("./relative-none"), 127)


def test_dies_by_each_signal():
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGILL, signal.SIGABRT, signal.SIGFPE,
                   signal.SIGKILL, signal.SIGSEGV, signal.SIGPIPE, signal.SIGALRM, signal.SIGTERM, signal.SIGUSR1):
        done = expect(run_sh(f"kill -{number.value} $$; sleep 5"), 128 + number)
        assert done.result["reason"] == "signal" and done.result["signal"] == number, done


def test_a_core_is_not_dumped():
    done = expect(run_sh("ulimit -c; kill -SEGV $$"), 128 + signal.SIGSEGV)
    assert done.out == "0\n", done


def test_exits_at_once_a_hundred_times():
    for _ in range(20):
        done = expect(run("/bin/echo", "there"))
        assert done.stdout == b"there\n", done


def test_no_output_is_lost_at_exit():
    done = expect(run_sh("head -c 3000000 /dev/zero; exit 3"), 3)
    assert len(done.stdout) == 3000000, len(done.stdout)


@within(120)
def test_a_pipeline_with_a_hundred_megabytes():
    size = 100 << 20
    client = start("/bin/sh", "-c", "cat | cat", options=["--set", "Limits.Output=200M", "--set", "Limits.Memory=512M"],
                   stdin=subprocess.PIPE)
    block = os.urandom(1 << 20)

    def feed():
        for _ in range(100):
            client.stdin.write(block)
        client.stdin.close()
    feeder = threading.Thread(target=feed)
    feeder.start()
    got, count = hashlib.sha256(), 0
    while chunk := client.stdout.read(1 << 16):
        got.update(chunk)
        count += len(chunk)
    feeder.join()
    assert client.wait() == 0, client.stderr.read()
    want = hashlib.sha256()
    for _ in range(100):
        want.update(block)
    assert (count, got.hexdigest()) == (size, want.hexdigest()), count


def test_workload_closes_its_stdout():
    done = expect(run_sh("exec >&- 2>&-; sleep 0.3; exit 7"), 7)
    assert done.stdout == b"", done


def test_reader_goes_away():
    client = start("/bin/sh", "-c", "while echo y; do :; done; echo pipe-broke >&2; exit 9", stderr=subprocess.PIPE)
    assert client.stdout.read(2) == b"y\n"
    client.stdout.close()
    client.wait(timeout=60)
    assert client.returncode in (9, 128 + signal.SIGPIPE, 2), (client.returncode, client.stderr.read())


def test_stdin_end_of_file_reaches_the_workload():
    done = expect(run_sh("cat; echo end", stdin=b"x"))
    assert done.stdout == b"xend\n", done


def test_stdin_not_read_is_no_problem():
    done = expect(run_sh("exit 4", stdin=b"z" * (4 << 20)), 4)
    assert done.result["reason"] == "exited"


def test_stdin_is_a_directory():
    fd = os.open("/etc", os.O_RDONLY)
    at_end(os.close, fd)
    client = subprocess.run(["agentbox", "run", "--", "/bin/true"], stdin=fd, capture_output=True, check=False)
    assert client.returncode == 125 and b"directory" in client.stderr, client


def test_stdio_closed_by_the_caller():
    out = subprocess.run("agentbox run -- /bin/sh -c 'cat; exit 6' <&- >&- 2>&-", shell=True, check=False)
    assert out.returncode == 6, out


def test_output_to_a_file():
    with open("/tmp/agentbox-out", "wb+") as f:
        at_end(os.unlink, "/tmp/agentbox-out")
        out = subprocess.run(["agentbox", "run", "--", "/bin/sh", "-c", "echo one; echo two >&2"], stdout=f, stderr=f,
                             stdin=subprocess.DEVNULL, check=False)
        assert out.returncode == 0
        f.seek(0)
        assert sorted(f.read().split()) == [b"one", b"two"]


def test_environment_is_the_minimum():
    done = expect(run("/usr/bin/env", env={"SECRET_TOKEN": "s3cret", "AWS_SECRET_ACCESS_KEY": "k", "LANG": "de_DE"}))
    names = dict(line.split("=", 1) for line in done.out.splitlines())
    assert set(names) == {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TMPDIR"}, names
    assert "s3cret" not in done.out


def test_environment_of_proc_self():
    done = expect(run_sh("tr '\\0' '\\n' </proc/self/environ | cut -d= -f1 | sort | tr '\\n' ' '"))
    assert set(done.out.split()) <= {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TMPDIR", "PWD", "OLDPWD", "SHLVL", "_"}, done


def test_environment_given():
    done = expect(run_sh("echo $A-$B-$C", options=["-e", "A=1 2", "-e", "B", "-eC="], env={"B": "from caller"}))
    assert done.out == "1 2-from caller-\n", done


def test_injection_variables_are_refused():
    for name in ("LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONSTARTUP", "NODE_OPTIONS", "BASH_ENV", "PERL5OPT", "GCONV_PATH"):
        expect(run("/bin/true", options=["-e", f"{name}=/x"]), 125, err=name)


def test_bad_variable_names_are_refused():
    for given in ("=x", "1A=x", "A B=x", "A\x01=x", "\u00fc=1"):
        expect(run("/bin/true", options=["-e", given]), 125)


def test_working_directory():
    assert expect(run("/bin/pwd")).out == "/workspace\n"
    assert expect(run("/bin/pwd", options=["-C", "/tmp"])).out == "/tmp\n"
    for odd in ("../..", "../../../../etc", "/proc/self/fd/3", "/proc/1/root", "/no/such"):
        done = run("/bin/pwd", options=["-C", odd])
        assert done.status == 125 or done.status == 126 or (done.status == 0 and not done.out.startswith("/proc")), done


def test_control_bytes_in_names_are_escaped():
    done = run("/bin/no\x1b[2Jsuch\x07")
    assert done.status == 127 and b"\x1b" not in done.stderr and b"\x07" not in done.stderr, done
    expect(run("/bin/true", options=["--name", "a\x1bb"]), 125)
    done = run("/bin/true", policy="no\x1bsuch")
    assert done.status == 125 and b"\x1b" not in done.stderr, done


def test_result_record_is_complete():
    done = expect(run_sh("exit 0"))
    want = {"run", "policy", "reason", "exit_code", "signal", "wall_usec", "cpu_usec", "memory_peak", "tasks_peak",
            "egress_bytes", "ingress_bytes", "egress_allowed", "egress_denied", "syscalls_denied", "started", "ended",
            "verified"}
    assert want <= set(done.result), want - set(done.result)
    assert done.result["policy"] == "default" and len(done.result["verified"]) >= 10, done
    assert done.result["wall_usec"] > 0 and done.result["ended"] >= done.result["started"], done


def test_result_record_of_a_refusal():
    done = expect(run("/bin/true", policy="no-such-policy"), 125, err="no-such-policy")
    assert done.result["reason"] == "refused", done


def test_signals_are_forwarded():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
        script = f"trap 'echo got; exit 33' {number.value}; echo ready; while :; do sleep 0.05; done"
        client = start("/bin/sh", "-c", script)
        assert client.stdout.readline() == b"ready\n", client.stderr.read()
        client.send_signal(number)
        out, err = client.communicate(timeout=60)
        assert (client.returncode, out) == (33, b"got\n"), (number, client.returncode, out, err)


def test_workload_ignores_sigterm():
    client = start("/bin/sh", "-c", "trap '' TERM INT; echo ready; while :; do sleep 0.05; done",
                   options=["--timeout", "30s"])
    assert client.stdout.readline() == b"ready\n"
    client.send_signal(signal.SIGTERM)
    try:
        client.wait(timeout=1)
        raise AssertionError(f"ended: {client.returncode} {client.stderr.read()}")
    except subprocess.TimeoutExpired:
        pass
    found = newest_run()
    expect(agentbox("kill", found["run"]))
    client.wait(timeout=60)
    assert client.returncode == 128 + signal.SIGKILL, (client.returncode, client.stderr.read())


def test_client_killed_stops_the_run():
    client = start("/bin/sh", "-c", "echo ready; sleep 300", options=["--timeout", "600s"])
    assert client.stdout.readline() == b"ready\n"
    found = newest_run()
    client.kill()
    wait_events(found["run"], "run-ended")
    ended = records(found["run"], "run-ended")
    assert len(ended) == 1 and ended[0]["AGENTBOX_REASON"] == "killed", ended


@within(240)
def test_client_killed_early():
    """SIGKILL within the first milliseconds, again and again: the runner sees whether anything is left."""
    count = 200 if sys.argv and os.environ.get("LIVE_THOROUGH") else 60
    for i in range(count):
        client = subprocess.Popen(["agentbox", "run", "--", "/bin/sleep", "30"], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            client.wait(timeout=0.001 * (i % 40) * 4)
        except subprocess.TimeoutExpired:
            pass
        client.kill()
        client.wait()


def test_background_processes_die_with_the_run():
    done = expect(run_sh("setsid sleep 600 >/dev/null 2>&1 & (trap '' TERM HUP; sleep 601 >/dev/null 2>&1) & exit 5"), 5)
    assert done.result["reason"] == "exited", done


def test_detach():
    done = expect(agentbox("run", "--detach", "--timeout", "60s", "--", "/bin/sh", "-c", "sleep 1; exit 12"))
    run_id = done.out.strip()
    assert run_id and "\n" not in run_id, done
    assert any(r["run"] == run_id for r in map(dict, __import__("box").runs()))
    expect(agentbox("wait", run_id), 12)
    wait_events(run_id, "run-ended")
    assert expect(agentbox("wait", run_id), 12)


def test_two_runs_have_different_uids():
    clients = [start("/bin/sh", "-c", "id -u; exec sleep 60", options=["--timeout", "90s"]) for _ in range(2)]
    uids = {int(c.stdout.readline()) for c in clients}
    assert len(uids) == 2 and all(61184 <= u <= 65519 for u in uids), uids


def test_names():
    client = start("/bin/sh", "-c", "echo ready; sleep 60", options=["--name", "my-agent", "--timeout", "90s"])
    assert client.stdout.readline() == b"ready\n"
    expect(run("/bin/true", options=["--name", "my-agent"]), 125, err="my-agent")
    expect(agentbox("show", "my-agent"), out="my-agent")
    expect(agentbox("kill", "my-agent"))
    client.wait(timeout=60)
    expect(agentbox("show", "no-such-run"), 125, err="no-such-run") if agentbox("show", "no-such-run").status == 125 \
        else expect(agentbox("show", "no-such-run"), 1, err="no-such-run")


def test_bad_options():
    for options in (["--no-such"], ["--timeout", "forever"], ["--timeout", "0"], ["--set", "Limits.Memory"],
                    ["--set", "Limits.Memori=1M"], ["--set", "Nope.X=1"], ["--unit", "slice"], ["-p", ""], ["-p", "../x"]):
        expect(run("/bin/true", options=options), 125, err=r"^agentbox: ")
    expect(agentbox("run"), 125, err="COMMAND|command")
    expect(agentbox("frobnicate"), 125, err="frobnicate")
