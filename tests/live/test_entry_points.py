# SPDX-License-Identifier: LGPL-2.1-or-later
"""Entry points of recent kernel vulnerabilities: probed inside each policy, with a control outside."""
import pathlib
import shutil
import subprocess

import box
from box import Skip, expect, policy, run

PROBE = pathlib.Path(__file__).resolve().parent / "probe-entry-points"
EXPECTED = pathlib.Path(__file__).resolve().parent / "expected-entry-points.tsv"


def table(text):
    return dict(line.split("\t", 1) for line in text.splitlines() if "\t" in line)


def probe_inside(name):
    """Under the shipped policy, with the probe exposed: strict executes nothing that was written inside."""
    if not PROBE.exists():
        raise Skip("the probe is not built")
    box.write_file("/etc/agentbox/allow.d/package-index.list", "tls packages.example.org:443\n")
    pathlib.Path("/srv/live-probe").mkdir(exist_ok=True)
    shutil.copy(PROBE, "/srv/live-probe/probe")
    box.at_end(shutil.rmtree, "/srv/live-probe")
    policy("live-probe", f"[Policy]\nExtends={name}\n[Files]\nExpose=/srv/live-probe\n[Network]\nAllow=\n")
    done = run("/srv/live-probe/probe", policy="live-probe", options=["--set", "Limits.Memory=256M"])
    return table(expect(done).out)


def test_entry_points():
    control = table(subprocess.run([str(PROBE)], capture_output=True, text=True, check=False).stdout) if PROBE.exists() else {}
    for name in ("default", "offline", "build", "strict", "python", "node"):
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
