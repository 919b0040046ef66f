/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/slot,common/local needs=dlrover-data,tests/stepped-save */
/* A data process killed at every step of writing its ranks' slots to a file in the
 * place of an older one, and of reading them back: the file is the old one or the new
 * one, whole, and the new one once that was told; a slot that counts as whole has the
 * file's bytes; the process that is started in its place goes on.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/slot/meta.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "tests/faults/kill_data.h"

#define ROUND 5
#define N 2u
#define FILE_NAME "node.safetensors"

static const int32_t rank_of[N] = {3, 5};
static const uint64_t bytes_of[N] = {(1 << 20) + 777, 5000}; /* two blocks and one */

struct disk {
    struct kill_data kill;
    bool kill_reader;
    struct rig_data from, to;
    struct dlr_slot *src[N][2], *dst[N][2];
    char dir[64], path[96];
    uint64_t step; /* in the file; the next one is in the other slots of src */
    uint64_t id;
};

static struct dlr_version version(uint64_t step)
{
    return (struct dlr_version){ROUND, step};
}

static void start(struct disk *d, struct rig_data *p, const char *dir)
{
    if (p == (d->kill_reader ? &d->to : &d->from))
        kill_data_start(&d->kill, p, dir);
    else
        rig_start(p, dir, NULL);
    rig_config(p, ROUND, RIG_TOKEN, "[]");
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(rig_reserve(p, rank_of[i], rig_slot_bytes(bytes_of[i])), 0);
}

/* The workers' snapshots of the next step. */
static void make_next(void *arg)
{
    struct disk *d = arg;

    for (unsigned i = 0; i < N; i++)
        rig_snapshot(d->src[i][(d->step + 1) % 2], rank_of[i], version(d->step + 1),
                     bytes_of[i]);
}

/* What the reader has of step, with the source's bytes; NULL: nothing whole. */
static struct dlr_slot *read_of(struct disk *d, unsigned i, uint64_t step)
{
    for (unsigned k = 0; k < 2; k++) {
        struct dlr_slot_info info;

        if (dlr_slot_state(d->dst[i][k]) != DLR_SLOT_SEALED)
            continue;
        assert_int_equal(dlr_slot_info(d->dst[i][k], &info), 0);
        assert_int_equal(info.version.step, step);
        if (!rig_same(d->dst[i][k], d->src[i][step % 2]))
            fail_msg("rank %d of step %d has other bytes", rank_of[i], (int)step);
        return d->dst[i][k];
    }
    return NULL;
}

/* Its slots are free again, and hold nothing that the next one could find there. */
static void forget_read(void *arg)
{
    struct disk *d = arg;

    for (unsigned i = 0; i < N; i++)
        for (unsigned k = 0; k < 2; k++) {
            dlr_slot_set_state(d->dst[i][k], DLR_SLOT_DEAD);
            memset((char *)dlr_slot_base(d->dst[i][k]) + DLR_SLOT_PAGE, 0x5a,
                   dlr_slot_bytes(d->dst[i][k]) - DLR_SLOT_PAGE);
        }
}

/* The reader's answers: 0 when it has read all ranks of step, -1 when it is dead. */
static int read_step(struct disk *d, uint64_t step)
{
    int rc = 0;

    for (unsigned i = 0; rc == 0 && i < N; i++) {
        rig_order(&d->to, DLR_LOCAL_D_LOAD, ROUND, rank_of[i], version(step), ++d->id,
                  d->path);
        rc = rig_done_or_dead(&d->to, d->id);
    }
    for (unsigned i = 0; rc == 0 && i < N; i++)
        assert_non_null(read_of(d, i, step));
    return rc;
}

static bool is_in_file(struct disk *d, uint64_t step)
{
    int rc = read_step(d, step);

    assert_true(rc >= 0);
    forget_read(d);
    return rc == 0;
}

