/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of live nodes that move after a swap, or do not: --dlrover-set=reorder. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/plan/reorder.h"
#include "tests/unit/mpi_launcher/plan/plan_rig.h"

/* n2 is lost, and n7 of the other leaf takes its place. */
#define FORMER "l0.n1 l0.n2 l0.n3 l1.n4 l1.n5 l1.n6"
#define NODES "l0.n1;l0.n3;l1.n4;l1.n5;l1.n6;l1.n7"
#define STAYS "n1 n7 n3 n4 n5 n6 |  |"
#define MOVES "n1 n3 n7 n4 n5 n6 |  |"

static void assert_same(const struct dlr_plan_reorder *a,
                        const struct dlr_plan_reorder *b)
{
    assert_int_equal(a->moves, b->moves);
    assert_int_equal(a->saves, b->saves);
    assert_int_equal(a->taken, b->taken);
    assert_true(a->gain_ms == b->gain_ms && a->cost_ms == b->cost_ms);
}

static void ranks_move_where_the_user_wants_and_it_saves_something(void **state)
{
    static const struct {
        const char *what, *nodes, *want;
        bool reorder, weigh, ordered;
        unsigned first_tasks, group;
        double steps, fetch_ms;
        struct dlr_plan_reorder told;
    } rows[] = {
        {"never", NODES, STAYS},
        {"always", NODES, MOVES, true, .told = {2, 2, true, 0, 1}, .fetch_ms = 1},
        {"always, nothing known", NODES, MOVES, true, .told = {2, 2, true}},
        {"auto, nothing known", NODES, STAYS, true, true, .told = {2, 2, false}},
        {"auto, many steps", NODES, MOVES, true, true, .steps = 10, .fetch_ms = 1000,
         .told = {2, 2, true, 5000, 1000}},
        {"auto, few steps", NODES, STAYS, true, true, .steps = 1, .fetch_ms = 1000,
         .told = {2, 2, false, 500, 1000}},
        {"auto, as much", NODES, STAYS, true, true, .steps = 2, .fetch_ms = 1000,
         .told = {2, 2, false, 1000, 1000}},
        {"the user's own order", NODES, STAYS, true, .ordered = true},
        {"unlike places", NODES, STAYS, true, .first_tasks = 2},
        {"replaced from its leaf", "l0.n1;l0.n7;l0.n3;l1.n4;l1.n5;l1.n6", STAYS, true},
        {"a group is whole again", "l0.n1;l0.n3;l1.n7;l1.n4;l1.n5;l1.n6", MOVES, true,
         .group = 2, .told = {2, 4, true, 0, 0}},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_plan plan;
        struct plan_rig w;
        char got[512];

        print_message("  %s\n", rows[i].what);
        plan_rig_setup(&w, 6, rows[i].nodes, FORMER);
        w.want.reorder = rows[i].reorder;
        w.want.weigh = rows[i].weigh;
        w.want.ordered = rows[i].ordered;
        w.want.group = rows[i].group;
        w.want.steps = rows[i].steps;
        w.want.fetch_ms = rows[i].fetch_ms;
        if (rows[i].first_tasks)
            w.tasks[0] = rows[i].first_tasks;
        assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
        plan_rig_describe(&plan, got, sizeof(got));
        assert_string_equal(got, rows[i].want);
        assert_same(&plan.reorder, &rows[i].told);
        assert_int_equal(plan.places[1].moved, 1);
        assert_int_equal(plan.places[2].moved, rows[i].told.taken);
        assert_int_equal(plan.places[3].moved, 0);
        dlr_plan_done(&plan);
        plan_rig_teardown(&w);
    }
}

