/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a round: which version is restored, and from where. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "common/json/message.h"
#include "tests/unit/mpi_launcher/plan/plan_rig.h"

struct restore_row {
    const char *what;
    unsigned nplaces;
    const char *nodes, *former, *want, *notes;
};

/* 4/120 is what the supervisor knows as committed. */
static const struct restore_row restore_rows[] = {
    {"nothing held", 2, "l0.n1;l1.n2", NULL, "none",
     "rank 0: no copy of version 4/120 is left;rank 1: no copy of version 4/120 is "
     "left"},
    {"everyone has its own", 2, "l0.n1=0:4/120;l1.n2=1:4/120", "l0.n1>n2 l1.n2>n1",
     "4/120 local local", ""},
    {"the newcomer gets it from the partner", 2, "l0.n1=0:4/120 1:4/120;l1.n3",
     "l0.n1>n2 l1.n2>n1", "4/120 local n1", ""},
    {"a later round beats a higher step", 2,
     "l0.n1=0:4/120 0:3/500;l1.n2=1:4/120 1:3/500", "l0.n1>n2 l1.n2>n1",
     "4/120 local local", ""},
    {"a save in flight is not taken", 2, "l0.n1=0:4/125 0:4/120;l1.n2=1:4/120",
     "l0.n1>n2 l1.n2>n1", "4/120 local local",
     "version 4/125 is not whole: 1 of 2 ranks have it"},
    {"whole but not committed is taken", 2,
     "l0.n1=0:4/125 0:4/120;l1.n2=1:4/120 1:4/125", "l0.n1>n2 l1.n2>n1",
     "4/125 local local", ""},
    {"owner and partner gone", 3,
     "l0.n1=0:4/120 0:4/110 1:4/110;l0.n4=2:4/110 2:4/120;l1.n5",
     "l0.n1>n4 l1.n2>n3 l0.n4>n1", "4/110 local n1 local",
     "rank 1: version 4/120 was on n2 and n3, both gone"},
    {"the copy did not verify", 2, "l0.n1=0:4/120;l1.n2=0:4/120", "l0.n1>n2 l1.n2>n1",
     "none", "rank 1: version 4/120 was on n2 and n1, both without a whole copy"},
    {"one gone, one broken", 2, "l0.n1=0:4/120;l1.n3", "l0.n1>n2 l1.n2>n1", "none",
     "rank 1: version 4/120 was on n2 (gone) and n1 (without a whole copy)"},
    {"a node left out still serves what it has", 2,
     "l0.n1!=0:4/120;l1.n2=1:4/120;l0.n3", "l0.n1>n2 l1.n2>n1", "4/120 n1 local", ""},
    {"nearest holder first", 3, "l0.n1;l1.n2=0:4/120 2:4/120 1:4/120;l0.n3=0:4/120",
     "l0.n1>n2 l1.n2>n1 l0.n3>n2", "4/120 n3 local n2", ""},
    {"ranks had moved, and a node is gone before they had saved", 3,
     "l0.n1=1:4/120;l1.n2=2:4/120 0:4/120;l0.n3", "l0.n1>n2 l1.n2>n4 l0.n4>n1",
     "4/120 n2 n1 n2", ""},
    {"a rank out of range is nobody's", 1, "l0.n1=0:4/120 1:4/120 1:9/9", "l0.n1",
     "4/120 local", ""},
    {"one node alone", 1, "l0.n2", "l0.n1", "none",
     "rank 0: version 4/120 was on n1 only: gone"},
};

static void check_notes(const struct dlr_plan *plan, const char *want)
{
    char got[2048] = "";
    unsigned i;

    for (i = 0; i < plan->nnotes; i++)
        plan_rig_add(got, sizeof(got), ";", plan->notes[i]);
    assert_string_equal(got, want);
}

