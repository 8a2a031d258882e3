/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/escape.h"

static void test_rows(void **state)
{
        static const struct {
                const char *bytes;
                size_t n, max;
                const char *shown;
        } rows[] = {
#define ROW(bytes, shown) { bytes, sizeof(bytes) - 1, 1000, shown }
                ROW("", ""), ROW("plain text", "plain text"),
                ROW("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"),
                ROW("a\0b", "a\\x00b"), ROW("\033[2J", "\\x1b[2J"),
                ROW("\033]52;c;aGk=\a", "\\x1b]52;c;aGk=\\x07"),
                ROW("a\nb\r\tc\x7f", "a\\x0ab\\x0d\\x09c\\x7f"), ROW("back\\slash", "back\\x5cslash"),
                ROW("\xc2\x9b"
                    "31m",
                                "\\xc2\\x9b31m"), /* CSI as a C1 control */
                ROW("\xc0\xaf", "\\xc0\\xaf"),    /* overlong */
                ROW("\xe0\x80\xaf", "\\xe0\\x80\\xaf"),
                ROW("\xed\xa0\x80", "\\xed\\xa0\\x80"),          /* surrogate */
                ROW("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"), /* above the last code point */
                ROW("\xf8\x88\x80\x80\x80", "\\xf8\\x88\\x80\\x80\\x80"),
                ROW("\xe2\x82", "\\xe2\\x82"), /* cut short */
                ROW("\xe2\x80\xae"
                    "cod.exe",
                                "\\xe2\\x80\\xaecod.exe"), /* right-to-left override */
                ROW("\xe2\x80\x8b", "\\xe2\\x80\\x8b"),    /* no width */
#undef ROW
                { "0123456789", 10, 4, "0123…" }, { "0123", 4, 4, "0123" },
                { "ab\xe2\x82\xac", 5, 3, "ab\\xe2…" }, /* never half a character */
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_free_ char *s = escape_for_display(rows[i].bytes, rows[i].n, rows[i].max);

                assert_string_equal(s, rows[i].shown);
        }
}

/* Whatever goes in, no byte comes out that a terminal would obey. */
static void test_every_pair(void **state)
{
        for (unsigned a = 0; a < 256; a++)
                for (unsigned b = 0; b < 256; b++) {
                        const uint8_t in[] = { (uint8_t) a, (uint8_t) b };
                        _cleanup_free_ char *s = escape_for_display(in, 2, 2);

                        for (const char *c = s; *c; c++) {
                                assert_true((unsigned char) *c >= 0x20 && *c != 0x7f);
                                if ((unsigned char) c[0] == 0xc2)
                                        assert_true((unsigned char) c[1] >= 0xa0);
                        }
                }
}

int main(void)
{
        static const struct CMUnitTest tests[] = { cmocka_unit_test(test_rows),
                cmocka_unit_test(test_every_pair) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