/* Rank 2's snapshot is on n3, which has rank 1 now; that one's is with its partner. */
static void ranks_that_move_fetch_their_snapshots(void **state)
{
    struct dlr_plan plan;
    struct plan_rig w;
    char got[512];

    plan_rig_setup(&w, 6,
                   "l0.n1=0:4/120;l0.n3=2:4/120;l1.n4=3:4/120;l1.n5=4:4/120 1:4/120;"
                   "l1.n6=5:4/120;l1.n7",
                   FORMER);
    w.want.reorder = true;
    assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
    plan_rig_describe_restore(&plan, got, sizeof(got));
    assert_string_equal(got, "4/120 local n5 n3 local local local");
    dlr_plan_done(&plan);
    plan_rig_teardown(&w);
}

static void a_link_that_many_share_costs_as_much_more(void **state)
{
    const struct dlr_plan_want want = {
        .reorder = true, .weigh = true, .steps = 8, .fetch_ms = 100};
    struct dlr_plan_reorder r = {.moves = 9, .saves = 2};

    dlr_plan_reorder_weigh(&want, 4, &r);
    assert_true(r.gain_ms == 400 && r.cost_ms == 400 && !r.taken);
    dlr_plan_reorder_weigh(&want, 3, &r);
    assert_true(r.cost_ms == 300 && r.taken);
    dlr_plan_reorder_weigh(&want, 0, &r); /* all on one leaf */
    assert_true(r.cost_ms == 100 && r.taken);
}

static void what_is_wanted_survives_json(void **state)
{
    static const char *const bad[] = {
        "1",
        "{}",
        "{\"steps\":-1,\"fetch_ms\":1}",
        "{\"steps\":1,\"fetch_ms\":\"1\"}",
        "{\"steps\":1,\"fetch_ms\":1e300}",
    };
    struct dlr_plan_input back;
    struct plan_rig w;

    plan_rig_setup(&w, 6, NODES, FORMER);
    for (size_t i = 0; i <= sizeof(bad) / sizeof(*bad) + 1; i++) {
        DLR_AUTO_JSON json_t *j = NULL;
        bool asked = i > 0;

        w.want.reorder = w.want.weigh = asked;
        w.want.steps = 2.5;
        w.want.fetch_ms = 40;
        j = dlr_plan_input_to_json(&w.want, NULL);
        if (i > 1)
            json_object_set_new(json_object_get(j, "want"), "reorder",
                                json_loads(bad[i - 2], JSON_DECODE_ANY, NULL));
        print_message("  %s\n", i > 1 ? bad[i - 2] : "good");
        assert_int_equal(dlr_plan_input_from_json(j, &back, NULL),
                         i > 1 ? -EBADMSG : 0);
        if (i < 2) {
            assert_int_equal(back.want.reorder, asked);
            assert_int_equal(back.want.weigh, asked);
            assert_true(back.want.steps == (asked ? 2.5 : 0));
            assert_true(back.want.fetch_ms == (asked ? 40 : 0));
        }
        dlr_plan_input_done(&back);
    }
    plan_rig_teardown(&w);
}

static void a_plan_with_it_survives_json(void **state)
{
    DLR_AUTO_JSON json_t *j = NULL;
    struct dlr_plan plan, back;
    struct plan_rig w;

    plan_rig_setup(&w, 6, NODES, FORMER);
    w.want.reorder = true;
    w.want.fetch_ms = 3;
    assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
    j = dlr_plan_to_json(&plan, NULL);
    assert_int_equal(dlr_plan_from_json(j, &back, NULL), 0);
    assert_same(&plan.reorder, &back.reorder);
    dlr_plan_done(&back);
    json_object_set_new(json_object_get(j, "reorder"), "moves", json_integer(-1));
    assert_true(dlr_plan_from_json(j, &back, NULL) < 0);
    dlr_plan_done(&plan);
    plan_rig_teardown(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_move_where_the_user_wants_and_it_saves_something),
        cmocka_unit_test(ranks_that_move_fetch_their_snapshots),
        cmocka_unit_test(a_link_that_many_share_costs_as_much_more),
        cmocka_unit_test(what_is_wanted_survives_json),
        cmocka_unit_test(a_plan_with_it_survives_json),
    };

    return cmocka_run_group_tests_name("reorder", tests, NULL, NULL);
}
