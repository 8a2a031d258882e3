/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-bus.h>

#include "base/error.h"
#include "policy/unit-props.h"

/* The broker's side of PID 1: the only file that composes unit messages and reads unit properties. */

static inline void bus_message_unrefp(sd_bus_message **m)
{
        sd_bus_message_unref(*m);
}
#define _cleanup_message_ _cleanup_(bus_message_unrefp)
#define _cleanup_bus_error_ _cleanup_(sd_bus_error_free)

/* What PID 1 says about a unit, as far as we were told. */
typedef struct UnitStatus {
        char *active_state; /* "active", "failed", ...; NULL: not told yet */
        char *result;       /* Result= of the service */
        char *control_group;
        char *freezer_state; /* "running", "frozen", ... */
        char invocation_id[33];
        uint32_t main_pid; /* 0: none now */
        int32_t exec_main_code, exec_main_status;
        uint64_t exec_main_exit; /* µs since the epoch; 0: has not exited */
        uint64_t exec_main_exit_monotonic;
} UnitStatus;
void unit_status_done(UnitStatus *s);
bool unit_status_is_over(const UnitStatus *s); /* inactive or failed */
bool unit_status_is_frozen(const UnitStatus *s);
/* By what PID 1 answered: 252 does not tell of it otherwise. -ENOMEM. */
int unit_status_set_frozen(UnitStatus *s, bool frozen);

typedef struct UnitEvents {
        /* The last job of the unit ended: "done", "failed", ... */
        void (*job_removed)(void *userdata, const char *unit, const char *result);
        /* body: of a PropertiesChanged signal, for unit_status_read_changed(). */
        void (*changed)(void *userdata, const char *unit, sd_bus_message *body);
        /* PID 1 forgot the unit. */
        void (*removed)(void *userdata, const char *unit);
        void (*disconnected)(void *userdata);
} UnitEvents;

/* The connection: PID 1's private socket. Over the system bus each change of a unit's state is broadcast
 * through the bus daemon, which took a third of the time of a start. */
typedef struct UnitBus {
        sd_bus *bus;
        const UnitEvents *events;
        void *userdata; /* for the events */
} UnitBus;
/* events and userdata are set by the caller; u stays where it is for as long as it is connected. */
int broker_unit_connect(UnitBus *u, sd_event *event, Error **reterr);
void broker_unit_disconnect(UnitBus *u);

/* What one StartTransientUnit call starts. A service gets the shim's end of its channel as standard input
 * (the caller closes its copy afterwards); a scope takes in a process that is there already. Either may bring a
 * second unit along, which it must depend on. */
typedef struct UnitStart {
        const char *unit;
        const UnitProps *props;
        int stdin_fd; /* -1: a scope */
        int pidfd;         /* of a scope's process: never its number, which may be another's by then */
        const char *other; /* NULL: none */
        const UnitProps *other_props;
        int other_stdin_fd; /* -1: none */
} UnitStart;
int broker_unit_start(sd_bus *pid1, const UnitStart *start, sd_bus_message_handler_t handler, void *userdata,
                sd_bus_slot **ret);
int broker_unit_get_all(sd_bus *pid1, const char *unit, sd_bus_message_handler_t handler, void *userdata,
                sd_bus_slot **ret);
int broker_unit_get_all_now(sd_bus *pid1, const char *unit, sd_bus_message **ret);
/* To all processes of the unit. Nobody waits for the answer of this and the next one: the unit's end is the
 * answer. */
int broker_unit_kill(sd_bus *pid1, const char *unit, int signal);
int broker_unit_stop(sd_bus *pid1, const char *unit);
/* All processes of the unit stop where they are, or go on; with an answer, which comes when they have. Only where
 * cgroup2 is all there is. */
int broker_unit_freeze(sd_bus *pid1, const char *unit, sd_bus_message_handler_t handler, void *userdata,
                sd_bus_slot **ret);
int broker_unit_thaw(sd_bus *pid1, const char *unit, sd_bus_message_handler_t handler, void *userdata,
                sd_bus_slot **ret);
/* StopUnit with an answer: an error means that there is no such unit to stop. The end of its job is told by
 * job_removed. */
int broker_unit_stop_slice(sd_bus *pid1, const char *slice, sd_bus_message_handler_t handler, void *userdata,
                sd_bus_slot **ret);
/* IPAddressAllow= of a slice; the answer is for broker_unit_read_ip_allow(). */
int broker_unit_get_ip_allow(sd_bus *pid1, const char *slice, sd_bus_message_handler_t handler, void *userdata,
                sd_bus_slot **ret);
/* 1: something is in the list. 0: nothing. */
int broker_unit_read_ip_allow(sd_bus_message *reply);
/* The names of all units agentbox-*.service, .scope and .slice that PID 1 knows. */
int broker_unit_list(sd_bus *pid1, char ***ret, Error **reterr);
/* The file that the unit is read from; "" where there is none. */
int broker_unit_file(sd_bus *pid1, const char *unit, char **ret);
/* PID 1's Version property, e.g. "252.39-1~deb12u2". */
int broker_unit_version(sd_bus *pid1, char **ret);

/* Takes over what the message tells; the rest of s stays. The message is rewound afterwards. */
int unit_status_read_reply(UnitStatus *s, sd_bus_message *get_all_reply);
int unit_status_read_changed(UnitStatus *s, sd_bus_message *changed);
