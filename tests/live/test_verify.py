# SPDX-License-Identifier: LGPL-2.1-or-later
"""Every promise is checked on the very run: each verifier must be able to fail."""
import json

from box import agentbox, dropin, expect, journal, only, policy, records, run, runs, start, wait_for

# What a host's drop-in could say, by accident or not, and a word that the refusal must contain.
LOOSENING = [
    ("NoNewPrivileges=no\nRestrictSUIDSGID=no\nLockPersonality=no", None),
    ("MemoryMax=infinity", "emory"),
    ("MemoryMax=1G", "emory"),
    ("MemorySwapMax=infinity", "wap"),
    ("TasksMax=infinity", "asks"),
    ("CPUQuota=", "CPU|cpu"),
    ("RuntimeMaxSec=infinity", "untime"),
    ("LimitNOFILE=524288", "NOFILE|open-files|OpenFiles"),
    ("LimitCORE=infinity", "CORE|core"),
    ("CapabilityBoundingSet=~", "apabilit"),
    ("CapabilityBoundingSet=CAP_NET_RAW", "apabilit"),
    ("AmbientCapabilities=CAP_NET_RAW\nCapabilityBoundingSet=CAP_NET_RAW", "apabilit"),
    ("SupplementaryGroups=adm", "roup"),
    ("BindPaths=/root", "/root|Bind|mount"),
    ("BindReadOnlyPaths=/root", "/root|Bind|mount"),
    ("BindReadOnlyPaths=/run/dbus", "/run|Bind|mount"),
    ("ReadWritePaths=/usr", "/usr|ReadWrite|mount"),
    ("TemporaryFileSystem=/opt", "/opt|Temporary|mount"),
    ("PrivateDevices=no", "evice|/dev"),
    ("DevicePolicy=auto\nDeviceAllow=/dev/kmsg rw", "evice"),
    ("PrivateIPC=no", "IPC|ipc"),
    ("ProtectHostname=no", "ostname|UTS|uts"),
    ("ProtectProc=default", "roc"),
    ("ProcSubset=all", "roc"),
    ("NetworkNamespacePath=\nPrivateNetwork=no", "etwork|net"),
    ("SystemCallFilter=\nSystemCallFilter=~@mount", "SystemCall|seccomp"),
    ("SystemCallArchitectures=\nSystemCallArchitectures=native x86", "SystemCall|seccomp"),
    ("RestrictAddressFamilies=\nRestrictAddressFamilies=~AF_PACKET", "AddressFamilies|seccomp"),
    ("RestrictNamespaces=no", "Namespaces|seccomp"),
    ("KeyringMode=shared", "eyring"),
    ("Environment=LD_PRELOAD=/x", "nvironment"),
    ("ExecStartPre=/bin/true", "ExecStartPre|warden"),  # both units get it, and the warden has nothing like it in its root
    ("ExecStartPost=+/bin/true", "ExecStartPost|warden"),
    ("ExecStopPost=+/bin/true", "ExecStopPost"),
    ("ExecStart=\nExecStart=/bin/sh", None),
    ("User=root\nDynamicUser=no", None),
    ("DynamicUser=no", None),
    ("RootDirectory=/", None),
    ("NotifyAccess=all", "NotifyAccess"),
    ("Delegate=yes", "elegate"),
    ("KillMode=process", "KillMode"),
    ("OOMPolicy=continue", "OOM"),
    ("LoadCredential=shadow:/etc/shadow", "redential|mount"),
    ("LogNamespace=other", None),
    ("Restart=always", "Restart"),
    ("SecureBits=keep-caps", "SecureBits|securebits"),
    ("UMask=0", None),
    ("OOMScoreAdjust=-900", "OOMScore|oom"),
    ("Slice=system.slice", None),
    ("StandardOutput=journal", "Standard|descriptor|fd"),
    ("ProtectKernelTunables=no", None),
    ("ProtectControlGroups=no", None),
]


