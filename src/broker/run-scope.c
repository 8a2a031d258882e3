/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/parse.h"
#include "broker/run.h"
#include "broker/verify.h"
#include "wire/bus-iface.h"

/* What a scope has that a service has not: a process that the caller made, as the caller. Its client forks
 * agentbox-exec and hands over a pidfd of it and the other end of its channel. Nothing about that process is
 * believed before it was looked at, for PID 1 does to it what we say: puts it into a cgroup, limits and
 * kills it. */

#define STATUS_MAX (64u * 1024)
#define FDINFO_MAX 4096u
#define MOUNTINFO_MAX (4u * 1024 * 1024)

/* Of a process that lives, in our PID namespace. */
static int pid_of_pidfd(int fd, pid_t *ret)
{
        _cleanup_free_ char *info = NULL, *text = NULL;
        char path[64];
        uint64_t pid;
        int r;

        /* Other files show lines of the caller's choice in their fdinfo (names of files registered with io_uring): the
         * kernel must say that this is a pidfd, and it says so before it asks for permission. */
        if (pidfd_send_signal(fd, 0, NULL, 0) < 0 && errno != EPERM)
                return -errno;
        snprintf(path, sizeof(path), "/proc/self/fdinfo/%i", fd);
        r = read_file(path, FDINFO_MAX, &info, NULL);
        if (r >= 0)
                r = proc_status_field(info, "Pid", &text);
        if (r < 0)
                return r == -ENOENT ? -EBADF : r;
        /* -1: it is dead and reaped. 0: it is in none of our namespaces. */
        if (parse_u64(text, &pid) < 0 || pid <= 1 || pid > INT_MAX)
                return -ESRCH;
        *ret = (pid_t) pid;
        return 0;
}

/* "NAME:\tA\tB\tC\tD" with all four the same. */
static int four_equal(const char *status, const char *name, uint32_t *ret)
{
        _cleanup_free_ char *text = NULL;
        unsigned a, b, c, d;
        int r = proc_status_field(status, name, &text);

        if (r < 0)
                return r;
        if (sscanf(text, "%u %u %u %u", &a, &b, &c, &d) != 4)
                return -EBADMSG;
        if (a != b || a != c || a != d)
                return -EPERM;
        *ret = a;
        return 0;
}

static int field_is(const char *status, const char *name, const char *wanted)
{
        _cleanup_free_ char *text = NULL;
        int r = proc_status_field(status, name, &text);

        return r < 0 ? r : streq(text, wanted) ? 0 : -EPERM;
}

/* The caller's own, and for good: with no_new_privs and without capabilities it can become nobody else
 * between this look and what PID 1 does. */
static int check_status(Run *r, const char *status)
{
        static const struct {
                const char *name, *wanted;
        } rows[] = {
                { "NoNewPrivs", "1" },
                { "CapPrm", "0000000000000000" },
                { "CapEff", "0000000000000000" },
                { "TracerPid", "0" },
        };
        uint32_t uid, gid;
        int k = four_equal(status, "Uid", &uid);

        if (k >= 0)
                k = four_equal(status, "Gid", &gid);
        if (k >= 0 && uid != r->caller.uid)
                k = -EPERM;
        for (size_t i = 0; k >= 0 && i < ELEMENTSOF(rows); i++)
                k = field_is(status, rows[i].name, rows[i].wanted);
        if (k < 0)
                return k;
        r->gid = gid;
        return 0;
}

static int check_program(pid_t pid)
{
        struct stat is, ours;
        char path[64];

        snprintf(path, sizeof(path), "/proc/%i/exe", (int) pid);
        if (stat(path, &is) < 0 || stat(SHIM_PATH, &ours) < 0)
                return -errno;
        return is.st_dev == ours.st_dev && is.st_ino == ours.st_ino ? 0 : -EPERM;
}

static int check_process(Run *r)
{
        _cleanup_free_ char *status = NULL;
        char path[64];
        pid_t pid, again;
        int k = pid_of_pidfd(r->request.scope_pidfd, &pid);

        if (k < 0)
                return k;
        snprintf(path, sizeof(path), "/proc/%i/status", (int) pid);
        k = read_file(path, STATUS_MAX, &status, NULL);
        if (k >= 0)
                k = check_status(r, status);
        if (k >= 0)
                k = check_program(pid);
        /* It lives still: so it was its status that was read. */
        if (k >= 0)
                k = pid_of_pidfd(r->request.scope_pidfd, &again);
        if (k < 0)
                return k;
        r->scope_pid = pid;
        return 0;
}

