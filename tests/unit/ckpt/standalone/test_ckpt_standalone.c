/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/open */
/* The library without a job: files in a directory, several ranks one after the other.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "ckpt/ckpt.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "tests/support/flip.h"
#include "tests/unit/ckpt/standalone/standalone_dir.h"

#define N 400000 /* two blocks */

struct rank {
    struct dlr_ckpt *ck;
    uint32_t *data;
    char blob[64];
};

static void join(struct rank *r, int rank, int world, unsigned every)
{
    const struct dlr_ckpt_conf conf = {
        .dir = dir, .rank = rank, .world = world, .every = every};

    r->data = calloc(N, sizeof(*r->data));
    assert_int_equal(dlr_ckpt_open(&conf, &r->ck), 0);
    assert_int_equal(
        dlr_ckpt_add_array(r->ck, "data", DLR_CKPT_SHARD, "u32", 4, r->data, N), 0);
    assert_int_equal(dlr_ckpt_add_array(r->ck, "note", DLR_CKPT_BLOB, "u8", 1, r->blob,
                                        sizeof(r->blob)),
                     0);
}

static void leave(struct rank *r)
{
    dlr_ckpt_close(r->ck);
    free(r->data);
}

/* What rank holds at step. */
static void set(struct rank *r, int rank, uint64_t step)
{
    for (unsigned i = 0; i < N; i++)
        r->data[i] = (uint32_t)(i * 2654435761u + step * 97 + (unsigned)rank);
    snprintf(r->blob, sizeof(r->blob), "rank %d step %d", rank, (int)step);
    assert_int_equal(dlr_ckpt_blob_size(r->ck, "note", strlen(r->blob)), 0);
}

static void assert_holds(const struct rank *r, int rank, uint64_t step)
{
    char blob[64];

    for (unsigned i = 0; i < N; i++)
        if (r->data[i] != (uint32_t)(i * 2654435761u + step * 97 + (unsigned)rank))
            fail_msg("item %u is wrong", i);
    snprintf(blob, sizeof(blob), "rank %d step %d", rank, (int)step);
    assert_string_equal(r->blob, blob);
}

static int save(struct rank *r, int rank, uint64_t step)
{
    int rc;

    set(r, rank, step);
    rc = dlr_ckpt_begin(r->ck, step, NULL);
    assert_int_equal(dlr_ckpt_fence(r->ck, NULL), 0);
    memset(r->data, 0xff, N * sizeof(*r->data)); /* allowed now */
    assert_int_equal(dlr_ckpt_flush(r->ck), 0);
    return rc;
}

/* Ranks 0..world-1 save these steps and leave. */
static void run_steps(int world, uint64_t from, uint64_t to, unsigned every)
{
    struct rank r[4] = {0};

    for (int k = 0; k < world; k++)
        join(&r[k], k, world, every);
    for (uint64_t step = from; step <= to; step++)
        for (int k = 0; k < world; k++) {
            assert_int_equal(dlr_ckpt_due(r[k].ck, step),
                             step == from || step % every == 0);
            assert_int_equal(save(&r[k], k, step), step % every == 0);
        }
    for (int k = 0; k < world; k++)
        leave(&r[k]);
}

/* Optimizer state exists from step 3 on; the program ends before anything is saved with
 * it, or after.
 */
static void
a_layout_change_keeps_the_old_version_until_the_new_one_is_written(void **state)
{
    static const struct {
        uint64_t last, restored;
    } ends[] = {{2, 2}, {3, 3}, {4, 4}};

    for (unsigned i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        struct rank r = {0}, again = {0};
        uint32_t moments[1000] = {0};
        uint64_t step = 0;

        join(&r, 0, 1, 1);
        save(&r, 0, 1);
        save(&r, 0, 2);
        for (unsigned k = 0; k < 1000; k++)
            moments[k] = k * 31u;
        assert_int_equal(dlr_ckpt_add_array(r.ck, "moments", DLR_CKPT_SHARD, "u32", 4,
                                            moments, 1000),
                         0);
        for (step = 3; step <= ends[i].last; step++)
            assert_int_equal(save(&r, 0, step), 1);
        leave(&r);

        memset(moments, 0, sizeof(moments));
        join(&again, 0, 1, 1);
        if (ends[i].restored > 2)
            dlr_ckpt_add_array(again.ck, "moments", DLR_CKPT_SHARD, "u32", 4, moments,
                               1000);
        assert_int_equal(dlr_ckpt_restore(again.ck, &step), 1);
        assert_int_equal(step, ends[i].restored);
        assert_holds(&again, 0, step);
        for (unsigned k = 0; k < 1000; k++)
            assert_int_equal(moments[k], step > 2 ? k * 31u : 0);
        assert_int_equal(dlr_ckpt_mark_bad(again.ck, 1), 0); /* the next row's start */
        leave(&again);
    }
}

