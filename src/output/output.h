/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/journal-socket.h"
#include "wire/output.h"

/* ---- output-record.c: PURE */

/* Bytes of a stream that wait to be written down, and so the most that one record holds. A record costs the journal about
 * half a kilobyte beside its bytes, so there is none for each line, of which a workload makes as many as it likes. */
#define OUTPUT_CHUNK 32768u

/* How many of n bytes, at least one, are the next record: up to the last line's end; without one, or at the end of the stream,
 * all of them. */
size_t output_chunk(const uint8_t *p, size_t n, bool ended) _pure_;

/* The fields that all records of a run have. */
int output_common(const OutputSpec *spec, Buf *out);
/* A record of n bytes of a stream. MESSAGE is without the end of its last line; where that line goes on in the next record,
 * AGENTBOX_PARTIAL=yes says so. */
int output_record(const Buf *common, const char *stream, const uint8_t *p, size_t n, Buf *out);

/* ---- output-collect.c */

typedef struct Stream {
        int fd; /* read end of a pipe; -1: it has ended */
        const char *name;
        uint8_t *data; /* OUTPUT_CHUNK */
        size_t n;
        uint64_t since; /* when the first of them came, monotonic ms */
} Stream;

typedef struct Collector {
        int channel_fd, journal_fd;
        Stream streams[_OUTPUT_FD_MAX];
        uint64_t left; /* of what the spec allows */
        bool limited;
        Buf common, record;
        JournalMark mark;
} Collector;

int output_say(int channel_fd, OutputWord word);
/* Everything that is allocated is allocated here. */
int collector_init(Collector *c, const OutputSpec *spec);
void collector_done(Collector *c);
/* Until both streams have ended and the journal has what was read of them. -ETIMEDOUT: it did not take a record. */
int collector_run(Collector *c);

/* ---- output-confine.c */

/* From here on: read, wait, and send by what is open. */
int output_confine(void);
