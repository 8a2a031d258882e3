/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "broker/bpf-call.h"
#include "broker/broker-wall.h"
#include "broker/own-cgroup.h"
#include "broker/wall-probe.h"
#include "broker/wall-programs.h"

#define FOREIGN "203.0.113.9" /* for documentation (RFC 5737) */
#define PORT 443

/* A link goes with its descriptor, unlike what wall_attach() does. */
static int attach_for_now(const Wall *w, int cgroup_fd, int links[static WALL_PROGRAMS], Error **reterr)
{
        for (size_t i = 0; i < WALL_PROGRAMS; i++) {
                union bpf_attr attr = {};

                attr.link_create.prog_fd = (uint32_t) w->programs[i];
                attr.link_create.target_fd = (uint32_t) cgroup_fd;
                attr.link_create.attach_type = wall_attach_type(i);
                links[i] = bpf_call(BPF_LINK_CREATE, &attr);
                if (links[i] < 0)
                        return error_set(reterr, links[i],
                                        "the kernel does not attach programs of the wall to a cgroup: %s",
                                        strerror(-links[i]));
        }
        return 0;
}

_noreturn_ static void send_from_inside(const Wall *w)
{
        struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(PORT) };
        int fd;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (setns(w->netns_fd, CLONE_NEWNET) < 0)
                _exit(EXIT_FAILURE);
        fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        (void) inet_pton(AF_INET, FOREIGN, &a.sin_addr);
        _exit(fd >= 0 && sendto(fd, "?", 1, MSG_DONTWAIT, (struct sockaddr *) &a, sizeof(a)) == 1
                                        ? EXIT_SUCCESS
                                        : EXIT_FAILURE);
}

static int send_datagram(const Wall *w, Error **reterr)
{
        pid_t pid = fork();
        int status = 0;

        if (pid < 0)
                return error_set(reterr, -errno, "trying the wall: fork: %s", strerror(errno));
        if (pid == 0)
                send_from_inside(w);
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return error_set(reterr, -errno, "trying the wall: %s", strerror(errno));
        return status == 0 ? 0
                           : error_set(reterr, -EIO, "trying the wall: no datagram can be sent from inside");
}

/* The first record of the ring, which nobody else reads. */
static int first_event(int ring_fd, EgressEvent *ret)
{
        size_t page = (size_t) sysconf(_SC_PAGESIZE), size = page + 2 * (size_t) EGRESS_RING_SIZE;
        char *p = mmap(NULL, size, PROT_READ, MAP_SHARED, ring_fd, (off_t) page);
        uint32_t length = 0;
        bool there;

        if (p == MAP_FAILED)
                return -errno;
        there = *(const volatile uint64_t *) (const void *) p > 0;
        if (there) {
                memcpy(&length, p + page, sizeof(length));
                memcpy(ret, p + page + BPF_RINGBUF_HDR_SZ, sizeof(*ret));
        }
        (void) munmap(p, size);
        return !there ? -ENODATA : length != sizeof(*ret) ? -EBADMSG : 0;
}

static int check_event(const Wall *w, Error **reterr)
{
        struct in_addr wanted;
        EgressEvent e = {};
        int r = first_event(w->events_fd, &e);

        (void) inet_pton(AF_INET, FOREIGN, &wanted);
        if (r >= 0 && (e.kind != EGRESS_EVENT_DENIED || e.protocol != IPPROTO_UDP || e.dest_port != PORT ||
                                      memcmp(e.dest, &wanted, sizeof(wanted)) != 0))
                r = -EBADMSG;
        if (r < 0)
                return error_set(reterr, r, "trying the wall: what is refused does not become an event: %s",
                                strerror(-r));
        return e.tgid > 0 ? 0
                          : error_set(reterr, -ENODATA, "trying the wall: an event does not say who it was");
}

int wall_probe(const char *cgroup_root, Error **reterr)
{
        int links[WALL_PROGRAMS] = { -1, -1, -1, -1, -1 }, r;
        _cleanup_close_ int cgroup = -1;
        _cleanup_(wall_done) Wall w = WALL_NONE;

        r = wall_create(&w, reterr);
        if (r < 0)
                return r;
        cgroup = own_cgroup_open(cgroup_root, false, reterr);
        if (cgroup < 0)
                return cgroup;
        r = attach_for_now(&w, cgroup, links, reterr);
        if (r >= 0)
                r = send_datagram(&w, reterr);
        if (r >= 0)
                r = check_event(&w, reterr);
        for (size_t i = 0; i < WALL_PROGRAMS; i++)
                closep(links + i);
        return r;
}
