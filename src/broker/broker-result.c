/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "base/parse.h"
#include "broker/broker-result.h"

static bool unit_result_is(const RunEnding *e, const char *result)
{
        return e->unit_result && streq(e->unit_result, result);
}

static bool was_asked(const RunEnding *e, const RunResult *r)
{
        return e->kill_reason == KILL_ASKED;
}

static bool was_tripwire(const RunEnding *e, const RunResult *r)
{
        return e->kill_reason == KILL_TRIPWIRE;
}

static bool was_output(const RunEnding *e, const RunResult *r)
{
        return e->kill_reason == KILL_OUTPUT_LIMIT;
}

/* Where the deaths for memory could not be counted to the last: killed by nobody we know, with the limit
 * reached. */
static bool looks_like_oom(const RunEnding *e, const RunResult *r)
{
        return e->oom_kills_unknown && e->exec_main_code == CLD_KILLED && e->exec_main_status == SIGKILL &&
               r->memory_peak != UINT64_MAX && r->memory_peak >= e->memory_max;
}

static bool was_warden(const RunEnding *e, const RunResult *r)
{
        return e->kill_reason == KILL_WARDEN &&
               (e->main_exit == 0 || e->warden_exit == 0 || e->warden_exit <= e->main_exit);
}

static bool was_output_lost(const RunEnding *e, const RunResult *r)
{
        return e->kill_reason == KILL_OUTPUT_LOST;
}

/* PID 1 ends what is bound to the warden, too, and may be faster than we are. */
static bool was_call(const RunEnding *e, const RunResult *r)
{
        return e->call != NULL || e->kill_reason == KILL_CALL;
}

static bool was_oom(const RunEnding *e, const RunResult *r)
{
        return e->kill_reason == KILL_OOM || unit_result_is(e, "oom-kill") || e->oom_kills > 0 ||
               looks_like_oom(e, r);
}

static bool was_timeout(const RunEnding *e, const RunResult *r)
{
        return unit_result_is(e, "timeout") || unit_result_is(e, "watchdog");
}

static bool was_exit(const RunEnding *e, const RunResult *r)
{
        return e->exec_main_code == CLD_EXITED;
}

static bool was_signal(const RunEnding *e, const RunResult *r)
{
        return e->exec_main_code == CLD_KILLED || e->exec_main_code == CLD_DUMPED;
}

/* The command of a scope dies with its client, perhaps before the bus says that the client is gone. */
static bool was_abandoned(const RunEnding *e, const RunResult *r)
{
        return e->unreported && e->client_gone;
}

static char *text_output(const RunEnding *e, const RunResult *r)
{
        _cleanup_free_ char *limit = format_size(e->output_max);
        char *s;

        return limit && asprintf(&s, "output limit %s reached", limit) >= 0 ? s : NULL;
}

static char *text_oom(const RunEnding *e, const RunResult *r)
{
        _cleanup_free_ char *limit = format_size(e->memory_max), *peak = format_size(r->memory_peak);
        char *s;

        return limit && peak && asprintf(&s, "memory limit %s reached (peak %s)", limit, peak) >= 0 ? s
                                                                                                    : NULL;
}

static char *text_timeout(const RunEnding *e, const RunResult *r)
{
        _cleanup_free_ char *limit = format_usec(e->runtime_usec);
        char *s;

        return limit && asprintf(&s, "time limit %s passed", limit) >= 0 ? s : NULL;
}

static char *text_asked(const RunEnding *e, const RunResult *r)
{
        return strdup(e->client_gone ? "its client is gone" : "killed on request");
}

static char *text_tripwire(const RunEnding *e, const RunResult *r)
{
        return strdup("it touched a tripwire (OnTripwire=)");
}

static char *text_warden(const RunEnding *e, const RunResult *r)
{
        char *s;

        return asprintf(&s, "its network warden died (%s)", e->warden_death ? e->warden_death : "nobody saw how") >= 0
                               ? s
                               : NULL;
}

static char *text_output_lost(const RunEnding *e, const RunResult *r)
{
        return strdup("its output could not be kept any more");
}

static char *text_call(const RunEnding *e, const RunResult *r)
{
        char *s;

        return asprintf(&s, "system call %s denied, and the policy has OnDenied=kill", e->call ?: "?") >= 0 ? s : NULL;
}

static char *text_lost(const RunEnding *e, const RunResult *r)
{
        return strdup(e->unreported ? "its client did not say how it ended"
                                    : "nobody saw how it ended: the broker or its connection to PID 1 was "
                                      "away");
}

/* The first row whose test holds decides. What we did ourselves we know best; a limit outranks how the
 * process died of it. */
static const struct {
        bool (*test)(const RunEnding *e, const RunResult *r);
        RunReason reason;
        char *(*text)(const RunEnding *e, const RunResult *r);
} endings[] = {
        { was_output, REASON_OUTPUT_LIMIT, text_output },
        { was_asked, REASON_KILLED, text_asked },
        { was_tripwire, REASON_KILLED, text_tripwire },
        { was_warden, REASON_KILLED, text_warden },
        { was_output_lost, REASON_KILLED, text_output_lost },
        { was_call, REASON_KILLED, text_call },
        { was_oom, REASON_OOM, text_oom },
        { was_timeout, REASON_TIMEOUT, text_timeout },
        { was_exit, REASON_EXITED, NULL },
        { was_signal, REASON_SIGNAL, NULL },
        { was_abandoned, REASON_KILLED, text_asked },
        { NULL, REASON_LOST, text_lost },
};

int run_result_classify(const RunEnding *e, RunResult *ret)
{
        size_t i = 0;

        while (endings[i].test && !endings[i].test(e, ret))
                i++;
        ret->reason = endings[i].reason;
        if (was_exit(e, ret) && ret->reason == REASON_EXITED)
                ret->exit_code = (uint64_t) e->exec_main_status;
        if (was_signal(e, ret))
                ret->signal = (uint64_t) e->exec_main_status;
        /* The kernel kills for memory when the limit is reached: so the peak is the limit, whatever was seen
         * before. And never is it more: what the slice's counter has beyond it are the kernel's reserves for
         * each processor. */
        if (e->memory_max != UINT64_MAX &&
                        (ret->reason == REASON_OOM || (ret->memory_peak != UINT64_MAX &&
                                                                      ret->memory_peak > e->memory_max)))
                ret->memory_peak = e->memory_max;
        if (endings[i].text) {
                free(ret->message);
                ret->message = endings[i].text(e, ret);
                if (!ret->message)
                        return -ENOMEM;
        }
        return 0;
}
