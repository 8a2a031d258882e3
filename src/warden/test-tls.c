/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/buf.h"
#include "warden/test-corpus.h"
#include "warden/warden-tls.h"

/* argv[1]: the top of the source tree. */
static const char *top;

#define NAME "github.com"

/* ---- a hello, built; the numbers are those of RFC 8446 and 6066 */

static void put(Buf *b, size_t v, size_t width)
{
        while (width-- > 0)
                assert_int_equal(buf_u8(b, (uint8_t) (v >> 8 * width)), 0);
}

static void put_vector(Buf *b, size_t width, const void *p, size_t n)
{
        put(b, n, width);
        assert_int_equal(buf_append(b, p, n), 0);
}

static void put_extension(Buf *b, uint16_t type, const void *p, size_t n)
{
        put(b, type, 2);
        put_vector(b, 2, p, n);
}

static void put_name(Buf *list, uint8_t type, const char *name, size_t n)
{
        put(list, type, 1);
        put_vector(list, 2, name, n);
}

static void put_server_name(Buf *b, const Buf *list)
{
        _cleanup_buf_ Buf data = {};

        put_vector(&data, 2, list->data, list->size);
        put_extension(b, 0, data.data, data.size);
}

static void put_sni(Buf *b, const char *name, size_t n)
{
        _cleanup_buf_ Buf list = {};

        put_name(&list, 0, name, n);
        put_server_name(b, &list);
}

typedef struct Shape {
        uint16_t version;
        size_t session, ciphers, compressions; /* sizes */
        uint8_t compression;
        bool no_extensions;
        size_t behind; /* bytes behind the extensions */
} Shape;

static const Shape plain = { 0x0303, 32, 2, 1, 0, false, 0 };

static void put_hello(Buf *message, const Shape *s, const Buf *extensions)
{
        static const uint8_t filler[512];
        _cleanup_buf_ Buf body = {};

        put(&body, s->version, 2);
        assert_int_equal(buf_append(&body, filler, 32), 0);
        put_vector(&body, 1, filler, s->session);
        put_vector(&body, 2, filler, s->ciphers);
        put(&body, s->compressions, 1);
        for (size_t i = 0; i < s->compressions; i++)
                put(&body, s->compression, 1);
        if (!s->no_extensions)
                put_vector(&body, 2, extensions->data, extensions->size);
        assert_int_equal(buf_append(&body, filler, s->behind), 0);
        put(message, 1, 1);
        put_vector(message, 3, body.data, body.size);
}

static void put_record(Buf *b, uint8_t type, uint16_t version, const void *p, size_t n)
{
        put(b, type, 1);
        put(b, version, 2);
        put_vector(b, 2, p, n);
}

static void put_records(Buf *b, const Buf *message, size_t each)
{
        for (size_t i = 0; i < message->size; i += each)
                put_record(b, 22, 0x0301, message->data + i, MIN2(each, message->size - i));
}

/* ---- what must come out */

typedef struct Result {
        EgressReason reason;
        bool complete, ech;
        char sni[256];
} Result;

static Result look_on(TlsReader *t, const uint8_t *p, size_t n, const char *name, bool ech_allow)
{
        /* Exactly as large as what came: a byte too far is seen by the sanitizer. */
        _cleanup_free_ uint8_t *copy = malloc(MAX2(n, (size_t) 1));
        Result r;

        assert_non_null(copy);
        memcpy(copy, p, n);
        r.reason = tls_hello_check(t, copy, n, name, ech_allow, &r.complete, &r.ech, r.sni);
        assert_true(r.reason == EGRESS_OK || !r.complete);
        return r;
}

static Result look(const uint8_t *p, size_t n, const char *name, bool ech_allow)
{
        TlsReader t = {};

        return look_on(&t, p, n, name, ech_allow);
}

static void same_result(const Result *a, const Result *b)
{
        assert_string_equal(verdict_text(a->reason), verdict_text(b->reason));
        assert_int_equal(a->complete, b->complete);
        assert_int_equal(a->ech, b->ech);
        assert_string_equal(a->sni, b->sni);
}

