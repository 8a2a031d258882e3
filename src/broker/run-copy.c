/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <syslog.h>
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

#include "base/escape.h"
#include "base/parse.h"
#include "broker/copy-reader.h"
#include "broker/run-copy.h"
#include "broker/run.h"
#include "broker/workspace-disk.h"

#define COPY_WAIT_USEC \
        (UINT64_C(3600) * 1000000) /* a client that takes a little now and then has no longer */
#define REPORTS_MAX 4u
#define REASON_MAX 1024u

RunCopy *run_copy_free(RunCopy *c)
{
        CopyoutReport report;

        if (!c)
                return NULL;
        sd_event_source_disable_unref(c->report_source);
        sd_event_source_disable_unref(c->deadline);
        if (c->reader > 0)
                (void) copy_reader_finish(c->reader, c->uid, TAKE_FD(c->report_fd), &report);
        closep(&c->report_fd);
        closep(&c->in_fd);
        closep(&c->out_fd);
        closep(&c->workspace_fd);
        closep(&c->view_fd);
        strv_free(c->paths);
        free(c);
        return NULL;
}

int run_copy_take(Run *r)
{
        Request *q = &r->request;
        RunCopy *c;

        if (q->copy_in < 0 && q->copy_out < 0)
                return 0;
        c = calloc(1, sizeof(*c));
        if (!c)
                return -ENOMEM;
        *c = (RunCopy){
                .in_fd = TAKE_FD(q->copy_in),
                .out_fd = TAKE_FD(q->copy_out),
                .paths = TAKE_PTR(q->copy_paths),
                .workspace_fd = -1,
                .view_fd = -1,
                .max_bytes = policy_u64(r->policy, FILES_COPY_OUT_SIZE),
                .max_files = policy_u64(r->policy, FILES_COPY_OUT_FILES),
                .report_fd = -1,
        };
        r->copy = c;
        return 0;
}

static bool is_overlay(int fd)
{
        struct statfs fs;

        return fstatfs(fd, &fs) >= 0 && fs.f_type == OVERLAYFS_SUPER_MAGIC;
}

/* By what the kernel knows of them: all have the same name. */
static void take_stored(Run *r, RunCopy *c)
{
        int fd;

        while ((fd = fd_store_take(&r->manager->stored, FD_STORE_COPY, r->id)) >= 0) {
                int *to = fcntl(fd, F_GETPIPE_SZ) >= 0 ? &c->out_fd
                          : is_overlay(fd)             ? &c->view_fd
                                                       : &c->workspace_fd;

                closep(to);
                *to = fd;
        }
}

int run_copy_adopt(Run *r, char **paths, uint64_t max_bytes, uint64_t max_files)
{
        RunCopy *c = strv_length(paths) > 0 ? calloc(1, sizeof(*c)) : NULL;

        if (!c) {
                int k = strv_length(paths) > 0 ? -ENOMEM : 0;

                strv_free(paths);
                return k;
        }
        *c = (RunCopy){
                .in_fd = -1,
                .out_fd = -1,
                .workspace_fd = -1,
                .view_fd = -1,
                .paths = paths,
                .max_bytes = max_bytes,
                .max_files = max_files,
                .report_fd = -1,
        };
        take_stored(r, c);
        r->copy = c;
        return 0;
}

int run_copy_keep_workspace(Run *r, int workspace_fd, int view_fd)
{
        r->copy->workspace_fd = workspace_fd;
        r->copy->view_fd = view_fd;
        return fd_store_put(FD_STORE_COPY, r->id, (const int[]){ r->copy->out_fd, workspace_fd, view_fd },
                        view_fd < 0 ? 2 : 3);
}

int run_copy_in_fd(const Run *r)
{
        return r->copy ? r->copy->in_fd : -1;
}

bool run_copy_wants_workspace(const Run *r)
{
        return r->copy && r->copy->out_fd >= 0;
}

int run_copy_open_scope_workspace(const char *path)
{
        int fd = (int) syscall(SYS_open_tree, AT_FDCWD, path,
                            OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT),
            dir;

        if (fd < 0)
                return -errno;
        /* What it gives can only be looked up in. */
        dir = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0)
                dir = -errno;
        close(fd);
        return dir;
}

/* ---- records */

static void record(const Run *r, AuditEvent event, const char *message, uint64_t files, uint64_t bytes,
                const char *reason)
{
        AuditSubject subject = run_subject(r);
        int k = audit_write(event, &subject,
                        &(AuditDetail){
                                        .message = message ?: "Files were copied",
                                        .reason = reason,
                                        .has_copy = true,
                                        .files = files,
                                        .bytes = bytes,
                        });

        if (k < 0)
                sd_journal_print(LOG_ERR, "What run %s copied cannot be written to the journal: %s", r->id,
                                strerror(-k));
}