static void the_newest_whole_version_is_restored(void **state)
{
    size_t i;

    for (i = 0; i < sizeof(restore_rows) / sizeof(restore_rows[0]); i++) {
        const struct restore_row *row = &restore_rows[i];
        struct dlr_plan plan;
        struct plan_rig w;
        char got[1024];

        print_message("  %s\n", row->what);
        plan_rig_setup(&w, row->nplaces, row->nodes, row->former);
        w.want.has_committed = true;
        w.want.committed = (struct dlr_version){4, 120};
        assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
        plan_rig_describe_restore(&plan, got, sizeof(got));
        assert_string_equal(got, row->want);
        check_notes(&plan, row->notes);
        if (plan.restore)
            assert_int_equal(plan.sources[0].bytes, 4096);
        dlr_plan_done(&plan);
        plan_rig_teardown(&w);
    }
}

/* Places of one task each in sets of at most two: ranks 0 and 2, 1 and 3 (alone with
 * three places); shards of a group are numbered from the world on, one world for each
 * row.
 */
static void what_is_left_of_a_set_makes_what_is_lost(void **state)
{
    static const struct {
        const char *what;
        unsigned nplaces, rows;
        const char *nodes, *want;
    } rows[] = {
        {"nobody is lost", 4, 1,
         "l0.n1=0:4/120 5:4/120;l0.n2=1:4/120 4:4/120;l1.n3=2:4/120;l1.n4=3:4/120",
         "4/120 local local local local"},
        {"one of a set", 4, 1,
         "l0.n1=0:4/120 5:4/120;l0.n2=1:4/120 4:4/120;l1.n5;l1.n4=3:4/120",
         "4/120 local local 0@n1 4@n2 local"},
        {"one of each set", 4, 1,
         "l0.n1=0:4/120 5:4/120;l0.n6;l1.n3=2:4/120;l1.n4=3:4/120 4:4/120",
         "4/120 local 3@n4 5@n1 local local"},
        {"two of a set and one row", 4, 1,
         "l0.n5;l0.n2=1:4/120 4:4/120;l1.n6;l1.n4=3:4/120", "none"},
        {"two of a set and two rows", 4, 2,
         "l0.n5;l0.n2=1:4/120 4:4/120;l1.n6;l1.n4=3:4/120 8:4/120",
         "4/120 4@n2 8@n4 local 4@n2 8@n4 local"},
        {"a shard of an older version is none", 4, 1,
         "l0.n1=0:4/120 0:4/110;l0.n2=1:4/120 4:4/110 1:4/110;l1.n5;"
         "l1.n4=3:4/120 3:4/110",
         "4/110 local local 0@n1 4@n2 local"},
        {"a shard that nobody knows", 4, 1,
         "l0.n1=0:4/120;l0.n2=1:4/120 12:4/120;l1.n5;l1.n4=3:4/120", "none"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_plan plan;
        struct plan_rig w;
        char got[1024];

        print_message("  %s\n", rows[i].what);
        plan_rig_setup(&w, rows[i].nplaces, rows[i].nodes, "l0.n1 l0.n2 l1.n3 l1.n4");
        for (unsigned r = 0; r < w.n; r++)
            for (unsigned c = 0; c < w.reports[r].ncopies; c++)
                w.reports[r].copies[c].world = rows[i].nplaces;
        w.want.members = 2;
        w.want.rows = rows[i].rows;
        assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
        plan_rig_describe_restore(&plan, got, sizeof(got));
        assert_string_equal(got, rows[i].want);
        dlr_plan_done(&plan);
        plan_rig_teardown(&w);
    }
}

static void a_full_node_has_no_place_and_serves_what_it_has(void **state)
{
    const struct dlr_plan_out full = {"n2", "no room to restore: No space left"};
    char text[256];
    struct dlr_plan plan;
    struct plan_rig w;

    plan_rig_setup(&w, 2, "l0.n1=0:4/120;l0.n2=1:4/120;l0.n3", "l0.n1>n2 l0.n2>n1");
    w.want.full = &full;
    w.want.nfull = 1;
    assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
    plan_rig_describe(&plan, text, sizeof(text));
    assert_string_equal(text, "n1 n3 |  | n2: no room to restore: No space left");
    plan_rig_describe_restore(&plan, text, sizeof(text));
    assert_string_equal(text, "4/120 local n2");
    dlr_plan_done(&plan);
    w.want.nplaces = 3; /* nobody else is left: another allocation may have room */
    w.tasks[2] = 1;
    w.want.nformer = 0;
    assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), -ENOSPC);
    dlr_plan_done(&plan);
    plan_rig_teardown(&w);
}

