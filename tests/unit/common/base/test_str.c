/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/hex.h"
#include "common/base/str.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/err.h"

static void strings_are_equal_only_when_both_are_there(void **state)
{
    assert_true(dlr_streq("a", "a"));
    assert_false(dlr_streq("a", "b"));
    assert_false(dlr_streq(NULL, "a"));
    assert_false(dlr_streq("a", NULL));
    assert_false(dlr_streq(NULL, NULL));
}

static void after_gives_what_follows_the_prefix(void **state)
{
    assert_string_equal(dlr_after("dir=/tmp", "dir="), "/tmp");
    assert_string_equal(dlr_after("dir=", "dir="), "");
    assert_null(dlr_after("dir", "dir="));
    assert_null(dlr_after(NULL, "dir="));
}

static void below_knows_whole_names_only(void **state)
{
    static const struct {
        const char *path, *dir, *name;
    } rows[] = {
        {"/a/b/c", "/a/b", "c"},      {"/a/b/c/d", "/a/b", "c/d"},
        {"/a/bc", "/a/b", NULL},      {"/a/bc/d", "/a/b", NULL},
        {"/a/b", "/a/b", NULL},       {"/a/b/", "/a/b", NULL},
        {"/elsewhere", "/a/b", NULL}, {NULL, "/a/b", NULL},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const char *name = dlr_below(rows[i].path, rows[i].dir);

        print_message("%s in %s\n", rows[i].path ? rows[i].path : "NULL", rows[i].dir);
        assert_true(name == rows[i].name || dlr_streq(name, rows[i].name));
    }
}

static void format_reports_what_does_not_fit(void **state)
{
    char buf[4] = "old";

    assert_int_equal(dlr_format(buf, sizeof(buf), "%d", 123), 0);
    assert_string_equal(buf, "123");
    assert_int_equal(dlr_format(buf, sizeof(buf), "%d", 1234), -ENAMETOOLONG);
    assert_string_equal(buf, "");
    assert_int_equal(dlr_format(buf, 0, "%d", 1), -ENAMETOOLONG);
}

