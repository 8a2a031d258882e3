/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cli/client.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/verbs.h"

static const Usage thaw_usage = {
        .verb = "thaw",
        .synopsis = "RUN",
        .description = "Lets a run go on that touched a tripwire and was frozen (OnTripwire=freeze). Only root, or "
                       "whom polkit\n"
                       "lets manage all runs, may do that: not the run's own caller.",
        .min = 1,
        .max = 1,
};

int verb_thaw(int argc, char **argv)
{
        _cleanup_error_ Error *e = NULL;
        _cleanup_bus_ sd_bus *bus = NULL;
        _cleanup_free_ char *id = NULL;
        int first, r = options_parse(&thaw_usage, argc, argv, NULL, &first, &e);

        if (r > 0)
                return 0;
        if (r >= 0)
                r = client_connect_for(argv[first], &bus, &id, &e);
        if (r >= 0)
                r = client_thaw(bus, id, &e);
        return r < 0 ? message_failure(e, r) : 0;
}
