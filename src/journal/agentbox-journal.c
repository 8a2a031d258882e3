/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* agentbox-journal
 *
 * Reads the journal for a caller of agentbox who may not read it: the records that count (cli/audit.h), and what detached runs
 * have printed, of that caller's own runs. Started by PID 1 for each connection to agentbox-journal.socket, which the group
 * agentbox may make.
 *
 * uid            its own dynamic one, in a unit of its own, without any capability; it refuses to be root. It is in the group
 *                systemd-journal, which may read everything that is in the journal
 * descriptors    0 and 1: the connection; the journal's files
 * trusts         the kernel about who has connected (SO_PEERCRED), journald about who has written what
 * must           tell of records alone of runs that the broker has put on record as that uid's; whatever the client asks for, and
 *                whatever number a warden has written
 * must not       write anything but its answer
 *
 * Stages: who is it, query, answer. */

#include <errno.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/journal-log.h"
#include "cli/output.h"
#include "wire/caller-uid.h"

#define CONNECTION 0
#define QUERY_PATIENCE_SEC 10

static int read_query(JournalQuery *ret)
{
        const struct timeval patience = { .tv_sec = QUERY_PATIENCE_SEC };
        uint8_t data[JOURNAL_QUERY_SIZE_MAX + 1];
        size_t size = 0;
        ssize_t n;

        if (setsockopt(CONNECTION, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0)
                return -errno;
        do {
                n = read(CONNECTION, data + size, sizeof(data) - size);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                size += (size_t) n;
        } while (n != 0 && size < sizeof(data));
        return journal_query_decode(data, size, ret);
}

static int check_caller(uid_t uid, Error **reterr)
{
        const struct passwd *pw = getpwuid(uid);
        const char *refusal = caller_uid_refusal(uid, pw ? pw->pw_name : NULL);

        return refusal ? error_set(reterr, -EPERM, "not authorised: uid %u %s", (unsigned) uid, refusal) : 0;
}

static int say_run(const char *id)
{
        _cleanup_json_ json_t *line = json_pack("{s:s}", "run", id);

        return output_json(line);
}

static int find_run(const JournalQuery *q, uid_t caller, Error **reterr)
{
        _cleanup_free_ char *id = NULL;
        int r = journal_log_find(q->run, caller, &id, reterr);

        return r < 0 ? r : say_run(id);
}

static int print_all(JournalLog *l, JournalOwner *owner)
{
        int r;

        for (;;) {
                _cleanup_json_ json_t *record = NULL;

                r = journal_log_next(l, &record);
                if (r <= 0)
                        break;
                r = journal_owner_has(owner, record);
                if (r > 0)
                        r = output_json(record);
                if (r < 0)
                        return r;
        }
        /* There is no more for now. */
        if (r >= 0 && puts("") < 0)
                r = -EIO;
        return r < 0 ? r : output_flush();
}

/* 0: there may be more to tell; 1: the client has closed the connection. */
static int wait_for_more(JournalLog *l)
{
        struct pollfd p[] = {
                { .fd = journal_log_fd(l), .events = POLLIN },
                { .fd = CONNECTION }, /* its end comes without being asked for */
        };
        int r;

        if (p[0].fd < 0)
                return p[0].fd;
        if (poll(p, ELEMENTSOF(p), -1) < 0)
                return errno == EINTR ? 0 : -errno;
        if (p[1].revents)
                return 1;
        r = journal_log_process(l);
        return r < 0 ? r : 0;
}

static int tell_records(const JournalQuery *q, uid_t caller, Error **reterr)
{
        _cleanup_(journal_owner_done) JournalOwner owner = { .caller = caller };
        _cleanup_journal_log_ JournalLog *l = NULL;
        int r = journal_log_open(q, caller, &l, reterr);

        while (r == 0) {
                r = print_all(l, &owner);
                if (r < 0 || !q->follow)
                        break;
                r = wait_for_more(l);
        }
        return r < 0 ? r : 0;
}

static void say_error(const Error *e, int code)
{
        _cleanup_json_ json_t *line = json_pack("{s:s,s:i}", "error", error_message(e, code), "errno", -code);

        (void) output_json(line);
}

int main(int argc, char *argv[])
{
        _cleanup_error_ Error *e = NULL;
        JournalQuery q = {};
        struct ucred peer = {};
        socklen_t n = sizeof(peer);
        int r;

        (void) argv;
        if (argc != 1 || getuid() == 0 || getsockopt(CONNECTION, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0 ||
                        peer.pid == 0 || peer.uid == CALLER_ANY) {
                fputs("agentbox-journal: started by PID 1 for a caller, never as root\n", stderr);
                return EXIT_FAILURE;
        }
        r = read_query(&q);
        if (r >= 0)
                r = check_caller(peer.uid, &e);
        if (r >= 0)
                r = q.kind == JOURNAL_FIND ? find_run(&q, peer.uid, &e) : tell_records(&q, peer.uid, &e);
        if (r < 0)
                say_error(e, r);
        journal_query_done(&q);
        return output_flush() < 0 || r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