/* However the bytes come, to one reader in ever so many pieces or at once: nothing final before the byte that decides, and
 * from then on the same for all that follows. Long ones are looked at in steps. Returns the final result and where it
 * came. */
static Result every_prefix(const Buf *b, const char *name, bool ech_allow, size_t *ret_at)
{
        Result last = look(b->data, b->size, name, ech_allow);
        size_t at = SIZE_MAX, step = b->size > 4000 ? 61 : 1;
        TlsReader t = {};

        for (size_t n = 0; n <= b->size; n += step) {
                Result r = look(b->data, n, name, ech_allow), on = look_on(&t, b->data, n, name, ech_allow);

                same_result(&r, &on);
                if (r.reason == EGRESS_OK && !r.complete) {
                        assert_int_equal(at, SIZE_MAX);
                        assert_string_equal(r.sni, "");
                        continue;
                }
                at = MIN2(at, n);
                same_result(&r, &last);
        }
        if (ret_at)
                *ret_at = at;
        return last;
}

static void expect_bytes(const Buf *b, EgressReason reason, const char *sni)
{
        Result r = every_prefix(b, NAME, false, NULL);

        assert_string_equal(verdict_text(r.reason), verdict_text(reason));
        assert_int_equal(r.complete, reason == EGRESS_OK);
        assert_string_equal(r.sni, sni);
}

/* In one record, in two, and in records of one byte. */
static void expect_message(const Buf *message, EgressReason reason, const char *sni)
{
        const size_t cuts[] = { 1 << 14, message->size / 2 + 1, 7, 1 };

        for (size_t i = 0; i < ELEMENTSOF(cuts); i++) {
                _cleanup_buf_ Buf b = {};

                put_records(&b, message, cuts[i]);
                expect_bytes(&b, reason, sni);
        }
}

static void expect_extensions(const Buf *extensions, EgressReason reason, const char *sni)
{
        _cleanup_buf_ Buf message = {};

        put_hello(&message, &plain, extensions);
        expect_message(&message, reason, sni);
}

static void expect_sni_of(const char *name, size_t n, EgressReason reason, const char *sni)
{
        _cleanup_buf_ Buf extensions = {};

        put_sni(&extensions, name, n);
        expect_extensions(&extensions, reason, sni);
}

static void expect_sni(const char *name, EgressReason reason, const char *sni)
{
        expect_sni_of(name, strlen(name), reason, sni);
}

/* ---- the name */

static void test_sni_good(void **state)
{
        expect_sni("github.com", EGRESS_OK, "github.com");
        expect_sni("GitHub.COM", EGRESS_OK, "GitHub.COM");
}

static void test_sni_other(void **state)
{
        static const char *const names[] = { "evil.example", "evilgithub.com", "github.com.evil.example", "www.github.com",
                                             "github.co", "ithub.com", "com", "xn--github-9qa.com" };

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                expect_sni(names[i], EGRESS_SNI_MISMATCH, names[i]);
}

static void test_sni_bad(void **state)
{
        static const char *const names[] = {
                "github.com.", ".github.com", "github..com", "192.0.2.7", "127.1", "2130706433", "0x7f.1", "1.0x", "::1",
                "[2001:db8::1]", "git hub.com", "github.com:443", "-github.com", "github-.com", "*.github.com",
                "_sip.github.com", "github.com/", "a@github.com",
        };
        char label[80] = {}, name[300] = {}, shown[300];

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                expect_sni(names[i], EGRESS_SNI_BAD, names[i]);
        expect_sni("", EGRESS_SNI_BAD, "");
        expect_sni_of("github.com\0", 11, EGRESS_SNI_BAD, "github.com\\x00");
        expect_sni_of("github.com\0.evil.example", 24, EGRESS_SNI_BAD, "github.com\\x00.evil.example");
        expect_sni_of("\0github.com", 11, EGRESS_SNI_BAD, "\\x00github.com");
        expect_sni("gith\xc3\xbc" "b.com", EGRESS_SNI_BAD, "gith\\xc3\\xbcb.com");
        expect_sni("github.com\n", EGRESS_SNI_BAD, "github.com\\x0a");
        expect_sni("a\\b\x1b[m", EGRESS_SNI_BAD, "a\\x5cb\\x1b[m");
        memset(label, 'a', 64);
        snprintf(name, sizeof(name), "%s.com", label);
        expect_sni(name, EGRESS_SNI_BAD, name);
        /* 254 bytes; and more than the record has room for. */
        memset(name, 0, sizeof(name));
        for (size_t i = 0; i < 254; i++)
                name[i] = i % 2 ? '.' : 'a';
        name[253] = 'a';
        expect_sni(name, EGRESS_SNI_BAD, name);
        memset(name, 'a', 299);
        snprintf(shown, sizeof(shown), "%.252s...", name);
        expect_sni(name, EGRESS_SNI_BAD, shown);
}

