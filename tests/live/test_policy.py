# SPDX-License-Identifier: LGPL-2.1-or-later
"""agentbox policy, doctor, help: what a person and a script see."""
import json
import os

import box
from box import agentbox, expect, policy, run, sh, write_file

SHIPPED = ("default", "offline", "python", "node", "build", "strict")


def test_list():
    out = expect(agentbox("policy", "list")).out
    assert all(name in out for name in SHIPPED), out


def test_show_is_a_policy_again():
    for name in ("default", "offline", "build", "strict"):
        text = expect(agentbox("policy", "show", name)).out
        write_file(box.POLICY_DIR / "live-again.policy", text)
        assert expect(agentbox("policy", "show", "live-again")).out == text, name
        expect(agentbox("policy", "check", str(box.POLICY_DIR / "live-again.policy")))


def test_check_reports_every_error():
    write_file("/tmp/live-bad.policy", "[Limits]\nMemory=lots\n\nTusks=4\n[Netwrk]\nEgress=open\n[Network]\nEgress=opne\nAllow=tls 1.2.3.4\n")
    done = expect(agentbox("policy", "check", "/tmp/live-bad.policy"), 1)
    text = done.out + done.err
    for line in (2, 4, 5, 8, 9):
        assert f"/tmp/live-bad.policy:{line}:" in text, (line, text)
    assert "Tasks" in text and "Network" in text and "open" in text, text


def test_explain():
    policy("live-explained", "[Policy]\nExtends=default\n[Limits]\nMemory=100M\n")
    out = expect(agentbox("policy", "explain", "live-explained")).out
    line = next(l for l in out.splitlines() if "Memory" in l and "100M" in l)
    assert "live-explained.policy:4" in out and "MemoryMax" in out, (line, out)
    data = expect(agentbox("policy", "explain", "live-explained", "--json")).out
    assert "live-explained.policy" in data and json.loads(data.splitlines()[0]), data


def test_diff():
    done = agentbox("policy", "diff", "default", "offline")
    assert done.status == 1 and "Egress" in done.out, done
    expect(agentbox("policy", "diff", "default", "default"))


def test_dropins_and_extends():
    policy("live-base", "[Limits]\nMemory=64M\nTasks=10\n")
    policy("live-child", "[Policy]\nExtends=live-base\n[Limits]\nTasks=5\n")
    write_file(box.POLICY_DIR / "live-child.policy.d/10-more.conf", "[Limits]\nRuntime=7s\n")
    out = expect(agentbox("policy", "show", "live-child")).out
    assert "Memory=64M" in out and "Tasks=5" in out and "Runtime=7s" in out, out
    policy("live-loop-a", "[Policy]\nExtends=live-loop-b\n")
    policy("live-loop-b", "[Policy]\nExtends=live-loop-a\n")
    done = agentbox("policy", "show", "live-loop-a")
    assert done.status != 0 and "live-loop-b" in done.err, done


def test_doctor():
    done = agentbox("doctor")
    assert done.status == 0, done
    for line in agentbox("doctor", "--json").out.splitlines():
        assert json.loads(line)["status"] in ("ok", "warning"), line


def test_help_everywhere():
    for verb in ([], ["run"], ["ps"], ["show"], ["wait"], ["kill"], ["log"], ["why"], ["policy"], ["doctor"]):
        done = expect(agentbox(*verb, "--help"))
        assert "agentbox" in done.out and done.stderr == b"", (verb, done)
    expect(agentbox("--version"), out=r"\d+\.\d+")


def test_no_colour_in_a_pipe():
    for verb in (["policy", "explain", "default"], ["doctor"], ["log"], ["ps"]):
        assert "\x1b" not in agentbox(*verb).out, verb


def test_every_shipped_policy_runs():
    for name in SHIPPED:
        done = run("/bin/echo", "ran", policy=name)
        if name in ("python", "node"):
            assert done.status == 125 and "package-index" in done.err, done
        else:
            expect(done, out="ran")


def test_shipped_policies_that_need_a_package_index():
    write_file("/etc/agentbox/allow.d/package-index.list", "tls packages.example.org:443\n")
    for name in ("python", "node"):
        done = run("/bin/echo", "ran", policy=name)
        assert done.status in (0, 125), done
        if done.status == 125:
            assert "Allow" in done.err, done


def test_keys_without_force_are_refused_by_name():
    for section, key, value in (("Network", "EgressBytes", "1M"), ("Network", "Connections", "5"), ("Files", "Root", "/srv/image.raw")):
        policy("live-later", f"[{section}]\n{key}={value}\n")
        expect(run("/bin/true", policy="live-later"), 125, err=key)


def test_strict_runs_no_written_file():
    done = run("/bin/sh", "-c", "cp /bin/true /workspace/t; chmod +x /workspace/t; /workspace/t; echo $?; cp /bin/true /tmp/t; /tmp/t; echo $?; "
               "cp /bin/true /dev/shm/t; /dev/shm/t; echo $?", policy="strict")
    assert done.out.split() == ["126", "126", "126"], done


def test_expose():
    os.makedirs("/srv/live-data", exist_ok=True)
    box.at_end(os.rmdir, "/srv/live-data")
    write_file("/srv/live-data/f", "exposed\n")
    policy("live-expose", "[Files]\nExpose=/srv/live-data\n")
    done = expect(run("/bin/sh", "-c", "cat /srv/live-data/f; echo x >/srv/live-data/f; ls /srv", policy="live-expose"))
    assert done.out.startswith("exposed\n") and done.out.split()[-1] == "live-data" and "Read-only" in done.err, done


def test_scope_names_what_it_cannot_carry():
    done = expect(run("/bin/true", options=["--unit", "scope"]), 125)
    assert "scope" in done.err and "Egress" in done.err, done


def test_completions_and_pages_are_installed():
    out = sh("ls /usr/share/man/man1/agentbox.1* /usr/share/man/man8/agentboxd.8* /usr/share/man/man5/agentbox.policy.5* "
             "/usr/share/bash-completion/completions/agentbox /usr/share/zsh/site-functions/_agentbox "
             "/usr/share/fish/vendor_completions.d/agentbox.fish")
    assert len(out.split()) == 6
