/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <linux/bpf.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/macro.h"
#include "broker/loopback-filter.h"

#define DIRECTORY "/sys/fs/bpf/agentbox"
#define LOOPBACK_INDEX 1 /* lo, in every network namespace */

/* return skb->ifindex == LOOPBACK_INDEX; 1 lets the packet through. */
static const struct bpf_insn program[] = {
        { .code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = BPF_REG_2, .src_reg = BPF_REG_1, .off = offsetof(struct __sk_buff, ifindex) },
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

/* Of root alone: on some hosts everybody may write in /sys/fs/bpf. */
static int make_directory(void)
{
        struct stat st;

        if (mkdir(DIRECTORY, 0700) < 0 && errno != EEXIST)
                return -errno;
        if (lstat(DIRECTORY, &st) < 0)
                return -errno;
        return S_ISDIR(st.st_mode) && st.st_uid == 0 && (st.st_mode & 0022) == 0 ? 0 : -EPERM;
}

int loopback_filter_pin(Error **reterr)
{
        _cleanup_close_ int fd = load();
        union bpf_attr attr = { .pathname = (uint64_t) (uintptr_t) LOOPBACK_FILTER_PATH };
        int r;

        if (fd < 0)
                return error_set(reterr, fd, "the kernel refuses the packet filter of runs: %s", strerror(-fd));
        r = make_directory();
        if (r < 0)
                return error_set(reterr, r, "cannot use " DIRECTORY ": %s; is a bpf file system mounted at /sys/fs/bpf?", strerror(-r));
        if (unlink(LOOPBACK_FILTER_PATH) < 0 && errno != ENOENT)
                return error_set(reterr, -errno, "cannot replace " LOOPBACK_FILTER_PATH ": %m");
        attr.bpf_fd = (uint32_t) fd;
        r = bpf(BPF_OBJ_PIN, &attr);
        return r < 0 ? error_set(reterr, r, "cannot pin " LOOPBACK_FILTER_PATH ": %s", strerror(-r)) : 0;
}
