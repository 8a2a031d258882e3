/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* For policy-load.c; what everybody else needs of it stands in policy.h. */

/* "DIR/AB", newly allocated; 0 or -ENOMEM. */
int policy_path(char **ret, const char *dir, const char *a, const char *b);
/* The names in dir that end in suffix and are not hidden, added to *names where they are not there yet. That
 * dir is missing is no error, that it cannot be read is. */
int policy_dir_names(const char *dir, const char *suffix, char ***names);
void policy_sort_names(char **names);
