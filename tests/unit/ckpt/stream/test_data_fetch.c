/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs=dlrover-data */
/* Copies that come to a node to be read there: two real dlrover-data side by side. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/slot/store.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "tests/support/data_rig.h"

#define BYTES (UINT64_C(1) << 20)
#define RANK 3
#define ROUND 5

static const struct dlr_version restored = {ROUND - 1, 7}, ours = {ROUND, 9};

struct pair {
    struct rig_data from, to;
};

/* RANK's copy of v at from; to has slots of its own for that rank, and one for what is
 * brought.
 */
static void pair_up(struct pair *p, struct dlr_version v)
{
    struct dlr_slot *src;

    rig_start(&p->from, NULL, "--answer-timeout=200ms");
    rig_start(&p->to, NULL, "--answer-timeout=200ms");
    rig_config(&p->from, ROUND, RIG_TOKEN, "[]");
    rig_config_bring(&p->to, ROUND, RIG_TOKEN, "[2]", "[3]");
    assert_int_equal(rig_reserve(&p->from, RANK, rig_slot_bytes(BYTES)), 0);
    assert_int_equal(rig_reserve(&p->to, RANK, rig_slot_bytes(BYTES)), 0);
    assert_int_equal(rig_reserve_fetched(&p->to, RANK, rig_slot_bytes(BYTES)), 0);
    src = rig_slot(&p->from, RANK, 0);
    rig_snapshot(src, RANK, v, BYTES);
    dlr_slot_unmap(src);
}

static void pair_down(struct pair *p)
{
    rig_end(&p->from);
    rig_end(&p->to);
    rig_remove(&p->from);
    rig_remove(&p->to);
}

static int send_copy(struct pair *p, struct dlr_version v)
{
    rig_order(&p->from, DLR_LOCAL_D_SEND, ROUND, RANK, v, 1, p->to.address);
    return rig_done(&p->from, 1, NULL, 0);
}

static enum dlr_slot_state state_of(struct pair *p, unsigned k)
{
    struct dlr_slot *slot = rig_slot(&p->to, RANK, k);
    enum dlr_slot_state state = dlr_slot_state(slot);

    dlr_slot_unmap(slot);
    return state;
}

static bool has_file(const struct rig_data *at, int32_t rank, unsigned k)
{
    char path[128];

    dlr_format(path, sizeof(path), "%s/r%d.s%u", at->dir, rank, k);
    return access(path, F_OK) == 0;
}

static bool is_there(const struct pair *p)
{
    return has_file(&p->to, RANK, DLR_STORE_FETCHED);
}

static void a_copy_to_be_read_takes_no_slot_of_the_ranks_own(void **state)
{
    struct dlr_slot *slot;
    struct pair p;

    pair_up(&p, restored);
    assert_int_equal(send_copy(&p, restored), 0);
    slot = rig_slot(&p.to, RANK, DLR_STORE_FETCHED);
    assert_int_equal(dlr_slot_state(slot), DLR_SLOT_SEALED);
    assert_int_equal(dlr_slot_verify(slot, NULL), 0);
    dlr_slot_unmap(slot);
    assert_int_equal(state_of(&p, 0), DLR_SLOT_FREE);
    assert_int_equal(state_of(&p, 1), DLR_SLOT_FREE);
    pair_down(&p);
}

static void it_is_gone_when_nobody_reads_it_any_more(void **state)
{
    struct pair p;

    pair_up(&p, restored);
    assert_int_equal(send_copy(&p, restored), 0);
    assert_true(is_there(&p));
    rig_config(&p.to, ROUND, RIG_TOKEN, "[2]");
    assert_int_equal(rig_reserve(&p.to, 2, rig_slot_bytes(BYTES)), 0); /* it was read */
    assert_false(is_there(&p));
    pair_down(&p);
}

static void what_this_round_saves_is_not_taken_for_it(void **state)
{
    struct pair p;

    pair_up(&p, ours);
    assert_int_equal(send_copy(&p, ours), ESTALE); /* nor when asked again */
    assert_int_equal(state_of(&p, DLR_STORE_FETCHED), DLR_SLOT_FREE);
    pair_down(&p);
}

static void told_of_it_in_the_middle_of_a_save_the_slot_stays_open(void **state)
{
    struct dlr_slot *slot;
    struct pair p;

    pair_up(&p, restored);
    assert_int_equal(rig_reserve(&p.to, 2, rig_slot_bytes(BYTES)), 0);
    slot = rig_slot(&p.to, 2, 0);
    dlr_slot_set_state(slot, DLR_SLOT_OPEN);
    rig_config_bring(&p.to, ROUND, RIG_TOKEN, "[2]", "[3]");
    assert_int_equal(send_copy(&p, restored), 0);
    assert_int_equal(dlr_slot_state(slot), DLR_SLOT_OPEN);
    dlr_slot_unmap(slot);
    pair_down(&p);
}

