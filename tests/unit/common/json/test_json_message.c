/* SPDX-License-Identifier: Apache-2.0 */
#include "common/json/message.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int parse(const char *text, json_t **ret, struct dlr_err *err)
{
    return dlr_msg_parse(text, strlen(text), ret, err);
}

static void a_message_survives_the_way_there_and_back(void **state)
{
    DLR_AUTO_JSON json_t *out = dlr_msg_new("hello");
    DLR_AUTO_JSON json_t *in = NULL;
    DLR_AUTO_FREE char *text = NULL;

    json_object_set_new(out, "node", json_string("n1"));
    text = dlr_msg_text(out);
    assert_string_equal(text, "{\"v\":2,\"t\":\"hello\",\"node\":\"n1\"}");
    assert_int_equal(parse(text, &in, NULL), 0);
    assert_string_equal(dlr_msg_type(in), "hello");
}

static void what_is_not_a_message_is_refused(void **state)
{
    static const struct {
        const char *text;
        int rc;
        const char *why; /* NULL: jansson's words */
    } rows[] = {
        {"[1]", -EBADMSG, "a message is not a JSON object"},
        {"{}", -EBADMSG, "a message without a version"},
        {"{\"v\":\"1\",\"t\":\"x\"}", -EBADMSG, "a message without a version"},
        {"{\"v\":-1,\"t\":\"x\"}", -EBADMSG, "a message without a version"},
        {"{\"v\":3,\"t\":\"x\"}", -EPROTONOSUPPORT, "a message of version 3, not 2"},
        {"{\"v\":2}", -EBADMSG, "a message without a type"},
        {"{\"v\":2,\"t\":7}", -EBADMSG, "a message without a type"},
        {"{\"v\":2,\"t\":\"\"}", -EBADMSG, "a message without a type"},
        {"", -EBADMSG, NULL},
        {"x", -EBADMSG, NULL},
        {"1", -EBADMSG, NULL},
        {"{\"v\":2,\"t\":\"x\"", -EBADMSG, NULL},
        {"{\"v\":2,\"t\":\"x\"} x", -EBADMSG, NULL},
        {"{\"v\":2,\"t\":\"x\",\"t\":\"y\"}", -EBADMSG, NULL},
        {"{\"v\":2,\"t\":\"\xff\"}", -EBADMSG, NULL},
        {"{\"v\":2,\"t\":\"a\\u0000b\"}", -EBADMSG, NULL},
        {"{\"v\":99999999999999999999,\"t\":\"x\"}", -EBADMSG, NULL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        json_t *msg = NULL;
        struct dlr_err err = {0};

        print_message("row '%s'\n", rows[i].text);
        assert_int_equal(parse(rows[i].text, &msg, &err), rows[i].rc);
        assert_null(msg);
        if (rows[i].why)
            assert_string_equal(err.text, rows[i].why);
        else
            assert_non_null(strstr(err.text, "a message is not JSON: byte "));
    }
}

static void a_message_that_is_too_large_is_not_read(void **state)
{
    DLR_AUTO_FREE char *text = calloc(1, DLR_MSG_MAX + 1);
    json_t *msg = NULL;
    struct dlr_err err;

    assert_int_equal(dlr_msg_parse(text, DLR_MSG_MAX + 1, &msg, &err), -EBADMSG);
    assert_string_equal(err.text, "a message of 4194305 bytes, more than 4194304");
}

static void deep_nesting_is_refused(void **state)
{
    static char text[100000];
    json_t *msg = NULL;

    memset(text, '[', sizeof(text));
    assert_int_equal(dlr_msg_parse(text, sizeof(text), &msg, NULL), -EBADMSG);
}

static void fields_are_checked_for_presence_type_and_range(void **state)
{
    DLR_AUTO_JSON json_t *msg = NULL;
    const char *s = "kept";
    uint64_t u = 42;
    int64_t n = 42;

    assert_int_equal(
        parse("{\"v\":2,\"t\":\"x\",\"u\":7,\"n\":-7,\"r\":1.5,\"s\":\"w\"}", &msg,
              NULL),
        0);
    assert_int_equal(dlr_msg_uint(msg, "none", 9, &u), -ENOENT);
    assert_int_equal(dlr_msg_uint(msg, "s", 9, &u), -EBADMSG);
    assert_int_equal(dlr_msg_uint(msg, "r", 9, &u), -EBADMSG);
    assert_int_equal(dlr_msg_uint(msg, "n", 9, &u), -EBADMSG);
    assert_int_equal(dlr_msg_uint(msg, "u", 6, &u), -EBADMSG);
    assert_int_equal(u, 42);
    assert_int_equal(dlr_msg_uint(msg, "u", 7, &u), 0);
    assert_int_equal(u, 7);
    assert_int_equal(dlr_msg_int(msg, "s", &n), -EBADMSG);
    assert_int_equal(dlr_msg_int(msg, "n", &n), 0);
    assert_int_equal(n, -7);
    assert_int_equal(dlr_msg_str(msg, "u", &s), -EBADMSG);
    assert_int_equal(dlr_msg_str(msg, "none", &s), -ENOENT);
    assert_string_equal(s, "kept");
    assert_int_equal(dlr_msg_str(msg, "s", &s), 0);
    assert_string_equal(s, "w");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_survives_the_way_there_and_back),
        cmocka_unit_test(what_is_not_a_message_is_refused),
        cmocka_unit_test(a_message_that_is_too_large_is_not_read),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(fields_are_checked_for_presence_type_and_range),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
