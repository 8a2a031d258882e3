/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "simulate.h"

/* What the filter must say, written down by hand and apart from the tables that it is made from. */

enum { /* profiles, a bit each in the order of FilterProfile */
        JIT = 1 << 0,
        BUILD = 1 << 1,
        DEFAULT = 1 << 2,
        STRICT = 1 << 3,
        LAX = JIT | BUILD | DEFAULT,
        ALL = LAX | STRICT,
};

enum { /* what the policy lacks */
        NO_UNIX = 1 << 0,
        NO_INET = 1 << 1,
};

/* The run's own, that the program is to be made for; and two that are not. */
#define ROW_UID 61234u
#define ROW_OTHER_UID 61235u
#define ROW_NO_UID UINT64_C(0xffffffff)

typedef struct FilterRow {
        unsigned profiles;
        const char *call;
        int verdict; /* 0: let through; VERDICT_NO_OP; else the errno */
        uint64_t args[6];
        unsigned lacks;
        bool harmless; /* EPERM even with OnDenied=kill */
} FilterRow;

extern const FilterRow filter_rows[];
extern const size_t filter_n_rows;

int filter_row_verdict(const FilterRow *row, bool kill);

/* Which arguments of a call the kernel takes as 32 bits: garbage above them must change nothing. */
unsigned filter_row_int_args(const char *call);
