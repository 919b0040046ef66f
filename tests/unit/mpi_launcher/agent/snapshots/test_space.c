/* SPDX-License-Identifier: Apache-2.0 */
/* What a node expects to keep for others, before it was asked for: copies, or parity
 * shards.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/slot/store.h"
#include "common/base/str.h"
#include "mpi_launcher/agent/snapshots/budget.h"
#include "mpi_launcher/agent/snapshots/parts.h"

static struct dlr_agent_self self;
static struct dlr_agent_round now;
static struct dlr_agent_snapshots s = {.self = &self, .round = &now};
static struct dlr_agent_rank asked;
static uint64_t awaited, there;
static unsigned counted;

/* --- instead of other files ------------------------------------------------------- */

void dlr_budget_look(const char *root, struct dlr_budget *ret)
{
}
int dlr_budget_check(const struct dlr_budget *budget, int32_t rank, unsigned slots,
                     uint64_t bytes, unsigned others, uint64_t all_others,
                     struct dlr_err *err)
{
    awaited = budget->awaited;
    there = all_others;
    counted = others;
    return 0;
}
uint64_t dlr_store_used(int dirfd)
{
    return 4000;
}
int dlr_store_name(int32_t rank, unsigned slot, char *buf, size_t size)
{
    return dlr_format(buf, size, "r%d.s%u", rank, slot);
}
uint64_t dlr_agent_fetch_others(const struct dlr_agent_snapshots *snapshots,
                                int32_t but)
{
    return 50;
}
struct dlr_agent_rank *dlr_agent_rank(struct dlr_agent_snapshots *snapshots,
                                      int32_t rank, bool make)
{
    return asked.bytes && rank == asked.rank ? &asked : NULL;
}
const struct dlr_agent_node *dlr_agent_round_node(const struct dlr_agent_round *round,
                                                  const char *name)
{
    return round->nodes;
}

/* ---------------------------------------------------------------------------------- */

/* Ranks 0 and 1 run here. */
static const struct {
    const char *what;
    int32_t accept[8];
    unsigned naccept;
    int32_t sums[2];
    unsigned nsums;
    int32_t asked; /* 0: nothing of others' */
    unsigned slots;
} rows[] = {
    {"alone", {0, 1}, 2, {0}, 0, 0, 0},
    {"two ranks' partner", {0, 1, 2, 3}, 4, {0}, 0, 0, 2},
    {"one of them has asked", {0, 1, 2, 3}, 4, {0}, 0, 3, 1},
    {"two shards of sets of three", {0, 1, 2, 3, 4, 5, 6, 7}, 8, {8, 9}, 2, 0, 2},
    {"one of them is there", {0, 1, 2, 3, 4, 5, 6, 7}, 8, {8, 9}, 2, 9, 1},
};

static void what_others_will_keep_here_is_awaited_once(void **state)
{
    int32_t own[] = {0, 1};
    struct dlr_agent_node me = {.ranks = own, .nranks = 2};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_agent_parity sums[2] = {{.rank = rows[i].sums[0]},
                                           {.rank = rows[i].sums[1]}};

        print_message("  %s\n", rows[i].what);
        now.nodes = &me;
        now.accept = (int32_t *)rows[i].accept;
        now.naccept = rows[i].naccept;
        now.sums = sums;
        now.nsums = rows[i].nsums;
        asked = (struct dlr_agent_rank){.rank = rows[i].asked,
                                        .bytes = rows[i].asked ? 100 : 0};
        assert_int_equal(dlr_space_check(&s, 0, DLR_STORE_SLOTS, 100, NULL), 0);
        assert_int_equal(awaited, rows[i].slots * 100 * DLR_STORE_SLOTS);
    }
}

/* Before a round no rank has asked for its slots, and they are there; the round's may
 * take more.
 */
static void
what_is_made_before_a_round_is_beside_all_that_is_or_will_be_here(void **state)
{
    int32_t own[] = {0, 1}, accept[] = {0, 1, 2};
    struct dlr_agent_node me = {.ranks = own, .nranks = 2};

    memset(&now, 0, sizeof(now));
    self.dir_fd = -1;
    now.nodes = &me;
    now.accept = accept;
    now.naccept = 3;
    assert_int_equal(dlr_space_beside(&s, 9, 100, NULL), 0);
    assert_int_equal(there, 4000);
    assert_int_equal(counted, 3);
    assert_int_equal(awaited, 0);
    assert_int_equal(dlr_space_beside(&s, 9, 1000, NULL), 0);
    assert_int_equal(there, 3 * DLR_STORE_SLOTS * 1000 + 50);
    assert_int_equal(dlr_space_beside(&s, 9, UINT64_MAX / 2, NULL), 0);
    assert_true(there == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_others_will_keep_here_is_awaited_once),
        cmocka_unit_test(
            what_is_made_before_a_round_is_beside_all_that_is_or_will_be_here),
    };

    return cmocka_run_group_tests_name("room", tests, NULL, NULL);
}
