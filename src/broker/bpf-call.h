/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <linux/bpf.h>
#include <stddef.h>
#include <stdint.h>

/* bpf(2) as it is: a descriptor or 0, or negative errno. Every byte of attr that is not used must be zero:
 * begin with {}, for an initializer that names a member of a union need not clear the rest of it. */
int bpf_call(int command, union bpf_attr *attr);

static inline uint64_t bpf_pointer(const void *p)
{
        return (uint64_t) (uintptr_t) p;
}

/* What the kernel says about the object behind fd, as far as it fits into info, which must be zero. */
int bpf_info(int fd, void *info, size_t size);

/* Which program is behind fd. */
typedef struct BpfProgramId {
        uint32_t type, id;
        uint8_t tag[BPF_TAG_SIZE]; /* a digest of its instructions */
} BpfProgramId;
int bpf_program_id(int fd, BpfProgramId *ret);
/* A descriptor of the program with that id; -ENOENT. Needs CAP_SYS_ADMIN. */
int bpf_program_open(uint32_t id);

/* The ids of the programs that are attached to this very cgroup (not to its parents), at most *n; *n is set
 * to how many. The kernel allows 64 of a kind. */
#define BPF_CGROUP_PROGRAMS_MAX 64u
int bpf_cgroup_query(int cgroup_fd, uint32_t attach_type, uint32_t ids[static BPF_CGROUP_PROGRAMS_MAX],
                uint32_t *ret_n);
/* Beside those of others; stays for as long as the cgroup. */
int bpf_cgroup_attach(int cgroup_fd, uint32_t attach_type, int program_fd);
