# SPDX-License-Identifier: LGPL-2.1-or-later
"""Entry points of recent kernel vulnerabilities: probed inside each policy, with a control outside."""
import pathlib
import shutil
import subprocess

import box
from box import Skip, expect, policy, run_sh

PROBE = pathlib.Path(__file__).resolve().parent / "probe-entry-points"
EXPECTED = pathlib.Path(__file__).resolve().parent / "expected-entry-points.tsv"


def table(text):
    return dict(line.split("\t", 1) for line in text.splitlines() if "\t" in line)


def probe_inside(name):
    if not PROBE.exists():
        raise Skip("the probe is not built")
    done = run_sh("cat >/workspace/probe && chmod +x /workspace/probe && /workspace/probe", policy=name, stdin=PROBE.read_bytes(),
                  options=["--set", "Limits.Memory=256M"])
    return table(expect(done).out)


def test_entry_points():
    control = table(subprocess.run([str(PROBE)], capture_output=True, text=True, check=False).stdout) if PROBE.exists() else {}
    for name in ("default", "offline", "build"):
        inside = probe_inside(name)
        assert set(inside) == set(control) and len(inside) > 20, (inside, control)
        for line in EXPECTED.read_text().splitlines():
            if line.startswith("#") or not line.strip():
                continue
            point, _, verdicts = line.partition("\t")
            if point == "entry point":
                continue
            got = inside[point].split(":")[0]
            want = verdicts.split("\t")[0].split("|")
            assert got in want or got == "absent", (name, point, inside[point], want, control[point])
