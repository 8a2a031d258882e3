/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/detached-mount.h"
#include "base/macro.h"
#include "broker/bpf-assembly.h"
#include "broker/bpf-call.h"
#include "broker/loopback-filter.h"
#include "broker/own-cgroup.h"

#define LOOPBACK_INDEX 1 /* lo, in every network namespace */
#define NAME "loopback"

/* return skb->ifindex == LOOPBACK_INDEX; 1 lets the packet through. */
enum { L_PASS = 1 };
static const struct bpf_insn code[] = {
        LOAD(W, 2, 1, (int16_t) offsetof(struct __sk_buff, ifindex)),
        SET(0, 1),
        IF_EQUAL(2, LOOPBACK_INDEX, L_PASS),
        SET(0, 0),
        LABEL(L_PASS),
        END(),
};
static const BpfProgram program = {
        .name = "agentbox_lo", .type = BPF_PROG_TYPE_CGROUP_SKB, .code = code, .size = ELEMENTSOF(code)
};

static int load(Error **reterr)
{
        int fd = bpf_load(&program, NULL, 0);

        return fd < 0 ? error_set(reterr, fd, "the kernel refuses the BPF packet filter of loopback: %s",
                                        strerror(-fd))
                      : fd;
}

/* ---- of runs: PID 1 attaches it */

/* Returns the pinned program, as a descriptor that can do nothing but be opened anew by path. */
static int pin(int program_fd)
{
        _cleanup_close_ int root = detached_mount("bpf", NULL, 0, 0);
        union bpf_attr attr = {};
        char path[64];
        int r, fd;

        if (root < 0)
                return root;
        snprintf(path, sizeof(path), "/proc/self/fd/%i/" NAME, root);
        attr.bpf_fd = (uint32_t) program_fd;
        attr.pathname = bpf_pointer(path);
        r = bpf_call(BPF_OBJ_PIN, &attr);
        if (r < 0)
                return r;
        fd = openat(root, NAME, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

int loopback_filter_open(int *ret_fd, Error **reterr)
{
        _cleanup_close_ int fd = load(reterr);
        int r;

        if (fd < 0)
                return fd;
        r = pin(fd);
        if (r < 0)
                return error_set(reterr, r, "cannot pin the BPF packet filter of runs: %s", strerror(-r));
        *ret_fd = r;
        return 0;
}

/* ---- of the broker: it attaches it itself */

/* An earlier broker of the same cgroup may have done it: a program with the same instructions is the same
 * program. */
static int has_filter(int cgroup_fd, uint32_t attach_type, const BpfProgramId *ours)
{
        uint32_t ids[BPF_CGROUP_PROGRAMS_MAX], n;
        int r = bpf_cgroup_query(cgroup_fd, attach_type, ids, &n);

        for (uint32_t i = 0; r >= 0 && i < n; i++) {
                _cleanup_close_ int fd = bpf_program_open(ids[i]);
                BpfProgramId other;

                r = fd < 0 ? fd : bpf_program_id(fd, &other);
                if (r == -ENOENT) /* gone meanwhile */
                        r = 0;
                else if (r >= 0 && other.type == ours->type &&
                                memcmp(other.tag, ours->tag, sizeof(other.tag)) == 0)
                        return true;
        }
        return r < 0 ? r : false;
}

int loopback_filter_confine_self(const char *cgroup_root, Error **reterr)
{
        static const uint32_t types[] = { BPF_CGROUP_INET_INGRESS, BPF_CGROUP_INET_EGRESS };
        _cleanup_close_ int cgroup = -1, fd = -1;
        BpfProgramId ours;
        int r;

        cgroup = own_cgroup_open(cgroup_root, true, reterr);
        if (cgroup < 0)
                return cgroup;
        fd = load(reterr);
        if (fd < 0)
                return fd;
        r = bpf_program_id(fd, &ours);
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(types); i++) {
                r = has_filter(cgroup, types[i], &ours);
                if (r == 0)
                        r = bpf_cgroup_attach(cgroup, types[i], fd);
        }
        return r < 0 ? error_set(reterr, r, "the broker's own packets cannot be held to loopback: %s",
                                       strerror(-r))
                     : 0;
}
