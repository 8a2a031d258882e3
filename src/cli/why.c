/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "cli/audit.h"
#include "cli/facts.h"
#include "cli/kernel-denial.h"
#include "cli/limit-advice.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/why-egress.h"
#include "cli/why.h"
#include "policy/filter-compile.h"
#include "policy/policy-keys.h"
#include "policy/policy-value.h"
#include "wire/record.h"

/* Kinds of denials other than the network's. */
enum { DENIALS_MAX = 200 };

/* Text of a record, safe to show. */
static void say(Buf *out, const char *before, const char *text, const char *after)
{
        _cleanup_free_ char *shown = message_clean(text);

        if (!shown)
                out->error = -ENOMEM;
        else
                buf_printf(out, "%s%s%s", before, shown, after);
}

/* What can start a sentence, within one. */
static void say_lower(Buf *out, const char *before, const char *text, const char *after)
{
        const char first[] = { (char) tolower((unsigned char) *text), 0 };

        buf_printf(out, "%s%s", before, first);
        say(out, "", *text ? text + 1 : "", after);
}

/* Each promise that was not kept has one. */
static void say_lines(const char *text, Buf *out)
{
        while (*text) {
                size_t n = strcspn(text, "\n");
                _cleanup_free_ char *line = strndup(text, n);

                if (!line) {
                        out->error = -ENOMEM;
                        return;
                }
                say(out, "  ", line, "\n");
                text += n + (text[n] == '\n');
        }
}

static void explain_limit(const LimitRow *row, const json_t *ended, const Policy *policy, Buf *out)
{
        uint64_t limit = policy ? policy_u64(policy, row->key) : 0, v = limit_suggestion(row, ended, policy);
        _cleanup_free_ char *value = v > 0 ? policy_value_format_u64(row->key, v) : NULL;
        const char *message = facts_string(ended, "AGENTBOX_MESSAGE"), *key = policy_keys[row->key].name;

        buf_printf(out, "%s", row->text);
        if (message)
                say(out, ": ", message, "");
        if (!value)
                buf_printf(out, ".\n  A greater [Limits] %s= would allow more.\n", key);
        else if (limit > 0 && v <= limit)
                buf_printf(out,
                                ".\n  The policy allows it: the run was started with a tighter value. More "
                                "is\n    --set Limits.%s=%s\n",
                                key, value);
        else
                buf_printf(out, ".\n  More would be allowed by\n    [Limits]\n    %s=%s\n", key, value);
}

/* Limits that end nothing but were reached; how many. */
static size_t explain_reached(const json_t *ended, const Policy *policy, Buf *out)
{
        size_t n = 0;

        for (size_t i = 0; i < n_limit_rows; i++)
                if (limit_was_felt(limit_rows + i, ended, policy)) {
                        explain_limit(limit_rows + i, ended, policy, out);
                        n++;
                }
        return n;
}

static const struct {
        int signal;
        const char *text;
} signals[] = {
        { SIGSYS, "Signal 31 (SIGSYS) ended it, as it does who makes a system call that is not let through; which one "
                  "it was is not on record.\n  Calls of a foreign architecture (i386, x32) end so under every policy;\n"
                  "  others by [Syscalls] OnDenied=kill.\n" },
        { SIGXFSZ, "It wrote a file larger than [Limits] FileSize= allows (SIGXFSZ).\n" },
};

/* "ptrace(PTRACE_TRACEME, 0, 0x0, 0x0)", "execve of a foreign architecture (i386)" */
static void say_call(const json_t *record, const char *before, const char *after, Buf *out)
{
        const char *args = facts_string(record, "AGENTBOX_SYSCALL_ARGS");

        say(out, before, facts_string(record, "AGENTBOX_SYSCALL") ?: "?", "");
        if (args)
                say(out, "(", args, ")");
        if (kernel_denial_is_foreign(record))
                say(out, " of a foreign architecture (", facts_string(record, "AGENTBOX_ARCH"), ")");
        buf_printf(out, "%s", after);
}

/* How many different things the kernel has on record, and the last of them. */
static size_t kernel_denials(const json_t *denials, const json_t **ret)
{
        const char *key;
        json_t *group;
        size_t n = 0;

        json_object_foreach((json_t *) denials, key, group)
        {
                const json_t *record = json_object_get(group, "record");

                if (!streq(facts_string(record, "AGENTBOX_EVENT") ?: "", KERNEL_DENIAL_EVENT))
                        continue;
                *ret = record;
                n++;
        }
        return n;
}