# The same for the unit of a run's warden, which has the drop-ins of all our units and its own.
WARDEN_LOOSENING = [
    ("NoNewPrivileges=no\nRestrictSUIDSGID=no\nLockPersonality=no", None),
    ("MemoryMax=infinity", "emory"),
    ("MemorySwapMax=infinity", "wap"),
    ("TasksMax=infinity", "asks"),
    ("CPUQuota=", "rocessor|CPUQuota"),
    ("LimitNOFILE=524288", "NOFILE"),
    ("LimitFSIZE=infinity", "FSIZE"),
    ("LimitCORE=infinity", "CORE"),
    ("CapabilityBoundingSet=CAP_NET_RAW", "apabilit|CapBnd"),
    ("AmbientCapabilities=CAP_NET_RAW\nCapabilityBoundingSet=CAP_NET_RAW", "apabilit"),
    ("SupplementaryGroups=adm", "roup"),
    ("BindPaths=/root", "/root|Bind|mount"),
    ("BindReadOnlyPaths=/root", "/root|Bind|mount"),
    ("ReadWritePaths=/usr", "ReadWrite|mount"),
    ("TemporaryFileSystem=/opt", "/opt|Temporary|mount"),
    ("InaccessiblePaths=", "Inaccessible|/tmp"),
    ("PrivateDevices=no\nDevicePolicy=auto", "evice"),
    ("ProtectProc=default", "roc"),
    ("PrivateNetwork=yes", "network|PrivateNetwork"),
    ("NetworkNamespacePath=/proc/1/ns/net", "NetworkNamespacePath"),
    ("PrivateUsers=yes", "user namespace"),
    ("SystemCallFilter=\nSystemCallFilter=~@mount", "SystemCall|seccomp"),
    ("SystemCallFilter=ptrace", "SystemCall|seccomp"),
    ("RestrictAddressFamilies=\nRestrictAddressFamilies=~AF_PACKET", "AddressFamilies"),
    ("RestrictNamespaces=no", "Namespaces"),
    ("MemoryDenyWriteExecute=no", "WriteExecute"),
    ("IPAddressAllow=127.0.0.0/8", "IPAddressAllow|127"),
    ("IPAddressAllow=169.254.169.254", "IPAddressAllow|169"),
    ("IPAddressDeny=", "IPAddressDeny|127"),
    ("Environment=LD_PRELOAD=/x", "nvironment"),
    ("ExecStartPre=/bin/true", None),
    ("ExecStopPost=+/bin/true", "ExecStopPost"),
    ("ExecStart=\nExecStart=/bin/sh", None),
    ("User=root\nDynamicUser=no", None),
    ("RootDirectory=/", None),
    ("NotifyAccess=all", "NotifyAccess"),
    ("WatchdogSec=0", "Watchdog"),
    ("Restart=always", "Restart"),
    ("RemainAfterExit=yes", "RemainAfterExit"),
    ("KillMode=process", "KillMode"),
    ("OOMPolicy=continue", "OOM"),
    ("LogRateLimitIntervalSec=30s\nLogRateLimitBurst=5", "LogRateLimit"),
    ("LogNamespace=other", None),
    ("LogLevelMax=warning", "LogLevelMax"),
    ("LogLevelMax=emerg", "LogLevelMax"),
    ("LogExtraFields=AGENTBOX_REASON=none", "LogExtraFields"),
    ("Slice=system.slice", None),
    ("TimeoutStopSec=infinity", "TimeoutStop"),
    ("StandardOutput=journal", "StandardOutput"),
    ("Delegate=yes", "elegate"),
]


def loosened_runs():
    """(drop-in, what agentbox did) for each; under a policy that wants all settings of PID 1's."""
    policy("live-walls", "[Audit]\nDeniedSyscalls=no\n")
    for text, word in LOOSENING:
        lines = "\n".join(text.splitlines())
        dropin(f"[Service]\n{lines}\n")
        yield text, word, run("/bin/sh", "-c", "echo untrusted-code-ran", policy="live-walls")


