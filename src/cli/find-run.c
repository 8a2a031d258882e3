/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>

#include "cli/audit-log.h"
#include "cli/client.h"
#include "cli/find-run.h"

int find_run_in_journal(const char *run, char **ret_id, Error **reterr)
{
        _cleanup_error_ Error *e = NULL;
        _cleanup_bus_ sd_bus *bus = NULL;
        _cleanup_free_ char *id = NULL;
        int r;

        if (!*run)
                return error_set(reterr, -EINVAL, "no run is named by an empty text");
        r = audit_find_run(run, ret_id, &e);
        if (r == -ENOENT && client_connect(&bus, NULL) >= 0 && client_find_run(bus, run, &id, NULL) >= 0)
                r = audit_find_run(id, ret_id, NULL);
        if (r < 0)
                *reterr = TAKE_PTR(e);
        return r;
}
