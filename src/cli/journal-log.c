/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/strv.h"
#include "cli/audit.h"
#include "cli/facts.h"
#include "cli/journal-entry.h"
#include "cli/journal-kernel.h"
#include "cli/journal-log.h"
#include "cli/output.h"
#include "wire/output.h"

struct JournalLog {
        JournalKind kind;
        sd_journal *journal;
        KernelJoin *kernel; /* NULL: nothing of the kernel's is asked for, or it has been told */
        JournalQuery query; /* with kernel; run is ours */
        uid_t caller;
        uint64_t ended; /* of one run, when its end was written; 0: not yet */
};

/* What the kernel has seen of a run may reach the journal this much later than its end. */
#define LATE_USEC UINT64_C(60000000)

JournalLog *journal_log_close(JournalLog *l)
{
        if (!l)
                return NULL;
        sd_journal_close(l->journal);
        kernel_join_free(l->kernel);
        free(l->query.run);
        free(l);
        return NULL;
}

int journal_log_fd(JournalLog *l)
{
        return sd_journal_get_fd(l->journal);
}

int journal_log_process(JournalLog *l)
{
        return sd_journal_process(l->journal);
}

static int open_journal(JournalKind kind, sd_journal **ret, Error **reterr)
{
        _cleanup_journal_ sd_journal *j = NULL, *output = NULL;
        int r = journal_open_system(&j);

        /* A namespace without any file may be one that nobody has written to yet: the system's journal has some. */
        if (r == -EACCES)
                return error_set(reterr, -EACCES,
                                "cannot read the system's journal: be root or a member of the group "
                                "systemd-journal (or adm)");
        if (r >= 0 && kind == JOURNAL_OUTPUT)
                r = sd_journal_open_namespace(&output, OUTPUT_NAMESPACE, SD_JOURNAL_LOCAL_ONLY);
        if (r < 0)
                return error_set(reterr, r, "cannot open the journal: %s", strerror(-r));
        *ret = output ? TAKE_PTR(output) : TAKE_PTR(j);
        return 0;
}

/* The records of query, not yet the kernel's. */
static int match_records(sd_journal *j, const JournalQuery *query, uid_t caller)
{
        char uid[16];
        int r = 0;

        for (size_t i = 0; r >= 0 && query->kind == JOURNAL_AUDIT && audit_event_name(i); i++)
                r = journal_add_match(j, "AGENTBOX_EVENT", audit_event_name(i));
        if (r >= 0 && *query->run)
                r = journal_add_match(j, "AGENTBOX_RUN_ID", query->run);
        if (r >= 0 && caller != CALLER_ANY) {
                snprintf(uid, sizeof(uid), "%u", (unsigned) caller);
                r = journal_add_match(j, "AGENTBOX_CALLER_UID", uid);
        }
        return r;
}

/* Of one run, its own first record is the first that there can be, and the kernel's log is long. Anybody may have written
 * something of that name before: then there is more to look through. */
static int find_beginning(sd_journal *j, const JournalQuery *query, uint64_t *ret)
{
        uint64_t usec;
        int r;

        *ret = query->since;
        if (!*query->run)
                return 0;
        r = sd_journal_seek_head(j);
        if (r >= 0)
                r = sd_journal_next(j);
        if (r > 0)
                r = sd_journal_get_realtime_usec(j, &usec);
        if (r < 0)
                return r;
        if (usec > *ret)
                *ret = usec;
        return 0;
}

/* From this entry of the kernel's on nothing can be of the run: its log may be long. */
static int leave_kernel(JournalLog *l, uint64_t usec)
{
        int r;

        l->kernel = kernel_join_free(l->kernel);
        sd_journal_flush_matches(l->journal);
        r = match_records(l->journal, &l->query, l->caller);
        return r < 0 ? r : sd_journal_seek_realtime_usec(l->journal, usec);
}

static int take_kernels(JournalLog *l, json_t **ret)
{
        uint64_t usec;

        if (l->ended > 0 && sd_journal_get_realtime_usec(l->journal, &usec) >= 0 && usec > l->ended + LATE_USEC)
                return leave_kernel(l, usec);
        return kernel_join_take(l->kernel, l->journal, ret);
}

static int take_record(JournalLog *l, json_t **ret)
{
        int r = journal_entry_take(l->journal, l->kind, ret);

        if (r > 0 && l->kernel && *l->query.run && streq(facts_string(*ret, "AGENTBOX_EVENT") ?: "", "run-ended"))
                (void) sd_journal_get_realtime_usec(l->journal, &l->ended);
        return r;
}

int journal_log_next(JournalLog *l, json_t **ret)
{
        int r;

        while ((r = sd_journal_next(l->journal)) > 0) {
                r = l->kernel && kernel_join_is_kernels(l->journal) ? take_kernels(l, ret) : take_record(l, ret);
                if (r != 0)
                        return r;
        }
        return r;
}

static int open_log(const JournalQuery *query, uid_t caller, JournalLog *l)
{
        uint64_t since = query->since;
        int r = match_records(l->journal, query, caller);

        l->query = *query;
        l->caller = caller;
        l->query.run = strdup(query->run);
        if (!l->query.run)
                return -ENOMEM;

        if (r >= 0 && query->kind == JOURNAL_AUDIT) {
                r = find_beginning(l->journal, query, &since);
                if (r >= 0)
                        r = kernel_join_new(*query->run ? query->run : NULL, caller, &l->kernel);
                if (r >= 0)
                        r = kernel_join_add_matches(l->journal);
        }
        if (r < 0)
                return r;
        return since > 0 ? sd_journal_seek_realtime_usec(l->journal, since) : sd_journal_seek_head(l->journal);
}

