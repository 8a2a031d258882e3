/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "exec/exec.h"

#define PROBE_WAIT_MSEC 100
#define PROBE_KILLED EPERM

/* ---- connections: begun first, collected last, so that their waiting overlaps with everything else ---- */

typedef struct Attempt {
        AttestProbe probe;
        int fd;       /* -1: decided */
        int listener; /* of the loopback probe */
} Attempt;

typedef struct Attempts {
        Attempt list[3];
        size_t n;
} Attempts;

static int probe_socket(void)
{
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

        return fd < 0 ? -errno : fd;
}

static struct sockaddr_in address(uint32_t host, uint16_t port)
{
        return (struct sockaddr_in){
                .sin_family = AF_INET, .sin_addr.s_addr = htonl(host), .sin_port = htons(port)
        };
}

static void connect_begin(
                Attempts *t, int32_t *probes, AttestProbe probe, const struct sockaddr_in *to, int listener)
{
        int fd = probe_socket();

        if (fd < 0) {
                probes[probe] = -fd;
        } else if (connect(fd, (const struct sockaddr *) to, sizeof(*to)) == 0) {
                probes[probe] = 0;
        } else {
                probes[probe] = errno;
                if (errno == EINPROGRESS) {
                        t->list[t->n++] = (Attempt){ .probe = probe, .fd = fd, .listener = listener };
                        return;
                }
        }
        if (fd >= 0)
                close(fd);
        if (listener >= 0)
                close(listener);
}

static void loopback_begin(Attempts *t, int32_t *probes)
{
        struct sockaddr_in a = address(INADDR_LOOPBACK, 0);
        socklen_t n = sizeof(a);
        int fd = probe_socket();

        if (fd < 0) {
                probes[PROBE_LOOPBACK_BIND] = -fd;
                return;
        }
        if (bind(fd, (struct sockaddr *) &a, sizeof(a)) < 0 || listen(fd, 1) < 0 ||
                        getsockname(fd, (struct sockaddr *) &a, &n) < 0) {
                probes[PROBE_LOOPBACK_BIND] = errno;
                close(fd);
                return;
        }
        connect_begin(t, probes, PROBE_LOOPBACK_BIND, &a, fd);
}