static void record_copied(const Run *r, AuditEvent event, const char *where, uint64_t files, uint64_t bytes,
                uint64_t left)
{
        _cleanup_free_ char *message = NULL, *reason = NULL;

        if (left > 0 && asprintf(&reason,
                                        "%" PRIu64 " were %sleft out: devices, sockets, fifos, links that may "
                                        "lead out, or not readable",
                                        left, r->copy->view_fd >= 0 ? "deleted, or " : "") < 0)
                reason = NULL;
        if (asprintf(&message, "Run %s: %" PRIu64 " files, %" PRIu64 " bytes copied %s%s%s", r->id, files,
                            bytes, where, reason ? "; " : "", reason ?: "") < 0)
                message = NULL;
        record(r, event, message, files, bytes, reason);
}

static void record_refused(
                const Run *r, const char *what, uint64_t files, uint64_t bytes, const char *reason)
{
        _cleanup_free_ char *message = NULL;

        if (asprintf(&message, "Run %s: %s: %s", r->id, what, reason ?: "?") < 0)
                message = NULL;
        record(r, AUDIT_COPY_REFUSED, message, files, bytes, reason);
}

/* ---- in */

void run_copy_on_sent(Run *r)
{
        /* A sender must see when the shim is gone. */
        closep(&r->copy->in_fd);
        r->copy->in_fd = -1;
        r->copy->was_in = true;
}

void run_copy_on_copied(Run *r, const ExecCopied *c)
{
        if (run_copy_is_in(r))
                record_copied(r, AUDIT_COPY_IN, "in", c->files, c->bytes, c->left);
}

bool run_copy_is_in(const Run *r)
{
        return r->copy && r->copy->was_in;
}

static const char *why_shim_died(Run *r)
{
        static const struct {
                const char *result, *text;
        } rows[] = {
                { "timeout", "the run's time limit passed meanwhile" },
                { "oom-kill", "the run's memory limit was reached (what is in the workspace counts)" },
        };

        run_usage_sample(&r->usage);
        if (r->usage.last[USAGE_OOM_KILLS] != UINT64_MAX && r->usage.last[USAGE_OOM_KILLS] > 0)
                return rows[1].text;
        /* The kernel kills for memory, and counts it; its counter may be gone already. */
        if (r->kill_reason == KILL_NONE && r->status.exec_main_code == CLD_KILLED &&
                        r->status.exec_main_status == SIGKILL)
                return r->usage.failed[USAGE_OOM_KILLS] ? "the shim was killed; if not by hand, for the run's memory limit (what "
                                                          "is in the workspace counts)"
                                                        : "the shim was killed";
        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                if (r->status.result && streq(rows[i].result, r->status.result))
                        return rows[i].text;
        return r->kill_reason != KILL_NONE ? "the run was ended meanwhile" : "the shim died";
}

static char *why_not_unpacked(Run *r, int error)
{
        _cleanup_free_ char *size = NULL, *inodes = NULL, *file_size = NULL;
        char *text;
        int k;

        switch (error) {
        case 0:
                return strdup(why_shim_died(r));
        case ENOSPC:
        case EDQUOT:
                size = format_size(policy_u64(r->policy, FILES_WORKSPACE_SIZE));
                inodes = format_size(policy_u64(r->policy, FILES_WORKSPACE_INODES));
                k = asprintf(&text,
                                "they do not fit into the workspace (WorkspaceSize=%s, WorkspaceInodes=%s)",
                                size ?: "?", inodes ?: "?");
                break;
        case EFBIG:
                file_size = format_size(policy_u64(r->policy, LIMITS_FILE_SIZE));
                k = asprintf(&text, "a file is larger than FileSize=%s allows", file_size ?: "?");
                break;
        case EEXIST:
                k = asprintf(&text, "two of them have the same place");
                break;
        case EBADMSG:
        case EREMOTEIO:
                k = asprintf(&text, "they did not come whole");
                break;
        case ELOOP:
        case ENOTDIR:
                k = asprintf(&text, "a directory that one is to go into is none");
                break;
        default:
                k = asprintf(&text, "%s", strerror(error));
        }
        return k < 0 ? NULL : text;
}

char *run_copy_on_unpack_failure(Run *r, int error)
{
        _cleanup_free_ char *why = why_not_unpacked(r, error);
        char *text;

        if (!run_copy_is_in(r))
                return asprintf(&text, "the command was not executed: %s", why ?: "?") < 0 ? NULL : text;
        record_refused(r, "nothing is copied in", 0, 0, why);
        return asprintf(&text, "cannot copy in: %s", why ?: "?") < 0 ? NULL : text;
}

