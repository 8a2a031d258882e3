/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>

/* One function a verb; argv[0] is the verb. They return the exit status. */
int verb_run(int argc, char **argv);
int verb_ps(int argc, char **argv);
int verb_show(int argc, char **argv);
int verb_wait(int argc, char **argv);
int verb_attach(int argc, char **argv);
int verb_kill(int argc, char **argv);
int verb_thaw(int argc, char **argv);
int verb_log(int argc, char **argv);
int verb_why(int argc, char **argv);
int verb_policy(int argc, char **argv);
int verb_doctor(int argc, char **argv);
/* "agentbox policy learn", see learn.h; returns the exit status. */
int policy_learn(char *const *runs, bool drop_in);
