/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/mount.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "base/macro.h"
#include "broker/loopback-filter.h"

#define LOOPBACK_INDEX 1 /* lo, in every network namespace */
#define NAME "loopback"

/* return skb->ifindex == LOOPBACK_INDEX; 1 lets the packet through. */
static const struct bpf_insn program[] = {
        { .code = BPF_LDX | BPF_MEM | BPF_W,
                        .dst_reg = BPF_REG_2,
                        .src_reg = BPF_REG_1,
                        .off = offsetof(struct __sk_buff, ifindex) },
        { .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 1 },
        { .code = BPF_JMP | BPF_JEQ | BPF_K, .dst_reg = BPF_REG_2, .off = 1, .imm = LOOPBACK_INDEX },
        { .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0 },
        { .code = BPF_JMP | BPF_EXIT },
};

static int bpf(int command, union bpf_attr *attr)
{
        long r = syscall(SYS_bpf, command, attr, sizeof(*attr));

        return r < 0 ? -errno : (int) r;
}

static int load(void)
{
        static const char license[] = "LGPL-2.1";
        union bpf_attr attr = {
                .prog_type = BPF_PROG_TYPE_CGROUP_SKB,
                .insn_cnt = ELEMENTSOF(program),
                .insns = (uint64_t) (uintptr_t) program,
                .license = (uint64_t) (uintptr_t) license,
                .prog_name = "agentbox_lo",
        };

        return bpf(BPF_PROG_LOAD, &attr);
}

/* Returns the root of a bpf file system that is mounted nowhere. */
static int detached_bpffs(void)
{
        _cleanup_close_ int fs = (int) syscall(SYS_fsopen, "bpf", FSOPEN_CLOEXEC);
        long fd;

        if (fs < 0 || syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
                return -errno;
        fd = syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, 0);
        return fd < 0 ? -errno : (int) fd;
}

/* Returns the pinned program, as a descriptor that can do nothing but be opened anew by path. */
static int pin(int program_fd)
{
        _cleanup_close_ int root = detached_bpffs();
        union bpf_attr attr = { .bpf_fd = (uint32_t) program_fd };
        char path[64];
        int r, fd;

        if (root < 0)
                return root;
        snprintf(path, sizeof(path), "/proc/self/fd/%i/" NAME, root);
        attr.pathname = (uint64_t) (uintptr_t) path;
        r = bpf(BPF_OBJ_PIN, &attr);
        if (r < 0)
                return r;
        fd = openat(root, NAME, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

int loopback_filter_open(int *ret_fd, Error **reterr)
{
        _cleanup_close_ int fd = load();
        int r;

        if (fd < 0)
                return error_set(reterr, fd, "the kernel refuses the BPF packet filter of runs: %s",
                                strerror(-fd));
        r = pin(fd);
        if (r < 0)
                return error_set(reterr, r, "cannot pin the BPF packet filter of runs: %s", strerror(-r));
        *ret_fd = r;
        return 0;
}