static void test_sni_lists(void **state)
{
        _cleanup_buf_ Buf none = {}, two = {}, twice = {}, other = {}, first_other = {}, empty = {}, server = {}, behind = {};
        Buf list = {};

        expect_extensions(&none, EGRESS_SNI_BAD, "");

        put_name(&list, 0, NAME, strlen(NAME));
        put_name(&list, 0, NAME, strlen(NAME));
        put_server_name(&two, &list);
        expect_extensions(&two, EGRESS_SNI_BAD, NAME);
        buf_done(&list);

        put_sni(&twice, NAME, strlen(NAME));
        put_sni(&twice, "evil.example", 12);
        expect_extensions(&twice, EGRESS_SNI_BAD, NAME);

        put_name(&list, 1, NAME, strlen(NAME));
        put_server_name(&other, &list);
        expect_extensions(&other, EGRESS_SNI_BAD, "");
        put_name(&list, 0, NAME, strlen(NAME));
        put_server_name(&first_other, &list);
        expect_extensions(&first_other, EGRESS_SNI_BAD, "");
        buf_done(&list);

        /* An empty list; the empty extension, which is a server's form. */
        list = (Buf){};
        put_server_name(&empty, &list);
        expect_extensions(&empty, EGRESS_SNI_BAD, "");
        put_extension(&server, 0, "", 0);
        expect_extensions(&server, EGRESS_SNI_BAD, "");
        put_extension(&behind, 0, "\0\x0d\0\0\x0agithub.com\0", 16);
        expect_extensions(&behind, EGRESS_SNI_BAD, "");
}

static void test_no_extensions(void **state)
{
        _cleanup_buf_ Buf message = {};
        Shape s = plain;

        s.no_extensions = true;
        put_hello(&message, &s, NULL);
        expect_message(&message, EGRESS_SNI_BAD, "");
}

/* ---- ECH */

static void test_ech(void **state)
{
        static const uint16_t types[] = { 0xfe0d, 0xffce, 0xff02, 0xfe08, 0xfe09, 0xfe0a, 0xfe0b, 0xfe0c };

        for (size_t i = 0; i < ELEMENTSOF(types); i++) {
                _cleanup_buf_ Buf extensions = {}, message = {}, b = {};
                Result r;

                put_extension(&extensions, types[i], "\0\0\1\0\1\x2a", 6);
                put_sni(&extensions, NAME, strlen(NAME));
                put_hello(&message, &plain, &extensions);
                put_records(&b, &message, 1 << 14);
                r = every_prefix(&b, NAME, false, NULL);
                assert_int_equal(r.reason, EGRESS_ECH);
                assert_true(r.ech);
                assert_string_equal(r.sni, NAME);
                r = every_prefix(&b, NAME, true, NULL);
                assert_int_equal(r.reason, EGRESS_OK);
                assert_true(r.complete && r.ech);
                /* The outer name counts whatever the rule allows. */
                r = every_prefix(&b, "evil.example", true, NULL);
                assert_int_equal(r.reason, EGRESS_SNI_MISMATCH);
                r = every_prefix(&b, "evil.example", false, NULL);
                assert_int_equal(r.reason, EGRESS_SNI_MISMATCH);
                assert_true(r.ech);
        }
}

