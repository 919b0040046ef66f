/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs=dlrover-data */
/* What lies in memory goes bad: it is found, told, and no copy any more; a good one may
 * come in its place.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/slot/meta.h"
#include "common/base/str.h"
#include "tests/unit/ckpt/stream/data_pair.h"

#define BYTES (5 * MIB)
#define QUIET_MS 600 /* some passes */

static const struct dlr_version v = {ROUND, 7}, later = {ROUND, 8};
static struct rig_data p;

static int setup(void **state)
{
    rig_start(&p, NULL, "--scrub=1ms");
    rig_config(&p, ROUND, RIG_TOKEN, "[3]");
    assert_int_equal(rig_reserve(&p, RANK, rig_slot_bytes(BYTES)), 0);
    return 0;
}

static int teardown(void **state)
{
    rig_end(&p);
    rig_remove(&p);
    return 0;
}

static void flip(struct dlr_slot *slot)
{
    size_t bytes;
    uint32_t crc;
    void *data;

    assert_int_equal(dlr_slot_block(slot, 2, &data, &bytes, &crc), 0);
    ((unsigned char *)data)[bytes / 2] ^= 0x10;
}

static void a_bad_block_is_told_and_its_slot_is_dead(void **state)
{
    struct dlr_slot *bad = rig_slot(&p, RANK, 0), *good = rig_slot(&p, RANK, 1);
    struct dlr_local_msg msg;

    rig_snapshot(bad, RANK, v, BYTES);
    rig_snapshot(good, RANK, later, BYTES);
    assert_true(rig_silent(&p, QUIET_MS));
    flip(bad);
    rig_await(&p, DLR_LOCAL_D_BAD, &msg);
    assert_int_equal(msg.rank, RANK);
    assert_int_equal(msg.arg[0], v.round);
    assert_int_equal(msg.step, v.step);
    assert_string_equal(msg.text, "block 2 is corrupt in memory");
    assert_true(rig_alive(&p));
    assert_int_equal(dlr_slot_state(bad), DLR_SLOT_DEAD);
    assert_int_equal(dlr_slot_state(good), DLR_SLOT_SEALED);
    assert_true(rig_silent(&p, QUIET_MS));
    dlr_slot_unmap(bad);
    dlr_slot_unmap(good);
}

/* As of a page that the kernel has poisoned: to touch it is a SIGBUS. */
static void memory_that_cannot_be_read_is_told_and_ends_nothing(void **state)
{
    struct dlr_slot *slot = rig_slot(&p, RANK, 0);
    struct dlr_local_msg msg;
    char path[128];
    size_t bytes;
    uint32_t crc;
    void *data;

    rig_snapshot(slot, RANK, v, BYTES);
    dlr_format(path, sizeof(path), "%s/r%d.s0", p.dir, RANK);
    assert_int_equal(truncate(path, 2 * DLR_SLOT_BLOCK), 0); /* in the block 1 */
    rig_await(&p, DLR_LOCAL_D_BAD, &msg);
    assert_string_equal(msg.text, "block 1 cannot be read from memory");
    assert_true(rig_alive(&p));
    assert_int_equal(dlr_slot_state(slot), DLR_SLOT_DEAD);
    assert_int_equal(dlr_slot_block(slot, 1, &data, &bytes, &crc), 0);
    memset(data, 1,
           bytes); /* as the one that writes it next does: it is memory again */
    dlr_slot_unmap(slot);
}

/* The state page, and the meta block: nobody else would live to tell it. */
static void a_head_that_cannot_be_read_is_told_and_ends_nothing(void **state)
{
    static const off_t ends[] = {0, DLR_SLOT_PAGE};

    for (unsigned i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
        struct dlr_slot *slot = rig_slot(&p, RANK, i);
        struct dlr_local_msg msg;
        char path[128];

        rig_snapshot(slot, RANK, later, BYTES);
        assert_true(rig_silent(&p, QUIET_MS)); /* it has seen what that is */
        dlr_format(path, sizeof(path), "%s/r%d.s%u", p.dir, RANK, i);
        assert_int_equal(truncate(path, ends[i]), 0);
        rig_await(&p, DLR_LOCAL_D_BAD, &msg);
        assert_string_equal(msg.text, "the head cannot be read from memory");
        assert_int_equal(msg.rank, RANK);
        assert_int_equal(msg.step, later.step);
        assert_true(rig_alive(&p));
        assert_true(dlr_slot_take(slot));
        dlr_slot_set_state(slot, DLR_SLOT_FREE);
        dlr_slot_unmap(slot);
    }
}

