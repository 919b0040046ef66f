/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/stream */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "ckpt/base/crc32c.h"
#include "ckpt/slot/meta.h"
#include "ckpt/slot/store.h"
#include "ckpt/slot/write.h"
#include "ckpt/stream/slot_table.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "tests/support/flip.h"

#define KEY 99

static unsigned char data[5000];
static char dir[64];

/* A slot file with a snapshot in the state asked for. */
static void put(const char *name, int32_t rank, uint64_t key, uint64_t step,
                enum dlr_slot_state state)
{
    const struct dlr_ckpt_region region = {"d", DLR_CKPT_LOCAL, "u8", 1,   1, {5000},
                                           {0}, {5000},         {0},  data};
    const struct dlr_slot_owner owner = {key, rank, 8};
    struct dlr_slot_plan *plan;
    struct dlr_slot *slot;
    int fd = open(dir, O_RDONLY | O_DIRECTORY);

    assert_int_equal(dlr_slot_plan_new(&region, 1, &owner, &plan, NULL), 0);
    assert_int_equal(dlr_slot_create(fd, name, dlr_slot_plan_bytes(plan), &slot, NULL),
                     0);
    assert_int_equal(dlr_slot_begin(slot, plan, (struct dlr_version){1, step}, NULL),
                     0);
    memset(dlr_slot_data(slot, plan, 0), 7, dlr_slot_plan_data(plan));
    dlr_slot_set_crc(
        slot, plan, 0,
        dlr_crc32c(0, dlr_slot_data(slot, plan, 0), dlr_slot_plan_data(plan)));
    dlr_slot_seal(slot, plan);
    dlr_slot_set_state(slot, state);
    dlr_slot_unmap(slot);
    dlr_slot_plan_free(plan);
    close(fd);
}

static int setup(void **state)
{
    dlr_format(dir, sizeof(dir), "/dev/shm/dlr-test-store-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    return dlr_store_remove(dir, NULL);
}

static void lists_whole_snapshots_of_the_key_in_order(void **state)
{
    DLR_AUTO_FREE struct dlr_store_item *items = NULL;
    unsigned bad;

    put("r5.s1", 5, KEY, 10, DLR_SLOT_COMMITTED);
    put("r5.s0", 5, KEY, 11, DLR_SLOT_SEALED);
    put("r0.s0", 0, KEY, 11, DLR_SLOT_SEALED);
    put("r1.s0", 1, KEY, 11, DLR_SLOT_OPEN);
    put("r2.s0", 2, KEY, 11, DLR_SLOT_DEAD);
    put("r3.s0", 3, KEY + 1, 11, DLR_SLOT_SEALED);
    put("r4.s0.tmp", 4, KEY, 11, DLR_SLOT_SEALED);
    put("r06.s0", 6, KEY, 11, DLR_SLOT_SEALED);
    put("r7.s8", 7, KEY, 11, DLR_SLOT_SEALED); /* brought to be read, not to be kept */
    assert_int_equal(dlr_store_list(dir, KEY, true, &items, &bad, NULL), 3);
    assert_int_equal(bad, 0);
    assert_int_equal(items[0].rank, 0);
    assert_int_equal(items[1].rank, 5);
    assert_int_equal(items[1].slot, 0);
    assert_int_equal(items[2].slot, 1);
    assert_int_equal(items[2].state, DLR_SLOT_COMMITTED);
    assert_int_equal(items[2].info.version.step, 10);
}

static void the_memory_of_all_slots_is_counted(void **state)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY);
    uint64_t one;

    assert_int_equal(dlr_store_used(fd), 0);
    put("r5.s0", 5, KEY, 10, DLR_SLOT_OPEN);
    one = dlr_store_used(fd);
    assert_in_range(one, sizeof(data), UINT32_MAX);
    put("r5.s8", 5, KEY, 10, DLR_SLOT_SEALED);
    assert_int_equal(dlr_store_used(fd), 2 * one);
    close(fd);
}

static void what_is_corrupt_is_left_out_and_counted(void **state)
{
    DLR_AUTO_FREE struct dlr_store_item *items = NULL;
    unsigned bad;

    put("r0.s0", 0, KEY, 11, DLR_SLOT_SEALED);
    put("r1.s0", 1, KEY, 11, DLR_SLOT_SEALED);
    put("r2.s0", 2, KEY, 11, DLR_SLOT_SEALED);
    put("r3.s0", 4, KEY, 11, DLR_SLOT_SEALED); /* another rank's under this name */
    flip_bit(dir, "r1.s0", 8192 + 100);        /* data */
    flip_bit(dir, "r2.s0", 4096 + 60);         /* head */
    assert_int_equal(dlr_store_list(dir, KEY, true, &items, &bad, NULL), 1);
    assert_int_equal(bad, 3);
    assert_int_equal(items[0].rank, 0);
}