/* ---- what is no hello */

static void test_first_byte(void **state)
{
        uint8_t c = 0;

        do {
                Result r = look(&c, 1, NAME, false);

                assert_int_equal(r.reason, c == 22 ? EGRESS_OK : EGRESS_NOT_TLS);
                assert_false(r.complete);
        } while (++c != 0);
        assert_int_equal(look(&c, 0, NAME, false).reason, EGRESS_OK);
}

static void test_shapes(void **state)
{
        const struct {
                Shape shape;
                EgressReason reason;
        } rows[] = {
                { { 0x0303, 0, 2, 1, 0, false, 0 }, EGRESS_OK },
                { { 0x0301, 32, 2, 1, 0, false, 0 }, EGRESS_OK },
                { { 0x0300, 32, 254, 2, 0, false, 0 }, EGRESS_OK },
                { { 0x0305, 32, 2, 1, 0, false, 0 }, EGRESS_NOT_TLS },
                { { 0x0203, 32, 2, 1, 0, false, 0 }, EGRESS_NOT_TLS },
                { { 0xfefd, 32, 2, 1, 0, false, 0 }, EGRESS_NOT_TLS },
                { { 0x0303, 33, 2, 1, 0, false, 0 }, EGRESS_NOT_TLS },
                { { 0x0303, 32, 0, 1, 0, false, 0 }, EGRESS_NOT_TLS },
                { { 0x0303, 32, 3, 1, 0, false, 0 }, EGRESS_NOT_TLS },
                { { 0x0303, 32, 2, 0, 0, false, 0 }, EGRESS_NOT_TLS },
                { { 0x0303, 32, 2, 1, 1, false, 0 }, EGRESS_NOT_TLS },
                { { 0x0303, 32, 2, 1, 0, false, 1 }, EGRESS_NOT_TLS },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_buf_ Buf extensions = {}, message = {};

                put_sni(&extensions, NAME, strlen(NAME));
                put_hello(&message, &rows[i].shape, &extensions);
                expect_message(&message, rows[i].reason, rows[i].reason == EGRESS_OK ? NAME : "");
        }
}

/* Each byte of length in a hello, one more and one less. */
static void test_lengths(void **state)
{
        _cleanup_buf_ Buf extensions = {}, message = {};
        size_t name_at;

        put_sni(&extensions, NAME, strlen(NAME));
        put_extension(&extensions, 10, "\0\2\0\x1d", 4);
        put_hello(&message, &plain, &extensions);
        name_at = message.size - 8 - strlen(NAME);
        /* Handshake (low byte), session, ciphers, compressions, extensions, extension, list, name, second extension. */
        const size_t at[] = { 3,           38,          72,          75,         78,
                              name_at - 6, name_at - 4, name_at - 1, message.size - 5 };

        expect_message(&message, EGRESS_OK, NAME);
        for (size_t i = 0; i < ELEMENTSOF(at); i++)
                for (int d = -1; d <= 1; d += 2) {
                        _cleanup_buf_ Buf b = {};
                        Result r;

                        message.data[at[i]] = (uint8_t) (message.data[at[i]] + d);
                        put_records(&b, &message, 1 << 14);
                        r = every_prefix(&b, NAME, false, NULL);
                        message.data[at[i]] = (uint8_t) (message.data[at[i]] - d);
                        /* One byte more announced by the handshake header is one that has not come. */
                        if (i == 0 && d == 1)
                                assert_true(r.reason == EGRESS_OK && !r.complete);
                        else if (r.reason != EGRESS_NOT_TLS && r.reason != EGRESS_SNI_BAD)
                                fail_msg("length at %zu%+d: %s", at[i], d, verdict_text(r.reason));
                }
}

static void test_duplicates(void **state)
{
        _cleanup_buf_ Buf extensions = {};

        put_sni(&extensions, NAME, strlen(NAME));
        put_extension(&extensions, 0xfffe, "", 0);
        put_extension(&extensions, 0xffff, "", 0);
        expect_extensions(&extensions, EGRESS_OK, NAME);
        put_extension(&extensions, 0xffff, "", 0);
        expect_extensions(&extensions, EGRESS_NOT_TLS, "");
}

