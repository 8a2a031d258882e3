/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* MESSAGE_ID of each record, random; each has an entry in units/agentbox.catalog. Never reused, never
 * changed. */

/* run-requested: a caller asked for a run */
#define AGENTBOX_MESSAGE_RUN_REQUESTED "4fc0f466efe04d308d25876dbdff4382"
/* run-refused: it was not started */
#define AGENTBOX_MESSAGE_RUN_REFUSED "4618e6574efd43a0a91b3e797e03f0f3"
/* run-verified: every promise holds in the run's unit */
#define AGENTBOX_MESSAGE_RUN_VERIFIED "b48b04a67ab445d4bf5df6b783094e15"
/* run-unverified: at least one does not; the run was ended before its first instruction */
#define AGENTBOX_MESSAGE_RUN_UNVERIFIED "421b69f005b0456195fba1474c89dfba"
/* run-started: the command is being executed */
#define AGENTBOX_MESSAGE_RUN_STARTED "81ddc6191b1a462993c8601a2130dad9"
/* run-ended: the result record */
#define AGENTBOX_MESSAGE_RUN_ENDED "a11607790ecd46dc91cbca500972655a"
/* egress-allowed: a connection to a destination that a rule names was made */
#define AGENTBOX_MESSAGE_EGRESS_ALLOWED "c5824184af084f7391a8a78aa9d3602e"
/* egress-denied: attempts to reach something, refused */
#define AGENTBOX_MESSAGE_EGRESS_DENIED "62e8eb81255e46d7bdeb48d12fb2e8ac"
/* egress-closed: an allowed connection is over; its final figures */
#define AGENTBOX_MESSAGE_EGRESS_CLOSED "aee9c4ed86d041ac860c915bb5c04bea"
/* syscall-denied: system calls that point to an attack, refused */
#define AGENTBOX_MESSAGE_SYSCALL_DENIED "62b7fc2c93754c819b042f5c40bf462e"
/* copy-in: files of the caller's were written into the workspace, before the first instruction */
#define AGENTBOX_MESSAGE_COPY_IN "dc1f1e6e56d9c23bbe8eb649557f9899"
/* copy-out: what a dead run had left was read and sent to its client */
#define AGENTBOX_MESSAGE_COPY_OUT "c4d0359323e09336b91f2f5df3ed218f"
/* copy-refused: files were not copied, in or out, or not written where they arrived */
#define AGENTBOX_MESSAGE_COPY_REFUSED "93911f763bcb6555903bb09dd9629abe"
/* tripwire: a decoy was opened, or a metadata service tried */
#define AGENTBOX_MESSAGE_TRIPWIRE "18403093bdba4436a5ddfbb6d4a62645"
/* journal-check: "agentbox doctor" looked whether records arrive */
#define AGENTBOX_MESSAGE_JOURNAL_CHECK "8677fc478f004b91bde00c2ec0d7cdf8"
/* boots-settled: runs that the machine has taken down with it have their end on record */
#define AGENTBOX_MESSAGE_BOOTS_SETTLED "d529bfc5c09d4a268cd4867cc653f23a"
