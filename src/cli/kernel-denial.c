/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "cli/facts.h"
#include "cli/kernel-denial.h"
#include "cli/message.h"
#include "cli/output.h"
#include "policy/filter-compile.h"

/* Those that refuse; a call that was merely logged, traced or left to a listener is none of them. */
static const struct {
        uint32_t action;
        const char *name, *words;
} actions[] = {
        { SECCOMP_RET_KILL_PROCESS, "kill", "killed" },
        { SECCOMP_RET_KILL_THREAD, "kill-thread", "thread killed" },
        { SECCOMP_RET_TRAP, "trap", "SIGSYS sent" },
        { SECCOMP_RET_ERRNO, "errno", "refused" },
};

/* The kernel's time is that of its last tick; the uid was the run's for longer than that before it was verified. */
#define TICK_USEC 10000

/* ---- the kernel's text */

/* The value of KEY=, where it stands first. */
static bool find(const char *text, const char *key, const char **ret, size_t *ret_n)
{
        size_t k = strlen(key);

        while (*(text += strspn(text, " "))) {
                size_t n = strcspn(text, " ");

                if (n > k && strncmp(text, key, k) == 0 && text[k] == '=') {
                        *ret = text + k + 1;
                        *ret_n = n - k - 1;
                        return true;
                }
                text += n;
        }
        return false;
}

static bool parse_number(const char *p, size_t n, int base, uint64_t max, uint64_t *ret)
{
        static const char digits[] = "0123456789abcdef";
        char s[24];
        char *end;
        uint64_t v;

        if (n == 0 || n >= sizeof(s) || !memchr(digits, *p, (size_t) base))
                return false;
        memcpy(s, p, n);
        s[n] = 0;
        errno = 0;
        v = strtoull(s, &end, base);
        if (errno != 0 || *end || v > max)
                return false;
        *ret = v;
        return true;
}

static bool find_number(const char *text, const char *key, int base, uint32_t *ret)
{
        const char *p;
        uint64_t v;
        size_t n;

        if (!find(text, key, &p, &n) || !parse_number(p, n, base, UINT32_MAX, &v))
                return false;
        *ret = (uint32_t) v;
        return true;
}

/* "NAME", or its bytes as hexadecimal digits; "" for anything else. */
static void find_comm(const char *text, char *ret, size_t size)
{
        const char *p;
        size_t n;

        *ret = 0;
        if (!find(text, "comm", &p, &n))
                return;
        if (n >= 2 && p[0] == '"' && p[n - 1] == '"' && n - 2 < size) {
                memcpy(ret, p + 1, n - 2);
                ret[n - 2] = 0;
                return;
        }
        if (n % 2 != 0 || n / 2 >= size)
                return;
        for (size_t i = 0; i < n / 2; i++) {
                char two[3] = { p[2 * i], p[2 * i + 1], 0 };

                if (strspn(two, "0123456789abcdefABCDEF") != 2) {
                        *ret = 0;
                        return;
                }
                ret[i] = (char) strtoul(two, NULL, 16);
                ret[i + 1] = 0;
        }
}

static const char *action_name(uint32_t action)
{
        for (size_t i = 0; i < ELEMENTSOF(actions); i++)
                if (actions[i].action == action)
                        return actions[i].name;
        return NULL;
}

bool kernel_denial_parse(const char *text, KernelDenial *ret)
{
        const char *p;
        uint64_t code, number;
        KernelDenial d = {};
        size_t n;

        if (!find_number(text, "uid", 10, &d.uid) || !find_number(text, "pid", 10, &d.pid) || !find_number(text, "sig", 10, &d.signal) ||
                        !find_number(text, "arch", 16, &d.arch) || !find(text, "syscall", &p, &n))
                return false;
        /* Printed with its sign. */
        if (n > 1 && *p == '-' && parse_number(p + 1, n - 1, 10, INT32_MAX, &number))
                number = (uint32_t) -number;
        else if (!parse_number(p, n, 10, UINT32_MAX, &number))
                return false;
        d.number = (uint32_t) number;
        if (!find(text, "code", &p, &n) || n < 3 || strncmp(p, "0x", 2) != 0 || !parse_number(p + 2, n - 2, 16, UINT32_MAX, &code))
                return false;
        d.action = (uint32_t) code & SECCOMP_RET_ACTION_FULL;
        if (!action_name(d.action))
                return false;
        find_comm(text, d.comm, sizeof(d.comm));
        *ret = d;
        return true;
}

bool kernel_denial_parse_line(const char *line, KernelDenial *ret)
{
        const char *p = startswith(line, "audit: type=" KERNEL_DENIAL_TYPE " audit("), *dot = p ? strchr(p, '.') : NULL,
                   *colon = dot ? strchr(dot, ':') : NULL, *end = colon ? strstr(colon, "): ") : NULL;
        uint64_t seconds, milliseconds, serial;
        KernelDenial d;

        if (!end || !parse_number(p, (size_t) (dot - p), 10, UINT32_MAX, &seconds) || colon - dot != 4 ||
                        !parse_number(dot + 1, 3, 10, 999, &milliseconds) ||
                        !parse_number(colon + 1, (size_t) (end - colon - 1), 10, UINT64_MAX, &serial) ||
                        !kernel_denial_parse(end + 3, &d))
                return false;
        d.usec = seconds * 1000000 + milliseconds * 1000;
        d.serial = serial;
        *ret = d;
        return true;
}

