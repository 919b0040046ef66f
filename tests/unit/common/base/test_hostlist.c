/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "common/base/hostlist.h"
#include "common/base/str.h"

#define NODES 16384

/* The names 0 to n-1 in steps of by: by 1 is their order, more is none. */
static const char **make(const char *before, int width, const char *after, unsigned n,
                         unsigned by)
{
    const char **names = calloc(n, sizeof(*names));

    for (unsigned i = 0; i < n; i++) {
        char *name = NULL;

        assert_true(asprintf(&name, "%s%0*u%s", before, width, i * by % n, after) > 0);
        names[i] = name;
    }
    return names;
}

static void drop(const char **names, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        free((char *)names[i]);
    free(names);
}

static void assert_reads_back(const char *text, const char *const *names, unsigned n)
{
    struct dlr_hostlist list = {.rest = text};
    char name[256];

    for (unsigned i = 0; i < n; i++) {
        assert_true(dlr_hostlist_next(&list, name, sizeof(name)));
        assert_string_equal(name, names[i]);
    }
    assert_true(dlr_hostlist_is_over(&list));
    assert_false(dlr_hostlist_next(&list, name, sizeof(name)));
}

static void lists_of_16384_nodes_fit_in_one_string(void **state)
{
    static const struct {
        const char *before;
        int width;
        unsigned by, most; /* bytes */
    } rows[] = {
        {"n", 5, 1, 16},
        {"n", 1, 1, 16},
        {"cluster-node-", 1, 1, 32},
        {"n", 5, 4097, DLR_HOSTLIST_MAX},
        {"long-name-of-a-node-", 1, 4097, DLR_HOSTLIST_MAX},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const char **names = make(rows[i].before, rows[i].width, "", NODES, rows[i].by);
        DLR_AUTO_FREE char *text = NULL;

        print_message("%s by %u\n", rows[i].before, rows[i].by);
        assert_int_equal(dlr_hostlist_join(names, NODES, &text), 0);
        assert_true(strlen(text) <= rows[i].most);
        assert_reads_back(text, names, NODES);
        drop(names, NODES);
    }
}

/* Slurm has no shorter form for these either, and its own SLURM_JOB_NODELIST does not
 * fit.
 */
static void names_without_a_pattern_are_refused(void **state)
{
    const char **names = make("n", 5, "-rack", NODES, 1);
    char *text = NULL;

    assert_int_equal(dlr_hostlist_join(names, NODES, &text), -E2BIG);
    assert_null(text);
    drop(names, NODES);
}

static void short_lists_are_not_folded(void **state)
{
    static const char *const names[] = {"n3", "n1", "n2", "login"};
    DLR_AUTO_FREE char *text = NULL;

    assert_int_equal(dlr_hostlist_join(names, 4, &text), 0);
    assert_string_equal(text, "n3,n1,n2,login");
}

/* 1,500 names that are folded, between others whose form is looked at. */
static void folded_lists_keep_order_and_width(void **state)
{
    static const struct {
        const char *names[8];
        const char *folded;
    } rows[] = {
        {{"n9", "n10", "n11"}, "n[9-11]"},
        {{"n3", "n1", "n2"}, "n[3,1-2]"},
        {{"n099", "n100", "n0101"}, "n[099-100,0101]"},
        {{"n1", "m1", "m2", "login"}, "n1,m[1-2],login"},
        {{"1", "2"}, "[1-2]"},
        {{"a1-ib", "a2-ib"}, "a1-ib,a2-ib"},
        {{"n7", "n7"}, "n[7,7]"},
        {{"x1999999999", "x2000000000"}, "x1999999999,x2000000000"},
        {{"x12345678998", "x12345678999"}, "x12[345678998-345678999]"},
    };
    const char **more = make("filler", 5, "", 1500, 1);

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const char *names[1508];
        DLR_AUTO_FREE char *text = NULL;
        unsigned n = 0;
        char expected[128];

        while (rows[i].names[n]) {
            names[n] = rows[i].names[n];
            n++;
        }
        memcpy(names + n, more, 1500 * sizeof(*more));
        assert_int_equal(dlr_hostlist_join(names, n + 1500, &text), 0);
        snprintf(expected, sizeof(expected), "%s,filler[00000-01499]", rows[i].folded);
        assert_string_equal(text, expected);
        assert_reads_back(text, names, n + 1500);
    }
    drop(more, 1500);
}

static void what_is_no_list_is_never_over(void **state)
{
    static const char *const rows[] = {"n[1",  "n[1-",    "n[3-1]", "n[]",   ",n1",
                                       "n[a]", "n[1]]x[", "n[1;2]", "n[-1]", "n1,,n2"};
    char name[8];

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_hostlist list = {.rest = rows[i]};

        print_message("%s\n", rows[i]);
        while (dlr_hostlist_next(&list, name, sizeof(name)))
            ;
        assert_false(dlr_hostlist_is_over(&list));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_16384_nodes_fit_in_one_string),
        cmocka_unit_test(names_without_a_pattern_are_refused),
        cmocka_unit_test(short_lists_are_not_folded),
        cmocka_unit_test(folded_lists_keep_order_and_width),
        cmocka_unit_test(what_is_no_list_is_never_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
