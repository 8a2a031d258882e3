/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/escape.h"
#include "base/io.h"
#include "broker/broker-unit.h"
#include "broker/warden-unit.h"

/* The exact messages to PID 1, for versions of systemd that no machine at hand boots: a stand-in for PID 1 on a
 * private bus takes the call as the version it plays would, and writes down what was in it. tests/golden/unit holds the
 * whole message for the oldest version; for each later one what differs from the version before. argv[1] is the top of
 * the source tree; with --update behind it the expected files are written anew, to be looked at with git diff. */

static const char *top;
static bool update;

static const unsigned versions[] = { 252, 253, 254, 255, 256, 257, 258 };

/* What PID 1 can be told in a StartTransientUnit of a version after 252, read in its sources. Anything else that is not
 * in the message of 252 would be refused: "Cannot set property NAME, or unknown property." */
static const struct {
        const char *name;
        unsigned since;
} later[] = {
        { "MemoryZSwapMax", 253 },
        { "MemoryPressureWatch", 254 },
        { "PIDFDs", 255 },
        { "BindLogSockets", 257 },
        { "PrivatePIDs", 257 },
        { "ProtectControlGroupsEx", 257 },
};

typedef struct Fake {
        sd_bus *client, *server;
        unsigned version;
        Buf text; /* of the call: a line for each property */
        bool answered, refused;
} Fake;

static unsigned since(const char *name)
{
        for (size_t i = 0; i < ELEMENTSOF(later); i++)
                if (streq(later[i].name, name))
                        return later[i].since;
        return 0;
}

/* ---- a message as text */

static void say(Buf *b, const char *s)
{
        assert_int_equal(buf_append(b, s, strlen(s)), 0);
}

static void write_string(Buf *b, const char *s)
{
        _cleanup_free_ char *shown = escape_for_display(s, strlen(s), 4096);

        assert_non_null(shown);
        say(b, "\"");
        say(b, shown);
        say(b, "\"");
}

static void write_basic(sd_bus_message *m, char type, Buf *b)
{
        union {
                const char *s;
                uint8_t y;
                int32_t i;
                uint32_t u;
                uint64_t t;
                int bool_or_fd;
        } v;
        char number[32];

        assert_true(sd_bus_message_read_basic(m, type, &v) > 0);
        switch (type) {
        case 's':
        case 'o':
                write_string(b, v.s);
                return;
        case 'h': /* its number is this process's own affair */
                say(b, "fd");
                return;
        case 'b':
                say(b, v.bool_or_fd ? "yes" : "no");
                return;
        case 'y':
                snprintf(number, sizeof(number), "%u", v.y);
                break;
        case 'i':
                snprintf(number, sizeof(number), "%i", v.i);
                break;
        case 'u':
                snprintf(number, sizeof(number), "%u", v.u);
                break;
        case 't':
                snprintf(number, sizeof(number), "%llu", (unsigned long long) v.t);
                break;
        default:
                fail_msg("type %c is not expected", type);
        }
        say(b, number);
}

/* All that is left at this level, with a space before each. Arrays stand in brackets, structures in parentheses. */
static void write_values(sd_bus_message *m, Buf *b)
{
        const char *contents;
        char type;

        while (sd_bus_message_peek_type(m, &type, &contents) > 0) {
                say(b, " ");
                if (!strchr("arve", type)) {
                        write_basic(m, type, b);
                        continue;
                }
                assert_true(sd_bus_message_enter_container(m, type, contents) > 0);
                say(b, type == 'a' ? "[" : type == 'r' ? "(" : contents);
                write_values(m, b);
                say(b, type == 'a' ? " ]" : type == 'r' ? " )" : "");
                assert_true(sd_bus_message_exit_container(m) >= 0);
        }
}

/* a(sv) of one unit: a line for each. The first one that this version does not know is returned. */
static void write_props(Fake *f, sd_bus_message *m, const char *unit)
{
        const char *name;

        assert_true(sd_bus_message_enter_container(m, 'a', "(sv)") > 0);
        while (sd_bus_message_enter_container(m, 'r', "sv") > 0) {
                assert_true(sd_bus_message_read(m, "s", &name) > 0);
                if (since(name) > f->version)
                        f->refused = true;
                say(&f->text, unit);
                say(&f->text, ": ");
                say(&f->text, name);
                write_values(m, &f->text);
                say(&f->text, "\n");
                assert_true(sd_bus_message_exit_container(m) >= 0);
        }
        assert_true(sd_bus_message_exit_container(m) >= 0);
}

/* ---- the stand-in */