/* The program has failed there first: while others are enough it has no place. */
static void a_node_that_comes_last_has_a_place_when_there_are_too_few(void **state)
{
    const struct dlr_plan_out last = {"n2", "the program has failed there first", true};
    char text[256];
    struct dlr_plan plan;
    struct plan_rig w;

    plan_rig_setup(&w, 2, "l0.n1=0:4/120;l0.n2=1:4/120;l0.n3", "l0.n1>n2 l0.n2>n1");
    w.want.full = &last;
    w.want.nfull = 1;
    assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
    plan_rig_describe(&plan, text, sizeof(text));
    assert_string_equal(text, "n1 n3 |  | n2: the program has failed there first");
    dlr_plan_done(&plan);
    w.want.nplaces = 3;
    w.tasks[2] = 1;
    w.want.nformer = 0;
    assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
    plan_rig_describe(&plan, text, sizeof(text));
    assert_string_equal(text, "n1 n2 n3 |  |");
    dlr_plan_done(&plan);
    plan_rig_teardown(&w);
}

static void rejected_copies_are_not_taken_again(void **state)
{
    static const struct {
        const char *where;
        int32_t rank;
        const char *want, *notes;
        bool later;
        struct dlr_version version;
    } rows[] = {
        {"n2", 1, "4/120 local n1", ""},
        {"*",
         -1,
         "4/110 local local",
         "rank 0: version 4/120 was on n1 and n2, both failed to load;"
         "rank 1: version 4/120 was on n2 and n1, both failed to load",
         true,
         {5, 111}},
        {"*",
         -1,
         "none",
         "rank 0: version 4/120 was on n1 and n2, both failed to load;"
         "rank 1: version 4/120 was on n2 and n1, both failed to load",
         true,
         {4, 110}},
        {"*", -1, "4/120 local local", "", true, {3, 90}}, /* computed again since */
        {"*", -1, "4/120 local local", "", true, {4, 121}},
        {"n1", 1, "4/120 local local", ""},
        {"*", 1, "4/110 local local",
         "rank 1: version 4/120 was on n2 and n1, both failed to load"},
        {"*", -1, "4/110 local local",
         "rank 0: version 4/120 was on n1 and n2, both failed to load;"
         "rank 1: version 4/120 was on n2 and n1, both failed to load"},
        {"n2", -1, "4/120 local n1", ""},
    };
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_plan_rejected rejected = {
            .rank = rows[i].rank,
            .version = rows[i].later ? rows[i].version : (struct dlr_version){4, 120},
            .later = rows[i].later};
        struct dlr_plan plan;
        struct plan_rig w;
        char got[256];

        plan_rig_setup(&w, 2,
                       "l0.n1=0:4/120 1:4/120 0:4/110;l1.n2=1:4/120 0:4/120 1:4/110",
                       "l0.n1>n2 l1.n2>n1");
        dlr_format(rejected.where, sizeof(rejected.where), "%s", rows[i].where);
        w.want.rejected = &rejected;
        w.want.nrejected = 1;
        w.want.has_committed = true;
        w.want.committed = (struct dlr_version){4, 120};
        assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
        plan_rig_describe_restore(&plan, got, sizeof(got));
        assert_string_equal(got, rows[i].want);
        check_notes(&plan, rows[i].notes);
        dlr_plan_done(&plan);
        plan_rig_teardown(&w);
    }
}

