/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include "base/macro.h"
#include "broker/bpf-call.h"
#include "broker/broker-wall.h"
#include "broker/wall-verify.h"

int wall_netlink_open(void)
{
        int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

        return fd < 0 ? -errno : fd;
}

int wall_link_program(int link_fd, uint32_t *ret_id)
{
        struct bpf_link_info info = {};
        int r = bpf_info(link_fd, &info, sizeof(info));

        if (r < 0)
                return r;
        if (info.type != BPF_LINK_TYPE_NETNS || info.netns.attach_type != BPF_SK_LOOKUP || info.netns.netns_ino == 0)
                return -ENOLINK;
        *ret_id = info.prog_id;
        return 0;
}
