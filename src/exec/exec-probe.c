/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "exec/exec.h"

#define PROBE_WAIT_MSEC 1000 /* that a packet takes over loopback, at worst */
#define PORT_DISCARD 9
#define PROBE_KILLED EPERM

/* ---- packets: by UDP, where a filter's refusal is the answer of the call itself. A refused connection
 * attempt of TCP is silence to wait for. ---- */

static struct sockaddr_in address(uint32_t host, uint16_t port)
{
        return (struct sockaddr_in){
                .sin_family = AF_INET, .sin_addr.s_addr = htonl(host), .sin_port = htons(port)
        };
}

/* -errno */
static int probe_socket(void)
{
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

        return fd < 0 ? -errno : fd;
}

/* What the call itself says. */
static int32_t send_byte(int fd, const struct sockaddr_in *to)
{
        return connect(fd, (const struct sockaddr *) to, sizeof(*to)) < 0 ||
                                               send(fd, "", 1, MSG_NOSIGNAL) < 0
                               ? errno
                               : 0;
}

/* What comes back, the byte or a refusal. */
static int32_t receive_byte(int fd)
{
        struct pollfd p = { .fd = fd, .events = POLLIN };
        char byte;

        if (poll(&p, 1, PROBE_WAIT_MSEC) <= 0)
                return ETIMEDOUT;
        return recv(fd, &byte, sizeof(byte), 0) < 0 ? errno : 0;
}

/* Whether the routes turn this socket's packets back to this very network: whether they come from the
 * loopback interface's address. */
static bool turns_back(int fd)
{
        struct ifreq interfaces[64];
        struct ifconf c = { .ifc_len = sizeof(interfaces), .ifc_req = interfaces };
        struct sockaddr_in from;
        socklen_t n = sizeof(from);

        if (getsockname(fd, (struct sockaddr *) &from, &n) < 0 || ioctl(fd, SIOCGIFCONF, &c) < 0)
                return false;
        for (size_t i = 0; i < (size_t) c.ifc_len / sizeof(*interfaces); i++) {
                struct sockaddr_in a;

                memcpy(&a, &interfaces[i].ifr_addr, sizeof(a));
                if (a.sin_addr.s_addr == from.sin_addr.s_addr && streq(interfaces[i].ifr_name, "lo"))
                        return true;
        }
        return false;
}

/* A packet that leaves has done what it should not, and no answer to it is waited for; one that is turned
 * back is refused there, or taken. */
static int32_t probe_send(uint32_t host)
{
        const struct sockaddr_in to = address(host, PORT_DISCARD);
        _cleanup_close_ int fd = probe_socket();
        int32_t error;

        if (fd < 0)
                return -fd;
        error = send_byte(fd, &to);
        if (error != 0 || !turns_back(fd))
                return error;
        error = receive_byte(fd);
        return error == ETIMEDOUT ? 0 : error;
}

/* To itself and back again. */
static int32_t probe_loopback(void)
{
        struct sockaddr_in a = address(INADDR_LOOPBACK, 0);
        _cleanup_close_ int fd = probe_socket();
        socklen_t n = sizeof(a);
        int32_t error;

        if (fd < 0)
                return -fd;
        if (bind(fd, (struct sockaddr *) &a, n) < 0 || getsockname(fd, (struct sockaddr *) &a, &n) < 0)
                return errno;
        error = send_byte(fd, &a);
        return error != 0 ? error : receive_byte(fd);
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
        int r;

        for (size_t i = 0; i < _PROBE_MAX; i++)
                a->probes[i] = -1;
        r = probe_files(workspace, a);
        if (r >= 0)
                r = probe_trials(a);
        if (r < 0)
                return r;
        a->probes[PROBE_METADATA_SEND] = probe_send(0xa9fea9fe);
        a->probes[PROBE_ELSEWHERE_SEND] = probe_send(0xc0000201);
        a->probes[PROBE_LOOPBACK] = probe_loopback();
        if (abstract_name)
                a->probes[PROBE_ABSTRACT_UNIX] = probe_abstract(abstract_name);
        a->probes[PROBE_MPROTECT_EXEC] = probe_mprotect();
        return 0;
}