static int on_start(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
        Fake *f = userdata;
        const char *unit, *mode;

        if (!sd_bus_message_is_method_call(m, "org.freedesktop.systemd1.Manager", "StartTransientUnit"))
                return 0;
        assert_string_equal(sd_bus_message_get_signature(m, true), "ssa(sv)a(sa(sv))");
        assert_string_equal(sd_bus_message_get_path(m), "/org/freedesktop/systemd1");
        assert_true(sd_bus_message_read(m, "ss", &unit, &mode) > 0);
        assert_string_equal(mode, "fail");
        write_props(f, m, unit);
        assert_true(sd_bus_message_enter_container(m, 'a', "(sa(sv))") > 0);
        while (sd_bus_message_enter_container(m, 'r', "sa(sv)") > 0) {
                assert_true(sd_bus_message_read(m, "s", &unit) > 0);
                write_props(f, m, unit);
                assert_true(sd_bus_message_exit_container(m) >= 0);
        }
        assert_true(sd_bus_message_exit_container(m) >= 0);
        if (f->refused)
                return sd_bus_reply_method_errorf(m, SD_BUS_ERROR_PROPERTY_READ_ONLY,
                                "Cannot set property, or unknown property.");
        return sd_bus_reply_method_return(m, "o", "/org/freedesktop/systemd1/job/1");
}

static int on_answer(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
        Fake *f = userdata;

        assert_int_equal(sd_bus_message_is_method_error(m, NULL) > 0, f->refused);
        f->answered = true;
        return 1;
}

static void fake_start(Fake *f, unsigned version)
{
        int pair[2];
        sd_id128_t id;

        *f = (Fake){ .version = version };
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
        assert_int_equal(sd_id128_randomize(&id), 0);
        assert_true(sd_bus_new(&f->server) >= 0 && sd_bus_set_fd(f->server, pair[0], pair[0]) >= 0 &&
                    sd_bus_set_server(f->server, true, id) >= 0 && sd_bus_set_anonymous(f->server, true) >= 0 &&
                    sd_bus_negotiate_fds(f->server, true) >= 0 &&
                    sd_bus_add_filter(f->server, NULL, on_start, f) >= 0 && sd_bus_start(f->server) >= 0);
        assert_true(sd_bus_new(&f->client) >= 0 && sd_bus_set_fd(f->client, pair[1], pair[1]) >= 0 &&
                    sd_bus_negotiate_fds(f->client, true) >= 0 && sd_bus_start(f->client) >= 0);
        /* Descriptors can be sent when both have agreed on it. */
        for (int ready = 0; ready <= 0;) {
                (void) sd_bus_process(f->server, NULL);
                assert_true(sd_bus_process(f->client, NULL) >= 0);
                ready = sd_bus_is_ready(f->client);
                assert_true(ready >= 0);
        }
}

static void fake_done(Fake *f)
{
        buf_done(&f->text);
        sd_bus_close_unref(f->client);
        sd_bus_close_unref(f->server);
}

/* What the stand-in was told, whole. */
static void send_start(Fake *f, const UnitStart *start)
{
        sd_bus_slot *slot = NULL;

        assert_true(broker_unit_start(f->client, start, on_answer, f, &slot) >= 0);
        while (!f->answered) {
                assert_true(sd_bus_process(f->client, NULL) >= 0);
                assert_true(sd_bus_process(f->server, NULL) >= 0);
        }
        sd_bus_slot_unref(slot);
        assert_false(f->refused);
}

/* ---- what the broker sends */

typedef struct Case {
        const char *name;
        const char *settings[8];
        bool scope;
} Case;

static const Case cases[] = {
        { "filtered", { "Network.Allow=tls example.org" }, false },
        { "none", { "Network.Egress=none" }, false },
        { "addresses", { "Network.Egress=addresses", "Network.Allow=192.0.2.0/24", "Limits.IOWeight=50" }, false },
        { "scope", { "Files.Root=/", "Network.Egress=open" }, true },
};

static Policy *policy_of(const Case *c)
{
        Policy *p = policy_new("test");
        _cleanup_error_ Error *e = NULL;

        assert_non_null(p);
        for (const char *const *i = c->settings; *i; i++)
                if (policy_tighten(p, *i, true, &e) < 0)
                        fail_msg("%s", e->message);
        return p;
}

