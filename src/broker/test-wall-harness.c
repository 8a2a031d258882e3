/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/io.h"
#include "test-wall-harness.h"

#define PATIENCE_MSEC 10000

/* ---- cgroups */

const char *cgroup_root(void)
{
        static const char *const roots[] = { "/sys/fs/cgroup/unified", "/sys/fs/cgroup" };
        char procs[PATH_MAX];

        for (size_t i = 0; i < ELEMENTSOF(roots); i++) {
                snprintf(procs, sizeof(procs), "%s/cgroup.procs", roots[i]);
                if (access(procs, F_OK) >= 0)
                        return roots[i];
        }
        return NULL;
}

static int own_cgroup(char *ret, size_t size)
{
        _cleanup_free_ char *groups = NULL;
        const char *root = cgroup_root();
        char *line;

        if (!root || read_file("/proc/self/cgroup", 65536, &groups, NULL) < 0)
                return -ENOENT;
        line = startswith(groups, "0::") ? groups : strstr(groups, "\n0::");
        line = line ? strchr(line, '/') : NULL;
        if (!line)
                return -ENOENT;
        line[strcspn(line, "\n")] = 0;
        snprintf(ret, size, "%s%s", root, streq(line, "/") ? "" : line);
        return 0;
}

int cgroup_make(const char *suffix, char *ret_path, size_t size)
{
        char own[PATH_MAX];
        int r = own_cgroup(own, sizeof(own));

        if (r < 0)
                return r;
        if (snprintf(ret_path, size, "%s/test-wall-%i-%s", own, (int) getpid(), suffix) >= (int) size)
                return -ENAMETOOLONG;
        return mkdir(ret_path, 0755) < 0 ? -errno : 0;
}

int cgroup_join(const char *path)
{
        char procs[PATH_MAX];
        _cleanup_close_ int fd = -1;

        snprintf(procs, sizeof(procs), "%s/cgroup.procs", path);
        fd = open(procs, O_WRONLY | O_CLOEXEC);
        return fd < 0 ? -errno : write_full(fd, "0", 1);
}

/* ---- the fixture */

static void map_rings(Fixture *f)
{
        f->page = (size_t) sysconf(_SC_PAGESIZE);
        f->consumer = mmap(NULL, f->page, PROT_READ | PROT_WRITE, MAP_SHARED, f->wall.events_fd, 0);
        assert_ptr_not_equal(f->consumer, MAP_FAILED);
        f->producer = mmap(NULL, f->page + 2 * EGRESS_RING_SIZE, PROT_READ, MAP_SHARED, f->wall.events_fd,
                        (off_t) f->page);
        assert_ptr_not_equal(f->producer, MAP_FAILED);
        f->counters = mmap(NULL, f->page, PROT_READ, MAP_SHARED, f->wall.counters_fd, 0);
        assert_ptr_not_equal(f->counters, MAP_FAILED);
}

int fixture_set_up_detached(void **state)
{
        Fixture *f = calloc(1, sizeof(*f));
        Error *e = NULL;
        int r;

        assert_non_null(f);
        r = geteuid() != 0 ? -EPERM : cgroup_make("run", f->cgroup, sizeof(f->cgroup));
        if (r < 0) {
                print_message("skipped: %s\n",
                                r == -EPERM ? "only root can make the wall" : "no cgroup2 hierarchy here");
                free(f);
                *state = NULL;
                return 0;
        }
        r = wall_create(&f->wall, &e);
        if (r < 0)
                fail_msg("%s", error_message(e, r));
        f->cgroup_fd = open(f->cgroup, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(f->cgroup_fd >= 0);
        map_rings(f);
        *state = f;
        return 0;
}

int fixture_set_up(void **state)
{
        Error *e = NULL;
        Fixture *f;
        int r = fixture_set_up_detached(state);

        f = *state;
        if (r < 0 || !f)
                return r;
        r = wall_attach(&f->wall, f->cgroup_fd, &e);
        if (r < 0)
                fail_msg("%s", error_message(e, r));
        return 0;
}

int fixture_tear_down(void **state)
{
        Fixture *f = *state;

        if (!f)
                return 0;
        munmap(f->consumer, f->page);
        munmap(f->producer, f->page + 2 * EGRESS_RING_SIZE);
        munmap((void *) (uintptr_t) f->counters, f->page);
        wall_done(&f->wall);
        close(f->cgroup_fd);
        assert_int_equal(rmdir(f->cgroup), 0);
        free(f);
        return 0;
}

/* ---- processes of the run */

_noreturn_ static void be_inside(Fixture *f, Inside *inside, const void *argument)
{
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, INSIDE_COMM);
        if (cgroup_join(f->cgroup) < 0)
                _exit(250);
        if (setns(f->wall.netns_fd, CLONE_NEWNET) < 0)
                _exit(251);
        _exit(inside(argument));
}