static void without_verify_only_the_head_is_looked_at(void **state)
{
    DLR_AUTO_FREE struct dlr_store_item *items = NULL;
    unsigned bad;

    put("r1.s0", 1, KEY, 11, DLR_SLOT_SEALED);
    flip_bit(dir, "r1.s0", 8192 + 100);
    assert_int_equal(dlr_store_list(dir, KEY, false, &items, &bad, NULL), 1);
}

static void a_missing_directory_is_an_empty_store(void **state)
{
    struct dlr_store_item *items = NULL;

    assert_int_equal(dlr_store_list("/nonexistent/dir", KEY, true, &items, NULL, NULL),
                     0);
    assert_null(items);
    assert_int_equal(dlr_store_remove("/nonexistent/dir", NULL), 0);
}

static void removal_does_not_follow_links(void **state)
{
    char outside[] = "/dev/shm/dlr-test-outside-XXXXXX", path[128];
    int fd = mkstemp(outside);

    close(fd);
    put("r0.s0", 0, KEY, 1, DLR_SLOT_SEALED);
    dlr_format(path, sizeof(path), "%s/link", dir);
    assert_int_equal(symlink(outside, path), 0);
    assert_int_equal(dlr_store_remove(dir, NULL), 0);
    assert_int_equal(access(dir, F_OK), -1);
    assert_int_equal(access(outside, F_OK), 0);

    assert_int_equal(symlink("/dev/shm", dir), 0);
    assert_true(dlr_store_remove(dir, NULL) < 0); /* the directory itself is a link */
    unlink(dir);
    unlink(outside);
}

static void let_go(struct dlr_slot_table *h, int fd)
{
    for (struct dlr_slot_table_slot *held = h->first, *next; held; held = next) {
        next = held->next;
        dlr_slot_unmap(held->slot);
        close(held->fd);
        free(held);
    }
    close(fd);
}

/* Its sender had not heard the word yet: the slot would be nobody's for ever. */
static void a_copy_that_comes_after_its_abort_holds_no_slot(void **state)
{
    const struct dlr_version v10 = {1, 10}, v11 = {1, 11}, v12 = {1, 12};
    int fd = open(dir, O_RDONLY | O_DIRECTORY);
    struct dlr_slot_table h = {0};

    put("r3.s0", 3, KEY, 10, DLR_SLOT_COMMITTED);
    dlr_slot_table_abort(&h, v11);
    dlr_slot_table_abort(&h, v10); /* said again to a process that was started again */
    put("r3.s1", 3, KEY, 11, DLR_SLOT_SEALED);
    assert_true(dlr_slot_table_scan(&h, fd, NULL) >= 0);
    assert_ptr_equal(dlr_slot_table_choose(&h, 3), dlr_slot_table_find(&h, 3, 1));
    put("r4.s0", 4, KEY, 12, DLR_SLOT_SEALED);
    assert_true(dlr_slot_table_scan(&h, fd, NULL) >= 0);
    assert_null(dlr_slot_table_choose(&h, 4));
    dlr_slot_table_abort(&h, v12);
    assert_non_null(dlr_slot_table_choose(&h, 4));
    let_go(&h, fd);
}

static void a_commit_frees_older_ones_but_what_is_kept(void **state)
{
    const struct dlr_version v10 = {1, 10}, v12 = {1, 12};
    int fd = open(dir, O_RDONLY | O_DIRECTORY);
    struct dlr_slot_table h = {0};

    put("r3.s0", 3, KEY, 10, DLR_SLOT_COMMITTED);
    put("r3.s1", 3, KEY, 11, DLR_SLOT_COMMITTED);
    put("r3.s2", 3, KEY, 12, DLR_SLOT_SEALED);
    put("r4.s0", 4, KEY, 10,
        DLR_SLOT_COMMITTED); /* no slot beside two: it has to save */
    put("r4.s1", 4, KEY, 12, DLR_SLOT_SEALED);
    assert_true(dlr_slot_table_scan(&h, fd, NULL) >= 0);
    dlr_slot_table_commit(&h, v12, &v10);
    assert_int_equal(dlr_slot_state(dlr_slot_table_find(&h, 3, 0)->slot),
                     DLR_SLOT_COMMITTED);
    assert_int_equal(dlr_slot_state(dlr_slot_table_find(&h, 3, 1)->slot),
                     DLR_SLOT_FREE);
    assert_int_equal(dlr_slot_state(dlr_slot_table_find(&h, 3, 2)->slot),
                     DLR_SLOT_COMMITTED);
    assert_int_equal(dlr_slot_state(dlr_slot_table_find(&h, 4, 0)->slot),
                     DLR_SLOT_FREE);
    assert_false(dlr_slot_table_is_over(&h, v10)); /* it may come again */
    dlr_slot_table_commit(&h, v12, NULL);          /* another is kept, or none */
    assert_true(dlr_slot_table_is_over(&h, v10));
    assert_int_equal(dlr_slot_state(dlr_slot_table_find(&h, 3, 0)->slot),
                     DLR_SLOT_FREE);
    let_go(&h, fd);
}

