/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <nettle/sha2.h>
#include <stdio.h>

#include "base/buf.h"
#include "policy/policy-keys.h"
#include "policy/policy-value.h"
#include "policy/policy.h"

static void print_key(Buf *b, const Policy *p, PolicyKey key)
{
        _cleanup_free_ char *text = NULL;

        if (policy_keys[key].type == POLICY_TYPE_LIST) {
                STRV_FOREACH(i, policy_list(p, key))
                        buf_printf(b, "%s=%s\n", policy_keys[key].name, *i);
                return;
        }
        text = policy_value_format(key, p->values + key);
        if (!text)
                b->error = -ENOMEM;
        else
                buf_printf(b, "%s=%s\n", policy_keys[key].name, text);
}

char *policy_to_text(const Policy *p)
{
        _cleanup_buf_ Buf b = {};
        const char *section = "";

        for (int k = 0; k < _POLICY_KEY_MAX; k++) {
                /* What was extended is in the values already; naming it would add its lists a second time.
                 */
                if (!policy_is_set(p, k) || k == POLICY_EXTENDS)
                        continue;
                if (!streq(section, policy_keys[k].section)) {
                        buf_printf(&b, "%s[%s]\n", *section ? "\n" : "", policy_keys[k].section);
                        section = policy_keys[k].section;
                }
                print_key(&b, p, k);
        }
        return buf_take_string(&b);
}

char *policy_digest(const Policy *p)
{
        _cleanup_free_ char *text = policy_to_text(p);
        uint8_t digest[SHA256_DIGEST_SIZE];
        struct sha256_ctx sha;
        char *hex;

        if (!text)
                return NULL;
        sha256_init(&sha);
        sha256_update(&sha, strlen(text), (const uint8_t *) text);
        sha256_digest(&sha, sizeof(digest), digest);
        hex = malloc(2 * sizeof(digest) + 1);
        for (size_t i = 0; hex && i < sizeof(digest); i++)
                sprintf(hex + 2 * i, "%02x", digest[i]);
        return hex;
}