static void explain_signal(uint64_t signal, const json_t *denials, size_t n_denied, Buf *out)
{
        const json_t *killed;
        size_t n_killed = signal == SIGSYS ? kernel_denials(denials, &killed) : 0;
        const char *name = signal < NSIG ? sigabbrev_np((int) signal) : NULL;

        if (n_killed > 0) {
                buf_printf(out, "The filter of system calls killed it (SIGSYS)");
                if (n_killed == 1)
                        say_call(killed, ": ", ".\n", out);
                else /* of which process each was, the records do not say */
                        buf_printf(out, "; for which calls stands below.\n");
                return;
        }
        for (size_t i = 0; i < ELEMENTSOF(signals); i++)
                if ((uint64_t) signals[i].signal == signal) {
                        buf_printf(out, "%s", signals[i].text);
                        return;
                }
        buf_printf(out, "Signal %llu%s%s%s ended it", (unsigned long long) signal, name ? " (SIG" : "",
                        name ?: "", name ? ")" : "");
        buf_printf(out, n_denied > 0 ? "; what was denied before stands below.\n"
                                     : "; nothing was denied and no limit was reached: the cause lies in "
                                       "the program itself.\n");
}

static void explain_exit(const json_t *ended, size_t n_denied, size_t n_reached, Buf *out)
{
        uint64_t code = facts_text_u64(ended, "AGENTBOX_EXIT_CODE");
        const char *message = facts_string(ended, "AGENTBOX_MESSAGE");

        if (message) {
                say(out, "Its command was not run: ", message, ".\n");
                buf_printf(out, "  What exists inside is what [Files] Root= and Expose= show.\n");
        } else if (code == 0)
                buf_printf(out, "It exited with status 0%s.\n", n_denied == 0 ? "; nothing was denied" : "");
        else if (n_denied + n_reached == 0)
                buf_printf(out,
                                "It exited with status %llu by itself; nothing was denied and no limit was "
                                "reached: the cause lies in the program itself.\n",
                                (unsigned long long) code);
        else
                buf_printf(out, "It exited with status %llu by itself.\n", (unsigned long long) code);
}

static void explain_end(const Why *w, const Policy *policy, size_t n_denied, Buf *out)
{
        const json_t *ended = w->ended;
        const char *name = facts_string(ended, "AGENTBOX_REASON"), *text = facts_string(ended, "AGENTBOX_MESSAGE");
        int reason = name ? run_reason_from_string(name) : -EINVAL;
        const LimitRow *limit = limit_that_ended(ended, policy);
        size_t n_reached;

        if (limit) {
                explain_limit(limit, ended, policy, out);
                return;
        }
        n_reached = explain_reached(ended, policy, out);
        switch (reason) {
        case REASON_EXITED:
                explain_exit(ended, n_denied, n_reached, out);
                break;
        case REASON_SIGNAL:
                explain_signal(facts_text_u64(ended, "AGENTBOX_SIGNAL"), w->denials, n_denied + n_reached, out);
                break;
        case REASON_KILLED:
                say(out, "It was ended: ", text ?: "killed on request", ".\n");
                break;
        case REASON_LOST:
                say(out, "Its end was not seen by the broker", text ? ": " : "", "");
                say(out, "", text ?: "", ". See 'journalctl -u agentboxd'.\n");
                break;
        default:
                say(out, "It ended: ", text ?: name ?: "no reason was recorded", ".\n");
        }
}

/* Everything of a denial that must be equal for two records to be one line. */
static char *denial_key(const json_t *record)
{
        static const char *const names[] = { "AGENTBOX_EVENT", "AGENTBOX_SYSCALL", "AGENTBOX_ARCH", "AGENTBOX_REASON" };
        _cleanup_buf_ Buf b = {};

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                buf_printf(&b, "%s\n", facts_string(record, names[i]) ?: "");
        return buf_take_string(&b);
}