static int64_t now_msec(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (int64_t) t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void attempt_end(Attempt *t, int32_t *probes, int error)
{
        probes[t->probe] = error;
        close(t->fd);
        if (t->listener >= 0)
                close(t->listener);
        t->fd = -1;
}

static void connect_end(Attempts *t, int32_t *probes, int64_t deadline)
{
        for (;;) {
                struct pollfd p[ELEMENTSOF(t->list)];
                int64_t left = deadline - now_msec();
                size_t open = 0;
                int n;

                for (size_t i = 0; i < t->n; i++) {
                        p[i] = (struct pollfd){ .fd = t->list[i].fd, .events = POLLOUT };
                        open += t->list[i].fd >= 0;
                }
                if (open == 0)
                        return;
                n = poll(p, t->n, left > 0 ? (int) left : 0);
                if (n < 0 && errno == EINTR)
                        continue;
                for (size_t i = 0; i < t->n; i++) {
                        int error = ETIMEDOUT;
                        socklen_t size = sizeof(error);

                        if (t->list[i].fd < 0 || (n > 0 && p[i].revents == 0))
                                continue;
                        if (n > 0 && getsockopt(t->list[i].fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
                                error = errno;
                        attempt_end(&t->list[i], probes, error);
                }
        }
}

/* ---- calls that a filter may answer with death: in a child, results in memory that both see ---- */

typedef struct Board {
        uint32_t current; /* the trial that is being made */
        int32_t result[_PROBE_MAX];
        int32_t keyring_error;
        char keyring[512];
} Board;

static int trial_keyring(Board *b)
{
        long n = syscall(SYS_keyctl, KEYCTL_DESCRIBE, KEY_SPEC_SESSION_KEYRING, b->keyring,
                        sizeof(b->keyring) - 1);

        b->keyring_error = n < 0 ? errno : 0;
        return 0;
}

static int trial_mount(_unused_ Board *b)
{
        if (mount("tmpfs", "/tmp", "tmpfs", 0, NULL) < 0)
                return errno;
        umount2("/tmp", MNT_DETACH);
        return 0;
}

static int trial_setuid(_unused_ Board *b)
{
        /* Not by glibc's function: that is the same call, with a walk over threads around it. */
        return syscall(SYS_setresuid, 0, 0, 0) < 0 ? errno : 0;
}

static int trial_unshare(_unused_ Board *b)
{
        return unshare(CLONE_NEWUSER) < 0 ? errno : 0;
}

/* A new user namespace would change what the others mean: it is last. The child's first trial is the one
 * with no probe of its own. */
static const struct Trial {
        int probe;
        int (*attempt)(Board *b);
} trials[] = {
        { -1, trial_keyring },
        { PROBE_MOUNT, trial_mount },
        { PROBE_SETUID_0, trial_setuid },
        { PROBE_UNSHARE_USER, trial_unshare },
};

static _noreturn_ void trials_run(volatile Board *shared, Board *b)
{
        for (uint32_t i = shared->current; i < ELEMENTSOF(trials); i++) {
                int error;

                shared->current = i;
                error = trials[i].attempt(b);
                if (trials[i].probe >= 0)
                        b->result[trials[i].probe] = error;
        }
        shared->current = ELEMENTSOF(trials);
        _exit(0);
}

static void trial_killed(Board *b, uint32_t i)
{
        if (trials[i].probe >= 0)
                b->result[trials[i].probe] = PROBE_KILLED;
        else
                b->keyring_error = PROBE_KILLED;
}

/* One child for all trials, unless one of them kills it: then the next child goes on behind that one. */
static int trials_await(Board *b)
{
        volatile Board *shared = b;

        while (shared->current < ELEMENTSOF(trials)) {
                pid_t pid = fork(), k;

                if (pid < 0)
                        return -errno;
                if (pid == 0)
                        trials_run(shared, b);
                do
                        k = waitpid(pid, NULL, 0);
                while (k < 0 && errno == EINTR);
                if (k != pid)
                        return k < 0 ? -errno : -ECHILD;
                if (shared->current < ELEMENTSOF(trials)) {
                        trial_killed(b, shared->current);
                        shared->current++;
                }
        }
        return 0;
}

static int probe_trials(Attest *a)
{
        Board *b = mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        int r;

        if (b == MAP_FAILED)
                return -errno;
        r = trials_await(b);
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(trials); i++)
                if (trials[i].probe >= 0)
                        a->probes[trials[i].probe] = b->result[trials[i].probe];
        if (r >= 0) {
                a->keyring_error = b->keyring_error;
                a->keyring = strdup(b->keyring_error == 0 ? b->keyring : "");
                if (!a->keyring)
                        r = -ENOMEM;
        }
        munmap(b, sizeof(*b));
        return r;
}

/* ---- files, and the rest ---- */

static int32_t probe_write(const char *directory, const char *name)
{
        _cleanup_close_ int dir = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -1;

        if (dir < 0)
                return errno;
        fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0600);
        if (fd < 0)
                return errno;
        unlinkat(dir, name, 0);
        return 0;
}

/* 0 where any of the paths (NULL at the end) opens, else the last one's error. */
static int32_t probe_open(const char *const *paths, int flags)
{
        int32_t error = ENOENT;

        for (; *paths; paths++) {
                int fd = open(*paths, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

                if (fd >= 0) {
                        close(fd);
                        return 0;
                }
                error = errno;
        }
        return error;
}

static int32_t probe_abstract(const char *name)
{
        struct sockaddr_un a = { .sun_family = AF_UNIX };
        size_t n = strlen(name);
        _cleanup_close_ int fd = -1;

        if (n == 0 || n > sizeof(a.sun_path) - 1)
                return EINVAL;
        memcpy(a.sun_path + 1, name, n);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return errno;
        return connect(fd, (struct sockaddr *) &a,
                               (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + n)) < 0
                               ? errno
                               : 0;
}

static int32_t probe_mprotect(void)
{
        size_t size = (size_t) sysconf(_SC_PAGESIZE);
        void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        int32_t error;

        if (p == MAP_FAILED)
                return errno;
        error = mprotect(p, size, PROT_READ | PROT_EXEC) < 0 ? errno : 0;
        munmap(p, size);
        return error;
}

static const struct OpenProbe {
        AttestProbe probe;
        int flags;
        const char *paths[5];
} open_probes[] = {
        { PROBE_OPEN_RUN_SYSTEMD, O_PATH,
                        { "/run/systemd/private", "/run/systemd/notify", "/run/dbus/system_bus_socket",
                                        "/run/systemd/journal/socket" } },
        { PROBE_OPEN_PROC_1, O_RDONLY, { "/proc/1/environ" } },
        { PROBE_OPEN_KMSG, O_RDONLY, { "/dev/kmsg" } },
        { PROBE_OPEN_PTMX, O_RDWR, { "/dev/ptmx" } },
        { PROBE_OPEN_SYS, O_RDONLY | O_DIRECTORY, { "/sys/kernel", "/sys/fs" } },
};

static int probe_files(const char *workspace, Attest *a)
{
        const struct {
                AttestProbe probe;
                const char *directory;
        } writes[] = {
                { PROBE_WRITE_ROOT, "/" },
                { PROBE_WRITE_USR, "/usr" },
                { PROBE_WRITE_ETC, "/etc" },
                { PROBE_WRITE_WORKSPACE, workspace },
                { PROBE_WRITE_TMP, "/tmp" },
                { PROBE_WRITE_SHM, "/dev/shm" },
        };
        char name[64];
        uint64_t random;

        if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
                return -EIO;
        snprintf(name, sizeof(name), ".agentbox-probe-%016llx", (unsigned long long) random);
        for (size_t i = 0; i < ELEMENTSOF(writes); i++)
                a->probes[writes[i].probe] = probe_write(writes[i].directory, name);
        for (size_t i = 0; i < ELEMENTSOF(open_probes); i++)
                a->probes[open_probes[i].probe] = probe_open(open_probes[i].paths, open_probes[i].flags);
        return 0;
}

int exec_probe(const char *workspace, const char *abstract_name, Attest *a)
{
        const struct sockaddr_in metadata = address(0xa9fea9fe, 80), elsewhere = address(0xc0000201, 443);
        int64_t deadline = now_msec() + PROBE_WAIT_MSEC;
        Attempts attempts = {};
        int r;

        for (size_t i = 0; i < _PROBE_MAX; i++)
                a->probes[i] = -1;
        connect_begin(&attempts, a->probes, PROBE_METADATA_CONNECT, &metadata, -1);
        connect_begin(&attempts, a->probes, PROBE_ELSEWHERE_CONNECT, &elsewhere, -1);
        loopback_begin(&attempts, a->probes);
        r = probe_files(workspace, a);
        if (r >= 0)
                r = probe_trials(a);
        if (abstract_name)
                a->probes[PROBE_ABSTRACT_UNIX] = probe_abstract(abstract_name);
        a->probes[PROBE_MPROTECT_EXEC] = probe_mprotect();
        connect_end(&attempts, a->probes, r < 0 ? 0 : deadline);
        return r;
}
