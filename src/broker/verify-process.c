/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/io.h"
#include "broker/bus-props.h"
#include "broker/verify.h"

/* The process behind the kernel's word for who sent the report (SCM_CREDENTIALS), in the broker's own /proc.
 */

#define STATUS_MAX (64u * 1024)
#define CMDLINE_MAX (64u * 1024)

static const char *proc_path(const VerifyInput *in, pid_t pid, const char *file, char space[static PATH_MAX])
{
        snprintf(space, PATH_MAX, "%s/%i/%s", in->host->proc ? in->host->proc : "/proc", (int) pid, file);
        return space;
}

static int read_proc(const VerifyInput *in, pid_t pid, const char *file, size_t max, char **ret, size_t *ret_size)
{
        char space[PATH_MAX];

        return read_file(proc_path(in, pid, file, space), max, ret, ret_size);
}

int verify_read_proc(const VerifyInput *in, const char *file, size_t max, char **ret, size_t *ret_size)
{
        return read_proc(in, in->peer.pid, file, max, ret, ret_size);
}

int proc_status_field(const char *status, const char *name, char **ret)
{
        size_t n = strlen(name);

        for (const char *line = status; line; line = strchr(line, '\n')) {
                line += *line == '\n';
                if (strncmp(line, name, n) != 0 || line[n] != ':')
                        continue;
                line += n + 1 + strspn(line + n + 1, " \t");
                *ret = strndup(line, strcspn(line, "\n"));
                return *ret ? 0 : -ENOMEM;
        }
        return -ENOENT;
}

static int status_equals(const char *status, const char *name, const char *wanted, Buf *why)
{
        _cleanup_free_ char *value = NULL;
        int r = proc_status_field(status, name, &value);

        if (r == -ENOENT)
                return broken(why, "/proc has no %s", name);
        if (r < 0)
                return r;
        return streq(value, wanted) ? 0
                                    : broken(why, "%s is \"%s\" from outside, \"%s\" was reported", name,
                                                      value, wanted);
}

static int compare_status(const VerifyInput *in, Buf *why)
{
        const Attest *a = in->attest;
        char uids[64], gids[64], mode[16];
        const struct {
                const char *name;
                uint64_t set;
        } sets[] = {
                { "CapInh", a->cap_inheritable },
                { "CapPrm", a->cap_permitted },
                { "CapEff", a->cap_effective },
                { "CapBnd", a->cap_bounding },
                { "CapAmb", a->cap_ambient },
        };
        _cleanup_free_ char *status = NULL;
        int r = verify_read_proc(in, "status", STATUS_MAX, &status, NULL), verdict = 0;

        if (r < 0)
                return r == -ENOENT ? broken(why, "process %i is gone", (int) in->peer.pid) : r;
        snprintf(uids, sizeof(uids), "%u\t%u\t%u\t%u", a->uid[0], a->uid[1], a->uid[2], a->uid[3]);
        snprintf(gids, sizeof(gids), "%u\t%u\t%u\t%u", a->gid[0], a->gid[1], a->gid[2], a->gid[3]);
        snprintf(mode, sizeof(mode), "%u", a->seccomp_mode);
        verdict |= status_equals(status, "Uid", uids, why);
        verdict |= status_equals(status, "Gid", gids, why);
        verdict |= status_equals(status, "NoNewPrivs", a->no_new_privs ? "1" : "0", why);
        verdict |= status_equals(status, "Seccomp", mode, why);
        for (size_t i = 0; i < ELEMENTSOF(sets); i++) {
                char text[32];

                snprintf(text, sizeof(text), "%016llx", (unsigned long long) sets[i].set);
                verdict |= status_equals(status, sets[i].name, text, why);
        }
        /* IgnoreSIGPIPE=no: a workload must not start with signals ignored. */
        return in->context->scope ? verdict
                                  : verdict | status_equals(status, "SigIgn", "0000000000000000", why);
}

static int compare_namespaces(const VerifyInput *in, Buf *why)
{
        int verdict = 0;

        for (int i = 0; i < _ATTEST_NS_MAX; i++) {
                char path[PATH_MAX], name[32];
                struct stat st;

                snprintf(name, sizeof(name), "ns/%s", attest_ns_names[i]);
                if (stat(proc_path(in, in->peer.pid, name, path), &st) < 0)
                        return -errno;
                if (st.st_ino != in->attest->ns[i])
                        verdict = broken(why, "its %s namespace is another one from outside",
                                        attest_ns_names[i]);
        }
        return verdict;
}

/* Whoever traces it from its first instruction on could have it say anything. */
static int compare_program(const VerifyInput *in, Buf *why)
{
        _cleanup_free_ char *status = NULL;
        struct stat is, wanted;
        char path[PATH_MAX];
        int r = verify_read_proc(in, "status", STATUS_MAX, &status, NULL);

        if (r < 0)
                return r;
        if (stat(proc_path(in, in->peer.pid, "exe", path), &is) < 0 || stat(in->context->shim_path, &wanted) < 0)
                return -errno;
        if (is.st_dev != wanted.st_dev || is.st_ino != wanted.st_ino)
                return broken(why, "it is another program than %s", in->context->shim_path);
        return status_equals(status, "TracerPid", "0", why);
}

