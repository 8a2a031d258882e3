/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "base/buf.h"
#include "wire/attest.h"
#include "wire/runspec.h"

/* The parts of agentbox-exec. All return 0 or a negative errno unless said otherwise, and none prints
 * anything. */

/* exec-attest.c: collects the facts and the probes, and closes every descriptor beyond 2 on the way (after
 * having noted it). abstract_name: see PROBE_ABSTRACT_UNIX, or NULL. */
int exec_attest(const char *workspace, const char *abstract_name, Attest *ret);

/* exec-probe.c: fills a->probes, a->keyring and a->keyring_error. No child of it is left when it returns. */
int exec_probe(const char *workspace, const char *abstract_name, Attest *a);

/* exec-init.c, for the first process of a PID namespace: returns in a child of it, which is to go on as the workload, and stays
 * as the init of both. Fails with no child of it left. */
int exec_init(int channel);

/* exec-receive.c: one message. By write(2), for sendmsg() may be denied by the filter that is loaded by then. A broker
 * that is gone is -EPIPE where SIGPIPE is ignored, and else the end. */
int exec_channel_send(int channel, const Buf *message);
/* What came beside the memfd, all CLOEXEC. */
typedef struct ExecFds {
        int stdio[3];
        int executed; /* closed by the execve and by nothing else */
        int copy_in;  /* -1: none */
} ExecFds;
/* Waits for the word that a scope is ready. 1: ret_workspace is newly allocated. 0: the broker closed its
 * end. */
int exec_receive_start(int channel, char **ret_workspace);
/* 1: received, ret and ret_fds are filled. 0: the broker closed its end. */
int exec_receive(int channel, RunSpec *ret, ExecFds *ret_fds);

/* exec-confine.c, in this order. Each verifies by reading back, or is refused by the kernel as a whole. */
/* Lowers the resource limits that spec has, and what all runs of a uid share. */
int exec_confine_limits(const RunSpec *spec);
/* no_new_privs, and every set empty. bounding: that one, too; only who has CAP_SETPCAP can empty it, and
 * under no_new_privs nothing can be gained from it. */
int exec_confine_capabilities(bool bounding);
int exec_confine_seccomp(const RunSpec *spec, int channel);

/* exec-unpack.c: the files of the stream into the workspace, under all the walls of the workload. A service's limits count
 * here as for the workload. */
int exec_unpack(const char *workspace, int fd, ExecCopied *ret);

/* exec-landlock.c: needs no_new_privs. Adds rules for the terminal on 0, 1 and 2, too. */
int exec_confine_landlock(const RunSpec *spec);
