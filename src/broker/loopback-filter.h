/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "base/error.h"

/* A second lock for runs with a network namespace of their own: a BPF program for IPIngressFilterPath= and IPEgressFilterPath= that
 * lets through what passes the loopback interface and nothing else. It is bound to the run's cgroup, not to the namespace: a socket
 * that came from elsewhere is caught as well. */

/* Where it is pinned, the same for all runs. */
#define LOOPBACK_FILTER_PATH "/sys/fs/bpf/agentbox/loopback"

/* Loads and pins it anew; what runs have already stays with them. Needs CAP_SYS_ADMIN, CAP_NET_ADMIN and a bpf file system at
 * /sys/fs/bpf. */
int loopback_filter_pin(Error **reterr);