static void files_fill_in_and_limits_hold(void **state)
{
    struct dlr_plan_file files[2] = {
        {{0, 2, {4, 120}, 9, 9}, "/state/r0"},
        {{1, 2, {4, 120}, 9, 9}, "/state/r1"},
    };
    struct dlr_plan plan;
    struct plan_rig w;
    char got[256];

    plan_rig_setup(&w, 2, "l0.n1=0:4/120 0:4/100;l1.n3=1:4/100", "l0.n1>n2 l1.n2>n1");
    w.want.files = files;
    w.want.nfiles = 2;
    assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
    plan_rig_describe_restore(&plan, got, sizeof(got));
    assert_string_equal(got, "4/120 local /state/r1");
    dlr_plan_done(&plan);

    w.want.limited = true;
    w.want.newest = (struct dlr_version){4, 119};
    assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
    plan_rig_describe_restore(&plan, got, sizeof(got));
    assert_string_equal(got, "4/100 local local");
    dlr_plan_done(&plan);

    w.want.limited = false;
    assert_int_equal(dlr_plan_restorable(w.reports, w.n, &w.want, &plan, NULL), 0);
    plan_rig_describe_restore(&plan, got, sizeof(got));
    assert_string_equal(got, "4/120 n1 /state/r1");
    dlr_plan_done(&plan);

    files[1].copy.world = 3;
    assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
    plan_rig_describe_restore(&plan, got, sizeof(got));
    assert_string_equal(got, "4/100 local local");
    dlr_plan_done(&plan);
    plan_rig_teardown(&w);
}

/* Four ranks made the files of 5/200; two run now, and have 4/120 in memory. */
static void another_number_of_ranks_counts_when_its_version_is_newer(void **state)
{
    static const struct {
        const char *what, *want, *kept, *notes; /* kept: before a requeue */
        unsigned nfiles;                        /* of the four */
        uint32_t in_memory; /* ranks that made what the nodes have */
    } rows[] = {
        {"whole", "5/200 /0 /1 /2 /3", "5/200 /0 /1 /2 /3", "", 4, 2},
        {"one is missing", "4/120 local local", "4/120 n1 n2",
         "version 5/200 is not whole: 3 of 4 ranks have it", 3, 2},
        {"only one rank made what is in memory", "4/120 n1", "4/120 n1", "", 0, 1},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_plan_file files[4] = {
            {{0, 4, {5, 200}, 9, 9}, "/0"},
            {{1, 4, {5, 200}, 9, 9}, "/1"},
            {{2, 4, {5, 200}, 9, 9}, "/2"},
            {{3, 4, {5, 200}, 9, 9}, "/3"},
        };
        struct dlr_plan plan, again;
        struct plan_rig w;
        char got[256];
        json_t *j;

        print_message("  %s\n", rows[i].what);
        plan_rig_setup(&w, 2, "l0.n1=0:4/120;l1.n2=1:4/120", NULL);
        w.reports[0].copies[0].world = w.reports[1].copies[0].world = rows[i].in_memory;
        w.want.files = files;
        w.want.nfiles = rows[i].nfiles;
        assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
        plan_rig_describe_restore(&plan, got, sizeof(got));
        assert_string_equal(got, rows[i].want);
        check_notes(&plan, rows[i].notes);
        j = dlr_plan_to_json(&plan, NULL);
        assert_int_equal(dlr_plan_from_json(j, &again, NULL), 0);
        assert_int_equal(again.made_by, plan.made_by);
        plan_rig_describe_restore(&again, got, sizeof(got));
        assert_string_equal(got, rows[i].want);
        json_decref(j);
        dlr_plan_done(&again);
        dlr_plan_done(&plan);
        assert_int_equal(dlr_plan_restorable(w.reports, w.n, &w.want, &plan, NULL), 0);
        plan_rig_describe_restore(&plan, got, sizeof(got));
        assert_string_equal(got, rows[i].kept);
        dlr_plan_done(&plan);
        plan_rig_teardown(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_whole_version_is_restored),
        cmocka_unit_test(what_is_left_of_a_set_makes_what_is_lost),
        cmocka_unit_test(a_full_node_has_no_place_and_serves_what_it_has),
        cmocka_unit_test(a_node_that_comes_last_has_a_place_when_there_are_too_few),
        cmocka_unit_test(rejected_copies_are_not_taken_again),
        cmocka_unit_test(files_fill_in_and_limits_hold),
        cmocka_unit_test(another_number_of_ranks_counts_when_its_version_is_newer),
    };

    return cmocka_run_group_tests_name("plan_restore", tests, NULL, NULL);
}