/* A worker fills one: the memory is the program's until that is over. */
static void nothing_is_read_while_a_slot_is_filled(void **state)
{
    struct dlr_slot *bad = rig_slot(&p, RANK, 0), *other = rig_slot(&p, RANK, 1);
    struct dlr_local_msg msg;

    assert_true(dlr_slot_take(other));
    rig_snapshot(bad, RANK, v, BYTES);
    flip(bad);
    assert_true(rig_silent(&p, QUIET_MS));
    assert_int_equal(dlr_slot_state(bad), DLR_SLOT_SEALED);
    dlr_slot_set_state(other, DLR_SLOT_FREE);
    rig_await(&p, DLR_LOCAL_D_BAD, &msg);
    dlr_slot_unmap(bad);
    dlr_slot_unmap(other);
}

/* Freed and filled anew while it is read, as a worker does it: never bad. */
static void a_slot_that_is_replaced_meanwhile_is_not_bad(void **state)
{
    struct dlr_slot *slot = rig_slot(&p, RANK, 0);

    for (uint64_t step = 1; step <= 40; step++) {
        rig_snapshot(slot, RANK, (struct dlr_version){ROUND, step}, BYTES);
        dlr_slot_set_state(slot, DLR_SLOT_COMMITTED);
        rig_alive(&p);
        dlr_slot_set_state(slot, DLR_SLOT_FREE);
        assert_true(dlr_slot_take(slot));
    }
    rig_snapshot(slot, RANK, later, BYTES);
    assert_true(rig_silent(&p, QUIET_MS));
    dlr_slot_unmap(slot);
}

/* A rank's partner has the copy that its own node makes its slot of again. */
static void pair_start(struct pair *pair)
{
    pair_up(pair, BYTES, "--scrub=1ms");
    rig_config_own(&pair->to, ROUND, RIG_TOKEN, "[3]", "[3]");
    rig_snapshot(pair->dst[0], RANK, v, BYTES);
    flip(pair->dst[0]);
}

/* The agent marks it when nobody reads it any more: it is no copy before that. */
static void a_ranks_own_comes_again_while_the_bad_one_is_read(void **state)
{
    struct dlr_local_msg msg;
    struct pair pair;

    pair_start(&pair);
    rig_await(&pair.to, DLR_LOCAL_D_BAD, &msg);
    assert_int_equal(dlr_slot_state(pair.dst[0]), DLR_SLOT_SEALED);
    pair_send(&pair, v, 1);
    assert_int_equal(rig_done(&pair.from, 1, NULL, 0), 0);
    rig_await(&pair.to, DLR_LOCAL_D_COPIED, &msg);
    assert_int_equal(msg.rank, RANK);
    assert_int_equal(dlr_slot_state(pair.dst[1]), DLR_SLOT_SEALED);
    assert_true(rig_same(pair.dst[1], pair.src));
    pair_down(&pair);
}

static void a_slot_that_a_worker_has_taken_is_not_written(void **state)
{
    struct pair pair;

    pair_start(&pair);
    for (unsigned k = 0; k < 2; k++) {
        dlr_slot_set_state(pair.dst[k], DLR_SLOT_FREE);
        assert_true(dlr_slot_take(pair.dst[k]));
    }
    pair_send(&pair, v, 1);
    assert_true(rig_silent(&pair.from, 100));
    dlr_slot_set_state(pair.dst[0], DLR_SLOT_FREE); /* what the worker did not need */
    pair_settle(&pair.to);
    assert_int_equal(rig_done(&pair.from, 1, NULL, 0), 0);
    assert_int_equal(dlr_slot_state(pair.dst[1]), DLR_SLOT_OPEN);
    assert_true(rig_same(pair.dst[0], pair.src));
    pair_down(&pair);
}

/* Else the rank would have one slot, and never save again; what its worker fills stays.
 */
static void what_a_data_process_leaves_unfinished_is_free(void **state)
{
    struct pair pair;

    pair_start(&pair);
    dlr_slot_set_state(pair.dst[0], DLR_SLOT_COPYING);
    assert_false(dlr_slot_take(pair.dst[0]));
    assert_true(dlr_slot_take(pair.dst[1]));
    rig_kill(&pair.to);
    rig_start(&pair.to, pair.to.dir, NULL);
    rig_config_own(&pair.to, ROUND, RIG_TOKEN, "[3]", "[3]");
    pair_settle(&pair.to);
    assert_int_equal(dlr_slot_state(pair.dst[0]), DLR_SLOT_DEAD);
    assert_int_equal(dlr_slot_state(pair.dst[1]), DLR_SLOT_OPEN);
    pair_down(&pair);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_bad_block_is_told_and_its_slot_is_dead),
        T(memory_that_cannot_be_read_is_told_and_ends_nothing),
        T(a_head_that_cannot_be_read_is_told_and_ends_nothing),
        T(nothing_is_read_while_a_slot_is_filled),
        T(a_slot_that_is_replaced_meanwhile_is_not_bad),
        cmocka_unit_test(a_ranks_own_comes_again_while_the_bad_one_is_read),
        cmocka_unit_test(a_slot_that_a_worker_has_taken_is_not_written),
        cmocka_unit_test(what_a_data_process_leaves_unfinished_is_free),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