pid_t start_inside(Fixture *f, Inside *inside, const void *argument)
{
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0)
                be_inside(f, inside, argument);
        return pid;
}

int wait_inside(pid_t pid)
{
        int status = 0;

        if (waitpid(pid, &status, 0) != pid)
                return -errno;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void finish_inside(pid_t pid)
{
        int status = wait_inside(pid);

        if (status != 0)
                fail_msg("inside: %i", status);
}

pid_t run_inside(Fixture *f, Inside *inside, const void *argument)
{
        pid_t pid = start_inside(f, inside, argument);

        finish_inside(pid);
        return pid;
}

/* ---- events: the reader's side of BPF_MAP_TYPE_RINGBUF (linux/bpf.h) */

bool peek_event(Fixture *f, EgressEvent *ret)
{
        _Atomic uint64_t *consumed = f->consumer, *produced = f->producer;
        uint64_t at = atomic_load(consumed);
        const char *record = (const char *) f->producer + f->page + (at & (EGRESS_RING_SIZE - 1));

        if (at >= atomic_load(produced))
                return false;
        /* Neither busy nor discarded: the length alone. */
        assert_int_equal(atomic_load((const _Atomic uint32_t *) (const void *) record), sizeof(*ret));
        memcpy(ret, record + BPF_RINGBUF_HDR_SZ, sizeof(*ret));
        return true;
}

bool next_event(Fixture *f, EgressEvent *ret)
{
        _Atomic uint64_t *consumed = f->consumer;

        if (!peek_event(f, ret))
                return false;
        atomic_fetch_add(consumed, BPF_RINGBUF_HDR_SZ + sizeof(*ret));
        return true;
}

void expect_event(Fixture *f, EgressEventKind kind, uint8_t protocol, const char *dest, uint16_t port,
                pid_t tgid)
{
        char text[INET6_ADDRSTRLEN];
        EgressEvent e;

        if (!next_event(f, &e))
                fail_msg("no event of %s port %u", dest, port);
        assert_non_null(inet_ntop(e.family, e.dest, text, sizeof(text)));
        assert_string_equal(text, dest);
        assert_int_equal(e.kind, kind);
        assert_int_equal(e.protocol, protocol);
        assert_int_equal(e.dest_port, port);
        assert_int_equal(e.tgid, tgid);
        assert_string_equal(e.comm, tgid ? INSIDE_COMM : "");
        if (e.family == AF_INET) {
                static const uint8_t zero[12];

                assert_memory_equal(e.source + 4, zero, sizeof(zero));
                assert_memory_equal(e.dest + 4, zero, sizeof(zero));
        }
        assert_int_equal(e.pad, 0);
        assert_int_equal(e.stamp != 0, tgid != 0);
}

void expect_no_event(Fixture *f)
{
        char text[INET6_ADDRSTRLEN];
        EgressEvent e;

        if (next_event(f, &e))
                fail_msg("event %u of protocol %u to %s port %u, which nothing is to be said about", e.kind,
                                e.protocol, inet_ntop(e.family, e.dest, text, sizeof(text)), e.dest_port);
}

/* ---- addresses and sockets */

socklen_t make_address(const char *text, uint16_t port, Address *ret)
{
        const char *zone = strchr(text, '%');
        char plain[INET6_ADDRSTRLEN] = "";

        *ret = (Address){};
        if (inet_pton(AF_INET, text, &ret->in.sin_addr) == 1) {
                ret->in.sin_family = AF_INET;
                ret->in.sin_port = htons(port);
                return sizeof(ret->in);
        }
        memcpy(plain, text, MIN2(sizeof(plain) - 1, zone ? (size_t) (zone - text) : strlen(text)));
        *ret = (Address){ .in6 = { .sin6_family = AF_INET6,
                                          .sin6_port = htons(port),
                                          .sin6_scope_id = zone ? (uint32_t) atoi(zone + 1) : 0 } };
        if (inet_pton(AF_INET6, plain, &ret->in6.sin6_addr) != 1)
                abort(); /* also in children, which cmocka must not unwind */
        return sizeof(ret->in6);
}

Address source_of(const EgressEvent *e)
{
        Address a = {};

        if (e->family == AF_INET) {
                a.in = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(e->source_port) };
                memcpy(&a.in.sin_addr, e->source, sizeof(a.in.sin_addr));
        } else {
                a.in6 = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons(e->source_port) };
                memcpy(&a.in6.sin6_addr, e->source, sizeof(a.in6.sin6_addr));
        }
        return a;
}

