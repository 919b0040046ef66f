/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a round: places and votes; test_plan_restore.c has what is restored. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "tests/unit/mpi_launcher/plan/plan_rig.h"

/* --- places ----------------------------------------------------------------------- */

static const char memory_out[] = "memory: edac: 7 uncorrected memory errors";

struct place_row {
    const char *what;
    unsigned nplaces;
    const char *nodes, *former, *want;
};

static const struct place_row place_rows[] = {
    {"spare off the fullest leaf", 4, "l0.n1;l0.n2;l0.n3;l1.n4;l1.n5", NULL,
     "n1 n2 n4 n5 | n3 |"},
    {"equal leaves: the last one's, then the other's", 4,
     "l0.n1;l0.n2;l0.n3;l1.n4;l1.n5;l1.n6", NULL, "n1 n2 n4 n5 | n3 n6 |"},
    {"no spare", 2, "l1.n1;l0.n2", NULL, "n2 n1 |  |"},
    {"a bad node is not chosen", 2, "l0.n1!;l0.n2;l0.n3", NULL, "n2 n3 |  | n1: MEM"},
    {"the lost one moves, to its own leaf", 4, "l0.n1;l0.n3;l1.n4;l1.n5",
     "l0.n1 l0.n2 l1.n4 l1.n5", "n1 n3 n4 n5 |  |"},
    {"nobody is lost: nobody moves, whatever the order", 3, "l0.n1;l0.n2;l1.n3;l1.n4",
     "l1.n4 l0.n2 l0.n1", "n4 n2 n1 | n3 |"},
    {"a node that fails a check is lost", 2, "l0.n1!;l0.n2;l0.n3", "l0.n1 l0.n2",
     "n3 n2 |  | n1: MEM"},
    {"one that no job should come to is, too", 2, "l0.n1!!;l0.n2;l0.n3", "l0.n1 l0.n2",
     "n3 n2 |  | n1: MEM"},
    {"a smaller round is placed afresh", 2, "l0.n1;l1.n2;l1.n3", "l0.n1 l1.n2 l1.n3",
     "n2 n3 | n1 |"},
    {"one node nobody reaches", 3, "l0.n1?n3;l0.n2?n3;l1.n3?n1,n2,n4;l1.n4?n3", NULL,
     "n1 n2 n4 |  | n3: 3 of 3 nodes cannot reach it"},
    {"one that one other cannot reach stays", 3, "l0.n1?n3;l0.n2;l1.n3;l1.n4", NULL,
     "n1 n2 n3 | n4 |"},
    {"two halves: one is kept, whole", 2,
     "l0.n1?n3,n4;l0.n2?n3,n4;l1.n3?n1,n2;l1.n4?n1,n2", NULL,
     "n1 n2 |  | n3: 2 of 2 nodes cannot reach it n4: 2 of 3 nodes cannot reach it"},
    {"probes dropped everywhere do not stop the job", 3,
     "l0.n1?n2,n3;l0.n2?n1,n3;l1.n3?n1,n2", NULL, "n1 n2 n3 |  |"},
    {"a former place is kept before a spare when in doubt", 2,
     "l0.n1?n2,n3;l0.n2?n1,n3;l1.n3?n1,n2", "l1.n3 l0.n1",
     "n3 n1 |  | n2: 1 of 1 nodes cannot reach it"},
    {"a slow node makes way for the spare", 2, "l0.n1;l0.n2~;l1.n3", NULL,
     "n1 n3 |  | n2: network: slow"},
    {"of two slow nodes the one that is needed takes part", 3,
     "l0.n1~;l0.n2;l1.n3~;l1.n4", NULL, "n1 n2 n4 |  | n3: network: slow"},
    {"a slow node with a place keeps it before a slow spare", 2, "l0.n1~;l0.n2;l1.n3~",
     "l1.n3 l0.n2", "n3 n2 |  | n1: network: slow"},
    {"all are slow: nobody is", 2, "l0.n1~;l0.n2~", NULL, "n1 n2 |  |"},
    {"a slow node with a fault is not needed", 2, "l0.n1~!;l0.n2;l1.n3~", NULL,
     "n2 n3 |  | n1: MEM"},
    {"a silent node makes way for the spare", 2, "l0.n1;l0.n2?n3;l1.n3;l1.n4?n3",
     "l0.n1 l1.n3", "n1 n4 | n2 | n3: 2 of 3 nodes cannot reach it"},
};

static void expect(const char *row, char *want, size_t size)
{
    const char *mem = strstr(row, "MEM");

    if (mem)
        dlr_format(want, size, "%.*s%s%s", (int)(mem - row), row, memory_out, mem + 3);
    else
        dlr_format(want, size, "%s", row);
}

