/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/open */
/* What <dlrover/ckpt.h> says of single calls: of wrong ones, of a forked child's, of
 * those that come too early.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "tests/support/played_agent.h"
#include "tests/unit/ckpt/standalone/standalone_dir.h"

#define LONG_NAME                                                                      \
    "0123456789012345678901234567890123456789012345678901234567890123"                 \
    "0123456789012345678901234567890123456789012345678901234567890123"                 \
    "0123456789012345678901234567890123456789012345678901234567890123"                 \
    "012345678901234567890123456789012345678901234567890123456789012"

/* --- a forked child --------------------------------------------------------------- */

/* How many of the child's calls were not as they should be. */
static int child(struct dlr_ckpt *ck)
{
    struct dlr_ckpt_version version;
    uint64_t n;
    int data = 0;
    int nothing = (dlr_ckpt_begin(ck, 7, NULL) != 0) + (dlr_ckpt_fence(ck, NULL) != 0) +
                  (dlr_ckpt_flush(ck) != 0) + (dlr_ckpt_progress(ck, 8) != 0);
    int refused =
        (dlr_ckpt_add_array(ck, "x", DLR_CKPT_LOCAL, "i32", 4, &data, 1) != -EBUSY) +
        (dlr_ckpt_clear(ck) != -EBUSY) + (dlr_ckpt_list(ck, &version, 1) != -EBUSY) +
        (dlr_ckpt_regions(ck, 0, NULL, NULL, 0) != -EBUSY) +
        (dlr_ckpt_peek(ck, 0, "x", NULL, 0, &n, NULL) != -EBUSY) +
        (dlr_ckpt_restore(ck, &n) != -EBUSY) + (dlr_ckpt_go_on(ck, 1) != -EBUSY) +
        (dlr_ckpt_mark_bad(ck, 1) != -EBUSY);

    refused += !dlr_streq(dlr_ckpt_error(ck), "the checkpoint is the parent process's");
    dlr_ckpt_close(ck);
    return nothing + refused;
}

