/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <jansson.h>
#include <systemd/sd-bus.h>

#include "base/error.h"
#include "wire/record.h"

/* Dictionaries of the bus (a{sv}) as JSON objects, and the result record in both forms. The record's table
 * of fields is the one definition; nothing here names a field of it. */

/* Reads one a{sv}. Strings, booleans, integers and arrays of strings are taken; a value of another type is
 * left out. */
int facts_read(sd_bus_message *m, json_t **ret);
/* Reads an aa{sv} as an array. */
int facts_read_list(sd_bus_message *m, json_t **ret);

/* NULL, or UINT64_MAX, where there is no such fact (or one of another type). */
const char *facts_string(const json_t *facts, const char *name);
uint64_t facts_u64(const json_t *facts, const char *name);
/* Of a record of the journal, where numbers are text. */
uint64_t facts_text_u64(const json_t *record, const char *name);

/* What facts hold of the record. ret must be initialised; a record without a reason is -EBADMSG. */
int result_from_facts(const json_t *facts, RunResult *ret);
/* Every field of the table, in its order; null where unknown. */
json_t *result_to_json(const RunResult *result);
/* Those of GetRun and ListRuns in the order of the contract, null where absent, then whatever else there is.
 */
json_t *facts_complete(const json_t *facts);
/* MESSAGE without the run's name in front, which stands beside it or was asked for; NULL: there is none. */
const char *message_without_run(const json_t *record);
