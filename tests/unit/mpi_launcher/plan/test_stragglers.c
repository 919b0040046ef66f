/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that compute more slowly than the others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "mpi_launcher/plan/stragglers.h"

#define MAX 9

static const struct {
    const char *name;
    double speed[MAX]; /* of each node, 0: it has none */
    unsigned n;
    const char *slow; /* their numbers */
} rows[] = {
    {"all the same", {5, 5, 5, 5}, 4, ""},
    {"some noise", {5, 5.3, 4.6, 5.1, 4.9}, 5, ""},
    {"one of three", {5, 3, 5.1}, 3, "1"},
    {"two of five", {5, 3, 5.1, 2, 5}, 5, "13"},
    {"two of four", {5, 3, 5.1, 3}, 4, "13"},
    {"of two nobody knows which", {5, 1}, 2, ""},
    {"of two that report", {5, 0, 1, 0}, 4, ""},
    {"who does not report is no straggler", {5, 0, 5, 5}, 4, ""},
    {"a little slower", {5, 3.6, 5, 5}, 4, ""},
    {"a wide spread is how these nodes are", {5, 9, 2, 7, 3, 8, 4}, 7, ""},
    {"two kinds of nodes", {5, 5, 5, 5, 10, 10, 10, 10, 10}, 9, "0123"},
};

static void fill(struct dlr_plan_report *reports, size_t row)
{
    memset(reports, 0, MAX * sizeof(*reports));
    for (unsigned i = 0; i < rows[row].n; i++)
        if (rows[row].speed[i] > 0) {
            dlr_format(reports[i].speeds[0].check, 32, "matmul");
            reports[i].speeds[0].value = rows[row].speed[i];
            reports[i].nspeeds = 1;
        }
}

static void nodes_far_below_the_median_are_told(void **state)
{
    for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++)
        for (unsigned exclude = 0; exclude < 2; exclude++) {
            struct dlr_plan_report reports[MAX];
            char slow[MAX + 1] = "";
            unsigned n = 0;

            fill(reports, row);
            assert_int_equal(dlr_plan_find_stragglers(reports, rows[row].n, exclude),
                             0);
            for (unsigned i = 0; i < rows[row].n; i++) {
                if (reports[i].nchecks) {
                    assert_string_equal(reports[i].checks[0].check, "matmul");
                    assert_int_equal(reports[i].checks[0].verdict,
                                     exclude ? DLR_HEALTH_FAIL : DLR_HEALTH_WARN);
                    slow[n++] = (char)('0' + i);
                }
                dlr_plan_report_done(&reports[i]);
            }
            if (!dlr_streq(slow, rows[row].slow))
                fail_msg("%s: '%s'", rows[row].name, slow);
        }
}

static void the_reason_has_both_numbers(void **state)
{
    struct dlr_plan_report reports[MAX];

    fill(reports, 2);
    assert_int_equal(dlr_plan_find_stragglers(reports, 3, false), 0);
    assert_string_equal(reports[1].checks[0].reason,
                        "a straggler: 3.00, 5.00 is usual");
    dlr_plan_report_done(&reports[1]);
}

static void give(struct dlr_plan_report *r, const char *check, double value)
{
    memset(r, 0, sizeof(*r));
    dlr_format(r->speeds[0].check, 32, "%s", check);
    r->speeds[0].value = value;
    r->nspeeds = 1;
}

/* Two without OpenBLAS beside four with it are no stragglers; among three they are. */
static void only_what_was_measured_alike_is_compared(void **state)
{
    struct dlr_plan_report reports[7];
    unsigned told = 0;

    for (unsigned i = 0; i < 7; i++)
        give(&reports[i], i < 3 ? "matmul/plain" : "matmul/OpenBLAS",
             i < 3 ? 7 - 3 * (i == 1) : 99);
    assert_int_equal(dlr_plan_find_stragglers(reports, 7, false), 0);
    for (unsigned i = 0; i < 7; i++)
        told += reports[i].nchecks;
    assert_int_equal(told, 1);
    assert_string_equal(reports[1].checks[0].check, "matmul");
    assert_string_equal(reports[1].checks[0].reason,
                        "a straggler: 4.00, 7.00 is usual");
    dlr_plan_report_done(&reports[1]);
}

static void a_straggler_by_injection_is_called_so(void **state)
{
    struct dlr_plan_report reports[3];

    for (unsigned i = 0; i < 3; i++)
        give(&reports[i], "matmul/plain", i == 2 ? 1 : 7);
    reports[2].checks = calloc(1, sizeof(*reports[2].checks));
    reports[2].checks[reports[2].nchecks++] = (struct dlr_plan_check){
        "matmul", DLR_HEALTH_OK, "injected; 2.0 GFLOP/s on 2 CPUs"};
    assert_int_equal(dlr_plan_find_stragglers(reports, 3, false), 0);
    assert_int_equal(reports[2].nchecks, 2);
    assert_string_equal(reports[2].checks[1].reason,
                        "injected; a straggler: 1.00, 7.00 is usual");
    dlr_plan_report_done(&reports[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_far_below_the_median_are_told),
        cmocka_unit_test(the_reason_has_both_numbers),
        cmocka_unit_test(only_what_was_measured_alike_is_compared),
        cmocka_unit_test(a_straggler_by_injection_is_called_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