static void regions_named_anew_lie_elsewhere_and_an_audit_follows(void **state)
{
    struct rank r = {0};
    uint32_t *elsewhere = calloc(N, sizeof(*elsewhere));
    uint64_t step;

    setenv("DLROVER_CKPT_AUDIT", "1", 1);
    join(&r, 0, 1, 1);
    unsetenv("DLROVER_CKPT_AUDIT");
    save(&r, 0, 1);
    assert_int_equal(dlr_ckpt_clear(r.ck), 0);
    free(r.data); /* nobody looks there any more */
    r.data = elsewhere;
    dlr_ckpt_add_array(r.ck, "data", DLR_CKPT_SHARD, "u32", 4, r.data, N);
    dlr_ckpt_add_array(r.ck, "step", DLR_CKPT_LOCAL, "u64", 8, &step, 1);
    dlr_ckpt_add_array(r.ck, "note", DLR_CKPT_BLOB, "u8", 1, r.blob, sizeof(r.blob));
    for (step = 2; step < 5; step++)
        assert_int_equal(save(&r, 0, step), 1);
    leave(&r);
    join(&r, 0, 1, 1);
    dlr_ckpt_add_array(r.ck, "step", DLR_CKPT_LOCAL, "u64", 8, &step, 1);
    assert_int_equal(dlr_ckpt_restore(r.ck, &step), 1);
    assert_holds(&r, 0, 4);
    leave(&r);
}