/* ---- records */

static void good_message(Buf *message)
{
        _cleanup_buf_ Buf extensions = {};

        put_sni(&extensions, NAME, strlen(NAME));
        put_hello(message, &plain, &extensions);
}

static void test_record_headers(void **state)
{
        _cleanup_buf_ Buf message = {};
        const struct {
                uint8_t type;
                uint16_t version;
                EgressReason reason;
        } rows[] = {
                { 22, 0x0300, EGRESS_OK },      { 22, 0x0303, EGRESS_OK },      { 22, 0x0304, EGRESS_OK },
                { 22, 0x0305, EGRESS_NOT_TLS }, { 22, 0x0203, EGRESS_NOT_TLS }, { 22, 0xfefd, EGRESS_NOT_TLS },
                { 20, 0x0303, EGRESS_NOT_TLS }, { 21, 0x0303, EGRESS_NOT_TLS }, { 23, 0x0303, EGRESS_NOT_TLS },
                { 24, 0x0303, EGRESS_NOT_TLS },
        };

        good_message(&message);
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_buf_ Buf only = {}, second = {};

                put_record(&only, rows[i].type, rows[i].version, message.data, message.size);
                expect_bytes(&only, rows[i].reason, rows[i].reason == EGRESS_OK ? NAME : "");
                put_record(&second, 22, 0x0301, message.data, 2);
                put_record(&second, rows[i].type, rows[i].version, message.data + 2, message.size - 2);
                expect_bytes(&second, rows[i].reason, rows[i].reason == EGRESS_OK ? NAME : "");
        }
}

static void test_record_sizes(void **state)
{
        _cleanup_buf_ Buf message = {}, first = {}, between = {}, large = {};
        size_t at;

        good_message(&message);
        put_record(&first, 22, 0x0301, "", 0);
        put_records(&first, &message, 1 << 14);
        expect_bytes(&first, EGRESS_NOT_TLS, "");
        put_record(&between, 22, 0x0301, message.data, 3);
        put_record(&between, 22, 0x0301, "", 0);
        put_record(&between, 22, 0x0301, message.data + 3, message.size - 3);
        expect_bytes(&between, EGRESS_NOT_TLS, "");
        /* 2^14 + 1: refused by its header. */
        put(&large, 0x1603014001, 5);
        put(&large, 0x01, 1);
        assert_int_equal(every_prefix(&large, NAME, false, &at).reason, EGRESS_NOT_TLS);
        assert_int_equal(at, 5);
}

static void test_bytes_behind(void **state)
{
        _cleanup_buf_ Buf message = {}, in_record = {}, next_record = {}, early = {};
        size_t at, size;

        good_message(&message);
        size = message.size;
        put(&message, 14, 4);
        put_records(&in_record, &message, 1 << 14);
        assert_int_equal(every_prefix(&in_record, NAME, false, &at).reason, EGRESS_NOT_TLS);
        assert_int_equal(at, 9); /* the record's and the message's length */
        put_records(&next_record, &message, size);
        expect_bytes(&next_record, EGRESS_OK, NAME);
        /* Early data: ChangeCipherSpec and application data in the segments that bring the hello. */
        put_record(&early, 22, 0x0301, message.data, size);
        put_record(&early, 20, 0x0303, "\1", 1);
        put_record(&early, 23, 0x0303, "GET / HTTP/1.1\r\n", 16);
        assert_int_equal(every_prefix(&early, NAME, false, &at).reason, EGRESS_OK);
        assert_int_equal(at, size + 5);
}

static void test_other_message(void **state)
{
        uint8_t record[] = { 22, 3, 1, 0, 4, 0, 0, 0, 0 };

        for (unsigned type = 0; type < 256; type++) {
                Result r;

                record[5] = (uint8_t) type;
                r = look(record, 6, NAME, false);
                assert_int_equal(r.reason, type == 1 ? EGRESS_OK : EGRESS_NOT_TLS);
        }
}

