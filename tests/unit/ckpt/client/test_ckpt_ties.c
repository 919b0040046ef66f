/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/open */
/* One tensor under several names, and views of larger ones, saved and restored without
 * a job.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/ckpt.h"
#include "common/base/str.h"
#include "tests/unit/ckpt/standalone/standalone_dir.h"

#define N 1000

struct rank {
    struct dlr_ckpt *ck;
    uint32_t *data;
};

static void leave(struct rank *r)
{
    dlr_ckpt_close(r->ck);
    free(r->data);
}

static void tie_to(struct rank *r, const char *first, const char *second)
{
    const struct dlr_ckpt_conf conf = {.dir = dir, .world = 1, .every = 1};

    r->data = calloc(N, sizeof(*r->data));
    assert_int_equal(dlr_ckpt_open(&conf, &r->ck), 0);
    assert_int_equal(
        dlr_ckpt_add_array(r->ck, first, DLR_CKPT_SHARD, "u32", 4, r->data, N), 0);
    assert_int_equal(
        dlr_ckpt_add_array(r->ck, second, DLR_CKPT_SHARD, "u32", 4, r->data, N), 0);
    assert_int_equal(
        dlr_ckpt_add_array(r->ck, second, DLR_CKPT_SHARD, "u32", 4, r->data, N),
        -EEXIST);
}

static void tied_weights_are_stored_once_and_found_by_either_name(void **state)
{
    struct dlr_ckpt_version v;
    struct rank r = {0};
    uint64_t step = 0;

    tie_to(&r, "embedding", "head");
    /* What only begins at the same place is another region. */
    assert_int_equal(
        dlr_ckpt_add_array(r.ck, "half", DLR_CKPT_SHARD, "u32", 4, r.data, N / 2), 0);
    for (unsigned i = 0; i < N; i++)
        r.data[i] = i * 7;
    assert_int_equal(dlr_ckpt_begin(r.ck, 1, NULL), 1);
    assert_int_equal(dlr_ckpt_fence(r.ck, NULL), 0);
    leave(&r);

    tie_to(&r, "head", "embedding"); /* the other way round */
    assert_int_equal(dlr_ckpt_list(r.ck, &v, 1), 1);
    assert_true(v.bytes < 2 * N * sizeof(*r.data));
    assert_int_equal(dlr_ckpt_allow(r.ck, DLR_CKPT_LEFTOVER), 0); /* "half" */
    assert_int_equal(dlr_ckpt_restore(r.ck, &step), 1);
    assert_int_equal(step, 1);
    for (unsigned i = 0; i < N; i++)
        if (r.data[i] != i * 7)
            fail_msg("item %u is wrong", i);
    leave(&r);
}

/* Columns 2..4 of a matrix, stored as the rows of their transposition. */
static struct dlr_ckpt_region columns(uint32_t (*matrix)[7])
{
    return (struct dlr_ckpt_region){.name = "columns",
                                    .kind = DLR_CKPT_SHARD,
                                    .dtype = "u32",
                                    .item_size = 4,
                                    .ndim = 2,
                                    .global_shape = {3, N},
                                    .local_shape = {3, N},
                                    .stride = {4, sizeof(*matrix)},
                                    .addr = &matrix[0][2]};
}

static void a_view_is_saved_and_only_its_items_are_put_back(void **state)
{
    const struct dlr_ckpt_conf conf = {.dir = dir, .world = 1, .every = 1};
    static uint32_t matrix[N][7], flat[3][N];
    struct dlr_ckpt_region r = columns(matrix);
    struct dlr_ckpt *ck;
    uint64_t step;

    for (unsigned i = 0; i < N * 7; i++)
        matrix[i / 7][i % 7] = i;
    assert_int_equal(dlr_ckpt_open(&conf, &ck), 0);
    assert_int_equal(dlr_ckpt_add(ck, &r), 0);
    assert_int_equal(dlr_ckpt_begin(ck, 1, NULL), 1);
    assert_int_equal(dlr_ckpt_fence(ck, NULL), 0);
    dlr_ckpt_close(ck);

    memset(matrix, 0xff, sizeof(matrix));
    assert_int_equal(dlr_ckpt_open(&conf, &ck), 0);
    assert_int_equal(dlr_ckpt_add(ck, &r), 0);
    assert_int_equal(dlr_ckpt_restore(ck, &step), 1);
    for (unsigned i = 0; i < N * 7; i++)
        assert_int_equal(matrix[i / 7][i % 7],
                         i % 7 >= 2 && i % 7 < 5 ? i : UINT32_MAX);
    dlr_ckpt_close(ck);

    /* What a snapshot holds does not depend on where it lay. */
    memset(r.stride, 0, sizeof(r.stride));
    r.addr = flat;
    assert_int_equal(dlr_ckpt_open(&conf, &ck), 0);
    assert_int_equal(dlr_ckpt_add(ck, &r), 0);
    assert_int_equal(dlr_ckpt_restore(ck, &step), 1);
    for (unsigned i = 0; i < 3 * N; i++)
        assert_int_equal(flat[i / N][i % N], i % N * 7 + 2 + i / N);
    dlr_ckpt_close(ck);
}

static void views_that_cannot_be_are_refused_and_audited_when_they_change(void **state)
{
    const struct dlr_ckpt_conf conf = {.dir = dir, .world = 1, .every = 1};
    static uint32_t matrix[N][7];
    struct dlr_ckpt_region r = columns(matrix);
    struct dlr_ckpt *ck;

    setenv("DLROVER_CKPT_AUDIT", "1", 1);
    assert_int_equal(dlr_ckpt_open(&conf, &ck), 0);
    unsetenv("DLROVER_CKPT_AUDIT");
    r.stride[0] = 2;
    assert_int_equal(dlr_ckpt_add(ck, &r), -EINVAL);
    assert_string_equal(dlr_ckpt_error(ck),
                        "region 'columns': its strides make items overlap");
    r = columns(matrix);
    r.kind = DLR_CKPT_BLOB;
    assert_int_equal(dlr_ckpt_add(ck, &r), -EINVAL);
    assert_string_equal(dlr_ckpt_error(ck), "blob 'columns' must be contiguous");
    r.kind = DLR_CKPT_SHARD;
    assert_int_equal(dlr_ckpt_add(ck, &r), 0);
    assert_int_equal(dlr_ckpt_begin(ck, 1, NULL), 1);
    matrix[N - 1][1] = 9; /* not its own */
    assert_int_equal(dlr_ckpt_fence(ck, NULL), 0);
    assert_int_equal(dlr_ckpt_begin(ck, 2, NULL), 1);
    matrix[N - 1][4] = 9;
    assert_int_equal(dlr_ckpt_fence(ck, NULL), -EBADMSG);
    assert_non_null(strstr(dlr_ckpt_error(ck), "region 'columns' (1 in all) changed"));
    dlr_ckpt_close(ck);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, standalone_setup, standalone_teardown)
    const struct CMUnitTest tests[] = {
        T(tied_weights_are_stored_once_and_found_by_either_name),
        T(a_view_is_saved_and_only_its_items_are_put_back),
        T(views_that_cannot_be_are_refused_and_audited_when_they_change),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
