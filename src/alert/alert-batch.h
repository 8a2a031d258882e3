/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/macro.h"

/* What there is to tell of many records at once. Equal ones are one alert with their number, and a run has so many different ones
 * in a batch; so what one run does delays the alerts of another by a bounded number of alerts. Pure. */

#define ALERTS_MAX 256u
#define ALERTS_OF_RUN_MAX 16u

typedef enum AlertLane {
        ALERT_URGENT, /* tripwires, attempts on metadata services, runs that were not verified */
        ALERT_DENIED, /* every other denied egress */
        _ALERT_LANE_MAX,
        ALERT_NONE = _ALERT_LANE_MAX,
} AlertLane;

typedef struct Alert {
        json_t *record; /* the first */
        char *run, *key;
        uint64_t records, count;
        bool others; /* all of its run beyond ALERTS_OF_RUN_MAX: they are not equal */
} Alert;

typedef struct AlertBatch {
        Alert alerts[ALERTS_MAX];
        size_t n;
} AlertBatch;

void alert_batch_done(AlertBatch *b);

/* Of a record that counts (cli/audit.h). */
AlertLane alert_lane(const json_t *record);
/* 1: taken; 0: there is no room in this batch, which is handed over first. In order: an alert stands where its first record stood. */
int alert_batch_add(AlertBatch *b, json_t *record);
/* The first record, with AGENTBOX_ALERT_RECORDS, _COUNT and _OTHERS; one line, newly allocated; NULL when out of memory. shortened: with
 * AGENTBOX_ALERT_SHORTENED=yes, and without each field that the sandbox has a say in. */
char *alert_line(const Alert *a, bool shortened);
