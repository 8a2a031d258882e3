/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Workspaces on disk for tests: a host's disk of their own, and processes like those of a run. */

#define MIB UINT64_C(1048576)
#define HOST_SIZE (256 * MIB)
#define NAME "testdisk"
#define HOST 42u /* no host's number */

extern char disk_test_path[]; /* the host's disk: a file system of known size, seen by this process alone */
extern int disk_test_dir_fd;

int disk_test_set_up(void **state);
int disk_test_tear_down(void **state);
/* Skips the test where there are none. */
void need_loop_devices(void);
uint64_t host_free(void);
/* But the one of the living, if not NULL. */
size_t count_devices(const char *living);
void check_all_is_given_back(void);
int make_disk(uint64_t size, uint64_t inodes, bool exec);
/* A process; with own_mounts with a root of its own, which is place. */
pid_t start_run(const char *place, bool own_mounts);
void end_run(pid_t pid);
/* In a child, which enters the mounts of the process for good. */
int attach_disk(int fd, pid_t pid, const char *path);