static void nodes_get_their_places(void **state)
{
    size_t i;

    for (i = 0; i < sizeof(place_rows) / sizeof(place_rows[0]); i++) {
        const struct place_row *row = &place_rows[i];
        struct dlr_plan plan;
        struct plan_rig w;
        char got[2048], want[2048];

        print_message("  %s\n", row->what);
        plan_rig_setup(&w, row->nplaces, row->nodes, row->former);
        assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
        plan_rig_describe(&plan, got, sizeof(got));
        expect(row->want, want, sizeof(want));
        assert_string_equal(got, want);
        dlr_plan_done(&plan);
        plan_rig_teardown(&w);
    }
}

static void a_slow_node_that_takes_part_is_a_warning(void **state)
{
    struct dlr_plan plan;
    struct plan_rig w;

    plan_rig_setup(&w, 2, "l0.n1;l0.n2~", NULL);
    assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
    assert_int_equal(plan.nverdicts, 1);
    assert_int_equal(plan.verdicts[0].check.verdict, DLR_HEALTH_WARN);
    assert_string_equal(plan.verdicts[0].check.reason,
                        "slow; it takes part: too few nodes without it");
    dlr_plan_done(&plan);
    plan_rig_teardown(&w);
}

static void the_supervisors_node_is_kept_when_two_disagree(void **state)
{
    struct dlr_plan plan;
    struct plan_rig w;

    plan_rig_setup(&w, 1, "l0.n1?n2;l0.n2?n1", NULL);
    dlr_format(w.want.batch, sizeof(w.want.batch), "n2");
    assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
    assert_string_equal(plan.places[0].node.name, "n2");
    dlr_plan_done(&plan);
    plan_rig_teardown(&w);
}

/* Cyclic: n1 has 0 2 4, n9 had 1 3. Only its ranks move, and a copy is looked for where
 * its rank is.
 */
static void dealt_ranks_move_with_their_place(void **state)
{
    static const unsigned ranks[] = {0, 2, 4, 1, 3};
    DLR_AUTO_JSON json_t *j = NULL;
    struct dlr_plan plan, again;
    struct plan_rig w;

    plan_rig_setup(&w, 2, "l0.n1;l0.n2", "l0.n1 l0.n9");
    w.tasks[0] = 3;
    w.tasks[1] = 2;
    w.want.ranks = ranks;
    assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
    assert_string_equal(plan.places[1].node.name, "n2");
    assert_true(plan.places[1].moved && !plan.places[0].moved);
    assert_memory_equal(plan.ranks, ranks, sizeof(ranks));
    for (unsigned r = 0; r < 5; r++)
        assert_int_equal(plan.place_of[r], r % 2);
    j = dlr_plan_to_json(&plan, NULL);
    assert_int_equal(dlr_plan_from_json(j, &again, NULL), 0);
    assert_memory_equal(again.ranks, ranks, sizeof(ranks));
    assert_memory_equal(again.place_of, plan.place_of, 5 * sizeof(*again.place_of));
    dlr_plan_done(&again);
    dlr_plan_done(&plan);
    plan_rig_teardown(&w);
}

static void ranks_are_each_at_one_place(void **state)
{
    static const unsigned bad[][3] = {{0, 1, 1}, {0, 1, 3}, {1, 0, 2}};

    for (size_t i = 0; i < 3; i++) {
        struct dlr_plan plan;
        struct plan_rig w;

        plan_rig_setup(&w, 2, "l0.n1;l0.n2", NULL);
        w.tasks[0] = 2;
        w.want.ranks = bad[i];
        assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), -EINVAL);
        dlr_plan_done(&plan);
        plan_rig_teardown(&w);
    }
}

static void ranks_of_a_place_follow_each_other(void **state)
{
    struct dlr_plan plan;
    struct plan_rig w;

    plan_rig_setup(&w, 3, "l0.n1;l0.n2;l1.n3;l1.n4", "l0.n1 l1.n9 l1.n4");
    w.tasks[0] = 2;
    w.tasks[1] = 1;
    w.tasks[2] = 4;
    assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
    assert_int_equal(plan.world, 7);
    assert_int_equal(plan.places[1].from, 2);
    assert_int_equal(plan.places[2].from, 3);
    assert_int_equal(plan.places[2].tasks, 4);
    assert_int_equal(plan.places[2].cpus, 8);
    assert_string_equal(plan.places[1].node.name, "n3");
    assert_true(plan.places[1].moved && !plan.places[0].moved && !plan.places[2].moved);
    assert_string_equal(plan.places[plan.places[0].partner].node.path + 2, "l1.n3");
    dlr_plan_done(&plan);
    plan_rig_teardown(&w);
}

