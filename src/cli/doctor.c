/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>

#include "base/strv.h"
#include "cli/doctor.h"
#include "cli/facts.h"
#include "cli/message.h"
#include "cli/output.h"

/* Columns of the status and of the check's name. */
enum { STATUS_WIDTH = 8, CHECK_WIDTH = 18 };

int doctor_add(json_t *lines, const char *part, const char *check, const char *status, const char *message, const char *advice)
{
        json_t *line = json_pack("{s:s,s:s,s:o,s:s,s:s}", "check", check, "status", status, "message",
                        output_json_bytes(message, strlen(message)), "advice", advice ?: "", "part", part);

        return json_array_append_new(lines, line) < 0 ? -ENOMEM : 0;
}

/* ---- promises */

static json_t *find(const json_t *promises, const char *name, size_t n)
{
        for (size_t i = 0; i < json_array_size(promises); i++) {
                json_t *p = json_array_get(promises, i);
                const char *s = facts_string(p, "name");

                if (s && strlen(s) == n && strncmp(s, name, n) == 0)
                        return p;
        }
        return NULL;
}

int doctor_verified(json_t *promises, char *const *names)
{
        STRV_FOREACH(i, names) {
                json_t *p = find(promises, *i, strlen(*i));

                if (p && json_object_set_new(p, "verified", json_true()) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* The first reason is enough: the same holds for the runs that come after. */
static int note_broken(json_t *promise, const char *why, const char *advice)
{
        if (facts_string(promise, "broken"))
                return 0;
        return json_object_set_new(promise, "broken", output_json_bytes(why, strlen(why))) < 0 ||
                                       json_object_set_new(promise, "do", json_string(advice ?: "")) < 0
                               ? -ENOMEM
                               : 0;
}

int doctor_broken(json_t *promises, char *const *broken, const char *policy)
{
        STRV_FOREACH(i, broken) {
                size_t n = strcspn(*i, ":");
                json_t *p = (*i)[n] == ':' ? find(promises, *i, n) : NULL;
                _cleanup_free_ char *why = NULL;

                if (!p)
                        continue;
                if (asprintf(&why, "under policy %s:%s", policy, *i + n + 1) < 0) {
                        why = NULL;
                        return -ENOMEM;
                }
                if (note_broken(p, why, facts_string(p, "advice")) < 0)
                        return -ENOMEM;
        }
        return 0;
}

int doctor_not_tried(json_t *promises, const char *trial)
{
        for (size_t i = 0; i < json_array_size(promises); i++) {
                json_t *p = json_array_get(promises, i);
                const char *its = facts_string(p, "trial");
                char why[96];

                snprintf(why, sizeof(why), "no run of the kind \"%s\" comes up here", trial);
                if (its && streq(its, trial) && note_broken(p, why, NULL) < 0)
                        return -ENOMEM;
        }
        return 0;
}

int doctor_add_promises(json_t *lines, const json_t *promises)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < json_array_size(promises); i++) {
                const json_t *p = json_array_get(promises, i);
                const char *name = facts_string(p, "name"), *why = facts_string(p, "broken"), *text = facts_string(p, "promise");
                _cleanup_free_ char *message = NULL;

                if (!name || !text)
                        return -EBADMSG;
                if (why && asprintf(&message, "not kept: %s (%s)", text, why) < 0) {
                        message = NULL;
                        return -ENOMEM;
                }
                if (why)
                        r = doctor_add(lines, "promise", name, DOCTOR_FAILED, message, facts_string(p, "do"));
                else if (json_is_true(json_object_get(p, "verified")))
                        r = doctor_add(lines, "promise", name, DOCTOR_OK, text, "");
        }
        return r;
}

/* ---- the answer */

static bool has_status(const json_t *line, const char *status)
{
        const char *s = facts_string(line, "status");

        return s && streq(s, status);
}

static bool is_promise(const json_t *line)
{
        const char *part = facts_string(line, "part");

        return part && streq(part, "promise");
}

int doctor_status(const json_t *lines)
{
        bool shown = false;

        for (size_t i = 0; i < json_array_size(lines); i++) {
                const json_t *line = json_array_get(lines, i);

                if (!has_status(line, DOCTOR_OK) && !has_status(line, DOCTOR_WARNING))
                        return 1;
                shown = shown || is_promise(line);
        }
        return !shown;
}

static Colour colour_of(const json_t *line)
{
        return has_status(line, DOCTOR_OK) ? COLOUR_GREEN : has_status(line, DOCTOR_WARNING) ? COLOUR_YELLOW : COLOUR_RED;
}

static int print_heading(const char *part, Buf *out)
{
        static const struct {
                const char *part, *heading;
        } headings[] = {
                { "host", "This host" },
                { "trial", "Trial runs" },
                { "promise", "Promises, as the trial runs showed them" },
        };

        for (size_t i = 0; i < ELEMENTSOF(headings); i++)
                if (streq(headings[i].part, part))
                        buf_printf(out, "%s%s%s%s\n", out->size > 0 ? "\n" : "", output_colour(COLOUR_BOLD), headings[i].heading,
                                        output_colour_end(COLOUR_BOLD));
        return out->error;
}

static int print_line(const json_t *line, size_t width, Buf *out)
{
        const char *status = facts_string(line, "status") ?: DOCTOR_FAILED, *advice = facts_string(line, "advice");
        _cleanup_free_ char *check = message_clean(facts_string(line, "check") ?: "?");
        _cleanup_free_ char *text = message_clean(facts_string(line, "message") ?: "");
        _cleanup_free_ char *shown = message_clean(advice ?: "");
        size_t indent = STATUS_WIDTH + 1 + CHECK_WIDTH + 1;
        Colour c = colour_of(line);

        if (!check || !text || !shown)
                return -ENOMEM;
        buf_printf(out, "%s%-*s%s %-*s ", output_colour(c), STATUS_WIDTH, status, output_colour_end(c), CHECK_WIDTH, check);
        output_wrap_behind(out, *text ? text : "-", indent, width);
        if (*shown) {
                buf_printf(out, "%*s-> ", (int) indent, "");
                output_wrap_behind(out, shown, indent + 3, width);
        }
        return out->error;
}

static int print_sum(const json_t *lines, size_t width, Buf *out)
{
        _cleanup_strv_ char **failed = NULL;
        _cleanup_free_ char *joined = NULL, *text = NULL;
        size_t n_promises = 0, n_warnings = 0;
        int n;

        for (size_t i = 0; i < json_array_size(lines); i++) {
                const json_t *line = json_array_get(lines, i);

                n_promises += is_promise(line) && has_status(line, DOCTOR_OK);
                n_warnings += has_status(line, DOCTOR_WARNING);
                if (!has_status(line, DOCTOR_OK) && !has_status(line, DOCTOR_WARNING) &&
                                strv_extend(&failed, facts_string(line, "check") ?: "?") < 0)
                        return -ENOMEM;
        }
        joined = strv_join(failed, ", ");
        if (!joined)
                return -ENOMEM;
        n = asprintf(&text, "%zu %s%s%s", n_promises, n_promises == 1 ? "promise holds" : "promises hold",
                        failed               ? "; not here: "
                        : n_warnings > 0 ? "; see the warnings"
                                         : "",
                        joined);
        if (n < 0) {
                text = NULL;
                return -ENOMEM;
        }
        buf_printf(out, "\n");
        return output_wrap_behind(out, text, 0, width);
}

int doctor_print(const json_t *lines, size_t width, Buf *out)
{
        const char *last = "";
        int r = 0;

        for (size_t i = 0; r >= 0 && i < json_array_size(lines); i++) {
                const json_t *line = json_array_get(lines, i);
                const char *part = facts_string(line, "part") ?: "host";

                if (!streq(part, last))
                        r = print_heading(part, out);
                last = part;
                if (r >= 0)
                        r = print_line(line, width, out);
        }
        return r < 0 ? r : print_sum(lines, width, out);
}
