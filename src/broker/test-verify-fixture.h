/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <systemd/sd-bus.h>

#include "broker/broker-verify.h"
#include "broker/warden-plan.h"

/* A run in which every promise holds, made of nothing: a policy, what is sent for it, a report as a good
 * shim sends it, PID 1's answer, and directories that look like /proc and the cgroup hierarchies. Tests
 * break one thing and look who notices. */

/* The warden of a run, for Egress=filtered: test-verify-warden.c. */
typedef struct WardenFixture {
        WardenPlan plan;
        UnitProps sent, answer;
        char **extra;
        WardenHello hello;
        char **open_slices;
        int journal, wall;
        char journal_path[80], root[80], program[80];
        VerifyWarden input;
} WardenFixture;

typedef struct Fixture {
        WardenFixture warden;
        char directory[64];
        sd_bus *bus;
        int bus_peer;
        HostFacts host;
        Policy *policy;
        UnitContext context;
        RunRoot root;
        UnitProps sent;
        UnitProps answer; /* what PID 1 will say, beside what is in extra */
        char **extra;     /* "NAME=VALUE": properties of type s */
        Attest attest;
        AttestFs disk; /* of WorkspaceStore=disk */
        Decoys decoys;
        char **slice_allow; /* IPAddressAllow of both slices; NULL entry: none */
        bool no_slices;
        VerifyInput input;
} Fixture;

/* settings: tightenings or widenings "SECTION.KEY=VALUE", NULL-terminated. v2: cgroup2 alone; else v1 for
 * the controllers. */
void fixture_init(Fixture *f, const char *const *settings, bool v2);
void fixture_done(Fixture *f);
/* Where the credentials of a policy that has some are. */
#define FIXTURE_CREDENTIALS "proc/4711/root/run/credentials/agentbox-test.service"
/* Where the decoys of a policy that has some are; and what the kernel says of them. */
#define FIXTURE_ROOT "proc/4711/root"
extern int fixture_is_marked;
extern uint64_t fixture_home_bytes;
void fixture_init_warden(Fixture *f, bool v2);
void fixture_done_warden(Fixture *f);
/* GetAll() as PID 1 answers it, with these and further properties. */
sd_bus_message *fixture_reply(Fixture *f, const UnitProps *answer, char *const *extra, uint32_t main_pid);
void fixture_copy_props(const UnitProps *from, UnitProps *to);
/* One fact that breaks a promise. */
typedef struct Break {
        const char *promise;
        const char *what;
        void (*apply)(Fixture *f);
        const char *const *settings; /* NULL: fixture_filtered */
        bool v2;
} Break;
/* Rows of tables of these. */
#define B(promise, function, ...) { promise, #function, function, __VA_ARGS__ }
/* The functions of most. */
#define ATTEST(name, statement)         \
        static void name(Fixture *f)    \
        {                               \
                Attest *a = &f->attest; \
                statement;              \
        }
#define DO(name, statement)          \
        static void name(Fixture *f) \
        {                            \
                statement;           \
        }
/* Each in the file of its name, test-verify-*.c. */
extern const Break disk_breaks[], process_breaks[], property_breaks[], scope_breaks[], view_breaks[], warden_breaks[];
extern const size_t n_disk_breaks, n_process_breaks, n_property_breaks, n_scope_breaks, n_view_breaks, n_warden_breaks;
/* The same run, on cgroup2, under a systemd that gives it a cgroup and a PID namespace of its own. */
void fixture_become_257(Fixture *f);
void test_view(void **state);
extern const char *const fixture_filtered[];
extern const char *const disk_settings[], *const strict_disk_settings[];

/* Builds the messages and runs the verification. The caller owns both lists. */
int fixture_verify(Fixture *f, char ***ret_verified, char ***ret_broken);

UnitProp *fixture_answer(Fixture *f, const char *name); /* never NULL */
AttestLimit *fixture_limit(Fixture *f, int resource);
/* Writes a file below the fixture's directory: "proc/...", "unified/...", "memory/...". "GROUP" in the path
 * is the unit's group, "WARDEN" its warden's. */
void fixture_write(Fixture *f, const char *path, const char *text);
void fixture_unlink(Fixture *f, const char *path);
void fixture_path(const Fixture *f, const char *path, char full[static 512]);
void fixture_replace(char **s, const char *with);
/* "NAME=VALUE": PID 1 says this of the unit, whatever it said of it before. */
void fixture_extra(Fixture *f, const char *line);
extern int fixture_programs; /* how many BPF programs the unit's cgroup has */
