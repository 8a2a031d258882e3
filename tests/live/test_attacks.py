# SPDX-License-Identifier: LGPL-2.1-or-later
"""The hostile suite: each program of hostile/ under each shipped policy, and what is left of it outside.

docs/attacks.md says what stops each; hostile/table writes it, and a test here compares.
"""
import functools
import pathlib
import shutil

import box
from box import at_end, broker_pid, expect, policy, records, run_sh, sh, within

HERE = pathlib.Path(__file__).resolve().parent / "hostile"
INSIDE = "/srv/live-hostile"
POLICIES = ("default", "offline", "build", "strict", "python", "node")
GOOD = ("stopped", "harmless")
# How a program that is alone ends where it does not simply exit; the names are those of the result record.
ENDS = {"bomb_memory": {"oom"}, "bomb_output": {"output-limit"}, "bomb_files": {"oom", "exited"}}
ALL = """for i in %s; do echo "== $i"; python3 -B %s/$i.py || echo "UNCLEAR	status $?"; done"""


def is_alone(path):
    return "\nAlone: yes\n" in path.read_text(encoding="utf-8")


def programs(alone):
    return sorted(p.stem for p in HERE.glob("*.py") if p.stem != "attack" and is_alone(p) == alone)


def hostile_policy(name):
    """The shipped one, which only shows the programs beside."""
    box.write_file("/etc/agentbox/allow.d/package-index.list", "tls packages.example.org:443\n")
    shutil.rmtree(INSIDE, ignore_errors=True)
    shutil.copytree(HERE, INSIDE)
    at_end(shutil.rmtree, INSIDE)
    return policy("live-hostile", f"[Policy]\nExtends={name}\n[Files]\nExpose={INSIDE}\n[Network]\nAllow=\n")


def attempts(done):
    """Each program's lines, as lists of verdict and text."""
    found, program = {}, None
    for line in done.out.splitlines():
        if line.startswith("== "):
            program = line[3:]
            found[program] = []
        else:
            found[program].append(line.split("\t", 1))
    return found


def nothing_was_forged():
    assert not box.journal("MESSAGE=forged by the hostile suite"), "a record of its own is in the journal"
    assert not records("aaaaaaaaaa"), "a record under another run's id"
    assert "forged by the hostile suite" not in sh(["journalctl", "-q", "--no-pager", "-o", "cat"])


def all_attacks(name):
    broker = broker_pid()
    wanted = programs(alone=False)
    done = expect(run_sh(ALL % (" ".join(wanted), INSIDE), policy=hostile_policy(name)))
    found = attempts(done)
    assert sorted(found) == wanted, set(wanted) - set(found)
    wrong = [f"{program}: {' '.join(line)}" for program, lines in found.items() for line in lines if line[0] not in GOOD]
    wrong += [f"{program} tried nothing" for program, lines in found.items() if not lines]
    assert not wrong, f"under {name}:\n" + "\n".join(wrong) + done.err[-2000:]
    assert broker in (0, broker_pid()), "the broker was another one afterwards"
    nothing_was_forged()


def bomb(name, program):
    done = run_sh(f"exec python3 -B {INSIDE}/{program}.py", policy=hostile_policy(name),
                  options=["--set", "Limits.Memory=128M", "--set", "Limits.Tasks=16", "--set", "Limits.Output=1M"])
    assert done.result["reason"] in ENDS.get(program, {"exited"}), (name, program, done)
    lines = [line.split("\t", 1) for line in done.out.splitlines() if "\t" in line]
    wrong = [line for line in lines if line[0] not in GOOD]
    assert not wrong, (name, program, wrong)
    assert done.result["reason"] != "exited" or (done.status == 0 and lines), (name, program, done)


def bombs(name):
    for program in programs(alone=True):
        bomb(name, program)
    expect(box.run("/bin/true"))


def add_tests():
    """attacks.default, attacks.default_bombs, ...: what each policy must stop is reported by itself."""
    for name in POLICIES:
        globals()[f"test_{name}"] = within(120)(functools.partial(all_attacks, name))
        globals()[f"test_{name}_bombs"] = within(180)(functools.partial(bombs, name))


add_tests()


def test_the_table_is_what_the_programs_say():
    page = box.DOCUMENTS / "docs" / "attacks.md"
    assert sh(["python3", str(HERE / "table")]) == page.read_text(encoding="utf-8"), "run tests/live/hostile/table >docs/attacks.md"