/* Its room was made when the restore was over already. */
static void one_that_came_too_late_goes_with_the_next_commit(void **state)
{
    struct rig_data p;

    rig_start(&p, NULL, NULL);
    rig_config(&p, ROUND, RIG_TOKEN, "[2]");
    assert_int_equal(rig_reserve_fetched(&p, RANK, rig_slot_bytes(BYTES)), 0);
    assert_true(has_file(&p, RANK, DLR_STORE_FETCHED));
    rig_order(&p, DLR_LOCAL_D_COMMIT, ROUND, -1, ours, 0, "");
    assert_int_equal(rig_reserve(&p, 2, rig_slot_bytes(BYTES)), 0); /* it was read */
    assert_false(has_file(&p, RANK, DLR_STORE_FETCHED));
    rig_end(&p);
    rig_remove(&p);
}

/* Of a rank that is no more, one slot with what is restored and one with nothing. */
static void former_ranks(struct rig_data *p)
{
    struct dlr_slot *slot;

    rig_start(p, NULL, NULL);
    rig_config(p, ROUND - 1, RIG_TOKEN, "[3]");
    assert_int_equal(rig_reserve(p, RANK, rig_slot_bytes(BYTES)), 0);
    slot = rig_slot(p, RANK, 0);
    rig_snapshot(slot, RANK, restored, BYTES);
    dlr_slot_unmap(slot);
    rig_config_resized(p, ROUND, RIG_TOKEN, "[2]", "[]");
}

static void what_former_ranks_have_left_goes_when_nothing_good_is_in_it(void **state)
{
    struct rig_data p;

    former_ranks(&p);
    rig_order(&p, DLR_LOCAL_D_DROP, ROUND, -1, restored, 0, "");
    assert_int_equal(rig_reserve(&p, 2, rig_slot_bytes(BYTES)), 0); /* it was read */
    assert_true(has_file(&p, RANK, 0));
    assert_false(has_file(&p, RANK, 1));
    rig_order(&p, DLR_LOCAL_D_COMMIT, ROUND, -1, ours, 0, "");
    assert_int_equal(rig_reserve(&p, 2, rig_slot_bytes(BYTES)), 0);
    assert_false(has_file(&p, RANK, 0));
    assert_true(has_file(&p, 2, 0));
    rig_end(&p);
    rig_remove(&p);
}

static void a_parity_shard_is_no_former_rank(void **state)
{
    static const struct dlr_version any = {UINT32_MAX, 0};
    struct rig_data p;

    former_ranks(&p);
    rig_order(&p, DLR_LOCAL_D_PARITY, ROUND, 4, any, 0, "4 0*1 1*1");
    assert_int_equal(rig_reserve(&p, 4, rig_slot_bytes(BYTES)), 0);
    rig_order(&p, DLR_LOCAL_D_DROP, ROUND, -1, restored, 0, "");
    rig_order(&p, DLR_LOCAL_D_COMMIT, ROUND, -1, ours, 0, "");
    assert_int_equal(rig_reserve(&p, 2, rig_slot_bytes(BYTES)), 0); /* it was read */
    assert_true(has_file(&p, 4, 0) && has_file(&p, 4, 1));
    rig_end(&p);
    rig_remove(&p);
}

/* "[0,1,..]"; the caller's. */
static char *ranks_below(unsigned n)
{
    size_t size = n * 7u + 3, used = 0;
    char *text = malloc(size);

    assert_non_null(text);
    for (unsigned i = 0; i < n; i++)
        used += (size_t)snprintf(text + used, size - used, "%c%u", i ? ',' : '[', i);
    dlr_format(text + used, size - used, "]");
    return text;
}

/* Whether p.to, told so, has a copy of RANK in a slot of these then. */
static bool takes(const char *accept, const char *fetch, unsigned first, unsigned last)
{
    bool has = false;
    struct pair p;

    pair_up(&p, restored);
    rig_config_bring(&p.to, ROUND, RIG_TOKEN, accept, fetch);
    rig_order(&p.to, DLR_LOCAL_D_SEND, ROUND, 99, restored, 77, "00");
    rig_done(&p.to, 77, NULL, 0); /* orders come in turn: it is told */
    assert_int_equal(send_copy(&p, restored), 0);
    for (unsigned k = first; k <= last; k++)
        has |= has_file(&p.to, RANK, k) && state_of(&p, k) == DLR_SLOT_SEALED;
    pair_down(&p);
    return has;
}

static void a_node_may_be_told_of_16384_ranks(void **state)
{
    DLR_AUTO_FREE char *many = ranks_below(16384);

    assert_true(takes("[20000]", many, DLR_STORE_FETCHED, DLR_STORE_FETCHED));
    assert_true(takes(many, "[]", 0, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_to_be_read_takes_no_slot_of_the_ranks_own),
        cmocka_unit_test(it_is_gone_when_nobody_reads_it_any_more),
        cmocka_unit_test(what_this_round_saves_is_not_taken_for_it),
        cmocka_unit_test(told_of_it_in_the_middle_of_a_save_the_slot_stays_open),
        cmocka_unit_test(one_that_came_too_late_goes_with_the_next_commit),
        cmocka_unit_test(what_former_ranks_have_left_goes_when_nothing_good_is_in_it),
        cmocka_unit_test(a_parity_shard_is_no_former_rank),
        cmocka_unit_test(a_node_may_be_told_of_16384_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