static int compare_cmdline_of(const VerifyInput *in, pid_t pid, Buf *why)
{
        const UnitProp *exec = unit_props_find(in->sent, "ExecStart");
        _cleanup_free_ char *text = NULL;
        _cleanup_buf_ Buf wanted = {};
        size_t n = 0;
        int r;

        if (!exec)
                return broken(why, "the unit starts nothing");
        STRV_FOREACH(i, exec->l)
                buf_append(&wanted, *i, strlen(*i) + 1);
        if (wanted.error < 0)
                return wanted.error;
        r = read_proc(in, pid, "cmdline", CMDLINE_MAX, &text, &n);
        if (r < 0)
                return r;
        return n == wanted.size && memcmp(text, wanted.data, n) == 0
                               ? 0
                               : broken(why, "it does not run what the unit starts");
}

static int compare_cmdline(const VerifyInput *in, Buf *why)
{
        /* Of a scope its client started it, as it should: see run-scope.c */
        return in->context->scope ? compare_program(in, why) : compare_cmdline_of(in, in->peer.pid, why);
}

static int compare_main_pid(const VerifyInput *in, Buf *why)
{
        const BusProp *main_pid = bus_props_find(in->read, "MainPID");
        char text[16];

        if (was_sent(in, "PrivatePIDs")) /* promise "processes" */
                return 0;
        if (!main_pid) /* a scope has none; promise "cgroup" ties the process to it */
                return in->context->scope ? 0 : broken(why, "PID 1 names no main process");
        snprintf(text, sizeof(text), "%i", (int) in->peer.pid);
        return strv_length(main_pid->items) == 1 && streq(main_pid->items[0], text)
                               ? 0
                               : broken(why, "the report came from %s, which is not the unit's main process",
                                                 text);
}

int verify_process(const VerifyInput *in, Buf *why)
{
        static int (*const steps[])(const VerifyInput *in, Buf *why) = { compare_status, compare_namespaces,
                compare_cmdline, compare_main_pid };
        int verdict = 0;

        if (in->attest->pid != in->peer.pid && !was_sent(in, "PrivatePIDs"))
                return broken(why, "pid %i reported, the kernel says %i", in->attest->pid,
                                (int) in->peer.pid);
        for (size_t i = 0; i < ELEMENTSOF(steps); i++) {
                int r = steps[i](in, why);

                if (r < 0)
                        return r;
                verdict |= r;
        }
        return verdict;
}

/* ---- with PIDs of its own */

/* "NSpid: OURS ITS-OWN": it is in one namespace, of ours. */
static int compare_pids(const VerifyInput *in, pid_t pid, const char *status, int own, Buf *why)
{
        char text[32];

        snprintf(text, sizeof(text), "%i\t%i", (int) pid, own);
        return status_equals(status, "NSpid", text, why);
}

/* Whom the workload is a child of, and cannot have made or replaced: everything is as it was for the process that reports, and
 * one more filter is loaded. */
static int verify_init(const VerifyInput *in, Buf *why)
{
        const Attest *a = in->attest;
        _cleanup_free_ char *status = NULL;
        char uids[64], filters[16], path[PATH_MAX];
        struct stat st;
        int r = read_proc(in, in->main_pid, "status", STATUS_MAX, &status, NULL), verdict = 0;

        if (r < 0)
                return r == -ENOENT ? broken(why, "its init %i is gone", (int) in->main_pid) : r;
        snprintf(uids, sizeof(uids), "%u\t%u\t%u\t%u", a->uid[0], a->uid[1], a->uid[2], a->uid[3]);
        snprintf(filters, sizeof(filters), "%u", a->seccomp_filters + 1);
        verdict |= compare_pids(in, in->main_pid, status, 1, why);
        verdict |= status_equals(status, "Uid", uids, why);
        verdict |= status_equals(status, "TracerPid", "0", why);
        verdict |= status_equals(status, "SigBlk", "0000000000000000", why);
        verdict |= status_equals(status, "SigCgt", "0000000000000000", why);
        verdict |= status_equals(status, "Seccomp_filters", filters, why);
        if (stat(proc_path(in, in->main_pid, "ns/pid", path), &st) < 0)
                return -errno;
        if (st.st_ino != a->ns[ATTEST_NS_PID])
                verdict = broken(why, "its init is in another namespace");
        /* The kernel's word for who may look into it. */
        if (stat(proc_path(in, in->main_pid, "status", path), &st) < 0)
                return -errno;
        if (st.st_uid == in->peer.uid)
                verdict = broken(why, "its init can be dumped");
        r = compare_cmdline_of(in, in->main_pid, why);
        return r < 0 ? r : verdict | r;
}

int verify_processes(const VerifyInput *in, Buf *why)
{
        _cleanup_free_ char *status = NULL;
        uint64_t inode = in->attest->ns[ATTEST_NS_PID];
        char parent[16];
        int r, verdict = 0;

        if (inode == 0 || inode == in->host->ns[ATTEST_NS_PID])
                return broken(why, "the PID namespace is the host's");
        r = verify_read_proc(in, "status", STATUS_MAX, &status, NULL);
        if (r < 0)
                return r;
        if (in->main_pid <= 1 || in->main_pid == in->peer.pid)
                return broken(why, "nobody is its init");
        snprintf(parent, sizeof(parent), "%i", (int) in->main_pid);
        verdict |= status_equals(status, "PPid", parent, why);
        verdict |= compare_pids(in, in->peer.pid, status, in->attest->pid, why);
        verdict |= status_equals(status, "TracerPid", "0", why);
        r = verify_init(in, why);
        return r < 0 ? r : verdict | r;
}