static void plain_address(const Address *a, unsigned char ret[static 18])
{
        memset(ret, 0, 18);
        if (a->any.sa_family == AF_INET) {
                memset(ret + 10, 0xff, 2);
                memcpy(ret + 12, &a->in.sin_addr, 4);
                memcpy(ret + 16, &a->in.sin_port, 2);
        } else {
                memcpy(ret, &a->in6.sin6_addr, 16);
                memcpy(ret + 16, &a->in6.sin6_port, 2);
        }
}

bool same_address(const Address *a, const Address *b)
{
        unsigned char x[18], y[18];

        plain_address(a, x);
        plain_address(b, y);
        return memcmp(x, y, sizeof(x)) == 0;
}

bool has_address(const Fixture *f, const char *text)
{
        return !strchr(text, ':') || f->wall.tcp[1] >= 0;
}

static int wait_for(int fd, short events)
{
        struct pollfd p = { .fd = fd, .events = events };

        return poll(&p, 1, PATIENCE_MSEC) == 1 ? 0 : ETIMEDOUT;
}

int wait_readable(int fd)
{
        return wait_for(fd, POLLIN);
}

int connect_error(int fd, const Address *a, socklen_t n)
{
        socklen_t size = sizeof(int);
        int error = 0;

        if (connect(fd, &a->any, n) >= 0)
                return 0;
        if (errno != EINPROGRESS)
                return errno;
        if (wait_for(fd, POLLOUT) != 0)
                return ETIMEDOUT;
        return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 ? errno : error;
}

int uring_connect(int fd, const Address *a, socklen_t n)
{
        struct io_uring_params p = {};
        _cleanup_close_ int ring = (int) syscall(SYS_io_uring_setup, 1, &p);
        struct io_uring_sqe *sqe;
        struct io_uring_cqe *cqe;
        char *sq, *cq;

        if (ring < 0)
                return -1;
        sq = mmap(NULL, p.sq_off.array + p.sq_entries * sizeof(uint32_t), PROT_READ | PROT_WRITE, MAP_SHARED,
                        ring, IORING_OFF_SQ_RING);
        cq = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof(*cqe), PROT_READ | PROT_WRITE, MAP_SHARED,
                        ring, IORING_OFF_CQ_RING);
        sqe = mmap(NULL, sizeof(*sqe), PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
        if (sq == MAP_FAILED || cq == MAP_FAILED || sqe == MAP_FAILED)
                return errno;
        *sqe = (struct io_uring_sqe){ .opcode = IORING_OP_CONNECT,
                .flags = IOSQE_ASYNC,
                .fd = fd,
                .addr = (uint64_t) (uintptr_t) a,
                .off = n };
        *(uint32_t *) (void *) (sq + p.sq_off.array) = 0;
        atomic_store((_Atomic uint32_t *) (void *) (sq + p.sq_off.tail), 1);
        if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
                return errno;
        cqe = (void *) (cq + p.cq_off.cqes);
        return -cqe->res;
}