/* What a crash leaves beside the file has another name and is never read. */
static void sweep(const struct disk *d)
{
    DLR_AUTO_CLOSEDIR DIR *dir = opendir(d->dir);
    struct dirent *e;

    assert_non_null(dir);
    while ((e = readdir(dir))) {
        if (dlr_streq(e->d_name, FILE_NAME) || dlr_streq(e->d_name, ".") ||
            dlr_streq(e->d_name, ".."))
            continue;
        assert_non_null(dlr_after(e->d_name, "." FILE_NAME "."));
        assert_int_equal(unlinkat(dirfd(dir), e->d_name, 0), 0);
    }
}

/* Writes the next version of all ranks; whether that was told of each. */
static bool write_next(void *arg)
{
    struct disk *d = arg;
    uint64_t first = d->id + 1;

    for (unsigned i = 0; i < N; i++)
        rig_save(&d->from, ROUND, rank_of[i], version(d->step + 1), ++d->id, d->path,
                 N - 1 - i);
    for (uint64_t id = first; id < first + N; id++) {
        int rc = rig_done_or_dead(&d->from, id);

        assert_true(rc <= 0);
        if (rc < 0)
            return false;
    }
    d->step++;
    return true;
}

static void go_on_writing(void *arg)
{
    struct disk *d = arg;

    if (is_in_file(d, d->step + 1))
        d->step++; /* it was renamed, and nobody was told */
    else
        assert_true(is_in_file(d, d->step));
    sweep(d);
    start(d, &d->from, d->from.dir);
    make_next(d);
    assert_true(write_next(d));
    assert_true(is_in_file(d, d->step));
    make_next(d);
}

static bool read_again(void *arg)
{
    struct disk *d = arg;
    int rc = read_step(d, d->step);

    assert_true(rc <= 0);
    return rc == 0;
}

static void go_on_reading(void *arg)
{
    struct disk *d = arg;

    for (unsigned i = 0; i < N; i++)
        read_of(d, i, d->step);
    start(d, &d->to, d->to.dir);
    /* As its agent does before a restore: what is newer goes, and what nobody will
     * finish.
     */
    rig_order(&d->to, DLR_LOCAL_D_DROP, ROUND, -1, version(d->step), 0, "");
    assert_true(read_again(d));
    forget_read(d);
}

static void bring_up(struct disk *d)
{
    kill_data_init(&d->kill, "stepped-save");
    dlr_format(d->dir, sizeof(d->dir), "/dev/shm/dlr-test-disk-XXXXXX");
    assert_non_null(mkdtemp(d->dir));
    dlr_format(d->path, sizeof(d->path), "%s/" FILE_NAME, d->dir);
    start(d, &d->from, NULL);
    start(d, &d->to, NULL);
    for (unsigned i = 0; i < N; i++)
        for (unsigned k = 0; k < 2; k++) {
            d->src[i][k] = rig_slot(&d->from, rank_of[i], k);
            d->dst[i][k] = rig_slot(&d->to, rank_of[i], k);
        }
    make_next(d);
    assert_true(write_next(d));
    make_next(d);
}

static void take_down(struct disk *d)
{
    for (unsigned i = 0; i < N; i++)
        for (unsigned k = 0; k < 2; k++) {
            dlr_slot_unmap(d->src[i][k]);
            dlr_slot_unmap(d->dst[i][k]);
        }
    rig_end(&d->from);
    rig_end(&d->to);
    rig_remove(&d->from);
    rig_remove(&d->to);
    unlink(d->path);
    assert_int_equal(rmdir(d->dir), 0);
    kill_data_done(&d->kill);
}

static void the_writer(void **state)
{
    static const struct kill_data_ops steps = {write_next, go_on_writing, make_next};
    struct disk d = {.kill_reader = false};

    bring_up(&d);
    kill_data_each(&d.from, &steps, &d);
    take_down(&d);
}

static void the_reader(void **state)
{
    static const struct kill_data_ops steps = {read_again, go_on_reading, forget_read};
    struct disk d = {.kill_reader = true};

    bring_up(&d);
    kill_data_each(&d.to, &steps, &d);
    take_down(&d);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_writer),
        cmocka_unit_test(the_reader),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
