/* SPDX-License-Identifier: Apache-2.0 */
#include "common/local/split.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *make_text(size_t bytes)
{
    char *text = malloc(bytes + 1);

    assert_non_null(text);
    for (size_t i = 0; i < bytes; i++)
        text[i] = (char)('a' + i * i % 23);
    text[bytes] = '\0';
    return text;
}

static int give(struct dlr_split *parts, const char *text, uint32_t i, uint32_t count)
{
    struct dlr_local_msg msg;

    dlr_local_init(&msg, DLR_LOCAL_D_CONFIG);
    dlr_split_put(&msg, text, strlen(text), i, count);
    return dlr_split_take(parts, &msg);
}

static void a_text_of_any_length_arrives_whole(void **state)
{
    static const struct {
        size_t bytes;
        uint32_t parts;
    } rows[] = {
        {0, 1},
        {1, 1},
        {DLR_SPLIT_BYTES - 1, 1},
        {DLR_SPLIT_BYTES, 1},
        {DLR_SPLIT_BYTES + 1, 2},
        {3 * (size_t)DLR_SPLIT_BYTES, 3},
        {500000, 62},
    };

    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        struct dlr_split parts = {0};
        char *text = make_text(rows[r].bytes);
        uint32_t n = dlr_split_count(rows[r].bytes);

        print_message("row: %zu bytes\n", rows[r].bytes);
        assert_int_equal(n, rows[r].parts);
        for (uint32_t i = 0; i < n; i++)
            assert_int_equal(give(&parts, text, i, n), i + 1 == n);
        assert_int_equal(parts.bytes, rows[r].bytes);
        assert_string_equal(parts.text, text);
        dlr_split_done(&parts);
        free(text);
    }
}

static void a_text_that_is_too_long_has_no_parts(void **state)
{
    size_t most = (size_t)DLR_SPLIT_MAX * DLR_SPLIT_BYTES;

    assert_int_equal(dlr_split_count(most), DLR_SPLIT_MAX);
    assert_int_equal(dlr_split_count(most + 1), 0);
}

static void a_part_that_is_lost_or_of_another_text_is_noticed(void **state)
{
    char *text = make_text(4 * (size_t)DLR_SPLIT_BYTES);
    struct dlr_split parts = {0};

    assert_int_equal(give(&parts, text, 0, 4), 0);
    assert_int_equal(give(&parts, text, 2, 4), -EBADMSG);
    assert_int_equal(give(&parts, text, 1, 4), -EBADMSG); /* all of it is forgotten */
    assert_int_equal(give(&parts, text, 0, 4), 0);
    assert_int_equal(give(&parts, text, 1, 3), -EBADMSG);
    assert_int_equal(give(&parts, text, 0, DLR_SPLIT_MAX + 1), -EBADMSG);
    for (uint32_t i = 0; i < 4; i++) /* and it can be said again */
        assert_int_equal(give(&parts, text, i, 4), i == 3);
    assert_string_equal(parts.text, text);
    assert_int_equal(give(&parts, text, 3, 4), -EBADMSG);
    dlr_split_done(&parts);
    free(text);
}

static void a_message_without_a_count_is_the_only_part(void **state)
{
    struct dlr_split parts = {0};
    struct dlr_local_msg msg;

    dlr_local_init(&msg, DLR_LOCAL_D_CONFIG);
    dlr_local_text(&msg, "all of it");
    assert_int_equal(dlr_split_take(&parts, &msg), 1);
    assert_string_equal(parts.text, "all of it");
    dlr_split_done(&parts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_of_any_length_arrives_whole),
        cmocka_unit_test(a_text_that_is_too_long_has_no_parts),
        cmocka_unit_test(a_part_that_is_lost_or_of_another_text_is_noticed),
        cmocka_unit_test(a_message_without_a_count_is_the_only_part),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
