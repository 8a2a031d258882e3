/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdint.h>

/* How far a lane has come, in a file of its own in the state directory. */

#define CURSOR_MAX 512u

typedef struct AlertPosition {
        char from[CURSOR_MAX]; /* the cursor of the last record that is done with; or @µs since the epoch */
        char to[CURSOR_MAX];   /* of the last one of the batch that is being handed over; "-": there is none */
        uint64_t done;         /* how many alerts of that batch were */
} AlertPosition;

/* -ENOENT: nothing was handed over yet. -EBADMSG: that is no such file. */
int alert_position_read(int dir_fd, const char *name, AlertPosition *ret);
/* Whole, and on the disk, or as it was. */
int alert_position_write(int dir_fd, const char *name, const AlertPosition *p);