/* ---- as a record of a run */

static int set_text(json_t *record, const char *name, json_t *value)
{
        return json_object_set_new(record, name, value) < 0 ? -ENOMEM : 0;
}

static int set_number(json_t *record, const char *name, uint64_t v)
{
        return set_text(record, name, json_sprintf("%llu", (unsigned long long) v));
}

bool kernel_denial_is_within(const KernelDenial *d, const json_t *verified, const char *boot, uint64_t start, uint64_t end)
{
        const char *own_boot = facts_string(verified, "_BOOT_ID");

        return d->uid > 0 && facts_text_u64(verified, "AGENTBOX_UID") == d->uid && own_boot && *own_boot && streq(own_boot, boot) &&
               d->usec + TICK_USEC >= start && d->usec <= end;
}

json_t *kernel_denial_record(const KernelDenial *d, const json_t *verified)
{
        static const char *const of_run[] = { "AGENTBOX_RUN_ID", "AGENTBOX_POLICY", "AGENTBOX_POLICY_DIGEST", "AGENTBOX_CALLER_UID",
                "AGENTBOX_UNIT", "AGENTBOX_INVOCATION_ID", "_BOOT_ID", "_MACHINE_ID", "_HOSTNAME" };
        _cleanup_json_ json_t *record = json_object();
        int r = 0;

        for (size_t i = 0; i < ELEMENTSOF(of_run); i++) {
                json_t *value = json_object_get(verified, of_run[i]);

                if (value && json_object_set(record, of_run[i], value) < 0)
                        return NULL;
        }
        r |= set_text(record, "AGENTBOX_EVENT", json_string(KERNEL_DENIAL_EVENT));
        r |= set_text(record, "PRIORITY", json_string("5"));
        r |= set_text(record, "_AUDIT_TYPE", json_string(KERNEL_DENIAL_TYPE));
        r |= set_number(record, "_AUDIT_ID", d->serial);
        r |= set_number(record, "__REALTIME_TIMESTAMP", d->usec);
        r |= set_text(record, "AGENTBOX_ACTION", json_string(action_name(d->action) ?: "?"));
        r |= set_number(record, "AGENTBOX_SIGNAL", d->signal);
        r |= set_number(record, "AGENTBOX_PID", d->pid);
        r |= set_text(record, "AGENTBOX_COMM", output_json_bytes(d->comm, strlen(d->comm)));
        r |= set_number(record, "AGENTBOX_SYSCALL_NUMBER", d->number);
        r |= set_text(record, "AGENTBOX_ARCH_NUMBER", json_sprintf("%08x", d->arch));
        r |= set_text(record, "AGENTBOX_COUNT", json_string("1"));
        return r < 0 ? NULL : TAKE_PTR(record);
}

const char *kernel_denial_outcome(const json_t *record)
{
        const char *action = facts_string(record, "AGENTBOX_ACTION");

        for (size_t i = 0; action && i < ELEMENTSOF(actions); i++)
                if (streq(actions[i].name, action))
                        return actions[i].words;
        return "refused";
}

bool kernel_denial_is_foreign(const json_t *record)
{
        const char *arch = facts_string(record, "AGENTBOX_ARCH");

        return arch && !filter_arch_is_native(arch);
}

static int set_message(json_t *record)
{
        const char *comm = facts_string(record, "AGENTBOX_COMM"), *call = facts_string(record, "AGENTBOX_SYSCALL");
        bool foreign = kernel_denial_is_foreign(record);
        _cleanup_free_ char *shown = message_clean(comm && *comm ? comm : "?");

        if (!shown)
                return -ENOMEM;
        return set_text(record, "MESSAGE",
                        json_sprintf("Run %s: system call %s%s%s%s by %s (pid %s): %s by the kernel",
                                        facts_string(record, "AGENTBOX_RUN_ID") ?: "?", call, foreign ? " of a foreign architecture (" : "",
                                        foreign ? facts_string(record, "AGENTBOX_ARCH") : "", foreign ? ")" : "", shown,
                                        facts_string(record, "AGENTBOX_PID") ?: "?", kernel_denial_outcome(record)));
}

int kernel_denial_describe(json_t *record)
{
        const char *event = facts_string(record, "AGENTBOX_EVENT"), *arch_text = facts_string(record, "AGENTBOX_ARCH_NUMBER");
        uint64_t number = facts_text_u64(record, "AGENTBOX_SYSCALL_NUMBER"), arch;
        _cleanup_free_ char *call = NULL;
        const char *arch_name;
        int r;

        if (!event || !streq(event, KERNEL_DENIAL_EVENT) || !arch_text || number > UINT32_MAX ||
                        !parse_number(arch_text, strlen(arch_text), 16, UINT32_MAX, &arch))
                return 0;
        call = filter_call_name((uint32_t) arch, (uint32_t) number, &arch_name);
        if (!call)
                return -ENOMEM;
        r = set_text(record, "AGENTBOX_SYSCALL", json_string(call));
        if (r >= 0)
                r = set_text(record, "AGENTBOX_ARCH", json_string(arch_name));
        return r < 0 ? r : set_message(record);
}
