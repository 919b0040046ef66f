/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/open */
/* What a version holds is told before memory is allocated for it: without a job, ranks
 * one after the other.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/ckpt.h"
#include "common/base/str.h"
#include "tests/support/flip.h"
#include "tests/unit/ckpt/standalone/standalone_dir.h"

#define ROWS 500
#define COLS 300
#define N 3 /* regions of a rank */

/* Opens as rank of world and names an array split by columns, a number and a text. */
struct rank {
    struct dlr_ckpt *ck;
    uint32_t *cols;
    uint64_t seed;
    char note[64];
};

static struct dlr_ckpt *open_as(int rank, int world)
{
    const struct dlr_ckpt_conf conf = {.dir = dir, .rank = rank, .world = world};
    struct dlr_ckpt *ck;

    assert_int_equal(dlr_ckpt_open(&conf, &ck), 0);
    return ck;
}

static void join(struct rank *r, int rank, int world)
{
    const uint64_t width = COLS / (uint64_t)world;
    const struct dlr_ckpt_region cols = {
        .name = "cols",
        .kind = DLR_CKPT_SHARD,
        .dtype = "u32",
        .item_size = 4,
        .ndim = 2,
        .global_shape = {ROWS, COLS},
        .offset = {0, width * (uint64_t)rank},
        .local_shape = {ROWS, width},
        .addr = r->cols = calloc(ROWS * width, 4),
    };

    r->ck = open_as(rank, world);
    assert_int_equal(dlr_ckpt_add(r->ck, &cols), 0);
    dlr_ckpt_add_array(r->ck, "seed", DLR_CKPT_LOCAL, "u64", 8, &r->seed, 1);
    dlr_ckpt_add_array(r->ck, "note", DLR_CKPT_BLOB, "u8", 1, r->note, sizeof(r->note));
}

static void leave(struct rank *r)
{
    dlr_ckpt_close(r->ck);
    free(r->cols);
}

/* Each rank saves step, its note as long as the step says. */
static void save(int world, uint64_t step)
{
    for (int k = 0; k < world; k++) {
        struct rank r;
        uint64_t old;

        join(&r, k, world);
        dlr_ckpt_restore(r.ck, &old);
        for (uint64_t i = 0; i < (uint64_t)(ROWS * COLS / world); i++)
            r.cols[i] = (uint32_t)(i * 31 + step + (uint64_t)k);
        r.seed = 1000 + (uint64_t)k;
        memset(r.note, 'a' + k, sizeof(r.note));
        dlr_ckpt_blob_size(r.ck, "note", step);
        assert_int_equal(dlr_ckpt_begin(r.ck, step, NULL), 1);
        assert_int_equal(dlr_ckpt_fence(r.ck, NULL), 0);
        leave(&r);
    }
}

static const struct dlr_ckpt_region *find(const struct dlr_ckpt_region *told,
                                          const char *name)
{
    for (unsigned i = 0; i < N; i++)
        if (dlr_streq(told[i].name, name))
            return &told[i];
    fail_msg("no region '%s'", name);
    return NULL;
}

/* open, list, the caller allocates, restore: nothing is named before. */
static void a_program_allocates_what_it_is_told(void **state)
{
    struct dlr_ckpt_region told[N];
    struct dlr_ckpt_version version;
    uint64_t bytes[N], step;
    struct dlr_ckpt *ck;

    save(2, 5);
    ck = open_as(1, 2);
    assert_int_equal(dlr_ckpt_list(ck, &version, 1), 1);
    assert_int_equal(dlr_ckpt_regions(ck, 1, NULL, NULL, 0), N);
    assert_int_equal(dlr_ckpt_regions(ck, 1, told, bytes, N), N);
    for (unsigned i = 0; i < N; i++) {
        assert_null(told[i].addr);
        told[i].addr = calloc(1, bytes[i]);
        if (told[i].kind == DLR_CKPT_BLOB)
            told[i].global_shape[0] = told[i].local_shape[0] = bytes[i];
        assert_int_equal(dlr_ckpt_add(ck, &told[i]), 0);
    }
    assert_int_equal(dlr_ckpt_restore(ck, &step), 1);
    assert_int_equal(step, 5);
    assert_int_equal(((uint32_t *)find(told, "cols")->addr)[ROWS * COLS / 2 - 1],
                     (ROWS * COLS / 2 - 1) * 31 + 5 + 1);
    assert_int_equal(*(uint64_t *)find(told, "seed")->addr, 1001);
    assert_memory_equal(find(told, "note")->addr, "bbbbb", 5);
    dlr_ckpt_close(ck);
    for (unsigned i = 0; i < N; i++)
        free(told[i].addr);
}

