/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The fresh directory that a result is written into, beside its place: ".agentbox-" and 16 hexadecimal digits, mode 0700, with
 * one name in it. Who works in one holds a lock on it (flock(2)), which ends with its process, so what a killed client has left is
 * known for what it is, and the next one that writes to the same place clears it away. */

#define COPY_TEMPORARY_ENTRY "result" /* the name in it */
#define COPY_TEMPORARY_NAME_SIZE (sizeof(".agentbox-") + 16)

/* A new one beneath parent_fd, locked by the descriptor; those that killed clients of this user left are gone. */
int copy_temporary_make(int parent_fd, char ret_name[COPY_TEMPORARY_NAME_SIZE], int *ret_fd);
/* With what is in it. fd and name are reset; nothing happens where there is none. */
void copy_temporary_remove(int parent_fd, char name[COPY_TEMPORARY_NAME_SIZE], int *fd);
