/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Loop devices, for a workspace on disk. The kernel takes one apart by itself when nobody has it open and nothing of it is
 * mounted any more. */

/* All devices of the kernel's, mounted nowhere: this process has none in its /dev. */
int loop_devices_open(int *ret_fd, Error **reterr);
/* A device that shows the file, opened. name: how it is told apart from others, up to 63 bytes; nobody but root can read it. */
int loop_device_make(int devices_fd, int file_fd, const char *name, int *ret_fd, Error **reterr);
/* Whether the device of this number bears the name. */
bool loop_device_is(unsigned number, const char *name);
/* How many devices bear a name that counts(). */
int loop_devices_count(bool (*counts)(const char *name, const void *userdata), const void *userdata, size_t *ret, Error **reterr);
