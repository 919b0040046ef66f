/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=mpi_launcher/plan */
/* The commit state machine in every order of events of a small job, with and without
 * merging states (tests/unit/ckpt/commit/commit_world_merged.c), and in random orders
 * with faults.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/ckpt/commit/commit_search.h"

#define SEED 0u
#define HISTORIES 1000u

static bool everything(void)
{
    return getenv("DLROVER_EXPLORE_ALL") != NULL;
}

static void expect_safe(size_t states)
{
    print_message("           %zu states, %lu commits, at most %lu versions open\n",
                  states, world_found.commits, world_found.open);
    assert_true(world_found.commits > 0);
    assert_true(world_found.open > 1);
    assert_false(world_is_bad());
}

/* With no faults but the kill, delays, repetitions and facts that are never heard. */
static void every_order_of_events_keeps_the_newest_commit(void **state)
{
    if (!everything()) {
        print_message("           skipped without DLROVER_EXPLORE_ALL=1\n");
        skip();
    }
    search_begin(&(struct world_conf){.ranks = 2, .steps = 3});
    expect_safe(search_all(24, NULL));
    search_begin(&(struct world_conf){.ranks = 3, .steps = 2});
    expect_safe(search_all(24, NULL));
}

/* With any number of faults and a supervisor's death; whole with DLROVER_EXPLORE_ALL=1,
 * a step less without.
 */
static void every_order_of_events_merged_keeps_the_newest_commit(void **state)
{
    search_begin(&(struct world_conf){.merged = true,
                                      .ranks = WORLD_RANKS,
                                      .steps = WORLD_STEPS - !everything(),
                                      .deaths = 1});
    print_message("           %u ranks, %u steps\n", world_conf.ranks,
                  world_conf.steps);
    expect_safe(search_all(24, NULL));
}

static void any_number_of_faults_keeps_the_newest_commit(void **state)
{
    search_begin(&(struct world_conf){
        .ranks = WORLD_RANKS, .steps = WORLD_STEPS, .faults = 100});
    print_message("           histories from the seeds %u to %u\n", SEED,
                  SEED + HISTORIES - 1);
    expect_safe(search_histories(HISTORIES, SEED));
}

/* A supervisor dies at any point and the next one takes the round over. */
static void a_supervisors_death_keeps_the_newest_commit(void **state)
{
    search_begin(&(struct world_conf){.ranks = 2, .steps = 2, .deaths = 1});
    expect_safe(search_all(24, NULL));
    search_begin(&(struct world_conf){
        .ranks = WORLD_RANKS, .steps = WORLD_STEPS, .faults = 100, .deaths = 1});
    expect_safe(search_histories(everything() ? 100 * HISTORIES : HISTORIES, SEED));
    search_begin(&(struct world_conf){
        .ranks = 2, .steps = 2, .deaths = 1, .broken = WORLD_COMMIT_FORGOTTEN});
    search_finds_any(24);
    assert_true(world_found.lost > 0);
}

/* The same explorer and the same question, without decisions: it must find the loss,
 * and ranks that load different versions.
 */
static void the_naive_rule_loses_everything(void **state)
{
    size_t states;

    search_begin(&(struct world_conf){
        .naive = true, .ranks = WORLD_RANKS, .steps = WORLD_STEPS});
    states = search_all(22, NULL);
    print_message(
        "           %zu states, %lu times all was lost, %lu times ranks would "
        "load different versions\n",
        states, world_found.lost, world_found.mixed);
    assert_true(world_found.lost > 0);
    assert_true(world_found.mixed > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order_of_events_keeps_the_newest_commit),
        cmocka_unit_test(every_order_of_events_merged_keeps_the_newest_commit),
        cmocka_unit_test(any_number_of_faults_keeps_the_newest_commit),
        cmocka_unit_test(a_supervisors_death_keeps_the_newest_commit),
        cmocka_unit_test(the_naive_rule_loses_everything),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