int journal_log_open(const JournalQuery *query, uid_t caller, JournalLog **ret, Error **reterr)
{
        _cleanup_journal_log_ JournalLog *l = calloc(1, sizeof(*l));
        int r;

        if (!l)
                return error_set(reterr, -ENOMEM, "out of memory");
        l->kind = query->kind;
        r = open_journal(query->kind, &l->journal, reterr);
        if (r < 0)
                return r;
        r = open_log(query, caller, l);
        if (r < 0)
                return error_set(reterr, r, "cannot search the journal: %s", strerror(-r));
        *ret = TAKE_PTR(l);
        return 0;
}

int journal_open_matches(const char *const *matches, sd_journal **ret, Error **reterr)
{
        _cleanup_journal_ sd_journal *j = NULL;
        int r = open_journal(JOURNAL_AUDIT, &j, reterr);

        if (r < 0)
                return r;
        for (; r >= 0 && *matches; matches++)
                r = streq(*matches, "+") ? sd_journal_add_disjunction(j) : sd_journal_add_match(j, *matches, 0);
        if (r < 0)
                return error_set(reterr, r, "cannot search the journal: %s", strerror(-r));
        *ret = TAKE_PTR(j);
        return 0;
}

void journal_owner_done(JournalOwner *o)
{
        sd_journal_close(o->journal);
        free(o->run);
        *o = (JournalOwner){};
}

static int match_owner(sd_journal *j, const char *run, uid_t caller)
{
        char uid[16];
        int r;

        snprintf(uid, sizeof(uid), "%u", (unsigned) caller);
        sd_journal_flush_matches(j);
        r = journal_add_match(j, "AGENTBOX_RUN_ID", run);
        if (r >= 0)
                r = journal_add_match(j, "AGENTBOX_CALLER_UID", uid);
        if (r >= 0)
                r = journal_add_match(j, "_SYSTEMD_UNIT", AUDIT_BROKER_UNIT);
        return r < 0 ? r : sd_journal_seek_head(j);
}

int journal_owner_has(JournalOwner *o, const json_t *record)
{
        const char *run = facts_string(record, "AGENTBOX_RUN_ID");
        _cleanup_json_ json_t *said = NULL;
        char *copy;
        int r = 0;

        if (o->caller == CALLER_ANY)
                return 1;
        if (!run)
                return 0;
        if (o->run && streq(o->run, run))
                return 1;
        if (!o->journal)
                r = open_journal(JOURNAL_AUDIT, &o->journal, NULL);
        else /* files that have come since */
                r = sd_journal_process(o->journal);
        if (r >= 0)
                r = match_owner(o->journal, run, o->caller);
        if (r >= 0)
                r = journal_entry_next(o->journal, JOURNAL_AUDIT, &said);
        if (r <= 0)
                return r;
        copy = strdup(run);
        if (!copy)
                return -ENOMEM;
        free(o->run);
        o->run = copy;
        return 1;
}

static bool has_record(char *run, uid_t caller)
{
        _cleanup_(journal_owner_done) JournalOwner owner = { .caller = caller };
        _cleanup_journal_ sd_journal *j = NULL;
        _cleanup_json_ json_t *record = NULL;
        int r = open_journal(JOURNAL_AUDIT, &j, NULL);

        if (r >= 0)
                r = match_records(j, &(JournalQuery){ .run = run }, caller);
        if (r >= 0)
                r = sd_journal_seek_head(j);
        return r >= 0 && journal_entry_next(j, JOURNAL_AUDIT, &record) > 0 && journal_owner_has(&owner, record) > 0;
}

/* The ids in the journal that begin so. Everybody can put some there, so each must have a record that
 * counts. */
static int collect_candidates(sd_journal *j, const char *run, uid_t caller, char ***ret)
{
        const size_t prefix = strlen("AGENTBOX_RUN_ID=");
        _cleanup_strv_ char **l = NULL;
        const void *data;
        size_t n;
        int r = sd_journal_query_unique(j, "AGENTBOX_RUN_ID");

        if (r < 0)
                return r;
        SD_JOURNAL_FOREACH_UNIQUE(j, data, n)
        {
                _cleanup_free_ char *id =
                                n > prefix && n < ENTRY_FIELD_MAX ? strndup((const char *) data + prefix, n - prefix) : NULL;

                if (!id || !startswith(id, run) || strv_contains(l, id) || !has_record(id, caller))
                        continue;
                r = strv_extend(&l, id);
                if (r < 0)
                        return r;
        }
        *ret = TAKE_PTR(l);
        return 0;
}

int journal_log_find(const char *run, uid_t caller, char **ret_id, Error **reterr)
{
        _cleanup_journal_ sd_journal *j = NULL;
        _cleanup_strv_ char **l = NULL;
        const char *id;
        char *copy;
        int r = open_journal(JOURNAL_AUDIT, &j, reterr);

        if (r < 0)
                return r;
        r = collect_candidates(j, run, caller, &l);
        if (r < 0)
                return error_set(reterr, r, "cannot search the journal: %s", strerror(-r));
        id = strv_contains(l, run) ? run : l ? l[0] : NULL;
        if (!id)
                return error_set(reterr, -ENOENT, "the journal knows no run %s%s: see \"agentbox log\" for those that it knows", run,
                                caller == CALLER_ANY ? "" : " of yours");
        if (!streq(id, run) && strv_length(l) > 1)
                return error_set(reterr, -EINVAL, "%zu runs begin with %s: give more of the id",
                                strv_length(l), run);
        copy = strdup(id);
        if (!copy)
                return error_set(reterr, -ENOMEM, "out of memory");
        *ret_id = copy;
        return 0;
}
