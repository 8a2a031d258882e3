/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/parse.h"
#include "warden/warden.h"
#include "wire/codec.h"

/* ---- what it sees of itself */

#define STATUS_SIZE_MAX 65536u

/* The value behind "\nName:\t" in /proc/self/status, or NULL. */
static const char *status_field(const char *status, const char *name)
{
        const char *p = strstr(status, name);

        return p && p > status && p[-1] == '\n' ? p + strlen(name) : NULL;
}

static int see_status(WardenHello *h)
{
        static const char *const sets[] = { "CapInh:\t", "CapPrm:\t", "CapEff:\t", "CapBnd:\t", "CapAmb:\t" };
        _cleanup_free_ char *status = NULL;
        const char *no_new_privileges, *seccomp;
        int r = read_file("/proc/self/status", STATUS_SIZE_MAX, &status, NULL);

        if (r < 0)
                return r;
        for (size_t i = 0; i < ELEMENTSOF(sets); i++) {
                const char *set = status_field(status, sets[i]);

                if (!set)
                        return -EBADMSG;
                h->capabilities |= strtoull(set, NULL, 16);
        }
        no_new_privileges = status_field(status, "NoNewPrivs:\t");
        seccomp = status_field(status, "Seccomp:\t");
        if (!no_new_privileges || !seccomp)
                return -EBADMSG;
        h->no_new_privileges = *no_new_privileges == '1';
        h->seccomp_mode = (uint8_t) strtoul(seccomp, NULL, 10);
        return 0;
}

static int see_namespaces(WardenHello *h)
{
        const struct {
                const char *path;
                uint64_t *inode;
        } namespaces[] = {
                { "/proc/self/ns/net", &h->netns_inode },
                { "/proc/self/ns/user", &h->userns_inode },
                { "/proc/self/ns/mnt", &h->mntns_inode },
        };
        struct stat st;

        for (size_t i = 0; i < ELEMENTSOF(namespaces); i++) {
                if (stat(namespaces[i].path, &st) < 0)
                        return -errno;
                *namespaces[i].inode = st.st_ino;
        }
        return 0;
}

static int see_descriptors(WardenHello *h)
{
        DIR *d = opendir("/proc/self/fd");
        struct rlimit limit;
        struct dirent *e;

        if (!d)
                return -errno;
        while ((e = readdir(d))) {
                uint64_t fd;

                if (parse_u64(e->d_name, &fd) >= 0 && fd > STDERR_FILENO && fd != (uint64_t) dirfd(d))
                        h->n_fds++;
        }
        closedir(d);
        h->open_files_limit = UINT64_MAX;
        if (getrlimit(RLIMIT_NOFILE, &limit) >= 0)
                h->open_files_limit = limit.rlim_cur;
        h->memory_limit = UINT64_MAX; /* no file of its cgroup is in its root: the broker reads them */
        return 0;
}

/* Returns the errno of trying. */
static uint32_t canary(const char *address, uint16_t port)
{
        _cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(port) };

        if (fd < 0 || inet_pton(AF_INET, address, &sa.sin_addr) != 1)
                return fd < 0 ? (uint32_t) errno : EINVAL;
        return sendto(fd, "", 0, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *) &sa, sizeof(sa)) < 0
                               ? (uint32_t) errno
                               : 0;
}

int setup_hello(WardenHello *ret)
{
        WardenHello h = { .uid = getuid(), .gid = getgid(), .canary_metadata = ECANCELED };
        int r = see_status(&h);

        if (r >= 0)
                r = see_namespaces(&h);
        if (r >= 0)
                r = see_descriptors(&h);
        if (r < 0)
                return r;
        h.canary_loopback = canary(EGRESS_CANARY_LOOPBACK, 9);
        if (h.canary_loopback == EPERM)
                h.canary_metadata = canary(EGRESS_CANARY_METADATA, 80);
        *ret = h;
        return 0;
}

/* ---- what the broker sends */

static void close_all(const int *fds, size_t n)
{
        for (size_t i = 0; i < n; i++)
                close(fds[i]);
}