static bool there(const char *name)
{
    char path[128];

    dlr_format(path, sizeof(path), "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

static unsigned mode_of(const char *name)
{
    struct stat st = {0};
    char path[128];

    dlr_format(path, sizeof(path), "%s/%s", dir, name);
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 0777;
}

/* Every rank of world restores step and finds its own state; step 0: nothing. */
static void assert_restores(int world, uint64_t step)
{
    for (int k = 0; k < world; k++) {
        struct rank r = {0};
        uint64_t got = 0;

        join(&r, k, world, 1);
        assert_int_equal(dlr_ckpt_restore(r.ck, &got), step != 0);
        assert_int_equal(got, step);
        if (step != 0)
            assert_holds(&r, k, step);
        leave(&r);
    }
}

static void an_empty_directory_is_a_fresh_start(void **state)
{
    assert_restores(2, 0);
}

static void a_restore_brings_back_every_byte(void **state)
{
    run_steps(2, 1, 3, 1);
    assert_restores(2, 3);
}

static void only_due_steps_are_saved_and_two_are_kept(void **state)
{
    run_steps(2, 1, 35, 10);
    assert_restores(2, 30);
    assert_true(there("r0-20.safetensors") && there("r1-30.safetensors"));
    assert_int_equal(mode_of("r0-20.safetensors"),
                     0600); /* a state is nobody else's business */
    /* Rank 0 wrote step 30 when 20 was the newest that both had; rank 1 came later. */
    assert_true(there("r0-10.safetensors"));
    assert_false(there("r1-10.safetensors"));
}

static void the_newest_step_that_all_ranks_have_is_taken(void **state)
{
    struct rank r = {0};

    run_steps(2, 1, 3, 1);
    join(&r, 0, 2, 1);
    save(&r, 0, 4); /* rank 1 died before */
    save(&r, 0, 5);
    leave(&r);
    assert_restores(2, 3);
}

static void a_corrupt_file_of_any_rank_makes_all_go_back(void **state)
{
    run_steps(3, 1, 3, 1);
    flip_bit(dir, "r1-3.safetensors", 1500000);
    assert_restores(3, 2);
    flip_bit(dir, "r2-2.safetensors", 4096 + 3); /* the head */
    for (int k = 0; k < 3; k++) {
        struct rank r = {0};
        uint64_t step;

        join(&r, k, 3, 1);
        assert_int_equal(dlr_ckpt_restore(r.ck, &step), -EBADMSG);
        leave(&r);
    }
}

static void a_cut_file_is_passed_over(void **state)
{
    char path[128];

    run_steps(1, 1, 2, 1);
    dlr_format(path, sizeof(path), "%s/r0-2.safetensors", dir);
    assert_int_equal(truncate(path, 100000), 0);
    assert_restores(1, 1);
}

static void what_the_ranks_did_not_share_needs_as_many_of_them(void **state)
{
    struct rank r = {0};
    uint64_t step;

    run_steps(3, 1, 1, 1);
    join(&r, 0, 2, 1);
    assert_int_equal(dlr_ckpt_restore(r.ck, &step), -EBADMSG);
    assert_string_equal(
        dlr_ckpt_error(r.ck),
        "region 'data' was the same box on several ranks, with other contents on rank "
        "1: only the same number of ranks can load it (or name it LOCAL)");
    leave(&r);
}

static void a_fresh_line_of_steps_does_not_mix_with_an_older_one(void **state)
{
    run_steps(2, 1, 8, 1);
    run_steps(2, 1, 2, 1); /* starts again without restore */
    assert_restores(2, 2);
}

static void what_is_newer_than_the_restored_step_is_set_aside(void **state)
{
    struct rank r = {0};
    uint64_t step;

    run_steps(2, 1, 4, 1);
    flip_bit(dir, "r1-4.safetensors", 20000);
    join(&r, 0, 2, 1);
    assert_int_equal(dlr_ckpt_restore(r.ck, &step), 1);
    assert_int_equal(step, 3);
    assert_true(there("r0-4.safetensors.aside-1"));
    dlr_ckpt_progress(r.ck, 4);
    save(&r, 0, 5);
    assert_true(there("r0-4.safetensors.aside-1") && !there("r0-4.safetensors"));
    leave(&r);
}

static void what_was_marked_bad_is_not_restored(void **state)
{
    struct rank r = {0};
    uint64_t step;

    run_steps(2, 1, 3, 1);
    join(&r, 1, 2, 1); /* one rank's word is enough */
    assert_int_equal(dlr_ckpt_mark_bad(r.ck, 3), 0);
    leave(&r);
    assert_true(there("r1-3.safetensors.aside-1")); /* nothing is gone */
    assert_restores(2, 2);
    join(&r, 0, 2, 1);
    assert_int_equal(dlr_ckpt_restore(r.ck, &step), 1);
    dlr_ckpt_begin(r.ck, 3, NULL);
    assert_int_equal(dlr_ckpt_mark_bad(r.ck, 3), 0); /* while it is being saved */
    dlr_ckpt_fence(r.ck, NULL);
    assert_int_equal(dlr_ckpt_flush(r.ck), 0);
    assert_false(there("r0-3.safetensors"));
    leave(&r);
    assert_restores(2, 2);
}

static void half_written_files_of_a_crash_are_swept(void **state)
{
    char path[128];
    int fd;

    dlr_format(path, sizeof(path), "%s/.r0-3.slot.0123456789abcdef", dir);
    fd = open(path, O_CREAT | O_WRONLY, 0600);
    close(fd);
    run_steps(1, 1, 1, 1);
    assert_int_equal(access(path, F_OK), -1);
}

static const struct mismatch {
    const char *name, *dtype, *text;
    uint32_t size;
    uint64_t n;
} mismatches[] = {
    {"data", "f32", "region 'data' holds u32 (4 bytes) in the snapshot, f32 (4) here",
     4, N},
    {"data", "u32",
     "region 'data' is [0+400000 of 400000] in the snapshot, [0+399999 of 399999] here",
     4, N - 1},
    {"date", "u32",
     "the version holds 'data', not named here, and lacks 'date', named here "
     "(dlr_ckpt_allow)",
     4, N},
};

static void regions_that_differ_are_named(void **state)
{
    run_steps(1, 1, 1, 1);
    for (unsigned i = 0; i < sizeof(mismatches) / sizeof(mismatches[0]); i++) {
        const struct mismatch *m = &mismatches[i];
        const struct dlr_ckpt_conf conf = {.dir = dir, .world = 1};
        DLR_AUTO_FREE uint32_t *data = calloc(N, sizeof(*data));
        char blob[64];
        struct dlr_ckpt *ck;
        uint64_t step;

        assert_int_equal(dlr_ckpt_open(&conf, &ck), 0);
        dlr_ckpt_add_array(ck, m->name, DLR_CKPT_SHARD, m->dtype, m->size, data, m->n);
        dlr_ckpt_add_array(ck, "note", DLR_CKPT_BLOB, "u8", 1, blob, sizeof(blob));
        assert_int_equal(dlr_ckpt_restore(ck, &step), -EBADMSG);
        assert_string_equal(dlr_ckpt_error(ck), m->text);
        assert_int_equal(data[0], 0);
        dlr_ckpt_close(ck);
    }
}

static void a_region_that_is_new_is_named(void **state)
{
    struct rank r = {0};
    uint64_t step;
    int more;

    run_steps(1, 1, 1, 1);
    join(&r, 0, 1, 1);
    dlr_ckpt_add_array(r.ck, "more", DLR_CKPT_LOCAL, "i32", 4, &more, 1);
    assert_int_equal(dlr_ckpt_restore(r.ck, &step), -EBADMSG);
    assert_string_equal(dlr_ckpt_error(r.ck), "the version lacks 'more', named here "
                                              "(dlr_ckpt_allow: DLR_CKPT_MISSING)");
    leave(&r);
}

static void list_tells_the_versions_newest_first(void **state)
{
    struct dlr_ckpt_version v[4];
    struct rank r = {0};

    run_steps(2, 1, 6, 2);
    join(&r, 1, 2, 1);
    assert_int_equal(dlr_ckpt_list(r.ck, v, 4), 2);
    assert_int_equal(v[0].step, 6);
    assert_int_equal(v[1].step, 4);
    assert_int_equal(v[0].bytes, N * 4 + 64);
    leave(&r);
}

static void bad_calls_are_refused_with_a_reason(void **state)
{
    struct rank r = {0};
    uint64_t step;
    int x;

    join(&r, 0, 1, 1);
    assert_int_equal(dlr_ckpt_add_array(r.ck, "data", DLR_CKPT_SHARD, "i32", 4, &x, 1),
                     -EEXIST);
    assert_string_equal(dlr_ckpt_error(r.ck), "region 'data' was named before");
    assert_int_equal(dlr_ckpt_add_array(r.ck, "", DLR_CKPT_SHARD, "i32", 4, &x, 1),
                     -EINVAL);
    assert_int_equal(
        dlr_ckpt_add_array(r.ck, "__metadata__", DLR_CKPT_SHARD, "i32", 4, &x, 1),
        -EINVAL);
    assert_string_equal(dlr_ckpt_error(r.ck),
                        "a region cannot be named '__metadata__'");
    assert_int_equal(dlr_ckpt_add_array(r.ck, "x", DLR_CKPT_SHARD, "i32", 0, &x, 1),
                     -EINVAL);
    assert_int_equal(dlr_ckpt_add_array(r.ck, "x", DLR_CKPT_SHARD, "i32", 4, NULL, 1),
                     -EINVAL);
    assert_int_equal(dlr_ckpt_blob_size(r.ck, "data", 1), -ENOENT);
    assert_int_equal(dlr_ckpt_blob_size(r.ck, "note", 65), -ERANGE);
    assert_int_equal(dlr_ckpt_begin(r.ck, 5, NULL), 1);
    assert_int_equal(dlr_ckpt_add_array(r.ck, "data", DLR_CKPT_SHARD, "i32", 4, &x, 1),
                     -EEXIST);
    assert_int_equal(dlr_ckpt_begin(r.ck, 5, NULL), -EINVAL);
    assert_string_equal(dlr_ckpt_error(r.ck), "step 5 does not follow 5");
    assert_int_equal(dlr_ckpt_restore(r.ck, &step), -EBUSY);
    leave(&r);
}

static void a_full_disk_is_told_by_the_fence_and_the_next_steps_go_on(void **state)
{
    struct dlr_ckpt_stats stats;
    struct rank r = {0};
    int rc;

    join(&r, 0, 1, 1);
    save(&r, 0, 1);
    assert_int_equal(chmod(dir, 0700), 0);
    rmdir(dir);
    set(&r, 0, 2);
    assert_int_equal(standalone_teardown(NULL), 0); /* the directory is gone */
    assert_int_equal(dlr_ckpt_begin(r.ck, 2, NULL), 1);
    assert_int_equal(dlr_ckpt_flush(r.ck), -ENOENT);
    assert_int_equal(dlr_ckpt_flush(r.ck), 0);
    assert_int_equal(dlr_ckpt_fence(r.ck, NULL), 0);
    assert_int_equal(dlr_ckpt_begin(r.ck, 3, NULL), 1);
    for (rc = dlr_ckpt_fence(r.ck, NULL); rc == 0; rc = dlr_ckpt_fence(r.ck, NULL))
        sched_yield(); /* a fence tells it, sooner or later */
    assert_int_equal(rc, -ENOENT);
    dlr_ckpt_stats(r.ck, &stats);
    assert_int_equal(stats.saves, 3);
    assert_int_equal(stats.given_up, 2);
    assert_int_equal(stats.committed_step, 1);
    leave(&r);
}

static void rank_and_world_come_from_the_closest_launcher(void **state)
{
    struct dlr_ckpt *ck;

    setenv("SLURM_PROCID", "0", 1);
    setenv("SLURM_NTASKS", "8", 1);
    setenv("RANK", "9", 1);
    setenv("WORLD_SIZE", "4", 1);
    setenv("DLROVER_CKPT_DIR", dir, 1);
    assert_int_equal(dlr_ckpt_open(NULL, &ck), -EINVAL);
    assert_string_equal(dlr_ckpt_error(NULL), "rank 9 of 4 (RANK) cannot be");
    setenv("RANK", "x", 1);
    assert_int_equal(dlr_ckpt_open(NULL, &ck), -EINVAL);
    setenv("RANK", "3", 1);
    assert_int_equal(dlr_ckpt_open(NULL, &ck), 0);
    dlr_ckpt_begin(ck, 1, NULL);
    dlr_ckpt_flush(ck);
    assert_true(there("r3-1.safetensors"));
    dlr_ckpt_close(ck);
    unsetenv("DLROVER_CKPT_DIR");
}

static void several_threads_make_the_same_file(void **state)
{
    const struct dlr_ckpt_conf conf = {.dir = dir, .world = 1, .threads = 3};
    DLR_AUTO_FREE unsigned char *data = malloc(9999999);
    struct dlr_ckpt *ck;
    uint64_t step;

    for (unsigned i = 0; i < 9999999; i++)
        data[i] = (unsigned char)(i * 7 + i / 255);
    assert_int_equal(dlr_ckpt_open(&conf, &ck), 0);
    dlr_ckpt_add_array(ck, "d", DLR_CKPT_LOCAL, "u8", 1, data, 9999999);
    for (step = 1; step < 8; step++) {
        assert_int_equal(dlr_ckpt_begin(ck, step, NULL), 1);
        assert_int_equal(dlr_ckpt_fence(ck, NULL), 0);
    }
    dlr_ckpt_close(ck);
    memset(data, 0, 9999999);
    assert_int_equal(dlr_ckpt_open(&conf, &ck), 0);
    dlr_ckpt_add_array(ck, "d", DLR_CKPT_LOCAL, "u8", 1, data, 9999999);
    assert_int_equal(dlr_ckpt_restore(ck, &step), 1);
    for (unsigned i = 0; i < 9999999; i++)
        if (data[i] != (unsigned char)(i * 7 + i / 255))
            fail_msg("byte %u", i);
    dlr_ckpt_close(ck);
}

static void a_forked_child_does_not_save(void **state)
{
    struct rank r = {0};
    int status;
    pid_t pid;

    join(&r, 0, 1, 1);
    save(&r, 0, 1);
    pid = fork();
    if (pid == 0) {
        int rc = dlr_ckpt_begin(r.ck, 2, NULL);

        dlr_ckpt_fence(r.ck, NULL);
        dlr_ckpt_close(r.ck);
        _exit(rc);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_false(there("r0-2.safetensors"));
    leave(&r);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, standalone_setup, standalone_teardown)
    const struct CMUnitTest tests[] = {
        T(a_layout_change_keeps_the_old_version_until_the_new_one_is_written),
        T(regions_named_anew_lie_elsewhere_and_an_audit_follows),
        T(an_empty_directory_is_a_fresh_start),
        T(a_restore_brings_back_every_byte),
        T(only_due_steps_are_saved_and_two_are_kept),
        T(the_newest_step_that_all_ranks_have_is_taken),
        T(a_corrupt_file_of_any_rank_makes_all_go_back),
        T(a_cut_file_is_passed_over),
        T(what_the_ranks_did_not_share_needs_as_many_of_them),
        T(a_fresh_line_of_steps_does_not_mix_with_an_older_one),
        T(what_is_newer_than_the_restored_step_is_set_aside),
        T(what_was_marked_bad_is_not_restored),
        T(half_written_files_of_a_crash_are_swept),
        T(regions_that_differ_are_named),
        T(a_region_that_is_new_is_named),
        T(list_tells_the_versions_newest_first),
        T(bad_calls_are_refused_with_a_reason),
        T(a_full_disk_is_told_by_the_fence_and_the_next_steps_go_on),
        T(rank_and_world_come_from_the_closest_launcher),
        T(several_threads_make_the_same_file),
        T(a_forked_child_does_not_save),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
