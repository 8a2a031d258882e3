/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>

#include "cli/audit-log.h"
#include "cli/find-run.h"
#include "cli/learn.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/own-addresses.h"
#include "cli/verbs.h"

static int read_run(const char *run, char ***ids, Learn *l, Error **reterr)
{
        _cleanup_audit_log_ AuditLog *j = NULL;
        _cleanup_free_ char *id = NULL;
        int r = find_run_in_journal(run, &id, reterr);

        if (r < 0)
                return r;
        if (strv_contains(*ids, id))
                return 0;
        if (strv_extend(ids, id) < 0)
                return error_set(reterr, -ENOMEM, "out of memory");
        r = audit_open(id, 0, &j, reterr);
        while (r >= 0) {
                _cleanup_json_ json_t *record = NULL;
                int k = audit_next(j, &record);

                if (k < 0)
                        return error_set(reterr, k, "cannot read the journal: %s", strerror(-k));
                if (k == 0)
                        return 0;
                r = learn_take(l, record, reterr);
        }
        return r;
}

int policy_learn(char *const *runs, bool drop_in)
{
        _cleanup_strv_ char **ids = NULL, **own = NULL;
        _cleanup_policy_ Policy *policy = NULL;
        _cleanup_error_ Error *e = NULL;
        _cleanup_learn_ Learn l = {};
        _cleanup_buf_ Buf text = {};
        int r = 0;

        STRV_FOREACH(i, runs) {
                r = read_run(*i, &ids, &l, &e);
                if (r < 0)
                        return message_failure(e, r);
        }
        if (policy_load(l.policy, NULL, NULL, &policy, &e) < 0)
                message("policy %s cannot be read as it is now, so lines that it has are proposed again: %s",
                                l.policy, error_message(e, -EINVAL));
        r = own_addresses(&own);
        if (r >= 0)
                r = learn_print(&l, &(AdviceContext){ .policy = policy, .own = own },
                                drop_in ? LEARN_DROP_IN : LEARN_DIFF, &text);
        if (r < 0)
                return message_failure(NULL, r);
        fwrite(text.data, 1, text.size, stdout);
        r = output_flush();
        return r < 0 ? message_failure(NULL, r) : 0;
}
