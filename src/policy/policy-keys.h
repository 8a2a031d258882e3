/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "policy/policy.h"

/* The one table of keys. Whoever needs to know something about a key asks its row; nobody spells a key's
 * name a second time. */

/* What "at least as strict" means for a caller who is not root. */
typedef enum PolicyOrder {
        POLICY_ORDER_FIXED,    /* as the policy says, always */
        POLICY_ORDER_LOWER,    /* a smaller number is stricter; not set is the laxest */
        POLICY_ORDER_HIGHER,   /* a later name of the enumeration (yes after no) is stricter */
        POLICY_ORDER_SUBSET,   /* leaving out items is stricter */
        POLICY_ORDER_SUPERSET, /* adding items is stricter */
        _POLICY_ORDER_MAX,
} PolicyOrder;

typedef enum PolicyMerge {
        POLICY_MERGE_REPLACE, /* the last one counts */
        POLICY_MERGE_APPEND,  /* a list that grows */
        POLICY_MERGE_OWN,     /* the last one counts, and Extends= does not hand it down */
} PolicyMerge;

/* How the value of a list key falls apart into items. */
typedef enum PolicySplit {
        POLICY_SPLIT_WORDS, /* at white space */
        POLICY_SPLIT_NEVER, /* one item a line */
        POLICY_SPLIT_RULES, /* one rule a line, or several addresses and @SETs */
} PolicySplit;

enum {
        POLICY_BY_SERVICE = 1 << 0, /* properties of a transient service */
        POLICY_BY_SCOPE = 1 << 1,   /* a scope can carry it as well */
        POLICY_BY_SHIM = 1 << 2,    /* agentbox-exec: system-call filter, environment, Landlock */
        POLICY_BY_WARDEN = 1 << 3,
        POLICY_BY_BROKER = 1 << 4,
        POLICY_BY_CLI = 1 << 5,
};

typedef struct PolicyKeyInfo {
        const char *section, *name;
        PolicyType type;
        PolicyOrder order;
        PolicyMerge merge;
        PolicySplit split;
        unsigned by;              /* POLICY_BY_… */
        const char *fallback;     /* the default, as a file would say it; NULL: not set */
        uint64_t min, max;        /* of numbers, inclusive */
        uint64_t unset;           /* of numbers: what holds where it is not set; 0: no limit at all */
        const char *const *names; /* of an enumeration */
        size_t n_names;
        /* Judges a string or one item of a list beyond what holds for every text. ret_offset: where in the
         * item it went wrong; ret_canonical: the form to keep where it differs (else untouched, NULL). */
        int (*check)(const char *item, size_t *ret_offset, char **ret_canonical, Error **reterr);
        const char *pending; /* what has no force in this version, refused by name; NULL: all of it has.
                                Where policy-check.c says nothing else about the key: every value but the
                                default */
        const char *syntax;  /* for the manual: what stands behind the equals sign */
        const char *doc;     /* one sentence or two, for the manual and "policy explain" */
} PolicyKeyInfo;

extern const PolicyKeyInfo policy_keys[_POLICY_KEY_MAX];
extern const char *const policy_order_texts[_POLICY_ORDER_MAX];

/* The key of that section and name, or -ENOENT. */
int policy_key_find(const char *section, const char *name);
bool policy_section_known(const char *section);
/* Like section, or the key of any section, spelt alike; NULL where nothing is near. Static. */
const char *policy_section_suggest(const char *section);
const char *policy_key_suggest(const char *section, const char *name);
