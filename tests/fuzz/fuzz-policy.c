/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "policy/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A policy's text. Whatever is taken prints to a text that parses back to the same; whatever is not has a message. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const char *const nowhere[] = { NULL };
        _cleanup_policy_ Policy *p = NULL, *again = NULL;
        _cleanup_free_ char *text = NULL, *second = NULL;
        _cleanup_error_ Error *e = NULL;

        if (policy_load_text("fuzz", (const char *) data, size, nowhere, "/nonexistent", &p, &e) < 0) {
                if (!e || !*e->message)
                        abort();
                return 0;
        }
        text = policy_to_text(p);
        if (!text || policy_load_text("again", text, strlen(text), nowhere, "/nonexistent", &again, NULL) < 0)
                abort();
        second = policy_to_text(again);
        if (!second || !streq(text, second))
                abort();
        return 0;
}
