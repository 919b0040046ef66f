/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/log.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/err.h"

struct seen {
    unsigned count;
    enum dlr_log_level level;
    char text[2048];
};

static void record(void *arg, enum dlr_log_level level, const char *text)
{
    struct seen *seen = arg;

    seen->count++;
    seen->level = level;
    snprintf(seen->text, sizeof(seen->text), "%s", text);
}

static int back_to_stderr(void **state)
{
    dlr_log_to(NULL, NULL, DLR_LOG_INFO);
    return 0;
}

static void the_sink_gets_text_without_a_prefix(void **state)
{
    struct seen seen = {0};

    dlr_log_to(record, &seen, DLR_LOG_WARN);
    dlr_warn("ignoring '%s'", "x");
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.level, DLR_LOG_WARN);
    assert_string_equal(seen.text, "ignoring 'x'");
}

static void levels_above_the_limit_are_dropped(void **state)
{
    struct seen seen = {0};

    dlr_log_to(record, &seen, DLR_LOG_WARN);
    dlr_info("not wanted");
    dlr_debug("not wanted");
    assert_int_equal(seen.count, 0);
    dlr_error("wanted");
    assert_int_equal(seen.count, 1);
}

static void a_message_stays_one_line(void **state)
{
    struct seen seen = {0};

    dlr_log_to(record, &seen, DLR_LOG_INFO);
    dlr_info("from a peer: '%s'", "x\ndlr: fine\r\x1b]0;\xc2\x9b"
                                  "1m");
    assert_string_equal(seen.text, "from a peer: 'x dlr: fine??]0;??1m'");
}

static void a_reason_is_one_plain_line(void **state)
{
    struct dlr_err err;

    assert_int_equal(dlr_fail(&err, -EIO, "no '%s'", "x\n\x1b[2J\a"), -EIO);
    assert_string_equal(err.text, "no 'x ?[2J?'");
}

static void a_long_message_is_cut(void **state)
{
    struct seen seen = {0};

    dlr_log_to(record, &seen, DLR_LOG_INFO);
    dlr_info("%02000d", 1);
    assert_int_equal(strlen(seen.text), 1023);
}

static void level_names_are_read_exactly(void **state)
{
    static const struct {
        const char *text;
        int level;
    } rows[] = {
        {"error", DLR_LOG_ERROR}, {"warn", DLR_LOG_WARN}, {"info", DLR_LOG_INFO},
        {"debug", DLR_LOG_DEBUG}, {"DEBUG", -EINVAL},     {"", -EINVAL},
        {NULL, -EINVAL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        print_message("row '%s'\n", rows[i].text ? rows[i].text : "(null)");
        assert_int_equal(dlr_log_level_parse(rows[i].text), rows[i].level);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_sink_gets_text_without_a_prefix, back_to_stderr),
        cmocka_unit_test_teardown(levels_above_the_limit_are_dropped, back_to_stderr),
        cmocka_unit_test_teardown(a_message_stays_one_line, back_to_stderr),
        cmocka_unit_test(a_reason_is_one_plain_line),
        cmocka_unit_test_teardown(a_long_message_is_cut, back_to_stderr),
        cmocka_unit_test(level_names_are_read_exactly),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