static void fork_a_child(struct dlr_ckpt *ck)
{
    int status;
    pid_t pid = fork();

    if (pid == 0)
        _exit(child(ck));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* Before the first begin, and while saves are ordered. */
static void a_forked_child_leaves_the_agent_to_its_parent(void **state)
{
    struct played *f = *state;
    uint64_t step;

    played_join(f);
    fork_a_child(f->ck);
    assert_int_equal(dlr_ckpt_restore(f->ck, &step), 0);
    played_slots(f); /* nothing else came before */
    assert_int_equal(dlr_ckpt_begin(f->ck, 1, NULL), 0);
    played_order(f, 7, 0);
    fork_a_child(f->ck);
    assert_int_equal(atomic_load(&f->agent.page->begun_step), 1);
    step = played_save_from(f, 2, 0);
    played_expect(f, DLR_LOCAL_SEALED);
    assert_int_equal(f->agent.msg.step, step);
    dlr_ckpt_close(f->ck);
    played_expect(f, DLR_LOCAL_CLOSE);
}

/* --- alone ------------------------------------------------------------------------ */

static struct dlr_ckpt *open_one(unsigned fence_ms)
{
    const struct dlr_ckpt_conf conf = {.dir = dir, .world = 1, .fence_ms = fence_ms};
    struct dlr_ckpt *ck;

    assert_int_equal(dlr_ckpt_open(&conf, &ck), 0);
    return ck;
}

static void a_forked_child_leaves_files_to_its_parent(void **state)
{
    struct dlr_ckpt *ck = open_one(0);
    uint64_t step, data = 1;

    dlr_ckpt_add_array(ck, "data", DLR_CKPT_SHARD, "u64", 8, &data, 1);
    fork_a_child(ck);
    assert_int_equal(dlr_ckpt_restore(ck, &step), 0);
    assert_int_equal(dlr_ckpt_begin(ck, 1, NULL), 1);
    fork_a_child(ck);
    assert_int_equal(dlr_ckpt_flush(ck), 0);
    assert_int_equal(dlr_ckpt_begin(ck, 2, NULL), 1);
    dlr_ckpt_close(ck);
    ck = open_one(0);
    dlr_ckpt_add_array(ck, "data", DLR_CKPT_SHARD, "u64", 8, &data, 1);
    assert_int_equal(dlr_ckpt_restore(ck, &step), 1);
    assert_int_equal(step, 2);
    dlr_ckpt_close(ck);
}

static uint64_t memory[8];

static const struct {
    struct dlr_ckpt_region region;
    const char *error; /* NULL: taken */
} boxes[] = {
    {{.name = "one item", .dtype = "u64", .item_size = 8, .addr = memory}, NULL},
    {{.name = LONG_NAME, .dtype = "u64", .item_size = 8, .addr = memory + 1}, NULL},
    {{.name = LONG_NAME "0", .dtype = "u64", .item_size = 8, .addr = memory},
     "a region's name must have 1 to 255 bytes"},
    {{.name = "a", .dtype = "0123456789abcde", .item_size = 8, .addr = memory + 2},
     NULL},
    {{.name = "b", .dtype = "0123456789abcdef", .item_size = 8, .addr = memory},
     "region 'b': dtype must have at most 15 bytes"},
    {{.name = "c", .dtype = "u64", .item_size = 8, .ndim = 9, .addr = memory},
     "region 'c': 9 dimensions, at most 8"},
    {{.name = "d",
      .dtype = "u64",
      .item_size = 8,
      .ndim = 1,
      .global_shape = {8},
      .offset = {5},
      .local_shape = {4},
      .addr = memory},
     "region 'd': the box leaves the array in dimension 0"},
    {{.name = "e",
      .kind = DLR_CKPT_BLOB,
      .dtype = "u64",
      .item_size = 8,
      .ndim = 1,
      .global_shape = {4},
      .local_shape = {4},
      .stride = {16},
      .addr = memory},
     "blob 'e' must be contiguous"},
    {{.name = "f",
      .dtype = "u64",
      .item_size = 8,
      .ndim = 2,
      .global_shape = {2, 2},
      .local_shape = {2, 2},
      .stride = {8, 8},
      .addr = memory},
     "region 'f': its strides make items overlap"},
};

static void a_malformed_region_is_refused_by_name(void **state)
{
    struct dlr_ckpt *ck = open_one(0);

    for (unsigned i = 0; i < sizeof(boxes) / sizeof(*boxes); i++) {
        print_message("%.20s\n", boxes[i].region.name);
        assert_int_equal(dlr_ckpt_add(ck, &boxes[i].region),
                         boxes[i].error ? -EINVAL : 0);
        if (boxes[i].error)
            assert_string_equal(dlr_ckpt_error(ck), boxes[i].error);
    }
    dlr_ckpt_close(ck);
}

static void threads_are_64_at_most(void **state)
{
    struct dlr_ckpt_conf conf = {.dir = dir, .world = 1, .threads = 65};
    struct dlr_ckpt *ck;

    assert_int_equal(dlr_ckpt_open(&conf, &ck), -EINVAL);
    assert_string_equal(dlr_ckpt_error(NULL),
                        "every must be 1 or more, threads 0 to 64");
    conf.threads = 64;
    assert_int_equal(dlr_ckpt_open(&conf, &ck), 0);
    assert_string_equal(dlr_ckpt_error(ck), "no error");
    dlr_ckpt_close(ck);
    dlr_ckpt_close(NULL);
}

static void calls_out_of_order_are_refused(void **state)
{
    const char *name;
    struct dlr_ckpt *ck = open_one(0);
    struct dlr_ckpt_stats stats;
    uint64_t step, n;

    dlr_ckpt_add_array(ck, "data", DLR_CKPT_SHARD, "u64", 8, memory, 8);
    assert_int_equal(dlr_ckpt_due(ck, 1), 1); /* the first always is */
    assert_int_equal(dlr_ckpt_go_on(ck, 1), -ENOENT);
    assert_int_equal(dlr_ckpt_peek(ck, 0, "data", NULL, 0, &n, NULL), -ENOENT);
    assert_int_equal(dlr_ckpt_unmatched(ck, 3, &name, 1), -EINVAL);
    assert_int_equal(dlr_ckpt_begin(ck, 1, NULL), 1);
    assert_int_equal(dlr_ckpt_flush(ck), 0);
    assert_int_equal(dlr_ckpt_go_on(ck, 1), -EBUSY);
    assert_int_equal(dlr_ckpt_restore(ck, &step), -EBUSY);
    assert_int_equal(dlr_ckpt_clear(ck), 0);
    assert_int_equal(dlr_ckpt_due(ck, 1), 1); /* and the first after it */
    dlr_ckpt_close(ck);

    ck = open_one(0);
    dlr_ckpt_add_array(ck, "data", DLR_CKPT_SHARD, "u64", 8, memory, 8);
    dlr_ckpt_stats(ck, &stats);
    assert_int_equal(stats.load_ns, 0);
    assert_int_equal(dlr_ckpt_restore(ck, &step), 1);
    dlr_ckpt_stats(ck, &stats);
    assert_true(stats.load_ns > 0);
    dlr_ckpt_close(ck);
}

/* 64 MiB are not copied in a millisecond, unless this thread sleeps before it asks. */
static void who_waits_for_a_copy_waits_as_long_as_a_fence_may(void **state)
{
    enum { BIG = 64 << 20 };
    static const struct {
        int (*call)(struct dlr_ckpt *ck);
        int rc;
        const char *error;
    } rows[] = {
        {dlr_ckpt_clear, -EBUSY, "the last snapshot was not finished within 1 ms"},
        {dlr_ckpt_flush, -ETIMEDOUT, " was not finished within 1 ms"},
    };
    unsigned char *big =
        mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    memset(big, 1, BIG);
    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_ckpt *ck = open_one(1);
        int rc = 0;

        for (uint64_t step = 1; rc == 0 && step < 100; step++) {
            dlr_ckpt_add_array(ck, "big", DLR_CKPT_LOCAL, "u8", 1, big, BIG);
            if (dlr_ckpt_begin(ck, step, NULL) == 1)
                rc = rows[i].call(ck);
        }
        assert_int_equal(rc, rows[i].rc);
        assert_non_null(strstr(dlr_ckpt_error(ck), rows[i].error));
        dlr_ckpt_close(ck);
    }
    munmap(big, BIG);
}

int main(void)
{
#define ALONE(f)                                                                       \
    cmocka_unit_test_setup_teardown(f, standalone_setup, standalone_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_forked_child_leaves_the_agent_to_its_parent,
                                        played_setup, played_teardown),
        ALONE(a_forked_child_leaves_files_to_its_parent),
        ALONE(a_malformed_region_is_refused_by_name),
        ALONE(threads_are_64_at_most),
        ALONE(calls_out_of_order_are_refused),
        ALONE(who_waits_for_a_copy_waits_as_long_as_a_fence_may),
    };

    return cmocka_run_group_tests_name("calls", tests, NULL, NULL);
}