static void groups_stay_on_a_leaf_and_what_cannot_is_counted(void **state)
{
    static const struct {
        const char *nodes, *former;
        unsigned nplaces, group;
        const char *want;
        struct dlr_topo_cost order;
    } rows[] = {
        {"l0.n1;l0.n2;l0.n3;l1.n4;l1.n5;l1.n6",
         NULL,
         4,
         2,
         "n1 n2 n4 n5 | n3 n6 |",
         {2, 2, 0, 0, 0}},
        {"l0.n1;l0.n2;l0.n3;l1.n4;l1.n5;l1.n6",
         NULL,
         6,
         2,
         "n1 n2 n4 n5 n3 n6 |  |",
         {4, 2, 1, 2, 2}},
        {"l0.n1;l0.n2;l0.n3;l1.n4;l1.n5;l1.n6",
         NULL,
         6,
         0,
         "n1 n2 n3 n4 n5 n6 |  |",
         {2, 2, 0, 0, 0}},
        /* no group divides five places */
        {"l0.n1;l0.n2;l0.n3;l1.n4;l1.n5",
         NULL,
         5,
         2,
         "n1 n2 n3 n4 n5 |  |",
         {2, 2, 0, 0, 0}},
        /* after a loss nobody else moves, and it is said what that costs */
        {"l0.n1;l0.n2;l1.n4;l2.n7",
         "l0.n1 l0.n2 l0.n3 l1.n4",
         4,
         2,
         "n1 n2 n7 n4 |  |",
         {3, 3, 1, 1, 2}},
        {"l0.n1;l0.n3;l1.n4;l1.n5",
         "l0.n1 l0.n2 l0.n3 l1.n4",
         4,
         2,
         "n1 n5 n3 n4 |  |",
         {4, 2, 2, 0, 2}},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_plan plan;
        struct plan_rig w;
        char got[256];

        print_message("  %s by %u\n", rows[i].nodes, rows[i].group);
        plan_rig_setup(&w, rows[i].nplaces, rows[i].nodes, rows[i].former);
        w.want.group = rows[i].group;
        assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
        plan_rig_describe(&plan, got, sizeof(got));
        assert_string_equal(got, rows[i].want);
        assert_memory_equal(&plan.order, &rows[i].order, sizeof(plan.order));
        dlr_plan_done(&plan);
        plan_rig_teardown(&w);
    }
}

static void what_cannot_be_planned_is_refused(void **state)
{
    static const struct {
        unsigned nplaces;
        const char *nodes;
        int rc;
        const char *text;
    } rows[] = {
        {3, "l0.n1;l0.n2", -ENOSPC,
         "3 nodes are needed, 2 reported, 2 of them are usable"},
        {2, "l0.n1!;l0.n2", -ENOSPC,
         "2 nodes are needed, 2 reported, 1 of them are usable (n1: memory: edac: 7 "
         "uncorrected memory errors)"},
        {1, "", -ENOSPC, "1 nodes are needed, 0 reported, 0 of them are usable"},
        {1, "l0.n1;l1.n1", -EEXIST, "node n1 reported twice"},
        {0, "l0.n1", -EINVAL, "0 places"},
    };
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_err err = {0};
        struct dlr_plan plan;
        struct plan_rig w;

        plan_rig_setup(&w, rows[i].nplaces, rows[i].nodes, NULL);
        assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, &err),
                         rows[i].rc);
        assert_string_equal(err.text, rows[i].text);
        assert_int_equal(plan.nplaces, 0);
        dlr_plan_done(&plan);
        plan_rig_teardown(&w);
    }
}

/* --- one plan whatever the order, and for many nodes ------------------------------ */

static void any_order_of_reports_gives_the_same_plan(void **state)
{
    static const char nodes[] =
        "l0.n1=0:1/5?n4;l0.n2=1:1/5;l1.n3!=2:1/5;l1.n4?n1=2:1/5;"
        "l1.n5=0:1/5;l2.n10;l2.n6=1:1/5";
    DLR_AUTO_FREE char *first = NULL;
    unsigned turn, i;

    srand(3);
    for (turn = 0; turn < 200; turn++) {
        DLR_AUTO_FREE char *text = NULL;
        struct dlr_plan plan;
        struct plan_rig w;

        plan_rig_setup(&w, 3, nodes, "l0.n1>n4 l2.n7>n1 l1.n3>n2");
        for (i = w.n; i > 1 && turn; i--) {
            unsigned k = (unsigned)rand() % i;
            struct dlr_plan_report swap = w.reports[i - 1];

            w.reports[i - 1] = w.reports[k];
            w.reports[k] = swap;
        }
        assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
        text = plan_rig_text(&plan, NULL);
        if (!first)
            first = DLR_STEAL(text);
        else
            assert_string_equal(text, first);
        dlr_plan_done(&plan);
        plan_rig_teardown(&w);
    }
}