/* ---- out */

static void drop_out(Run *r)
{
        RunCopy *c = r->copy;

        if (c->workspace_fd >= 0)
                workspace_disk_abandon(c->workspace_fd);
        if (c->out_fd >= 0 || c->workspace_fd >= 0)
                fd_store_drop(FD_STORE_COPY, r->id);
        c->report_source = sd_event_source_disable_unref(c->report_source);
        c->deadline = sd_event_source_disable_unref(c->deadline);
        closep(&c->out_fd);
        closep(&c->workspace_fd);
        closep(&c->view_fd);
        c->out_fd = c->workspace_fd = c->view_fd = -1;
}

/* why: what this broker knows; NULL: what the reader says. */
static void end_out(Run *r, const char *why)
{
        RunCopy *c = r->copy;
        CopyoutReport report = { .outcome = COPYOUT_BROKEN, .error = ECHILD };
        _cleanup_free_ char *said = NULL;
        int k = 0;

        /* Before its descriptor is closed: a child that is just being forked has a copy of that, and the
         * loop would go on hearing of it. */
        c->report_source = sd_event_source_disable_unref(c->report_source);
        if (c->reader > 0)
                k = copy_reader_finish(c->reader, c->uid, TAKE_FD(c->report_fd), &report);
        c->reader = 0;
        if (!why && k < 0)
                why = "whoever read the workspace died";
        if (!why)
                why = said = copy_reader_why(&report, c->max_bytes, c->max_files);
        if (!why && report.outcome == COPYOUT_SENT)
                record_copied(r, AUDIT_COPY_OUT, "out", report.entries, report.bytes, report.left);
        else
                record_refused(r, "nothing whole is copied out", report.entries, report.bytes, why);
        drop_out(r);
}

static int on_report(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Run *r = userdata;

        end_out(r, NULL);
        run_end(r);
        return 0;
}

static int on_copy_deadline(sd_event_source *source, uint64_t usec, void *userdata)
{
        Run *r = userdata;

        end_out(r, "its client takes too long");
        run_end(r);
        return 0;
}

static int start_reader(Run *r, Error **reterr)
{
        RunCopy *c = r->copy;
        Manager *m = r->manager;
        const CopyoutSpec spec = {
                .uid = r->uid,
                .gid = r->gid,
                .max_entries = c->max_files,
                .max_bytes = c->max_bytes,
                .paths = c->paths,
                .has_view = c->view_fd >= 0,
        };
        int k;

        if (c->workspace_fd < 0)
                return error_set(reterr, -ENOENT, "its workspace is gone");
        c->uid = r->uid;
        k = copy_reader_start(
                        COPYOUT_PATH, &spec, c->out_fd, c->workspace_fd, c->view_fd, &c->reader, &c->report_fd, reterr);
        if (k < 0)
                return k;
        /* The caller is to see the end as soon as the reader is gone. */
        closep(&c->out_fd);
        c->out_fd = -1;
        fd_store_drop(FD_STORE_COPY, r->id);
        k = sd_event_add_io(m->event, &c->report_source, c->report_fd, EPOLLIN, on_report, r);
        if (k >= 0)
                k = sd_event_add_time_relative(m->event, &c->deadline, CLOCK_MONOTONIC, COPY_WAIT_USEC, 0,
                                on_copy_deadline, r);
        return k < 0 ? error_set(reterr, k, "cannot wait for it: %s", strerror(-k)) : 0;
}

bool run_copy_is_over(Run *r)
{
        RunCopy *c = r->copy;
        _cleanup_error_ Error *e = NULL;
        int k;

        if (!c || c->reader > 0)
                return !c;
        if (c->out_fd < 0 || r->refused || r->client_gone) {
                drop_out(r);
                return true;
        }
        k = start_reader(r, &e);
        if (k >= 0)
                return false;
        end_out(r, error_message(e, k));
        return true;
}

void run_copy_abandon(Run *r, const char *why)
{
        if (!r->copy || r->copy->reader == 0)
                return;
        end_out(r, why);
        run_end(r);
}

int run_copy_report(Run *r, uint64_t files, uint64_t bytes, const char *reason)
{
        _cleanup_free_ char *shown = escape_for_display(reason, strlen(reason), REASON_MAX);

        if (!r->copy || strv_length(r->copy->paths) == 0 || r->copy->n_reports >= REPORTS_MAX)
                return -EINVAL;
        r->copy->n_reports++;
        record_refused(r, "not written, as its client says", files, bytes, shown);
        return 0;
}
