/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/io.h"
#include "cli/audit-log.h"
#include "cli/facts.h"
#include "cli/journal-log.h"
#include "cli/kernel-denial.h"
#include "cli/output.h"

struct AuditLog {
        JournalLog *journal; /* NULL: by way of the service */
        int fd;              /* its connection */
        Buf pending;         /* of its answer */
        size_t taken;        /* of those bytes */
        Error *error;         /* why the service does not go on */
        bool over, idle; /* idle: there was no more, when it was last asked */
};

AuditLog *audit_log_free(AuditLog *l)
{
        if (!l)
                return NULL;
        journal_log_close(l->journal);
        closep(&l->fd);
        buf_done(&l->pending);
        error_free(l->error);
        free(l);
        return NULL;
}

/* ---- by way of agentbox-journal */

static int ask(const JournalQuery *query, int *ret_fd)
{
        const struct sockaddr_un a = { .sun_family = AF_UNIX, .sun_path = JOURNAL_QUERY_SOCKET };
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        _cleanup_buf_ Buf b = {};
        int r = journal_query_encode(query, &b);

        if (r < 0)
                return r;
        if (fd < 0 || connect(fd, (const struct sockaddr *) &a, sizeof(a)) < 0)
                return -errno;
        if (send(fd, b.data, b.size, MSG_NOSIGNAL) != (ssize_t) b.size || shutdown(fd, SHUT_WR) < 0)
                return -EPIPE;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

static int read_more(AuditLog *l)
{
        static const size_t piece = 65536;
        _cleanup_free_ uint8_t *p = malloc(piece);
        ssize_t n;

        if (!p)
                return -ENOMEM;
        if (l->pending.size - l->taken > JOURNAL_QUERY_LINE_MAX)
                return -EBADMSG;
        if (l->taken > 0) {
                memmove(l->pending.data, l->pending.data + l->taken, l->pending.size - l->taken);
                l->pending.size -= l->taken;
                l->taken = 0;
        }
        do
                n = read(l->fd, p, piece);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        l->over = n == 0;
        return buf_append(&l->pending, p, (size_t) n);
}

/* 1: the next line, without its end, until the next call; 0: there will be none. */
static int read_line(AuditLog *l, const char **ret, size_t *ret_size)
{
        for (;;) {
                const char *p = (const char *) l->pending.data + l->taken;
                const char *end = l->pending.size > l->taken ? memchr(p, '\n', l->pending.size - l->taken) : NULL;
                int r;

                if (end) {
                        *ret = p;
                        *ret_size = (size_t) (end - p);
                        l->taken += *ret_size + 1;
                        return 1;
                }
                if (l->over)
                        return l->pending.size > l->taken ? -EBADMSG : 0;
                r = read_more(l);
                if (r < 0)
                        return r;
        }
}

static bool has_more(const AuditLog *l)
{
        struct pollfd p = { .fd = l->fd, .events = POLLIN };

        return l->pending.size > l->taken || poll(&p, 1, 0) > 0;
}

static int next_of_service(AuditLog *l, json_t **ret, Error **reterr)
{
        _cleanup_json_ json_t *record = NULL;
        const char *line, *error;
        bool was_idle = l->idle;
        size_t n = 0;
        int r = 0;

        if (!was_idle || has_more(l))
                r = read_line(l, &line, &n);
        l->idle = r == 0 || n == 0;
        /* It says when there is no more for now: who does not come to that has died over the answer. */
        if (r == 0 && !was_idle)
                return -ECONNRESET;
        if (r <= 0 || n == 0)
                return MIN2(r, 0);
        record = json_loadb(line, n, JSON_ALLOW_NUL, NULL);
        if (!json_is_object(record))
                return -EBADMSG;
        error = facts_string(record, "error");
        if (error) {
                int code = (int) json_integer_value(json_object_get(record, "errno"));

                return error_set(reterr, code > 0 && code < 4096 ? -code : -EIO, "%s", error);
        }
        *ret = TAKE_PTR(record);
        return 1;
}

/* Why the files cannot be read is said where the service cannot be asked either. */
static int open_by_service(const JournalQuery *query, AuditLog *l, Error **reterr)
{
        int r = ask(query, &l->fd);

        if (r == -EINVAL)
                return error_set(reterr, -ENOENT, "the journal knows no such run: see \"agentbox log\" for those that it knows");
        if (r >= 0)
                return 0;
        return error_set(reterr, -EACCES,
                        "cannot read the system's journal: be root or a member of the group systemd-journal (or adm); "
                        "or, for runs of your own, of the group agentbox (%s: %s)",
                        JOURNAL_QUERY_SOCKET, strerror(-r));
}

/* ---- both */

int audit_log_open(const JournalQuery *query, AuditLog **ret, Error **reterr)
{
        _cleanup_audit_log_ AuditLog *l = calloc(1, sizeof(*l));
        _cleanup_error_ Error *e = NULL;
        int r;

        if (!l)
                return error_set(reterr, -ENOMEM, "out of memory");
        l->fd = -1;
        r = journal_log_open(query, CALLER_ANY, &l->journal, &e);
        if (r == -EACCES)
                r = open_by_service(query, l, reterr);
        else if (r < 0)
                error_set(reterr, r, "%s", error_message(e, r));
        if (r < 0)
                return r;
        *ret = TAKE_PTR(l);
        return 0;
}

int audit_open(const char *run, uint64_t since, AuditLog **ret, Error **reterr)
{
        return audit_log_open(&(JournalQuery){ .run = (char *) (run ?: ""), .since = since }, ret, reterr);
}

int audit_next(AuditLog *l, json_t **ret)
{
        json_t *record;
        int r = l->journal ? journal_log_next(l->journal, &record) : next_of_service(l, &record, l->error ? NULL : &l->error);

        if (r <= 0)
                return r;
        if (kernel_denial_describe(record) < 0) {
                json_decref(record);
                return -ENOMEM;
        }
        *ret = record;
        return 1;
}

const char *audit_log_error(const AuditLog *l, int r)
{
        return l->error ? error_message(l->error, r) : strerror(-r);
}

int audit_log_fd(AuditLog *l)
{
        return l->journal ? journal_log_fd(l->journal) : l->fd;
}

int audit_log_process(AuditLog *l)
{
        int r = l->journal ? journal_log_process(l->journal) : 0;

        if (r < 0)
                return r;
        return l->over ? -ECONNRESET : 0;
}

int audit_log_wait(AuditLog *l)
{
        struct pollfd p = { .fd = audit_log_fd(l), .events = POLLIN };

        if (p.fd < 0)
                return p.fd;
        if (l->taken == l->pending.size && poll(&p, 1, -1) < 0 && errno != EINTR)
                return -errno;
        return audit_log_process(l);
}

static int find_by_service(const char *run, char **ret_id, Error **reterr)
{
        _cleanup_audit_log_ AuditLog *l = calloc(1, sizeof(*l));
        _cleanup_json_ json_t *found = NULL;
        const char *id;
        char *copy;
        int r;

        if (!l)
                return error_set(reterr, -ENOMEM, "out of memory");
        l->fd = -1;
        r = open_by_service(&(JournalQuery){ .kind = JOURNAL_FIND, .run = (char *) run }, l, reterr);
        if (r < 0)
                return r;
        r = next_of_service(l, &found, reterr);
        id = r > 0 ? facts_string(found, "run") : NULL;
        copy = id ? strdup(id) : NULL;
        if (!copy)
                return error_set(reterr, r < 0 ? r : -EBADMSG, "the journal cannot be read by way of %s", JOURNAL_QUERY_SOCKET);
        *ret_id = copy;
        return 0;
}

int audit_find_run(const char *run, char **ret_id, Error **reterr)
{
        _cleanup_error_ Error *e = NULL;
        int r = journal_log_find(run, CALLER_ANY, ret_id, &e);

        if (r == -EACCES)
                return find_by_service(run, ret_id, reterr);
        return r < 0 ? error_set(reterr, r, "%s", error_message(e, r)) : 0;
}
