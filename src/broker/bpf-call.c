/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <sys/syscall.h>

#include "base/macro.h"
#include "broker/bpf-call.h"

int bpf_call(int command, union bpf_attr *attr)
{
        long r = syscall(SYS_bpf, command, attr, sizeof(*attr));

        return r < 0 ? -errno : (int) r;
}

int bpf_info(int fd, void *info, size_t size)
{
        union bpf_attr attr = {};

        attr.info.bpf_fd = (uint32_t) fd;
        attr.info.info_len = (uint32_t) size;
        attr.info.info = bpf_pointer(info);
        return bpf_call(BPF_OBJ_GET_INFO_BY_FD, &attr);
}

int bpf_program_id(int fd, BpfProgramId *ret)
{
        struct bpf_prog_info info = {};
        int r = bpf_info(fd, &info, offsetof(struct bpf_prog_info, jited_prog_len));

        if (r < 0)
                return r;
        *ret = (BpfProgramId){ .type = info.type, .id = info.id };
        memcpy(ret->tag, info.tag, sizeof(ret->tag));
        return 0;
}

int bpf_program_open(uint32_t id)
{
        union bpf_attr attr = {};

        attr.prog_id = id;
        return bpf_call(BPF_PROG_GET_FD_BY_ID, &attr);
}

int bpf_cgroup_query(int cgroup_fd, uint32_t attach_type, uint32_t ids[static BPF_CGROUP_PROGRAMS_MAX],
                uint32_t *ret_n)
{
        union bpf_attr attr = {};
        int r;

        attr.query.target_fd = (uint32_t) cgroup_fd;
        attr.query.attach_type = attach_type;
        attr.query.prog_ids = bpf_pointer(ids);
        attr.query.prog_cnt = BPF_CGROUP_PROGRAMS_MAX;
        r = bpf_call(BPF_PROG_QUERY, &attr);
        if (r < 0)
                return r;
        *ret_n = attr.query.prog_cnt;
        return 0;
}

int bpf_cgroup_attach(int cgroup_fd, uint32_t attach_type, int program_fd)
{
        union bpf_attr attr = {};

        attr.target_fd = (uint32_t) cgroup_fd;
        attr.attach_bpf_fd = (uint32_t) program_fd;
        attr.attach_type = attach_type;
        attr.attach_flags = BPF_F_ALLOW_MULTI;
        return bpf_call(BPF_PROG_ATTACH, &attr);
}
