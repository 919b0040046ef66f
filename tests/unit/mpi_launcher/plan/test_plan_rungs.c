/* SPDX-License-Identifier: Apache-2.0 */
/* Where a rank's state comes from when exactly the copies above are gone: its own node,
 * another's copy, parity, a file, an older version.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "common/base/str.h"
#include "tests/unit/mpi_launcher/plan/plan_rig.h"

#define RANKS 4
#define GONE 6 /* copies that a row takes away, at most */

/* Sets of two: ranks 0 and 2 with shard 4, ranks 1 and 3 with shard 5; a second copy of
 * rank 2.
 */
static const char nodes[] = "l0.n1=0:4/120 0:4/110 5:4/120;"
                            "l0.n2=1:4/120 1:4/110 4:4/120;"
                            "l1.n3=2:4/120 2:4/110;"
                            "l1.n4=3:4/120 3:4/110 2:4/120";

static const struct {
    const char *what, *want;
    struct {
        const char *where;
        int32_t rank;
    } gone[GONE]; /* of 4/120 */
} rows[] = {
    {"nothing is gone", "4/120 local local local local", {{NULL, 0}}},
    {"on its own node", "4/120 local local n4 local", {{"n3", 2}}},
    {"and on its partner", "4/120 local local 0@n1 4@n2 local", {{"n3", 2}, {"n4", 2}}},
    {"and the shard", "4/120 local local /2 local", {{"n3", 2}, {"n4", 2}, {"n2", 4}}},
    {"or the other rank of the set",
     "4/120 /0 local /2 local",
     {{"n3", 2}, {"n4", 2}, {"n1", 0}}},
    {"and its file",
     "4/110 local local local local",
     {{"n3", 2}, {"n4", 2}, {"n2", 4}, {"/2", 2}}},
    {"its file alone", "4/120 local local local local", {{"/2", 2}}},
    {"the partner alone", "4/120 local local local local", {{"n4", 2}}},
};

static unsigned strike(size_t row, struct dlr_plan_rejected *list)
{
    unsigned n = 0;

    for (; n < GONE && rows[row].gone[n].where; n++) {
        list[n].rank = rows[row].gone[n].rank;
        list[n].version = (struct dlr_version){4, 120};
        dlr_format(list[n].where, sizeof(list[n].where), "%s", rows[row].gone[n].where);
    }
    return n;
}

static void each_rung_is_taken_when_the_copies_above_are_gone(void **state)
{
    struct dlr_plan_file files[RANKS] = {0};

    for (int32_t r = 0; r < RANKS; r++) {
        files[r].copy = (struct dlr_plan_copy){r, RANKS, {4, 120}, 9, 9};
        dlr_format(files[r].path, sizeof(files[r].path), "/%d", r);
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_plan_rejected rejected[GONE] = {0};
        struct dlr_plan plan;
        struct plan_rig w;
        char got[256];

        print_message("  %s\n", rows[i].what);
        plan_rig_setup(&w, RANKS, nodes, "l0.n1 l0.n2 l1.n3 l1.n4");
        for (unsigned r = 0; r < w.n; r++)
            for (unsigned c = 0; c < w.reports[r].ncopies; c++)
                w.reports[r].copies[c].world = RANKS;
        w.want.members = 2;
        w.want.rows = 1;
        w.want.files = files;
        w.want.nfiles = RANKS;
        w.want.rejected = rejected;
        w.want.nrejected = strike(i, rejected);
        assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
        plan_rig_describe_restore(&plan, got, sizeof(got));
        assert_string_equal(got, rows[i].want);
        dlr_plan_done(&plan);
        plan_rig_teardown(&w);
    }
}

/* As after nodes with several ranks each were lost: many more ranks made it than run
 * now.
 */
static void copies_of_many_more_ranks_are_counted_within_bounds(void **state)
{
    struct dlr_plan plan;
    struct plan_rig w;

    plan_rig_setup(&w, 2,
                   "l0.n1=0:4/120 1:4/120 2:4/120 3:4/120 4:4/120 5:4/120;"
                   "l0.n2=6:4/120 7:4/120 8:4/120 9:4/120 10:4/120 11:4/120",
                   "");
    for (unsigned r = 0; r < w.n; r++)
        for (unsigned c = 0; c < w.reports[r].ncopies; c++)
            w.reports[r].copies[c].world = 12;
    assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
    assert_true(plan.restore);
    assert_int_equal(plan.made_by, 12);
    for (unsigned r = 0; r < plan.made_by; r++)
        assert_string_equal(plan.sources[r].where, r < 6 ? "n1" : "n2");
    dlr_plan_done(&plan);
    plan_rig_teardown(&w);
}