static void a_region_is_told_as_it_was_named(void **state)
{
    struct dlr_ckpt_region told[N];
    const struct dlr_ckpt_region *r;
    struct dlr_ckpt *ck;
    uint64_t bytes[N];

    save(3, 7);
    ck = open_as(0, 1); /* another number of ranks: boxes of then */
    assert_int_equal(dlr_ckpt_regions(ck, 2, told, bytes, N), N);
    r = find(told, "cols");
    assert_int_equal(r->kind, DLR_CKPT_SHARD);
    assert_string_equal(r->dtype, "u32");
    assert_int_equal(r->item_size, 4);
    assert_int_equal(r->ndim, 2);
    assert_int_equal(r->global_shape[1], COLS);
    assert_int_equal(r->offset[1], 200);
    assert_int_equal(r->local_shape[1], 100);
    assert_int_equal(r->stride[1], 0);
    assert_int_equal(bytes[r - told], ROWS * 100 * 4);
    r = find(told, "seed");
    assert_int_equal(r->kind, DLR_CKPT_LOCAL);
    assert_string_equal(r->dtype, "u64");
    r = find(told, "note");
    assert_int_equal(r->local_shape[0], 64); /* the room it had */
    assert_int_equal(bytes[r - told], 7);
    assert_int_equal(dlr_ckpt_regions(ck, 3, told, bytes, N), -ENOENT);
    assert_string_equal(dlr_ckpt_error(ck), "the version has ranks 0 to 2, not 3");
    dlr_ckpt_close(ck);
}

static void nothing_is_written_beyond_what_there_is_room_for(void **state)
{
    struct dlr_ckpt_region told[N];
    uint64_t bytes[N] = {0, 77, 77};
    struct dlr_ckpt *ck;

    save(1, 7);
    memset(told, 0x55, sizeof(told));
    ck = open_as(0, 1);
    assert_int_equal(dlr_ckpt_regions(ck, 0, told, bytes, 1), N);
    assert_true(bytes[0] > 0 && bytes[1] == 77);
    assert_int_equal(told[1].ndim, 0x55555555);
    assert_int_equal(dlr_ckpt_regions(ck, 0, told, NULL, UINT32_MAX), N);
    dlr_ckpt_close(ck);
}

/* Step 2 looks well until its data is read. */
static void what_is_told_is_what_is_restored(void **state)
{
    struct dlr_ckpt_region told;
    uint64_t bytes, step;
    struct rank r;
    char note[64];

    save(1, 1);
    save(1, 2);
    flip_bit(dir, "r0-2.safetensors", 100000);
    join(&r, 0, 1);
    assert_int_equal(dlr_ckpt_peek(r.ck, 0, "note", note, 64, &bytes, &told), 0);
    assert_int_equal(bytes, 1);
    assert_int_equal(dlr_ckpt_regions(r.ck, 0, NULL, NULL, 0), N);
    assert_int_equal(dlr_ckpt_restore(r.ck, &step), 1);
    assert_int_equal(step, 1);
    leave(&r);
}

static void the_answer_is_there_until_the_first_begin(void **state)
{
    struct rank r;
    uint64_t step;

    join(&r, 0, 1);
    assert_int_equal(dlr_ckpt_regions(r.ck, 0, NULL, NULL, 0), -ENOENT);
    assert_string_equal(dlr_ckpt_error(r.ck), "there is nothing to restore");
    leave(&r);
    save(1, 1);
    join(&r, 0, 1);
    assert_int_equal(dlr_ckpt_restore(r.ck, &step), 1);
    assert_int_equal(dlr_ckpt_regions(r.ck, 0, NULL, NULL, 0), N);
    dlr_ckpt_begin(r.ck, 2, NULL);
    assert_int_equal(dlr_ckpt_regions(r.ck, 0, NULL, NULL, 0), -ENOENT);
    leave(&r);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, standalone_setup, standalone_teardown)
    const struct CMUnitTest tests[] = {
        T(a_program_allocates_what_it_is_told),
        T(a_region_is_told_as_it_was_named),
        T(nothing_is_written_beyond_what_there_is_room_for),
        T(what_is_told_is_what_is_restored),
        T(the_answer_is_there_until_the_first_begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