static void explain_denial(const json_t *record, uint64_t count, Buf *out)
{
        const char *event = facts_string(record, "AGENTBOX_EVENT"), *syscall = facts_string(record, "AGENTBOX_SYSCALL"),
                   *comm = facts_string(record, "AGENTBOX_COMM");
        bool kernels = streq(event, KERNEL_DENIAL_EVENT), calls = syscall && (kernels || streq(event, "syscall-denied"));

        if (calls) {
                say_call(record, "  system call ", "", out);
                if (comm && *comm)
                        say(out, " by ", comm, "");
                buf_printf(out, "%s", kernels ? ": " : "");
                buf_printf(out, "%s", kernels ? kernel_denial_outcome(record) : "");
        } else
                say(out, "  ", message_without_run(record) ?: event, "");
        buf_printf(out, count > 1 ? " (%llu times)\n" : "\n", (unsigned long long) count);
        if (!calls)
                return;
        if (kernels && kernel_denial_is_foreign(record))
                buf_printf(out, "    no policy can allow it: no foreign call is looked at, whatever it does\n");
        else if (!filter_name_known(syscall) || *syscall == '@' || !filter_name_allowable(syscall))
                buf_printf(out, "    no policy can allow it: it opens a way around the sandbox\n");
        else if (filter_call_has_rules(syscall))
                buf_printf(out, "    no policy can allow it with these arguments\n");
        else {
                say(out, "    [Syscalls]\n    Allow=", syscall, "\n");
                say_lower(out, "    That opens to every program of such runs: ", filter_call_about(syscall), ".\n");
        }
}

static bool is_denial(const json_t *record)
{
        const char *event = facts_string(record, "AGENTBOX_EVENT");

        return event && audit_event_denies(event) && !startswith(event, "run-");
}

/* What was touched, whoever did. */
static char *tripwire_key(const json_t *record)
{
        return strdup(facts_string(record, "AGENTBOX_DECOY") ?: facts_string(record, "AGENTBOX_REASON") ?: "?");
}

/* Groups equal records, in the order of their first appearance. What goes beyond the bound is in "agentbox
 * log". */
static int take(json_t **groups, char *taken_key, json_t *record)
{
        _cleanup_free_ char *key = taken_key;
        uint64_t total, n = egress_record_count(record);
        json_t *group;

        if (!key || (!*groups && !(*groups = json_object())))
                return -ENOMEM;
        group = json_object_get(*groups, key);
        if (!group) {
                if (json_object_size(*groups) >= DENIALS_MAX)
                        return 0;
                group = json_pack("{s:O,s:i}", "record", record, "count", 0);
                if (json_object_set_new(*groups, key, group) < 0)
                        return -ENOMEM;
        }
        if (__builtin_add_overflow(
                            (uint64_t) json_integer_value(json_object_get(group, "count")), n, &total) ||
                        total > INT64_MAX)
                total = INT64_MAX;
        return json_object_set_new(group, "count", json_integer((json_int_t) total)) < 0 ? -ENOMEM : 0;
}

static void keep(json_t **kept, json_t *record)
{
        json_decref(*kept);
        *kept = json_incref(record);
}

int why_take(Why *w, json_t *record)
{
        const char *event = facts_string(record, "AGENTBOX_EVENT");
        int r;

        if (!w->first)
                keep(&w->first, record);
        if (!event)
                return 0;
        if (streq(event, "run-ended"))
                keep(&w->ended, record);
        else if (streq(event, "run-unverified"))
                keep(&w->unverified, record);
        else if (streq(event, "run-refused"))
                keep(&w->refused, record);
        if (streq(event, "tripwire"))
                return take(&w->tripwires, tripwire_key(record), record);
        r = egress_denials_take(&w->egress, record);
        if (r != 0 || !is_denial(record))
                return r < 0 ? r : 0;
        return take(&w->denials, denial_key(record), record);
}

void why_done(Why *w)
{
        json_decref(w->first);
        json_decref(w->ended);
        json_decref(w->unverified);
        json_decref(w->refused);
        json_decref(w->denials);
        json_decref(w->tripwires);
        egress_denials_done(&w->egress);
        *w = (Why){};
}

static void explain_denials(json_t *groups, Buf *out)
{
        const char *key;
        json_t *group;

        if (json_object_size(groups) == 0)
                return;
        buf_printf(out, "Denied, and what would allow it:\n");
        json_object_foreach(groups, key, group) explain_denial(json_object_get(group, "record"),
                        (uint64_t) json_integer_value(json_object_get(group, "count")), out);
}