static void many_nodes_are_planned(void **state)
{
    const unsigned n = 2064, nplaces = 2048, per = 8;
    struct dlr_plan_report *r = calloc(n, sizeof(*r));
    unsigned *tasks = calloc(nplaces, sizeof(*tasks)), i, k;
    struct dlr_plan_want want = {.nplaces = nplaces, .tasks = tasks};
    struct dlr_plan plan;
    int64_t t0;

    for (i = 0; i < n; i++) {
        dlr_format(r[i].node.name, sizeof(r[i].node.name), "n%u", i);
        dlr_format(r[i].node.path, sizeof(r[i].node.path), "s.l%u.n%u", i / 32, i);
        r[i].copies = calloc(per * 2, sizeof(*r[i].copies));
        for (k = 0; k < 2 * per; k++)
            r[i].copies[r[i].ncopies++] =
                (struct dlr_plan_copy){(int32_t)((i * per + k) % (nplaces * per)),
                                       nplaces * per,
                                       {0, 9},
                                       1,
                                       1};
        if (i < nplaces)
            tasks[i] = per;
    }
    t0 = dlr_now_ns();
    assert_int_equal(dlr_plan_make(r, n, &want, &plan, NULL), 0);
    print_message("  2,064 nodes, 16,384 ranks in %.1f ms\n",
                  (double)(dlr_now_ns() - t0) / 1e6);
    assert_true(plan.restore);
    assert_int_equal(plan.nspares, n - nplaces);
    dlr_plan_done(&plan);
    for (i = 0; i < n; i++)
        dlr_plan_report_done(&r[i]);
    free(r);
    free(tasks);
}

/* --- preferred nodes -------------------------------------------------------------- */

static void preferred_nodes_come_first_in_the_first_round(void **state)
{
    static const struct {
        const char *nodes, *former;
        const char *prefer[3];
        bool ordered;
        const char *want;
    } rows[] = {
        {"l0.n1;l0.n2;l1.n3;l1.n4", NULL, {"n4"}, false, "n1 n4 | n2 n3 |"},
        {"l0.n1;l0.n2;l1.n3;l1.n4", NULL, {"n4", "n2"}, false, "n2 n4 | n1 n3 |"},
        {"l0.n1;l0.n2;l1.n3;l1.n4", NULL, {"n4", "n2"}, true, "n4 n2 | n1 n3 |"},
        {"l0.n1;l0.n2;l1.n3", NULL, {"n4", "n4", "n3"}, true, "n3 n1 | n2 |"},
        {"l0.n1;l0.n2!;l1.n3", NULL, {"n2", "n3"}, false, "n1 n3 |  | n2: MEM"},
        {"l0.n1;l0.n2;l1.n3", "l0.n1 l0.n2", {"n3"}, false, "n1 n2 | n3 |"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char got[2048], want[2048];
        struct dlr_plan plan;
        struct plan_rig w;

        plan_rig_setup(&w, 2, rows[i].nodes, rows[i].former);
        w.want.prefer = rows[i].prefer;
        while (w.want.nprefer < 3 && rows[i].prefer[w.want.nprefer])
            w.want.nprefer++;
        w.want.ordered = rows[i].ordered;
        assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
        plan_rig_describe(&plan, got, sizeof(got));
        expect(rows[i].want, want, sizeof(want));
        assert_string_equal(got, want);
        dlr_plan_done(&plan);
        plan_rig_teardown(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(preferred_nodes_come_first_in_the_first_round),
        cmocka_unit_test(nodes_get_their_places),
        cmocka_unit_test(a_slow_node_that_takes_part_is_a_warning),
        cmocka_unit_test(the_supervisors_node_is_kept_when_two_disagree),
        cmocka_unit_test(dealt_ranks_move_with_their_place),
        cmocka_unit_test(ranks_are_each_at_one_place),
        cmocka_unit_test(ranks_of_a_place_follow_each_other),
        cmocka_unit_test(groups_stay_on_a_leaf_and_what_cannot_is_counted),
        cmocka_unit_test(what_cannot_be_planned_is_refused),
        cmocka_unit_test(any_order_of_reports_gives_the_same_plan),
        cmocka_unit_test(many_nodes_are_planned),
    };

    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