/* Exactly one control message with at most _WARDEN_FD_MAX descriptors; ret_n tells how many. */
static int take_fds(struct msghdr *m, int ret[_WARDEN_FD_MAX], size_t *ret_n)
{
        struct cmsghdr *c = CMSG_FIRSTHDR(m);
        size_t n;

        if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
                return -EBADMSG;
        n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        if (n > _WARDEN_FD_MAX)
                return -EBADMSG; /* the process ends: nothing is left open */
        memcpy(ret, CMSG_DATA(c), n * sizeof(int));
        if (CMSG_NXTHDR(m, c) || (m->msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
                close_all(ret, n);
                return -EBADMSG;
        }
        *ret_n = n;
        return 0;
}

/* Of each pair both or none; all others. */
static bool fds_valid(uint32_t bits, size_t n)
{
        const uint32_t ipv6 = bits & WARDEN_FDS_IPV6, witness = bits & WARDEN_FDS_WITNESS;

        return (bits | WARDEN_FDS_IPV6 | WARDEN_FDS_WITNESS) == WARDEN_FDS_ALL && (ipv6 == 0 || ipv6 == WARDEN_FDS_IPV6) &&
               (witness == 0 || witness == WARDEN_FDS_WITNESS) && (size_t) __builtin_popcount(bits) == n;
}

static int receive_message(int channel, int ret_fds[_WARDEN_FD_MAX])
{
        /* Room for a little more than a right message has, to see that there is more. */
        uint8_t payload[sizeof(WARDENSPEC_MESSAGE) + sizeof(uint32_t)];
        union {
                char space[CMSG_SPACE((_WARDEN_FD_MAX + 4) * sizeof(int))];
                struct cmsghdr align;
        } control;
        struct iovec v = { .iov_base = payload, .iov_len = sizeof(payload) };
        struct msghdr m = {
                .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
        };
        const size_t n_magic = strlen(WARDENSPEC_MESSAGE);
        int fds[_WARDEN_FD_MAX], r;
        size_t n_fds, next = 0;
        uint32_t bits;
        ssize_t n;

        do
                n = recvmsg(channel, &m, MSG_CMSG_CLOEXEC);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        if (n == 0 && m.msg_controllen == 0)
                return -ECONNRESET;
        r = take_fds(&m, fds, &n_fds);
        if (r < 0)
                return r;
        bits = (size_t) n == n_magic + sizeof(bits) ? read_u32(&(Reader){ .data = payload + n_magic, .size = sizeof(bits) }) : 0;
        if (memcmp(payload, WARDENSPEC_MESSAGE, n_magic) != 0 || !fds_valid(bits, n_fds)) {
                close_all(fds, n_fds);
                return -EBADMSG;
        }
        for (WardenFd i = 0; i < _WARDEN_FD_MAX; i++)
                ret_fds[i] = bits & UINT32_C(1) << i ? fds[next++] : -1;
        return 0;
}

static int map_tally(int fd, EgressTally **ret)
{
        struct stat st;
        void *p;

        if (fstat(fd, &st) < 0)
                return -errno;
        if (st.st_size < (off_t) sizeof(EgressTally))
                return -EBADMSG;
        p = mmap(NULL, sizeof(EgressTally), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED)
                return -errno;
        *ret = p;
        return 0;
}

int setup_receive(Warden *w, int channel)
{
        _cleanup_free_ void *data = NULL;
        size_t size = 0;
        uint64_t seed;
        int r;

        r = receive_message(channel, w->fds);
        if (r < 0)
                return r;
        r = memfd_read_sealed(w->fds[WARDEN_FD_SPEC], WARDENSPEC_SIZE_MAX, &data, &size);
        if (r >= 0)
                r = wardenspec_decode(data, size, &w->spec);
        if (r >= 0 && w->spec.record_calls != (w->fds[WARDEN_FD_CALLS] >= 0))
                r = -EBADMSG;
        if (r < 0)
                return r;
        close(TAKE_FD(w->fds[WARDEN_FD_SPEC]));
        r = map_tally(w->fds[WARDEN_FD_TALLY], &w->tally);
        if (r >= 0 && getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
                r = -EIO;
        if (r >= 0)
                r = records_open(&w->records, &w->spec, w->tally, w->fds[WARDEN_FD_JOURNAL], seed);
        if (r >= 0)
                r = events_open(&w->events, w->fds[WARDEN_FD_EVENTS], w->fds[WARDEN_FD_COUNTERS], seed);
        if (r >= 0)
                r = decider_new(&w->spec, &w->decider);
        w->has_proxy_address = address_parse(w->spec.proxy_host, &w->proxy_address);
        return r;
}
