# SPDX-License-Identifier: LGPL-2.1-or-later
"""agentbox policy, doctor, help: what a person and a script see."""
import json
import os
import pathlib
import re
import shutil
import subprocess

import box
from box import agentbox, expect, policy, run, sh, within, write_file

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
    write_file("/etc/agentbox/allow.d/package-index.list", "# ours\ntls packages.example.org:443\nhttp mirror.example.net private=allow\n")
    for name in ("python", "node"):
        expect(run("/bin/echo", "ran", policy=name), out="ran")
        done = expect(agentbox("policy", "explain", name))
        assert "warden rule tls packages.example.org: " in done.out and "/etc/agentbox/allow.d/package-index.list:2" in done.out, done
        assert "warden rule http mirror.example.net private=allow: " in done.out, done
    write_file("/etc/agentbox/allow.d/package-index.list", "tls packages.example.org:443\ntls 169.254.169.254\n")
    expect(run("/bin/true", policy="python"), 125, err=r"package-index.list:2:5: ")


def test_indexes_prints_rules_that_parse():
    write_file("/etc/pip.conf", "[global]\nindex-url = https://u:secret@index.example.org:8443/simple\nextra-index-url = http://192.0.2.7/simple\n"
               "    https://169.254.169.254/simple\n")
    write_file("/etc/apt/sources.list.d/live.sources", "Types: deb\nURIs: http://archive.example.net/debian\nSuites: stable\n")
    done = expect(agentbox("policy", "indexes", env={"HOME": "/nonexistent"}))
    lines = done.out.splitlines()
    for rule in ("tls index.example.org:8443", "tcp 192.0.2.7:80", "http archive.example.net"):
        assert rule in lines, (rule, done)
    assert "secret" not in done.out and "169.254" not in done.out, done
    write_file("/tmp/live-set.list", done.out)
    expect(agentbox("policy", "check", "/tmp/live-set.list"), out="^$")


def test_keys_without_force_are_refused_by_name():
    for section, text in (("Files", "Root=/srv/image.raw"), ("Network", "Egress=none\n[Audit]\nDeniedSyscalls=yes"), ("Network", "Egress=open\nEgressBytes=1M"),
                          ("Network", "Egress=addresses\nConnections=5")):
        policy("live-later", f"[{section}]\n{text}\n")
        expect(run("/bin/true", policy="live-later"), 125, err=text.splitlines()[-1].split("=")[0])


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


# --- Root= a directory

def tiny_root(where="/srv/live-tree"):
    """Another system: one static program, no loader, no libraries, and an /etc that must not shine through."""
    root = pathlib.Path(where)
    box.at_end(shutil.rmtree, root)
    (root / "usr/bin").mkdir(parents=True)
    (root / "etc/ssl/certs").mkdir(parents=True)
    (root / "sbin").mkdir()
    shutil.copy("/bin/busybox", root / "usr/bin/busybox")
    shutil.copy("/bin/busybox", root / "sbin/busybox-there")
    for name in ("sh", "cat", "ls", "id", "touch", "test", "echo", "readlink"):
        (root / "usr/bin" / name).symlink_to("busybox")
    (root / "bin").symlink_to("usr/bin")
    (root / "etc/os-release").write_text("ID=tiny\n")
    (root / "etc/passwd").write_text("evil:x:0:0::/:/bin/sh\n")
    (root / "etc/shadow").write_text("secret\n")
    (root / "etc/ssl/certs/ca.pem").write_text("certificate\n")
    return root


def test_another_root():
    root = tiny_root()
    policy("live-tree", f"[Files]\nRoot={root}\n")
    before = sorted(str(p) for p in root.rglob("*"))
    done = expect(run("/bin/sh", "-c", "cat /etc/os-release /etc/ssl/certs/ca.pem; id -un; ls /usr/bin; ls -a /; test -e /sbin/busybox-there && echo sbin; "
                      "cat /etc/shadow /etc/passwd; touch /usr/x /etc/x /sbin/x /x; echo mine >/workspace/f; cat /workspace/f; ls /usr/lib", policy="live-tree"), 1)
    words = done.out.split()
    assert "ID=tiny" in words and "certificate" in words and "agent" in words and "sbin" in words and "mine" in words, done
    assert "secret" not in words and "evil" not in done.out and "python3" not in words, done
    assert done.err.count("Read-only file system") == 4 and "ls: /usr/lib" in done.err, done
    assert sorted(str(p) for p in root.rglob("*")) == before, "the tree was written to"
    assert "exposed" in done.result["verified"] and "read-only" in done.result["verified"], done.result
    for name in ("strict", "jit", "build"):
        policy("live-tree", f"[Files]\nRoot={root}\n[Syscalls]\nProfile={name}\n")
        expect(run("/bin/echo", "ran", policy="live-tree"), out="^ran$")


def test_another_root_shows_the_hosts_files_where_it_has_a_place():
    root = tiny_root()
    os.makedirs("/srv/live-data", exist_ok=True)
    box.at_end(shutil.rmtree, "/srv/live-data")
    write_file("/srv/live-data/f", "exposed\n")
    policy("live-tree", f"[Files]\nRoot={root}\nExpose=/srv/live-data /etc/ssl/certs\n")
    expect(run("/bin/cat", "/srv/live-data/f", policy="live-tree"), out="^exposed$")
    policy("live-tree", f"[Files]\nRoot={root}\nExpose=/usr/share/zoneinfo\n")
    expect(run("/bin/true", policy="live-tree"), 125, err="no place for it")
    assert not (root / "usr/share").exists()


