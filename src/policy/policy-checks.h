/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "policy/policy.h"

/* The judges of single values that the key table names; see PolicyKeyInfo.check for the contract. Pure: a
 * path is judged by its spelling, whether it exists (and is no link that leads elsewhere) is seen by whoever
 * opens it. */
int policy_check_policy_name(const char *s, size_t *ret_offset, char **ret_canonical, Error **reterr);
int policy_check_root(const char *s, size_t *ret_offset, char **ret_canonical, Error **reterr);
int policy_check_expose(const char *s, size_t *ret_offset, char **ret_canonical, Error **reterr);
int policy_check_credential(const char *s, size_t *ret_offset, char **ret_canonical, Error **reterr);
int policy_check_view(const char *s, size_t *ret_offset, char **ret_canonical, Error **reterr);
int policy_check_workspace(const char *s, size_t *ret_offset, char **ret_canonical, Error **reterr);
int policy_check_set(const char *s, size_t *ret_offset, char **ret_canonical, Error **reterr);
int policy_check_pass(const char *s, size_t *ret_offset, char **ret_canonical, Error **reterr);
int policy_check_allow(const char *s, size_t *ret_offset, char **ret_canonical, Error **reterr);
int policy_check_syscall_allow(const char *s, size_t *ret_offset, char **ret_canonical, Error **reterr);
int policy_check_syscall_deny(const char *s, size_t *ret_offset, char **ret_canonical, Error **reterr);
int policy_check_account(const char *s, size_t *ret_offset, char **ret_canonical, Error **reterr);

/* The path behind the name in an item of Credential=. */
const char *policy_credential_path(const char *item);

/* One path is the other, or lies beneath it. */
bool policy_path_beneath(const char *path, const char *directory);
/* Variables that make a loader or an interpreter run somebody else's code (LD_PRELOAD, BASH_ENV,
 * PYTHONSTARTUP, ...). */
bool policy_env_name_injects(const char *name);

/* What holds for the text of every value: valid UTF-8, no control bytes, nothing that would read as a
 * continued line. */
int policy_check_text(const char *s, size_t *ret_offset, Error **reterr);
/* The length of the valid UTF-8 sequence at s, 0 where there is none (or where it is a control character).
 */
size_t policy_text_sequence(const char *s, size_t n);
