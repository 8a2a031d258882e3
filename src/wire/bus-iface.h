/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The D-Bus interface, once for both sides. Bytes that are not text by contract (argv, environment, names of files) travel as
 * arrays of bytes: D-Bus strings must be UTF-8. */

#define AGENTBOX_BUS_NAME "org.agentbox1"
#define AGENTBOX_OBJECT_PATH "/org/agentbox1"
#define AGENTBOX_RUN_PATH_PREFIX "/org/agentbox1/run/"
#define AGENTBOX_MANAGER_INTERFACE "org.agentbox1.Manager"
#define AGENTBOX_RUN_INTERFACE "org.agentbox1.Run"

/* Run(policy, tightenings ("SECTION.KEY=VALUE"), argv, environment given with -e and the caller's values of
 * the policy's Pass= names ("NAME=VALUE"), options, stdio) → (run id, object path, facts). An error has a
 * second string behind its message where the refusal is on record: the run id. Returns when the run was
 * verified and its program is being executed (or could not be: RunEnded then says so). options: "cwd" s
 * (relative: below the workspace), "name" s, "detach" b, "tty" b, "unit" s (service|scope), "term" s
 * (xterm). With unit=scope two more, and no "detach": "scope-pidfd" h, of a child that executes
 * "agentbox-exec --scope" with no_new_privs, an empty environment, a SOCK_SEQPACKET socket as descriptor 0
 * and /dev/null as 1 and 2; "scope-channel" h, the other end of that socket. The client reaps that child and
 * says with ReportExit how it ended. "copy-in" h, the read end of a pipe that carries files (wire/tree.h) for the workspace;
 * "view" h, a directory open for reading, of the caller's, which the workspace then shows (and no "copy-in");
 * "copy-out" h, the write end of one that gets, when all processes of the run are dead, what "copy-out-paths" aay names
 * beneath the workspace. stdio: none (detach: /dev/null, and pipes to agentbox-output), or three: stdin (read end of a pipe),
 * stdout, stderr (write ends); with "tty" the slave of a pty three times. Anything but a fifo, /dev/null or
 * a pty slave is refused. facts: "policy" s, "workspace" s, "output_limit" t (bytes for stdout + stderr; the
 * relay cuts there and calls Kill with reason "output-limit"), "copy_out_size" t, "copy_out_files" t, "pass" is not here: the client asks
 * PolicyPass first. */
#define AGENTBOX_RUN_SIGNATURE "sasaayaaya{sv}ah"
#define AGENTBOX_RUN_RESULT "soa{sv}"
/* PrepareRun(policy) → names of the environment variables that the policy passes from the caller. */
#define AGENTBOX_PASS_SIGNATURE "s"
#define AGENTBOX_PASS_RESULT "as"
/* ListRuns() → for each visible run its facts; GetRun(run id or unique name) → facts. Keys: see ResultKey in
 * wire/record.h plus "run" s, "name" s, "policy" s, "policy_digest" s, "unit" s, "invocation_id" s, "state"
 * s (starting|running|frozen|ended), "caller_uid" u, "command" s (as far as Arguments= lets it be recorded),
 * "started" t (µs since the epoch), "uid" u, "command_pid" u (the command's number on the host, which from systemd 257 on is not the
 * unit's MainPID: that is its init), "memory" t, "tasks" t, "cpu_usec" t, "verified" as, "detached" b. */
#define AGENTBOX_LIST_RESULT "aa{sv}"
#define AGENTBOX_FACTS "a{sv}"
/* ListPolicies() → names of the installed policies. */
/* WaitRun(run) → result record; answers when the run has ended (at once where it has). */
/* KillRun(run, signal, reason): reason "" or "output-limit" (only the client that started it). signal 0: end
 * the whole run. */
#define AGENTBOX_KILL_SIGNATURE "sis"
/* ThawRun(run): lets a run go on that OnTripwire=freeze stopped. Needs manage-all. */
/* ReportExit(run, code (CLD_EXITED, CLD_KILLED, CLD_DUMPED), status or signal): of a scope, from the client
 * that started it. */
#define AGENTBOX_REPORT_EXIT_SIGNATURE "sii"
/* ClaimRun(run): from the client that started it, on a new connection, where the old one ended with the bus itself. The broker knows
 * it by its uid, and waits AGENTBOX_CLAIM_SECONDS for it. */
#define AGENTBOX_CLAIM_SECONDS 30
/* ReportCopy(run, files, bytes, reason): of what came out of it, so much was not written; from the client that started it. */
#define AGENTBOX_REPORT_COPY_SIGNATURE "stts"
/* ResizeTerminal is not here: the client owns the pty's master. */
/* ListPromises() → what is verified of a run: (name, in words, what to do where it is not kept, which run would prove it: see
 * verify_row_trial()). */
#define AGENTBOX_PROMISES_RESULT "a(ssss)"
/* Doctor() → lines: (check, ok|warning|failed, message, advice). Needs inspect-all. */
#define AGENTBOX_DOCTOR_RESULT "a(ssss)"
/* signal RunEnded(run, result record), to the client that started the run only. */
#define AGENTBOX_RUN_ENDED_SIGNATURE "sa{sv}"

#define AGENTBOX_ERROR(name) "org.agentbox1.Error." name
#define AGENTBOX_ERROR_NOT_AUTHORIZED AGENTBOX_ERROR("NotAuthorized")
#define AGENTBOX_ERROR_POLICY_INVALID AGENTBOX_ERROR("PolicyInvalid")
#define AGENTBOX_ERROR_NO_SUCH_POLICY AGENTBOX_ERROR("NoSuchPolicy")
#define AGENTBOX_ERROR_NOT_TIGHTENING AGENTBOX_ERROR("NotTightening")
#define AGENTBOX_ERROR_NOT_ENFORCEABLE AGENTBOX_ERROR("NotEnforceable")
#define AGENTBOX_ERROR_NOT_VERIFIED AGENTBOX_ERROR("NotVerified")
#define AGENTBOX_ERROR_TOO_MANY_RUNS AGENTBOX_ERROR("TooManyRuns")
#define AGENTBOX_ERROR_TOO_MANY_REQUESTS AGENTBOX_ERROR("TooManyRequests")
#define AGENTBOX_ERROR_NO_SUCH_RUN AGENTBOX_ERROR("NoSuchRun")
#define AGENTBOX_ERROR_NO_JOURNAL AGENTBOX_ERROR("NoJournal")
#define AGENTBOX_ERROR_START_FAILED AGENTBOX_ERROR("StartFailed")
#define AGENTBOX_ERROR_INVALID_REQUEST AGENTBOX_ERROR("InvalidRequest")
#define AGENTBOX_ERROR_SHUTTING_DOWN AGENTBOX_ERROR("ShuttingDown")

#define AGENTBOX_ACTION_RUN "org.agentbox1.run"
#define AGENTBOX_ACTION_INSPECT_ALL "org.agentbox1.inspect-all"
#define AGENTBOX_ACTION_MANAGE_ALL "org.agentbox1.manage-all"
