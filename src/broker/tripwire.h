/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Files whose opening is seen from outside (fanotify(7)): each open waits in the kernel until it is answered, so that none is
 * merged with another, and who opens is there to be looked at. Where nobody holds the group any more, the kernel lets all of
 * them through. Needs CAP_SYS_ADMIN. */

#define TRIPWIRE_BATCH 64u

typedef struct TripwireEvent {
        int fd;    /* open on the file; what the answer is for. -1: the kernel lost events */
        int pidfd; /* -1: whoever it was is gone */
        pid_t pid; /* the process, as this one counts them */
} TripwireEvent;
void tripwire_event_done(TripwireEvent *e);

/* The group; negative errno. */
int tripwire_open(void);
/* file_fd may be O_PATH. */
int tripwire_mark(int group_fd, int file_fd);
/* What the kernel says: 1 it is marked, 0 it is not. */
int tripwire_is_marked(int group_fd, dev_t device, ino_t inode);
/* How many of at most TRIPWIRE_BATCH were read; 0: none is waiting. Each is to be answered and done. */
int tripwire_read(int group_fd, TripwireEvent ret[TRIPWIRE_BATCH]);
void tripwire_answer(int group_fd, const TripwireEvent *e, bool allow);
/* Of a group that another process held before: what that one has read and not answered would wait for ever, and take answers that
 * are for others, for the kernel goes by the descriptor's number. Before anything is read here. */
void tripwire_deny_all_read(int group_fd);