/* Four ranks made it, three or two will run: the sets are those of the four. */
static const struct {
    const char *what;
    unsigned nplaces, members, rows;
    bool known; /* how the four sat */
    const char *nodes, *want;
} fewer[] = {
    {"xor:2, one is lost", 3, 2, 1, true,
     "l0.n1=0:4/120 5:4/120;l0.n2=1:4/120 4:4/120;l1.n3=2:4/120",
     "4/120 n1 n2 n3 1@n2 5@n1"},
    {"nobody knows how they sat", 3, 2, 1, false,
     "l0.n1=0:4/120 5:4/120;l0.n2=1:4/120 4:4/120;l1.n3=2:4/120", "none"},
    {"one that has a shard is lost", 3, 2, 1, true,
     "l0.n2=1:4/120 4:4/120;l1.n3=2:4/120;l1.n4=3:4/120", "4/120 2@n3 4@n2 n2 n3 n4"},
    {"xor:4 on four nodes", 3, 4, 1, true,
     "l0.n1=0:4/120 5:4/120;l0.n2=1:4/120 4:4/120;l1.n4=3:4/120",
     "4/120 n1 n2 0@n1 4@n2 n4"},
    {"one of each set", 2, 2, 1, true, "l0.n1=0:4/120 5:4/120;l0.n2=1:4/120 4:4/120",
     "4/120 n1 n2 0@n1 4@n2 1@n2 5@n1"},
    {"both of a set: a file", 2, 2, 1, true, "l0.n1=0:4/120 5:4/120;l1.n3=2:4/120",
     "3/100 /0 /1 /2 /3"},
    {"rs:2+2, both of a set", 3, 2, 2, true,
     "l0.n2=1:4/120 4:4/120;l1.n4=3:4/120 8:4/120;l1.n5",
     "4/120 4@n2 8@n4 n2 4@n2 8@n4 n4"},
    {"its shard is of an older version", 3, 2, 1, true,
     "l0.n1=0:4/120 5:4/110 0:4/110;l0.n2=1:4/120 4:4/120 1:4/110;l1.n3=2:4/120 "
     "2:4/110",
     "4/110 n1 n2 n3 1@n2 5@n1"},
};

static void what_is_left_of_other_ranks_sets_makes_what_is_lost(void **state)
{
    unsigned tasks[RANKS] = {1, 1, 1, 1};
    const struct dlr_plan_world four = {.nplaces = RANKS, .tasks = tasks};

    for (size_t i = 0; i < sizeof(fewer) / sizeof(fewer[0]); i++) {
        struct dlr_plan_file files[RANKS] = {0};
        struct dlr_plan plan;
        struct plan_rig w;
        char got[256];

        print_message("  %s\n", fewer[i].what);
        plan_rig_setup(&w, fewer[i].nplaces, fewer[i].nodes, "");
        for (unsigned r = 0; r < w.n; r++)
            for (unsigned c = 0; c < w.reports[r].ncopies; c++)
                w.reports[r].copies[c].world = RANKS;
        for (int32_t r = 0; r < RANKS; r++) {
            files[r].copy = (struct dlr_plan_copy){r, RANKS, {3, 100}, 9, 9};
            dlr_format(files[r].path, sizeof(files[r].path), "/%d", r);
        }
        w.want.files = files;
        w.want.nfiles = strstr(fewer[i].want, "/0 ") ? RANKS : 0;
        w.want.members = fewer[i].members;
        w.want.rows = fewer[i].rows;
        w.want.worlds = &four;
        w.want.nworlds = fewer[i].known;
        assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
        plan_rig_describe_restore(&plan, got, sizeof(got));
        assert_string_equal(got, fewer[i].want);
        dlr_plan_done(&plan);
        plan_rig_teardown(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rung_is_taken_when_the_copies_above_are_gone),
        cmocka_unit_test(copies_of_many_more_ranks_are_counted_within_bounds),
        cmocka_unit_test(what_is_left_of_other_ranks_sets_makes_what_is_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