int run_scope_check(Run *r, Error **reterr)
{
        int k;

        if (!r->scope)
                return 0;
        k = check_process(r);
        if (k == -EPERM)
                return error_set(reterr, -EACCES,
                                "the process that was handed over is not agentbox-exec as uid %u, without "
                                "capabilities, with no_new_privs and without a tracer",
                                r->caller.uid);
        return k < 0 ? error_set(reterr, k, "the process that was handed over cannot be looked at: %s",
                                       strerror(-k))
                     : 0;
}

static bool is_still_there(const Run *r)
{
        pid_t pid;

        return pid_of_pidfd(r->request.scope_pidfd, &pid) >= 0 && pid == r->scope_pid;
}

int run_scope_take_channel(Run *r, Error **reterr)
{
        int domain = 0, type = 0;
        socklen_t n = sizeof(int);

        if (getsockopt(r->request.scope_channel, SOL_SOCKET, SO_DOMAIN, &domain, &n) < 0 ||
                        domain != AF_UNIX ||
                        getsockopt(r->request.scope_channel, SOL_SOCKET, SO_TYPE, &type, &n) < 0 ||
                        type != SOCK_SEQPACKET)
                return error_set(reterr, -EINVAL,
                                "the channel that was handed over is no sequenced-packet socket");
        r->channel_fd = TAKE_FD(r->request.scope_channel);
        return is_still_there(r) ? 0 : error_set(reterr, -ESRCH, "the process that was handed over is gone");
}

int run_scope_make_workspace(Run *r, Error **reterr)
{
        /* Its owner shows with the mount; until then nobody can write there. */
        if (fchmod(r->dir_fd, 0755) < 0 || mkdirat(r->dir_fd, SCOPE_WORKSPACE, 0755) < 0 ||
                        asprintf(&r->workspace, "%s/%s/%s", RUNTIME_DIR, r->id, SCOPE_WORKSPACE) < 0)
                return error_set(reterr, -errno, "cannot make the run's workspace: %s", strerror(errno));
        snprintf(r->mount, sizeof(r->mount), "run-agentbox-%s-" SCOPE_WORKSPACE ".mount", r->id);
        return 0;
}

/* PID 1 unmounts it when the scope is over. Looked for where PID 1 is: a host whose root is no shared mount
 * (a container's may be) tells us nothing of its mounts, and a broker that was started meanwhile keeps a
 * copy. There the empty directory stays until the next broker starts. */
bool run_scope_workspace_is_mounted(const Run *r)
{
        _cleanup_free_ char *table = NULL, *path = NULL, *type = NULL, *options = NULL, *super = NULL;

        if (!r->scope || read_file("/proc/1/mountinfo", MOUNTINFO_MAX, &table, NULL) < 0 ||
                        asprintf(&path, "%s/%s/%s", RUNTIME_DIR, r->id, SCOPE_WORKSPACE) < 0)
                return false;
        return mountinfo_find(table, path, &type, &options, &super) >= 0;
}

int run_scope_start(Run *r)
{
        _cleanup_buf_ Buf message = {};
        int k = is_still_there(r) ? scope_start_encode(r->workspace, &message) : -ESRCH;

        if (k < 0)
                return k;
        r->scope_started = true;
        return send(r->channel_fd, message.data, message.size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

bool run_scope_attests(const Run *r)
{
        return !r->scope ||
               (r->scope_started && r->peer.pid == r->scope_pid && r->peer.uid == r->caller.uid);
}

int run_scope_report(Run *r, int code, int status)
{
        bool exited = code == CLD_EXITED && status >= 0 && status <= 255;
        bool killed = (code == CLD_KILLED || code == CLD_DUMPED) && status >= 1 && status <= 64;

        if (!r->scope || !(exited || killed))
                return -EINVAL;
        if (r->phase < RUN_LAUNCHED || r->phase == RUN_ENDED || r->exit_is_reported)
                return 0;
        r->exit_is_reported = true;
        r->status.exec_main_code = code;
        r->status.exec_main_status = status;
        return 0;
}

bool run_scope_awaits_report(Run *r)
{
        return r->scope && !r->exit_is_reported && !r->refused && !r->client_gone &&
               r->n_report_checks++ < REPORT_CHECKS_MAX;
}
