/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <sys/types.h>
#include <systemd/sd-bus.h>

#include "base/error.h"
#include "base/strv.h"
#include "policy/policy.h"

#define AGENTBOX_GROUP "agentbox"

/* Who calls: uid and pid as the bus daemon took them from the kernel, names as the system's databases know
 * them. */
typedef struct Caller {
        uid_t uid;
        pid_t pid; /* at the time it connected: good for showing and for its terminal, never for a decision
                    */
        char *sender;  /* unique name on the bus */
        char *user;    /* NULL: the databases do not know the uid */
        char **groups; /* names of all groups that the user is a member of */
} Caller;
void caller_done(Caller *c);
int caller_read(sd_bus_message *m, Caller *ret, Error **reterr);

/* Whether the policy's [Access] opens it to the caller without asking anybody. Pure. */
bool authz_policy_is_open(const Policy *p, const Caller *c);
/* Whether the caller may see and end this run without asking anybody. */
bool authz_owns(const Caller *c, uid_t owner);

/* Asks polkit whether the sender of call may do action. The handler is called once, never from within this
 * function: verdict 1 (yes), 0 (no, why says why), negative errno (polkit could not be asked, why says why:
 * counts as no). ret: dropping the slot drops the question. */
typedef void (*AuthzHandler)(void *userdata, int verdict, const char *why);
typedef struct AuthzQuery AuthzQuery;
/* policy: for polkit's rules and for its question to a person; NULL: the action is about none. */
int authz_ask(sd_bus_message *call, const char *action, const char *policy, AuthzHandler handler,
                void *userdata, AuthzQuery **ret);
AuthzQuery *authz_query_free(AuthzQuery *q);
