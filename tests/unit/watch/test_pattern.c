/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/pattern.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/str.h"

static bool is_in(const char *pattern, const char *line)
{
    struct dlr_pattern *p = NULL;
    bool found;

    assert_int_equal(dlr_pattern_parse(pattern, &p, NULL), 0);
    found = dlr_pattern_find(p, line, strlen(line));
    dlr_pattern_free(p);
    return found;
}

static void patterns_are_found_where_they_are(void **state)
{
    static const struct {
        const char *pattern, *line;
        bool found;
    } rows[] = {
        {"bc", "abcd", true},
        {"bd", "abcd", false},
        {"^bc", "abcd", false},
        {"^ab", "abcd", true},
        {"cd$", "abcd", true},
        {"bc$", "abcd", false},
        {"^$", "", true},
        {"^$", "a", false},
        {"", "a", true},
        {"a.c", "xxabc", true},
        {"ab*c", "ac", true},
        {"ab*c", "abbbc", true},
        {"ab+c", "ac", false},
        {"ab+c", "abbc", true},
        {"ab?c", "abc", true},
        {"ab?c", "abbc", false},
        {"cat|dog", "hotdog", true},
        {"a(b|cd|)e", "acde", true},
        {"a(b|cd|)e", "ae", true},
        {"a(b|cd|)e", "ade", false},
        {"(ab)+c", "ababc", true},
        {"x(ab)*y", "xabby", false},
        {"(a|b|c)*d$", "abcabcd", true},
        {"[0-9]+ms", "12ms", true},
        {"[^0-9]ms", "12ms", false},
        {"[]x]y", "]y", true},
        {"[a-]b", "-b", true},
        {"[\\d.]+s", "1.5s", true},
        {"\\d\\d", "a12", true},
        {"\\w\\s\\w", "a b", true},
        {"\\(x\\)", "f(x)", true},
        {"\\{\\}", "{}", true},
        {"(^|\\]: *)ValueError:", "ValueError: x", true},
        {"(^|\\]: *)ValueError:", "[rank0]: ValueError: x", true},
        {"(^|\\]: *)ValueError:", "MyValueError: x", false},
        {"Error(:|$)", "KeyError", true},
        {"caf\xc3\xa9", "un caf\xc3\xa9", true},
        {"a|b|c|d", "xxd", true},
        {"a(x|$)", "ba", true},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        print_message("'%s' in '%s'\n", rows[i].pattern, rows[i].line);
        assert_int_equal(is_in(rows[i].pattern, rows[i].line), rows[i].found);
    }
}

static void a_bad_pattern_is_refused_with_the_reason(void **state)
{
    static const struct {
        const char *pattern, *says;
    } rows[] = {
        {"((a", "pattern '((a' has a '(' without its ')'"},
        {"a(b", "pattern 'a(b' has a '(' without its ')'"},
        {"a)b", "pattern 'a)b' has a ')' without its '('"},
        {"a[b", "pattern 'a[b' has a '[' without its ']'"},
        {"a[", "pattern 'a[' has a '[' without its ']'"},
        {"a\\", "pattern 'a\\' ends with '\\'"},
        {"[a\\", "pattern '[a\\' ends with '\\'"},
        {"*a", "pattern '*a' has a '*', '+' or '?' behind nothing"},
        {"(+a)", "pattern '(+a)' has a '*', '+' or '?' behind nothing"},
        {"a**", "pattern 'a**' repeats a repetition"},
        {"a{3}", "pattern 'a{3}' has a '{' or '}': write '\\{', and a repetition in "
                 "full"},
        {"[z-a]", "pattern '[z-a]' has a range that ends before it begins"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_pattern *p = NULL;
        struct dlr_err err;

        assert_true(dlr_pattern_parse(rows[i].pattern, &p, &err) < 0);
        assert_string_equal(err.text, rows[i].says);
        assert_null(p);
    }
}

static void a_pattern_of_too_many_states_is_refused(void **state)
{
    char text[2 * DLR_PATTERN_STATES];
    struct dlr_pattern *p = NULL;
    struct dlr_err err;

    memset(text, 'a', sizeof(text));
    text[DLR_PATTERN_STATES - 1] = '\0'; /* and the last state */
    assert_int_equal(dlr_pattern_parse(text, &p, NULL), 0);
    p = dlr_pattern_free(p);
    text[DLR_PATTERN_STATES - 1] = 'a';
    text[DLR_PATTERN_STATES] = '\0';
    assert_true(dlr_pattern_parse(text, &p, &err) < 0);
    assert_non_null(strstr(err.text, "is too long"));
    memset(text, '(', sizeof(text));
    text[DLR_PATTERN_DEPTH + 1] = '\0';
    assert_true(dlr_pattern_parse(text, &p, &err) < 0);
    assert_non_null(strstr(err.text, "has too many '(' in each other"));
}

/* Whoever tries one way after the other does not come to an end here. */
static void what_has_many_ways_is_found_out_at_once(void **state)
{
    static const char *const patterns[] = {
        "((a*)*)*b$",
        "(a|a|a|aa)*(a|a|a|aa)*(a|a|a|aa)*b$",
        "(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)b$",
        "(a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?)*b",
    };
    char line[4097];

    memset(line, 'a', sizeof(line) - 1);
    line[sizeof(line) - 1] = '\0';
    for (size_t i = 0; i < sizeof(patterns) / sizeof(*patterns); i++)
        assert_false(is_in(patterns[i], line));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_are_found_where_they_are),
        cmocka_unit_test(a_bad_pattern_is_refused_with_the_reason),
        cmocka_unit_test(a_pattern_of_too_many_states_is_refused),
        cmocka_unit_test(what_has_many_ways_is_found_out_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
