/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Runs the administrator's program with one line on its standard input, and waits for it. 1: it succeeded; 0: it did not, or took so
 * long that it was killed, with all of its process group; negative: it could not be run. */
int alert_command(char *const argv[], const char *line);
