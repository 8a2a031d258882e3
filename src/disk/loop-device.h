/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "base/error.h"

/* Loop devices, for a workspace on disk. The kernel takes one apart by itself when nobody has it open and nothing of it is
 * mounted any more. */

/* All devices of the kernel's, mounted nowhere: this process has none in its /dev. */
int loop_devices_open(int *ret_fd, Error **reterr);
/* A device that shows the file, opened. name: how it is told apart from others, up to 63 bytes; nobody but root can read it. */
int loop_device_make(int devices_fd, int file_fd, const char *name, int *ret_fd, Error **reterr);
/* Each device that shows a file, by its name; see() returns negative errno to have no more of them. */
int loop_devices_each(int devices_fd, int (*see)(const char *name, void *userdata), void *userdata, Error **reterr);