def test_each_loosening_dropin_is_refused():
    wrong = []
    for text, word, done in loosened_runs():
        refused = done.status == 125 and b"untrusted-code-ran" not in done.stdout
        named = word is None or any(w in done.err for w in word.split("|"))
        if not refused or not named:
            wrong.append(f"{text!r}: status {done.status}, {done.stderr[:300]!r}, {done.stdout!r}")
    assert not wrong, "\n".join(wrong)


test_each_loosening_dropin_is_refused.seconds = 300


def test_each_loosening_dropin_for_the_warden_is_refused():
    from box import at_end, sh, write_file
    at_end(sh, ["systemctl", "daemon-reload"])
    wrong = []
    for text, word in WARDEN_LOOSENING:
        write_file("/run/systemd/system/agentbox-warden-.service.d/50-host.conf", f"[Service]\n{text}\n")
        sh(["systemctl", "daemon-reload"])
        done = run("/bin/sh", "-c", "echo untrusted-code-ran")
        refused = done.status == 125 and b"untrusted-code-ran" not in done.stdout
        named = "warden" in done.err and (word is None or any(w in done.err for w in word.split("|")))
        if not refused or not named:
            wrong.append(f"{text!r}: status {done.status}, {done.stderr[:300]!r}, {done.stdout!r}")
    assert not wrong, "\n".join(wrong)


test_each_loosening_dropin_for_the_warden_is_refused.seconds = 300


def test_a_unit_setting_that_lets_the_warden_stay_is_refused():
    from box import at_end, sh, write_file
    at_end(sh, ["systemctl", "daemon-reload"])
    for text in ("StopWhenUnneeded=no", "RefuseManualStop=yes", "OnFailure=other.service", "JoinsNamespaceOf=dbus.service"):
        write_file("/run/systemd/system/agentbox-warden-.service.d/50-host.conf", f"[Unit]\n{text}\n")
        sh(["systemctl", "daemon-reload"])
        done = run("/bin/echo", "untrusted-code-ran")
        assert done.status == 125 and b"untrusted-code-ran" not in done.stdout and "warden" in done.err, (text, done)


def test_a_slice_that_opens_the_warden_is_refused():
    from box import at_end, sh, write_file
    for name in ("agentbox-warden.slice", "agentbox.slice"):
        at_end(sh, "systemctl daemon-reload; systemctl stop agentbox-warden.slice agentbox.slice")
        path = f"/run/systemd/system/{name}.d/50-host.conf"
        write_file(path, "[Slice]\nIPAddressAllow=169.254.169.254\n")
        sh("systemctl daemon-reload")
        done = run("/bin/echo", "untrusted-code-ran")
        assert done.status == 125 and b"untrusted-code-ran" not in done.stdout and name in done.err, (name, done)
        write_file(path, "")
        sh("systemctl daemon-reload")


def test_a_loosening_dropin_for_scope_of_addresses():
    policy("live-open", "[Network]\nEgress=open\n")
    for text in ("IPAddressAllow=any", "IPAddressDeny=", "IPAddressAllow=169.254.169.254"):
        dropin(f"[Service]\n{text}\n")
        done = run("/bin/echo", "untrusted-code-ran", policy="live-open")
        assert done.status == 125 and b"untrusted-code-ran" not in done.stdout, (text, done)


def test_a_slice_that_allows_is_refused():
    from box import write_file, at_end, sh
    policy("live-open", "[Network]\nEgress=open\n")
    at_end(sh, "systemctl daemon-reload; systemctl stop agentbox.slice")
    write_file("/run/systemd/system/agentbox.slice.d/50-host.conf", "[Slice]\nIPAddressAllow=169.254.169.254\n")
    sh("systemctl daemon-reload")
    done = run("/bin/echo", "untrusted-code-ran", policy="live-open")
    assert done.status == 125 and b"untrusted-code-ran" not in done.stdout, done


def test_a_tightening_dropin_is_accepted():
    dropin("[Service]\nMemoryMax=64M\n")
    done = run("/bin/echo", "fine")
    assert done.status == 0 or (done.status == 125 and "emory" in done.err), done


