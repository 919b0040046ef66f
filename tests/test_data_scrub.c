/* SPDX-License-Identifier: Apache-2.0 */
/* What lies in memory goes bad: it is found, told, and no copy any more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/slot_meta.h"
#include "common/str.h"
#include "tests/data_rig.h"

#define RANK 3
#define BYTES (5u << 20)
#define ROUND 1
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

    assert_int_equal(dlr_slot_chunk(slot, 2, &data, &bytes, &crc), 0);
    ((unsigned char *)data)[bytes / 2] ^= 0x10;
}

static void a_bad_chunk_is_told_and_its_slot_is_dead(void **state)
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
    assert_string_equal(msg.text, "chunk 2 is corrupt in memory");
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

    rig_snapshot(slot, RANK, v, BYTES);
    dlr_format(path, sizeof(path), "%s/r%d.s0", p.dir, RANK);
    assert_int_equal(truncate(path, 2 * DLR_SLOT_CHUNK), 0); /* in the chunk 1 */
    rig_await(&p, DLR_LOCAL_D_BAD, &msg);
    assert_string_equal(msg.text, "chunk 1 cannot be read from memory");
    assert_true(rig_alive(&p));
    assert_int_equal(dlr_slot_state(slot), DLR_SLOT_DEAD);
    dlr_slot_unmap(slot);
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

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_bad_chunk_is_told_and_its_slot_is_dead),
        T(memory_that_cannot_be_read_is_told_and_ends_nothing),
        T(nothing_is_read_while_a_slot_is_filled),
        T(a_slot_that_is_replaced_meanwhile_is_not_bad),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
