/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "base/strv.h"

/* The hosts that pip, npm and apt are set to use, as rules for [Network] Allow= ("tls HOST", "http
 * HOST:8080", "tcp ADDRESS:443"), each once, in the order in which the files name them; where no file says which index,
 * the one that the installed tool was built with, out of its own code. ret_proxies: proxies that they are set to use, in
 * the same form; no rules, since a proxy leads everywhere. root: "/", or the top of another tree; home: of the user
 * whose own files count, or NULL. 0 or -ENOMEM; files that are not there or cannot be read count as empty. */
int package_indexes(const char *root, const char *home, char ***ret_rules, char ***ret_proxies);

/* The rules of the URLs in one text, added to *rules where they are not there yet. keys: names before "=" or
 * ":" that count, NULL: every line does. Lines that start with a blank belong to the key before them. */
int package_indexes_from_text(const char *text, const char *const *keys, char ***rules);