/* ---- bounds */

static void padded_message(Buf *message, size_t size)
{
        _cleanup_buf_ Buf extensions = {}, small = {};
        _cleanup_free_ uint8_t *zeros = calloc(1, size);

        assert_non_null(zeros);
        good_message(&small);
        put_sni(&extensions, NAME, strlen(NAME));
        put_extension(&extensions, 21, zeros, size - small.size - 4);
        put_hello(message, &plain, &extensions);
        assert_int_equal(message->size, size);
}

static void test_largest(void **state)
{
        _cleanup_buf_ Buf message = {}, over = {}, once = {}, many = {}, over_once = {};
        Result r;

        padded_message(&message, TLS_HELLO_MAX);
        put_records(&once, &message, 1 << 14);
        expect_bytes(&once, EGRESS_OK, NAME);
        /* 21 bytes a record: the last size with which it all fits. */
        put_records(&many, &message, 21);
        assert_true(many.size <= TLS_HELLO_WIRE_MAX);
        expect_bytes(&many, EGRESS_OK, NAME);
        padded_message(&over, TLS_HELLO_MAX + 1);
        put_records(&over_once, &over, 1 << 14);
        r = look(over_once.data, 9, NAME, false);
        assert_int_equal(r.reason, EGRESS_TOO_LARGE);
        expect_bytes(&over_once, EGRESS_TOO_LARGE, "");
}

static void test_wire_bound(void **state)
{
        _cleanup_buf_ Buf message = {}, b = {};

        padded_message(&message, TLS_HELLO_MAX);
        put_records(&b, &message, 1);
        assert_int_equal(look(b.data, TLS_HELLO_WIRE_MAX - 1, NAME, false).reason, EGRESS_OK);
        assert_int_equal(look(b.data, TLS_HELLO_WIRE_MAX, NAME, false).reason, EGRESS_TOO_LARGE);
        expect_bytes(&b, EGRESS_TOO_LARGE, "");
}

/* ---- what real clients send */

static void check_kept(const char *file, const uint8_t *p, size_t n, const char *want)
{
        Buf b = { .data = (uint8_t *) p, .size = n };
        Result r = every_prefix(&b, NAME, false, NULL);

        if (!streq(verdict_text(r.reason), want))
                fail_msg("%s: %s", file, verdict_text(r.reason));
        assert_int_equal(r.complete, r.reason == EGRESS_OK);
        if (r.reason != EGRESS_ECH)
                return;
        r = every_prefix(&b, NAME, true, NULL);
        if (!r.complete || !r.ech)
                fail_msg("%s: ECH that is allowed gets %s", file, verdict_text(r.reason));
}

static void test_corpus(void **state)
{
        assert_true(corpus_each(top, "tls", check_kept) > 40);
}

static void test_alert(void **state)
{
        static const uint8_t want[] = { 21, 3, 3, 0, 2, 2, 49 };

        assert_memory_equal(tls_alert_access_denied, want, sizeof(want));
}

int main(int argc, char *argv[])
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sni_good),
                cmocka_unit_test(test_sni_other),
                cmocka_unit_test(test_sni_bad),
                cmocka_unit_test(test_sni_lists),
                cmocka_unit_test(test_no_extensions),
                cmocka_unit_test(test_ech),
                cmocka_unit_test(test_first_byte),
                cmocka_unit_test(test_shapes),
                cmocka_unit_test(test_lengths),
                cmocka_unit_test(test_duplicates),
                cmocka_unit_test(test_record_headers),
                cmocka_unit_test(test_record_sizes),
                cmocka_unit_test(test_bytes_behind),
                cmocka_unit_test(test_other_message),
                cmocka_unit_test(test_largest),
                cmocka_unit_test(test_wire_bound),
                cmocka_unit_test(test_corpus),
                cmocka_unit_test(test_alert),
        };

        if (argc != 2)
                return 2;
        top = argv[1];
        return cmocka_run_group_tests_name("tls", tests, NULL, NULL);
}