/* First of all: whatever ended it, this was no accident of a limit. */
static void explain_tripwires(json_t *groups, Buf *out)
{
        const char *key;
        json_t *group;

        if (json_object_size(groups) == 0)
                return;
        buf_printf(out, "It touched tripwires, which code that does only its work has no reason to:\n");
        json_object_foreach(groups, key, group)
        {
                const json_t *record = json_object_get(group, "record");
                uint64_t n = (uint64_t) json_integer_value(json_object_get(group, "count"));
                const char *comm = facts_string(record, "AGENTBOX_COMM"), *decoy = facts_string(record, "AGENTBOX_DECOY"),
                           *reason = facts_string(record, "AGENTBOX_REASON");

                if (decoy)
                        say(out, "  opened the decoy ", decoy, "");
                else if (reason && streq(reason, "metadata"))
                        buf_printf(out, "  tried a cloud's metadata service");
                else
                        say(out, "  ", facts_string(record, "MESSAGE") ?: "?", "");
                if (comm)
                        say(out, ", as ", comm, "");
                buf_printf(out, n > 1 ? " (%llu times)\n" : "\n", (unsigned long long) n);
        }
        buf_printf(out, "  Look at what it was given to execute. No policy line opens a metadata\n"
                        "  service; a program that opens such files in good faith belongs under\n"
                        "  [Audit] Decoys=no.\n");
}

/* Before the program's first instruction; true where that was the end of it. */
static bool explain_not_started(const Why *w, Buf *out)
{
        if (w->unverified) {
                buf_printf(out, "It was stopped before its first instruction, because this host did not keep what the "
                                "policy promises:\n");
                say_lines(facts_string(w->unverified, "AGENTBOX_BROKEN") ?: facts_string(w->unverified, "MESSAGE") ?: "?", out);
                buf_printf(out, "  See 'agentbox doctor', and the drop-ins of agentbox- units on this "
                                "host.\n");
        } else if (w->refused) {
                const char *reason = facts_string(w->refused, "AGENTBOX_REASON") ?: message_without_run(w->refused) ?: "?";

                if (strchr(reason, '\n')) { /* all that is wrong with a policy */
                        buf_printf(out, "It was refused:\n");
                        say_lines(reason, out);
                } else
                        say(out, "It was refused: ", reason, ".\n");
        }
        return w->unverified || w->refused;
}

/* Where no warden is, nothing of the network is on record; a program that fails for want of it leaves no
 * other trace. */
static void explain_no_warden(const Why *w, const Policy *policy, Buf *out)
{
        static const char *const texts[] = {
                [EGRESS_OPEN] = "It had the host's network, less the metadata services (Egress=open)",
                [EGRESS_ADDRESSES] =
                                "It had the host's network, to the addresses of Allow= (Egress=addresses)",
                [EGRESS_FILTERED] = NULL,
                [EGRESS_NONE] = "It had no network but its own loopback (Egress=none)",
        };
        uint64_t egress = policy ? policy_u64(policy, NETWORK_EGRESS) : EGRESS_FILTERED;

        if (w->ended && egress < ELEMENTSOF(texts) && texts[egress] &&
                        facts_text_u64(w->ended, "AGENTBOX_EXIT_CODE") != 0)
                buf_printf(out, "%s; what it tried to reach is not on record.\n", texts[egress]);
}

int why_explain(Why *w, const AdviceContext *c, Buf *out)
{
        _cleanup_free_ char *run = message_clean(facts_string(w->first, "AGENTBOX_RUN_ID") ?: "?");
        size_t n_denied = json_object_size(w->denials) + (w->egress.count > 0);
        int r = egress_denials_fold(&w->egress);

        if (r < 0 || !run)
                return r < 0 ? r : -ENOMEM;
        buf_printf(out, "Run %s", run);
        say(out, " under policy ", facts_string(w->first, "AGENTBOX_POLICY") ?: "?", "\n");
        explain_tripwires(w->tripwires, out);
        if (!explain_not_started(w, out)) {
                if (w->ended)
                        explain_end(w, c->policy, n_denied, out);
                else
                        buf_printf(out, "Its end is not recorded: it still runs, or the broker has not come "
                                        "back since.\n");
        }
        if (w->egress.count == 0)
                explain_no_warden(w, c->policy, out);
        explain_denials(w->denials, out);
        r = why_egress(&w->egress, c, run, out);
        return r < 0 ? r : out->error;
}