/* The file grew while it was read: the reader goes on with what it has. */
static void a_slot_in_use_grows_when_it_is_let_go(void **state)
{
    const struct dlr_version v10 = {1, 10};
    int fd = open(dir, O_RDONLY | O_DIRECTORY);
    struct dlr_slot_table h = {0};
    struct dlr_slot *slot, *before;
    struct dlr_slot_table_slot *held;
    uint64_t room;

    put("r3.s0", 3, KEY, 10, DLR_SLOT_COMMITTED);
    assert_true(dlr_slot_table_scan(&h, fd, NULL) >= 0);
    held = dlr_slot_table_find(&h, 3, 0);
    before = held->slot;
    room = dlr_slot_table_room(&h, 3);
    dlr_slot_table_read(held);
    assert_int_equal(dlr_slot_create(fd, "r3.s0", room + 8192, &slot, NULL), 0);
    assert_int_equal(dlr_slot_table_add(&h, 3, 0, slot), 0);
    assert_ptr_equal(held->slot, before);
    assert_int_equal(dlr_slot_table_room(&h, 3), room + 8192);
    dlr_slot_table_read_done(held);
    assert_ptr_equal(held->slot, slot);
    assert_int_equal(held->fd, dlr_slot_fd(slot));
    assert_ptr_equal(dlr_slot_table_version(&h, 3, v10), held);
    assert_int_equal(dlr_slot_verify(held->slot, NULL), 0);
    dlr_slot_unmap(slot);
    free(held);
    close(fd);
}

/* Nobody can say what it holds, so that no decision would ever name it. */
static void a_slot_with_a_damaged_head_is_free_at_the_next_decision(void **state)
{
    const struct dlr_version restored = {1, 10};
    struct dlr_slot_table h = {0};
    int fd = open(dir, O_RDONLY | O_DIRECTORY);

    for (unsigned drop = 0; drop < 2; drop++) {
        put("r1.s0", 1, KEY, 10, DLR_SLOT_COMMITTED);
        put("r1.s1", 1, KEY, 11, DLR_SLOT_COMMITTED);
        assert_true(dlr_slot_table_scan(&h, fd, NULL) >= 0);
        flip_bit(dir, "r1.s0", DLR_SLOT_PAGE + 57);
        assert_null(dlr_slot_table_choose(&h, 1));
        if (drop)
            dlr_slot_table_drop(&h, &restored);
        else
            dlr_slot_table_commit(&h, (struct dlr_version){1, 11}, NULL);
        assert_int_equal(dlr_slot_state(dlr_slot_table_find(&h, 1, 0)->slot),
                         DLR_SLOT_DEAD);
        flip_bit(dir, "r1.s0", DLR_SLOT_PAGE + 57);
    }
    for (struct dlr_slot_table_slot *held = h.first, *next; held; held = next) {
        next = held->next;
        dlr_slot_unmap(held->slot);
        close(held->fd);
        free(held);
    }
    close(fd);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(lists_whole_snapshots_of_the_key_in_order),
        T(the_memory_of_all_slots_is_counted),
        T(what_is_corrupt_is_left_out_and_counted),
        T(without_verify_only_the_head_is_looked_at),
        T(a_missing_directory_is_an_empty_store),
        T(removal_does_not_follow_links),
        T(a_commit_frees_older_ones_but_what_is_kept),
        T(a_slot_in_use_grows_when_it_is_let_go),
        T(a_copy_that_comes_after_its_abort_holds_no_slot),
        T(a_slot_with_a_damaged_head_is_free_at_the_next_decision),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