static void durations_have_units_and_limits(void **state)
{
    static const struct {
        const char *text;
        int rc;
        int64_t ms;
    } rows[] = {
        {"0", 0, 0},
        {"30", 0, 30000},
        {"200ms", 0, 200},
        {"30s", 0, 30000},
        {"2m", 0, 120000},
        {"1h", 0, 3600000},
        {"2147483647ms", 0, 2147483647},
        {"2147483648ms", -ERANGE, 0},
        {"597h", -ERANGE, 0},
        {"18446744073709551616ms", -ERANGE, 0},
        {"99999999999999999999", -ERANGE, 0},
        {"", -EINVAL, 0},
        {"s", -EINVAL, 0},
        {"-1s", -EINVAL, 0},
        {"+1s", -EINVAL, 0},
        {" 1s", -EINVAL, 0},
        {"1 s", -EINVAL, 0},
        {"1s ", -EINVAL, 0},
        {"1.5s", -EINVAL, 0},
        {"0x10", -EINVAL, 0},
        {"1d", -EINVAL, 0},
        {NULL, -EINVAL, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t ms = -7;

        print_message("row '%s'\n", rows[i].text ? rows[i].text : "(null)");
        assert_int_equal(dlr_parse_duration_ms(rows[i].text, &ms), rows[i].rc);
        assert_int_equal(ms, rows[i].rc < 0 ? -7 : rows[i].ms);
    }
}

static void sizes_have_powers_of_1024(void **state)
{
    static const struct {
        const char *text;
        int rc;
        uint64_t bytes;
    } rows[] = {
        {"0", 0, 0},
        {"4096", 0, 4096},
        {"4096b", 0, 4096},
        {"64k", 0, 65536},
        {"64K", 0, 65536},
        {"64kb", 0, 65536},
        {"64KiB", 0, 65536},
        {"2m", 0, 2097152},
        {"4g", 0, 4294967296},
        {"1t", 0, 1099511627776},
        {"16383p", 0, 16383ull << 50},
        {"16384p", -ERANGE, 0},
        {"18446744073709551615", 0, UINT64_MAX},
        {"18446744073709551616", -ERANGE, 0},
        {"4ib", -EINVAL, 0},
        {"4x", -EINVAL, 0},
        {"4gg", -EINVAL, 0},
        {"-4g", -EINVAL, 0},
        {"g", -EINVAL, 0},
        {"", -EINVAL, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t bytes = 7;

        print_message("row '%s'\n", rows[i].text);
        assert_int_equal(dlr_parse_size(rows[i].text, &bytes), rows[i].rc);
        assert_int_equal(bytes, rows[i].rc < 0 ? 7 : rows[i].bytes);
    }
}

static void numbers_have_nothing_around_them(void **state)
{
    static const struct {
        const char *text;
        unsigned max;
        int rc;
        unsigned value;
    } rows[] = {
        {"0", 9, 0, 0},
        {"9", 9, 0, 9},
        {"10", 9, -ERANGE, 0},
        {"4294967295", UINT_MAX, 0, UINT_MAX},
        {"4294967296", UINT_MAX, -ERANGE, 0},
        {"007", 9, 0, 7},
        {"7 ", 9, -EINVAL, 0},
        {"-1", 9, -EINVAL, 0},
        {"", 9, -EINVAL, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        unsigned value = 42;

        print_message("row '%s'\n", rows[i].text);
        assert_int_equal(dlr_parse_uint(rows[i].text, rows[i].max, &value), rows[i].rc);
        assert_int_equal(value, rows[i].rc < 0 ? 42 : rows[i].value);
    }
}

static void wall_time_is_written_in_utc(void **state)
{
    static const struct {
        int64_t ns;
        const char *text;
    } rows[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {1795230245678000000, "2026-11-21T03:04:05.678Z"},
        {951782400999999999, "2000-02-29T00:00:00.999Z"},
        {-1, "1969-12-31T23:59:59.999Z"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char buf[25];

        dlr_wall_text(rows[i].ns, buf, sizeof(buf));
        assert_string_equal(buf, rows[i].text);
    }
}

static void clocks_go_forward(void **state)
{
    int64_t before = dlr_now_ns();

    assert_true(dlr_now_ns() >= before);
    assert_true(dlr_now_ms() >= before / 1000000);
    assert_true(dlr_wall_ns() > 1700000000000000000);
}

static void a_failure_carries_code_and_one_line(void **state)
{
    struct dlr_err err;

    assert_int_equal(dlr_fail(&err, -EINVAL, "bad '%s'",
                              "a\nb\x1b[31m\xc2\x9b"
                              "0m\u00e4"),
                     -EINVAL);
    assert_int_equal(err.code, -EINVAL);
    assert_string_equal(err.text, "bad 'a b?[31m??0m\u00e4'");
    assert_int_equal(dlr_fail(&err, -EIO, "ends\n\n"), -EIO);
    assert_string_equal(err.text, "ends");
    assert_int_equal(dlr_fail(NULL, -EIO, "nobody asks"), -EIO);
}

static void a_long_reason_is_cut(void **state)
{
    struct dlr_err err;

    assert_int_equal(dlr_fail(&err, -EIO, "%0600d", 0), -EIO);
    assert_int_equal(strnlen(err.text, sizeof(err.text)), DLR_ERR_TEXT - 1);
}

static void text_of_any_length_is_made_on_the_heap(void **state)
{
    char *text = dlr_format_new("%s=%0*u", "name", 5000, 7);

    assert_non_null(text);
    assert_int_equal(strlen(text), strlen("name=") + 5000);
    assert_string_equal(text + strlen(text) - 2, "07");
    free(text);
}

static void hexadecimal_digits_are_read_as_bytes(void **state)
{
    static const char *const bad[] = {"", "0", "0A", "0g", "000", "0x01", "01020304 "};
    unsigned char bytes[4] = {0};
    size_t n = 0;

    assert_int_equal(dlr_hex_read("00ff1a", bytes, sizeof(bytes), &n), 0);
    assert_int_equal(n, 3);
    assert_memory_equal(bytes, "\x00\xff\x1a", 3);
    assert_int_equal(dlr_hex_read("0102030405", bytes, sizeof(bytes), &n), -EINVAL);
    for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(dlr_hex_read(bad[i], bytes, sizeof(bytes), &n), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_are_equal_only_when_both_are_there),
        cmocka_unit_test(after_gives_what_follows_the_prefix),
        cmocka_unit_test(below_knows_whole_names_only),
        cmocka_unit_test(format_reports_what_does_not_fit),
        cmocka_unit_test(durations_have_units_and_limits),
        cmocka_unit_test(sizes_have_powers_of_1024),
        cmocka_unit_test(numbers_have_nothing_around_them),
        cmocka_unit_test(wall_time_is_written_in_utc),
        cmocka_unit_test(clocks_go_forward),
        cmocka_unit_test(a_failure_carries_code_and_one_line),
        cmocka_unit_test(a_long_reason_is_cut),
        cmocka_unit_test(text_of_any_length_is_made_on_the_heap),
        cmocka_unit_test(hexadecimal_digits_are_read_as_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
