/* SPDX-License-Identifier: Apache-2.0 */
/* One tensor under several names, saved and restored without a job. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ckpt/ckpt.h"
#include "common/str.h"
#include "tests/alone_dir.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            tied_weights_are_stored_once_and_found_by_either_name, alone_setup,
            alone_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