/* The message of a run of this kind; to be freed. */
static char *message_of(const Case *c, unsigned version)
{
        _cleanup_policy_ Policy *p = policy_of(c);
        _cleanup_(unit_props_done) UnitProps props = {}, other = {};
        _cleanup_error_ Error *e = NULL;
        bool filtered = streq(c->name, "filtered");
        const UnitContext context = {
                .systemd_version = version,
                .scope = c->scope,
                .description = "agentbox run x",
                .slice = "agentbox-x.slice",
                .root_directory = "/run/agentbox/x/root",
                .shim_path = "/usr/lib/agentbox/agentbox-exec",
                .probe_abstract = "agentbox-probe-x",
                .netns_path = filtered ? "/proc/1/fd/9" : NULL,
                .ip_filter_path = filtered ? "/proc/1/fd/8" : NULL,
                .warden_unit = filtered ? "agentbox-warden-x.service" : NULL,
                .workspace = c->scope ? "/run/agentbox/x/workspace" : NULL,
                .workspace_mount = c->scope ? "run-agentbox-x-workspace.mount" : NULL,
                .uid = 1000,
                .gid = 1000,
        };
        const WardenPlan plan = { .cpu_percent = 100 };
        const WardenUnit warden = { .systemd_version = version,
                .description = "warden of agentbox run x",
                .root_directory = "/run/agentbox/x/warden",
                .plan = &plan };
        const UnitStart start = {
                .unit = c->scope ? "agentbox-x.scope" : "agentbox-x.service",
                .props = &props,
                .stdin_fd = c->scope ? -1 : STDIN_FILENO,
                .pidfd = STDIN_FILENO,
                .other = context.warden_unit ?: context.workspace_mount,
                .other_props = &other,
                .other_stdin_fd = filtered ? STDIN_FILENO : -1,
        };
        Fake f;
        char *text;

        if (unit_props_from_policy(p, &context, &props, &e) < 0)
                fail_msg("%s", error_message(e, -EINVAL));
        if (filtered)
                assert_int_equal(warden_props(&warden, &other), 0);
        if (c->scope)
                assert_int_equal(unit_props_of_workspace(p, &context, &other, NULL), 0);
        fake_start(&f, version);
        send_start(&f, &start);
        text = buf_take_string(&f.text);
        assert_non_null(text);
        fake_done(&f);
        return text;
}

/* ---- against what is expected */

static bool has_line(const char *text, const char *line, size_t n)
{
        for (const char *i = text; *i; i = strchr(i, '\n') + 1)
                if (strncmp(i, line, n + 1) == 0)
                        return true;
        return false;
}

/* The lines of one that are not in other, each behind the mark. n of a line is without its newline. */
static void only_in(const char *one, const char *other, const char *mark, Buf *b)
{
        for (const char *i = one; *i; i = strchr(i, '\n') + 1) {
                size_t n = strcspn(i, "\n");

                if (has_line(other, i, n))
                        continue;
                say(b, mark);
                assert_int_equal(buf_append(b, i, n + 1), 0);
        }
}

static void compare(const char *name, const char *got)
{
        _cleanup_free_ char *path = NULL, *want = NULL;

        assert_true(asprintf(&path, "%s/tests/golden/unit/%s.txt", top, name) > 0);
        if (update) {
                FILE *f = fopen(path, "we");

                assert_non_null(f);
                assert_true(fputs(got, f) >= 0);
                assert_int_equal(fclose(f), 0);
                return;
        }
        if (read_file(path, 1 << 20, &want, NULL) < 0)
                fail_msg("%s is missing: tests/golden/update writes it", path);
        assert_string_equal(got, want);
}

static void test_messages(void **state)
{
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *before = message_of(cases + i, cases[i].scope ? 255 : versions[0]);
                _cleanup_(buf_done) Buf b = {};

                say(&b, before);
                for (size_t j = 1; j < ELEMENTSOF(versions); j++) {
                        char title[64];
                        char *now;

                        if (cases[i].scope && versions[j] <= 255) /* PIDFDs= */
                                continue;
                        now = message_of(cases + i, versions[j]);
                        snprintf(title, sizeof(title), "\nsystemd %u, against the version before:\n", versions[j]);
                        say(&b, title);
                        only_in(before, now, "- ", &b);
                        only_in(now, before, "+ ", &b);
                        free(before);
                        before = now;
                }
                compare(cases[i].name, (const char *) b.data);
        }
}

/* The stand-in does refuse what it does not know: a scope is begun by a descriptor, which 254 cannot take. */
static void test_an_older_one_refuses(void **state)
{
        const UnitStart start = { .unit = "agentbox-x.scope", .props = &(UnitProps){}, .stdin_fd = -1,
                .pidfd = STDIN_FILENO };
        sd_bus_slot *slot = NULL;
        Fake f;

        fake_start(&f, 254);
        assert_true(broker_unit_start(f.client, &start, on_answer, &f, &slot) >= 0);
        while (!f.answered) {
                assert_true(sd_bus_process(f.client, NULL) >= 0);
                assert_true(sd_bus_process(f.server, NULL) >= 0);
        }
        assert_true(f.refused);
        sd_bus_slot_unref(slot);
        fake_done(&f);
}

int main(int argc, char **argv)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_messages),
                cmocka_unit_test(test_an_older_one_refuses),
        };

        if (argc < 2)
                return 2;
        top = argv[1];
        update = argc > 2 && streq(argv[2], "--update");
        return cmocka_run_group_tests(tests, NULL, NULL);
}