def test_unverified_is_on_record():
    dropin("[Service]\nTasksMax=infinity\n")
    done = expect(run("/bin/echo", "untrusted-code-ran"), 125, err=r"asks")
    found = records(done.run, "run-unverified")
    assert len(found) == 1 and "asks" in found[0]["AGENTBOX_BROKEN"] and int(found[0]["PRIORITY"]) <= 4, found
    assert records(done.run, "run-started") == [], "started all the same"
    assert done.result["reason"] == "refused", done


def test_verified_names_are_on_record():
    done = expect(run("/bin/true"))
    found = records(done.run, "run-verified")
    assert len(found) == 1, found
    names = found[0]["AGENTBOX_VERIFIED"].split()
    assert set(done.result["verified"]) == set(n.strip(",") for n in names), (names, done)
    assert len(names) >= 15, names


def exposure_of(unit):
    from box import sh
    text = sh(["systemd-analyze", "security", "--no-pager", unit])
    return float(text.split("Overall exposure level for")[1].split(":")[1].split()[0])


def test_exposure_of_a_runs_unit():
    """It reads settings, not effect: of calls that agentbox's own filter refuses, so that they can be put on record, it knows nothing."""
    policy("live-walls", "[Audit]\nDeniedSyscalls=no\n")
    for name, most in (("live-walls", 0.5), ("default", 2.8)):
        client = start("/bin/sh", "-c", "echo ready; sleep 60", options=["--timeout", "120s"], policy=name)
        assert client.stdout.readline() == b"ready\n"
        unit = f"agentbox-{runs()[0]['run']}.service"  # its warden's is of the same kind of name
        assert exposure_of(unit) <= most, name
        agentbox("kill", "--all")
        wait_for("its end", lambda: not runs())


def test_exposure_of_the_broker():
    agentbox("ps")
    # Of what its reasons are, it knows nothing: loopback alone instead of IPAddressDeny=, uids that a child becomes. See the unit.
    assert exposure_of("agentboxd.service") <= 4.0


def test_exposure_of_who_makes_disks():
    assert exposure_of("agentbox-disk@0.service") <= 2.2


@only("nspawn")
def test_nothing_runs_where_the_hierarchy_enforces_nothing():
    done = run("/bin/echo", "untrusted-code-ran")
    assert done.status == 125 and b"untrusted-code-ran" not in done.stdout and "what a run sends" in done.err, done
    done = run("/bin/echo", "untrusted-code-ran", policy="offline")
    assert done.status == 125 and b"untrusted-code-ran" not in done.stdout, done
    assert "emory" in done.err and "asks" in done.err, done


@only("nspawn")
def test_doctor_says_what_is_not_enforceable():
    done = agentbox("doctor")
    assert done.status == 1 and "emory" in done.out, done


@only("nspawn", "masked")
def test_address_filter_that_is_not_attached():
    policy("live-open", "[Network]\nEgress=open\n")
    done = run("/bin/echo", "untrusted-code-ran", policy="live-open")
    assert done.status == 125 and b"untrusted-code-ran" not in done.stdout, done
    assert any(w in done.err for w in ("address", "BPF", "bpf", "IPAddress")), done


def doctor_status(name):
    return [d["status"] for d in map(json.loads, agentbox("doctor", "--json").out.splitlines())
            if (d.get("part"), d.get("check")) == ("host", name)]


def test_doctor_makes_what_a_filtered_run_needs():
    assert doctor_status("network") == ["ok"] and doctor_status("packet-filter") == ["ok"], agentbox("doctor").out


@only("masked")
def test_doctor_where_bpf_is_masked():
    assert doctor_status("packet-filter") == ["failed"], agentbox("doctor").out
    done = agentbox("doctor", "--json")
    assert done.status == 1, done
    assert any("bpf" in line.lower() for line in done.out.splitlines() if json.loads(line).get("status") != "ok"), done
