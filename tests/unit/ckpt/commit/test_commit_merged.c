/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=mpi_launcher/plan */
/* Merging states (tests/unit/ckpt/commit/commit_world_merged.c) loses nothing: it comes
 * to every outcome that is found without it, and to a violation wherever a broken rule
 * is found without it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/ckpt/commit/commit_search.h"

struct size {
    unsigned ranks, steps, open, faults, deaths;
    bool whole, rules; /* gone through without DLROVER_EXPLORE_ALL=1 */
};

static const struct size sizes[] = {
    {2, 2, 0, WORLD_FAULTS_ANY, 0, true, true},
    {2, 2, 0, 0, 1, true, true},
    {2, 3, 2, 0, 0, false, true},
    {2, 3, 0, 0, 0, false, false},
    {3, 2, 0, 0, 0, false, false},
};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static const char *const broken[WORLD_BROKEN_END] = {
    [WORLD_UNDECIDED_TAKEN] = "a slot is taken before its decision is known",
    [WORLD_COMMITTED_TAKEN] = "a committed slot is taken",
    [WORLD_COMMIT_FREES_NEWER] = "a commit frees what is newer",
    [WORLD_ABORT_FREES_OLDER] = "an abort frees what is older",
    [WORLD_HOLDER_FREES_EARLY] = "a holder frees its copy when the next is whole",
    [WORLD_COPIED_EARLY] = "a copy is told when it begins",
    [WORLD_COPIES_MISSING] = "a commit without copies",
    [WORLD_RANK_MISSING] = "a commit without the last rank",
    [WORLD_STAYS_OPEN] = "a version is decided twice",
    [WORLD_OLDER_STAYS_OPEN] = "an older version is committed after a newer",
    [WORLD_STALE_COUNTS] = "a fact of a decided version counts",
};

static void begin(const struct size *size, bool merged, enum world_broken rule)
{
    search_begin(&(struct world_conf){.merged = merged,
                                      .ranks = size->ranks,
                                      .steps = size->steps,
                                      .open = size->open,
                                      .faults = size->faults,
                                      .deaths = size->deaths,
                                      .broken = rule});
}

static bool everything(void)
{
    return getenv("DLROVER_EXPLORE_ALL") != NULL;
}

static void merged_states_have_every_outcome(void **state)
{
    for (size_t i = 0; i < SIZES; i++) {
        struct search_set merged, all;
        size_t nmerged, nall, strange = 0;

        if (!sizes[i].whole && !everything())
            continue;
        search_set_init(&merged, 22);
        search_set_init(&all, 22);
        begin(&sizes[i], true, WORLD_SOUND);
        nmerged = search_all(24, &merged);
        begin(&sizes[i], false, WORLD_SOUND);
        nall = search_all(24, &all);
        for (size_t k = 0; k <= all.mask; k++)
            strange += all.table[k] && !search_set_has(&merged, all.table[k]);
        print_message(
            "           %u x %u: %zu outcomes of %zu states, %zu of %zu merged\n",
            sizes[i].ranks, sizes[i].steps, all.used, nall, merged.used, nmerged);
        search_set_done(&merged);
        search_set_done(&all);
        assert_int_equal(strange, 0);
    }
}

static void a_broken_rule_that_is_found_is_found_merged(void **state)
{
    for (unsigned rule = 1; rule < WORLD_COMMIT_FORGOTTEN; rule++) {
        for (size_t i = 0; i < SIZES; i++) {
            bool found, merged;

            if (!sizes[i].rules && !everything())
                continue;
            begin(&sizes[i], false, rule);
            found = search_finds_any(24);
            begin(&sizes[i], true, rule);
            merged = search_finds_any(24);
            print_message("           %u x %u: %s: %s, merged %s\n", sizes[i].ranks,
                          sizes[i].steps, broken[rule], found ? "found" : "not found",
                          merged ? "found" : "not found");
            assert_true(merged || !found);
        }
    }
}

/* That commits are forgotten is found by test_commit_orders.c: merged, all nodes know
 * of each.
 */
static void a_supervisor_that_orders_again_is_found_merged(void **state)
{
    for (unsigned merged = 0; merged < 2; merged++) {
        begin(&(struct size){.ranks = 2, .steps = 2, .deaths = 1}, merged,
              WORLD_ORDERS_FORGOTTEN);
        assert_true(search_finds_any(20));
        assert_true(world_found.twice > 0);
    }
}

/* The negative controls of what test_commit_orders.c says of this size. */
static void every_broken_rule_is_found_in_the_largest_job(void **state)
{
    const struct size largest = {.ranks = WORLD_RANKS,
                                 .steps = WORLD_STEPS - !everything()};

    for (unsigned rule = 1; rule < WORLD_COMMIT_FORGOTTEN; rule++) {
        bool found;

        begin(&largest, true, rule);
        found = search_finds_any(24);
        print_message("           %s: %lu lost, %lu reused, %lu twice, %lu stale\n",
                      broken[rule], world_found.lost, world_found.reused,
                      world_found.twice, world_found.stale);
        assert_true(found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merged_states_have_every_outcome),
        cmocka_unit_test(a_broken_rule_that_is_found_is_found_merged),
        cmocka_unit_test(a_supervisor_that_orders_again_is_found_merged),
        cmocka_unit_test(every_broken_rule_is_found_in_the_largest_job),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