def test_another_root_that_others_could_change():
    root = tiny_root()
    policy("live-tree", f"[Files]\nRoot={root}\n")

    def refused(pattern):
        done = expect(run("/bin/true", policy="live-tree"), 125, err=pattern)
        assert f"Root={root}" in done.err, done

    for path in (root, root / "usr", root / "etc/ssl/certs", root / "sbin"):
        for change, undo in ((lambda: os.chown(path, 65534, 0), lambda: os.chown(path, 0, 0)),
                             (lambda: os.chmod(path, 0o777), lambda: os.chmod(path, 0o755)),
                             (lambda: os.chmod(path, 0o775), lambda: os.chmod(path, 0o755))):
            change()
            refused(re.escape(str(path)))
            undo()
    # out of the tree by a link: into the tree's own root, where there is nothing
    shutil.rmtree(root / "etc/ssl/certs")
    (root / "etc/ssl/certs").symlink_to("/root")
    box.write_file("/root/live-secret", "secret\n")
    done = run("/bin/sh", "-c", "ls -R /etc/ssl /root", policy="live-tree")
    assert "live-secret" not in done.out, done
    (root / "sbin/busybox-there").unlink()
    (root / "sbin").rmdir()
    (root / "sbin").symlink_to("../../root")
    done = run("/bin/ls", "/sbin/", policy="live-tree")
    assert done.status == 1 and "live-secret" not in done.out, done
    (root / "usr").rename(root / "usr2")
    (root / "usr").symlink_to("/usr")
    done = run("/bin/true", policy="live-tree")
    assert done.status == 125 and "no directory usr" in done.err, done


def test_another_root_by_a_link_or_an_image():
    root = tiny_root()
    os.symlink(root, "/srv/live-link")
    box.at_end(os.unlink, "/srv/live-link")
    write_file("/srv/live-image.raw", "x")
    for path, pattern in (("/srv/live-link", "symbolic link"), ("/srv/live-image.raw", "disk images are not supported"),
                          ("/srv/live-absent", "No such file"), ("/proc/self/root", "symbolic link"), ("/etc/ssl", "no directory usr")):
        policy("live-tree", f"[Files]\nRoot={path}\n")
        expect(run("/bin/true", policy="live-tree"), 125, err=pattern)


# --- Expose=

def test_expose_follows_no_link_to_a_secret():
    box.write_file("/root/live-secret", "secret\n")
    links = {"/srv/live-a": "/root", "/srv/live-b": "/root/live-secret", "/srv/live-c": "/srv/live-a", "/srv/live-d": "/etc/shadow",
             "/srv/live-e": "/run/dbus", "/srv/live-f": "/proc/self/root/etc/ssh", "/srv/live-g": "/"}
    for link, target in links.items():
        os.symlink(target, link)
        box.at_end(os.unlink, link)
    for link in links:
        policy("live-expose", f"[Files]\nExpose={link}\n")
        done = expect(run("/bin/ls", "-R", link, policy="live-expose"), 125, err=f"Expose={link}")
        assert "secret" not in done.out, done
    policy("live-expose", "[Files]\nExpose=/srv/live-absent\n")
    expect(run("/bin/true", policy="live-expose"), 125, err="Expose=/srv/live-absent: No such file")


def test_expose_shows_what_a_good_link_leads_to():
    os.makedirs("/srv/live-data", exist_ok=True)
    box.at_end(shutil.rmtree, "/srv/live-data")
    write_file("/srv/live-data/f", "exposed\n")
    os.symlink("live-data", "/srv/live-link")
    box.at_end(os.unlink, "/srv/live-link")
    policy("live-expose", "[Files]\nExpose=/srv/live-link /srv/live-data/f\n")
    expect(run("/bin/cat", "/srv/live-link/f", "/srv/live-data/f", policy="live-expose"), out="^exposed\nexposed\n$")


@within(120)
def test_expose_swapped_under_the_broker():
    """Somebody who owns the directory turns a path into a link between the broker's look and PID 1's mount."""
    box.write_file("/root/live-secret", "secret\n")
    os.makedirs("/srv/live-mine/a", exist_ok=True)
    box.at_end(shutil.rmtree, "/srv/live-mine")
    swapper = subprocess.Popen(["python3", "-c", r"""
import os
os.chdir('/srv/live-mine')
os.symlink('/root', 'link')
while True:
    os.rename('a', 'b'); os.rename('link', 'a'); os.rename('a', 'link'); os.rename('b', 'a')
"""])
    box.at_end(swapper.wait)
    box.at_end(swapper.kill)
    policy("live-expose", "[Files]\nExpose=/srv/live-mine/a\n")
    seen = set()
    for _ in range(40):
        done = run("/bin/ls", "-A", "/srv/live-mine/a", policy="live-expose")
        seen.add((done.status, re.sub(r".*: ", "", done.err.strip())[-60:]))
        assert "live-secret" not in done.out, done
        assert done.status in (0, 125), done
    assert any(status == 0 for status, _ in seen) or box.ENV == "vm", seen  # a slow guest never finds it as it was


def test_scope_names_what_it_cannot_carry():
    done = expect(run("/bin/true", options=["--unit", "scope"]), 125)
    assert "scope" in done.err and "Egress" in done.err, done


def test_completions_and_pages_are_installed():
    out = sh("ls /usr/share/man/man1/agentbox.1* /usr/share/man/man8/agentboxd.8* /usr/share/man/man8/agentbox-warden.8* /usr/share/man/man5/agentbox.policy.5* "
             "/usr/share/bash-completion/completions/agentbox /usr/share/zsh/site-functions/_agentbox "
             "/usr/share/fish/vendor_completions.d/agentbox.fish")
    assert len(out.split()) == 7
