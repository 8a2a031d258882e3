/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdio.h>

#include "warden/warden-http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The client's side of a connection. How it is cut makes no difference; nothing passes behind a refusal; and
 * what passes, read by the short and trusting reader below, which shares nothing with the warden's, is
 * requests for the one host. */

#define NAME "example.net"
#define PORT 80

typedef struct Outcome {
        EgressReason reason;
        unsigned status;
        size_t passed;
        char host[256];
} Outcome;

/* In pieces of at most that many bytes. */
static Outcome run(const uint8_t *p, size_t n, uint32_t chance, size_t most)
{
        Outcome o = {};
        HttpReader h;

        http_reader_init(&h, NAME, PORT);
        for (size_t come = 0; come < n && o.reason == EGRESS_OK;) {
                size_t more = most < n ? 1 + (chance >> 8) % most : n, waiting;
                _cleanup_free_ uint8_t *copy = NULL;
                unsigned before = h.state;
                HttpVerdict v;

                chance = chance * 1664525 + 1013904223;
                come += more < n - come ? more : n - come;
                waiting = come - o.passed;
                copy = malloc(waiting);
                if (!copy)
                        abort();
                memcpy(copy, p + o.passed, waiting);
                http_reader_feed(&h, copy, waiting, &v);
                if (v.pass > waiting || before == HTTP_FAILED ||
                                (v.reason == EGRESS_OK) != (v.status == 0) ||
                                (v.reason == EGRESS_OK) != (h.state != HTTP_FAILED))
                        abort();
                o.passed += v.pass;
                o.reason = v.reason;
                o.status = v.status;
                memcpy(o.host, v.host, sizeof(o.host));
                if (o.reason == EGRESS_OK && (come - o.passed >= HTTP_HEAD_MAX || *v.host))
                        abort();
                http_reader_feed(&h, copy, 0, &v);
                if (v.pass != 0)
                        abort();
        }
        if (strnlen(o.host, sizeof(o.host)) == sizeof(o.host))
                abort();
        return o;
}

/* ---- the trusting reader: lines, fields by their first colon, whatever framing they name */

static const uint8_t *find(const uint8_t *p, size_t n, const char *what)
{
        return memmem(p, n, what, strlen(what));
}

static bool field_is(
                const uint8_t *line, size_t n, const char *name, const uint8_t **ret_value, size_t *ret_n)
{
        size_t k = strlen(name);

        if (n < k + 1 || strncasecmp((const char *) line, name, k) != 0 || line[k] != ':')
                return false;
        for (k++; k < n && (line[k] == ' ' || line[k] == '\t'); k++)
                ;
        while (n > k && (line[n - 1] == ' ' || line[n - 1] == '\t'))
                n--;
        *ret_value = line + k;
        *ret_n = n - k;
        return true;
}

/* Behind a body by chunks; NULL: it does not end in here. */
static const uint8_t *skip_chunks(const uint8_t *p, const uint8_t *end)
{
        for (;;) {
                const uint8_t *line = find(p, (size_t) (end - p), "\r\n");
                char digits[32] = {};
                uint64_t size;

                if (!line)
                        return NULL;
                if (line - p > 16)
                        abort();
                memcpy(digits, p, (size_t) (line - p));
                size = strtoull(digits, NULL, 16);
                p = line + 2;
                if (size == 0)
                        break;
                if ((uint64_t) (end - p) < size + 2)
                        return NULL;
                if (memcmp(p + size, "\r\n", 2) != 0)
                        abort();
                p += size + 2;
        }
        if (end - p >= 2 && memcmp(p, "\r\n", 2) == 0)
                return p + 2;
        p = find(p, (size_t) (end - p), "\r\n\r\n");
        return p ? p + 4 : NULL;
}

typedef struct Head {
        unsigned hosts, framings;
        uint64_t length;
        bool chunked;
} Head;

static bool value_is(const uint8_t *value, size_t n, const char *text)
{
        return n == strlen(text) && strncasecmp((const char *) value, text, n) == 0;
}

static void check_field(const uint8_t *line, size_t n, Head *head)
{
        const uint8_t *value;

        if (memchr(line, '\n', n) || memchr(line, 0, n))
                abort();
        if (field_is(line, n, "host", &value, &n)) {
                head->hosts++;
                if (!value_is(value, n, NAME) && !value_is(value, n, NAME ":80"))
                        abort();
        } else if (field_is(line, n, "content-length", &value, &n)) {
                char digits[32] = {};

                head->framings++;
                memcpy(digits, value, n < 31 ? n : 31);
                head->length = strtoull(digits, NULL, 10);
        } else if (field_is(line, n, "transfer-encoding", &value, &n)) {
                head->framings++;
                head->chunked = true;
                if (n != 7 || memcmp(value, "chunked", 7) != 0)
                        abort();
        } else if (field_is(line, n, "upgrade", &value, &n))
                abort();
}

static void check_passed(const uint8_t *p, size_t n)
{
        const uint8_t *end = p + n;

        while (p && p < end) {
                const uint8_t *head_end = find(p, (size_t) (end - p), "\r\n\r\n");
                Head head = {};

                /* No part of a head passes. */
                if (!head_end)
                        abort();
                for (const uint8_t *line = p, *next; line < head_end + 2; line = next + 2) {
                        next = find(line, (size_t) (end - line), "\r\n");
                        check_field(line, (size_t) (next - line), &head);
                }
                if (head.hosts != 1 || head.framings > 1)
                        abort();
                p = head_end + 4;
                if (head.chunked)
                        p = skip_chunks(p, end);
                else
                        p = (uint64_t) (end - p) < head.length ? NULL : p + head.length;
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        uint32_t chance = (uint32_t) size * 2654435761u + (size > 0 ? data[size / 2] : 0u);
        const size_t most[] = { 1, 7, 200 };
        Outcome whole;

        if (size == 0 || size > 3 * HTTP_HEAD_MAX)
                return 0;
        whole = run(data, size, 0, size);
        for (size_t i = size > 4096 ? 2 : 0; i < ELEMENTSOF(most); i++) {
                Outcome o = run(data, size, chance, most[i]);

                if (o.reason != whole.reason || o.status != whole.status || o.passed != whole.passed ||
                                !streq(o.host, whole.host))
                        abort();
        }
        check_passed(data, whole.passed);
        return 0;
}
