# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the documents tell people to do, done: every example of agentbox(1), every policy of the cookbook, the whole tutorial."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import box
from box import DOCUMENTS, agentbox, at_end, expect, run, sh, within, write_file

# Of each example of the manual page, by the sentence above it: its status, and what its output must contain. One that is not
# here fails the test, and so does one that is here alone.
EXAMPLES = {
        "Run one command, with at most ten seconds and 64 MiB:": (0, r"^499999500000$"),
        "Feed it through pipes; the bytes arrive as they are:": (0, r"^1000$"),
        "See what it was refused, and what would allow it:": (0, r"Allow=tls example\.org"),
        "Let a job through that was refused something, with every line read before:": (0, r"^$"),
        "See what ended it:": (0, r"Memory="),
        "Leave it running, and come back:": (0, r"state: running"),
        "A shell to look around in:": (0, r"/workspace"),
        "Copy a project in, and its results out:": (0, r"copied out: 1 file"),
}


def shell(script, **kw):
    done = subprocess.run(["bash", "-u", "-o", "pipefail", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False, **kw)
    return done.returncode, done.stdout


def directory():
    path = tempfile.mkdtemp(prefix="live-docs.")
    at_end(shutil.rmtree, path)
    return path


def unroff(line):
    for text, meant in (("\\-", "-"), ("\\(aq", "'"), ("\\(dq", '"'), ("\\e", "\\"), ("\\~", " ")):
        line = line.replace(text, meant)
    assert "\\" not in line.replace("\\\\", ""), f"an escape that this test does not know: {line}"
    return line


def manual_examples():
    """Pairs of the sentence above and the script."""
    page = (DOCUMENTS / "man/agentbox.1").read_text(encoding="utf-8")
    section = page.split(".SH EXAMPLES\n")[1].split("\n.SH ")[0]
    return [(title, "\n".join(unroff(l) for l in body.splitlines()))
            for title, body in re.findall(r"(?m)^([^.\n].*)\n\.PP\n\.EX\n((?:.*\n)*?)\.EE$", section)]


def prepare(title, work):
    """What the reader of that example has and a fresh machine has not."""
    if title.startswith("Let a job through"):
        write_file("/etc/agentbox/allow.d/package-index.list", "tls packages.example.org\n")
        target = box.POLICY_DIR / "python.policy.d"
        target.mkdir(exist_ok=True)
        at_end(shutil.rmtree, target)
        refused = run("/usr/bin/curl", "-s", "https://example.org/", policy="python")
        return {"run": refused.run, "EDITOR": "true"}
    if title.startswith("Copy a project"):
        (pathlib.Path(work) / "src").mkdir()
        (pathlib.Path(work) / "src/build.sh").write_text("tr a-z A-Z <src/text >result\n", encoding="utf-8")
        (pathlib.Path(work) / "src/text").write_text("abc\n", encoding="utf-8")
    return {}


@within(180)
def test_examples_of_the_manual():
    examples = manual_examples()
    assert {title for title, _ in examples} == set(EXAMPLES), [title for title, _ in examples]
    for title, script in examples:
        work = directory()
        env = os.environ | prepare(title, work)
        if "agentbox run -t" in script:
            script = "script -qec " + repr(script + " -c 'pwd'") + " /dev/null"
        status, out = shell(script, cwd=work, env=env, stdin=subprocess.DEVNULL)
        want, pattern = EXAMPLES[title]
        assert status == want and re.search(pattern, out, re.M), (title, script, status, out)


def blocks(name):
    """(language, path or None, text) of every fenced block."""
    text = (DOCUMENTS / "docs" / name).read_text(encoding="utf-8")
    found = re.findall(r"(?ms)^```(\w+)(?: (/\S+))?\n(.*?)^```$", text)
    assert len(found) * 2 == text.count("\n```"), f"a block of {name} that this test does not see"
    return [(language, path or None, body) for language, path, body in found]


def write_documented(path, body):
    """With its directory, which goes at the end where it was made for this."""
    missing = [p for p in pathlib.Path(path).parents if not p.exists()]
    for made in missing:
        at_end(lambda p=made: p.is_dir() and not any(p.iterdir()) and p.rmdir())
    write_file(path, body)


@within(240)
def test_policies_of_the_cookbook():
    policies = []
    for language, path, body in blocks("cookbook.md"):
        assert language == "ini" and path, (language, path)
        write_documented(path, body)
        if path.endswith(".policy"):
            policies.append(pathlib.Path(path).stem)
    assert len(policies) >= 6, policies

    for _, path, _ in blocks("cookbook.md"):
        assert expect(agentbox("policy", "check", path)).out == "", path
    for name in policies:
        expect(run("/bin/true", policy=name))

    text = (DOCUMENTS / "docs/cookbook.md").read_text(encoding="utf-8")
    shipped = {"build", "default", "node", "offline", "python", "strict"}
    for used in re.findall(r"agentbox run -p (\S+)", text):
        assert used in policies or used in shipped, used


@within(240)
def test_credential_of_the_cookbook():
    text = (DOCUMENTS / "docs/cookbook.md").read_text(encoding="utf-8")
    line = re.search(r"`(Credential=\S+)`", text).group(1)
    secret = line.split(":")[1]
    write_documented(secret, "hunter2\n")
    os.chmod(secret, 0o600)
    os.chmod(pathlib.Path(secret).parent, 0o700)
    report = next(body for _, path, body in blocks("cookbook.md") if path.endswith("/report.policy"))
    box.policy("live-report", report + "\n[Files]\n" + line + "\n")
    expect(box.run_sh("cat $CREDENTIALS_DIRECTORY/sales", policy="live-report"), out=r"^hunter2$")


def forget_the_agent():
    sh("systemctl stop agent.service; rm -rf /etc/systemd/system/agentbox.slice.d; systemctl daemon-reload", check=False)
    sh("userdel --remove agent", check=False)


@within(300)
def test_tutorial():
    """Top to bottom, as root."""
    at_end(forget_the_agent)
    work, said = directory(), []
    for language, path, body in blocks("tutorial.md"):
        if language == "console":
            continue
        if path:
            write_documented(path, body)
            continue
        status, out = shell("set -e\n" + body, cwd=work, stdin=subprocess.DEVNULL)
        assert status == 0, (body, status, out)
        said.append(out)

    everything = "\n".join(said)
    assert "499999500000" in everything, everything
    assert re.search(r"Allow=tls evil\.example", said[-2]), said[-2]
    first = pathlib.Path("/var/lib/agent/queue/1.py.json").read_text(encoding="utf-8")
    assert '"exit_code":0' in first.replace(" ", ""), first
    sh("systemctl show -P MemoryMax agentbox.slice | grep -vx infinity")
