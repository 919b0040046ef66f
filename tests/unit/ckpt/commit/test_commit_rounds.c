/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=mpi_launcher/plan */
/* The commit state machine over two rounds in every order of events, and in random
 * ones: nodes are lost, a supervisor dies, commits are written to the disk and read
 * back when memory has lost them, and a save is found torn. What the second round
 * begins from is chosen by the real plan.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/ckpt/commit/commit_search.h"

#define SEED 0u
#define HISTORIES 100u

/* Seconds for the histories drawn at random; 0: only so many as above, and the small
 * jobs.
 */
static unsigned seconds(void)
{
    const char *text = getenv("DLROVER_EXPLORE_S");

    return text ? (unsigned)strtoul(text, NULL, 10) : 0;
}

static bool everything(void)
{
    return getenv("DLROVER_EXPLORE_ALL") != NULL;
}

static void expect_safe(size_t states)
{
    print_message("           %zu states, %lu commits, %lu rounds begun from one, %lu "
                  "files read\n",
                  states, world_found.commits, world_found.restores, world_found.files);
    assert_true(world_found.restores > 0);
    assert_true(!world_conf.disk || world_found.files > 0);
    assert_int_equal(world_found.lost, 0);
    assert_int_equal(world_found.behind, 0);
    assert_int_equal(world_found.unsaid, 0);
    assert_int_equal(world_found.mixed, 0);
    assert_false(world_is_bad());
}

static void every_order_of_two_rounds_keeps_what_was_promised(void **state)
{
    search_begin(&(struct world_conf){.ranks = 2, .steps = 2, .rounds = WORLD_ROUNDS});
    expect_safe(search_all(20, NULL));
    search_begin(&(struct world_conf){.ranks = 2,
                                      .steps = everything() ? 2 : 1,
                                      .rounds = WORLD_ROUNDS,
                                      .kills = 2,
                                      .deaths = 1,
                                      .disk = true,
                                      .tears = true});
    expect_safe(search_all(everything() ? 23 : 18, NULL));
}

static void random_orders_of_two_rounds_keep_what_was_promised(void **state)
{
    unsigned runs = HISTORIES;
    size_t states;

    search_begin(&(struct world_conf){.ranks = WORLD_RANKS,
                                      .steps = WORLD_STEPS,
                                      .rounds = WORLD_ROUNDS,
                                      .kills = 2,
                                      .faults = 100,
                                      .deaths = 1,
                                      .disk = true,
                                      .tears = true});
    states = seconds() ? search_histories_for(seconds(), SEED, &runs)
                       : search_histories(HISTORIES, SEED);
    print_message("           histories from the seeds %u to %u\n", SEED,
                  SEED + runs - 1);
    expect_safe(states);
}

/* The negative controls of the two above. */
static void every_broken_rule_of_rounds_is_found(void **state)
{
    static const struct {
        enum world_broken rule;
        const char *name;
    } rows[] = {
        {WORLD_READ_FREED, "a slot is freed while it is written to the disk"},
        {WORLD_MANIFEST_EARLY, "a manifest before its last file"},
        {WORLD_TORN_COUNTS, "a torn version counts"},
        {WORLD_STRUCK_LOADED, "a struck version is restored"},
        {WORLD_ORDERS_FORGOTTEN, "the next supervisor orders a step again"},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        bool found;

        search_begin(
            &(struct world_conf){.ranks = 2,
                                 .steps = 2,
                                 .rounds = WORLD_ROUNDS,
                                 .kills = 2,
                                 .deaths = rows[i].rule == WORLD_ORDERS_FORGOTTEN,
                                 .disk = true,
                                 .tears = rows[i].rule == WORLD_TORN_COUNTS ||
                                          rows[i].rule == WORLD_STRUCK_LOADED,
                                 .broken = rows[i].rule});
        found = search_finds_any(23);
        print_message("           %s: %lu mixed, %lu behind, %lu lost, %lu twice\n",
                      rows[i].name, world_found.mixed, world_found.behind,
                      world_found.lost, world_found.twice);
        assert_true(found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order_of_two_rounds_keeps_what_was_promised),
        cmocka_unit_test(random_orders_of_two_rounds_keep_what_was_promised),
        cmocka_unit_test(every_broken_rule_of_rounds_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
