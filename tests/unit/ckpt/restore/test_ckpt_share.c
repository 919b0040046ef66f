/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/client */
/* REPLICATED regions that the ranks of a node keep between them: what each has, and how
 * it comes together again.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/client/copy.h"
#include "ckpt/restore/load.h"
#include "ckpt/restore/reshape.h"
#include "ckpt/restore/whole.h"
#include "ckpt/slot/meta.h"
#include "ckpt/slot/replica_share.h"
#include "common/base/str.h"
#include "tests/unit/ckpt/standalone/standalone_dir.h"

#define WORLD 4
#define ROWS 20000 /* of "big": 6 MB, whose parts are larger than a block */
#define COLS 77
#define WIDE 40001 /* of "odd": no number of ranks divides it */
#define SIDE 200   /* of "turned", a transposed matrix */
#define LONG 30000 /* of "three", whose three rows are fewer than the ranks */

/* --- what a rank has -------------------------------------------------------------- */

struct memory {
    uint32_t big[ROWS * COLS], turned[SIDE * SIDE], three[3 * LONG];
    uint16_t odd[WIDE];
    uint32_t small[300];
    uint64_t seed, shard[10];
};

struct program {
    struct memory *m;
    struct dlr_regions rs;
};

static void add(struct program *p, struct dlr_ckpt_region r)
{
    struct dlr_err err;

    if (dlr_regions_add(&p->rs, &r, &err) < 0)
        fail_msg("%s", err.text);
}

static void init(struct program *p, int rank, int world, const char *but)
{
    const struct dlr_ckpt_region list[] = {
        {"big", DLR_CKPT_REPLICATED, "u32", 4, 2, {ROWS, COLS}, {0}, {ROWS, COLS}},
        {"turned",
         DLR_CKPT_REPLICATED,
         "f32",
         4,
         2,
         {SIDE, SIDE},
         {0},
         {SIDE, SIDE},
         {4, 4 * SIDE}},
        {"three", DLR_CKPT_REPLICATED, "u32", 4, 2, {3, LONG}, {0}, {3, LONG}},
        {"odd", DLR_CKPT_REPLICATED, "u16", 2, 2, {1, WIDE}, {0}, {1, WIDE}},
        {"small", DLR_CKPT_REPLICATED, "u32", 4, 1, {300}, {0}, {300}},
        {"seed", DLR_CKPT_LOCAL, "u64", 8, 1, {1}, {0}, {1}},
        {"shard",
         DLR_CKPT_SHARD,
         "u64",
         8,
         1,
         {10 * (uint64_t)world},
         {10 * (uint64_t)rank},
         {10}},
    };
    struct memory *m;
    void *addr[] = {NULL, NULL, NULL, NULL, NULL, NULL, NULL};

    *p = (struct program){.m = calloc(1, sizeof(*m))};
    m = p->m;
    assert_non_null(m);
    addr[0] = m->big;
    addr[1] = m->turned;
    addr[2] = m->three;
    addr[3] = m->odd;
    addr[4] = m->small;
    addr[5] = &m->seed;
    addr[6] = m->shard;
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        struct dlr_ckpt_region r = list[i];

        r.addr = addr[i];
        if (!but || !dlr_streq(r.name, but))
            add(p, r);
    }
}

static void done(struct program *p)
{
    dlr_regions_done(&p->rs);
    free(p->m);
}

static void fill(struct memory *m, int rank)
{
    for (uint32_t i = 0; i < ROWS * COLS; i++)
        m->big[i] = i * 2654435761u;
    for (uint32_t i = 0; i < SIDE * SIDE; i++)
        m->turned[i] = i + 5;
    for (uint32_t i = 0; i < 3 * LONG; i++)
        m->three[i] = i * 3;
    for (uint32_t i = 0; i < WIDE; i++)
        m->odd[i] = (uint16_t)(i * 7);
    for (uint32_t i = 0; i < 300; i++)
        m->small[i] = i ^ 99;
    m->seed = 1000 + (uint64_t)rank;
    for (unsigned i = 0; i < 10; i++)
        m->shard[i] = 10 * (uint64_t)rank + i;
}

/* but: the shard is not named, nor is there a seed of a rank beyond WORLD. */
static void same_memory(const struct program *p, int rank, bool but)
{
    struct memory *want = calloc(1, sizeof(*want));

    assert_non_null(want);
    fill(want, rank);
    if (but)
        memset(want->shard, 0, sizeof(want->shard));
    if (but && rank >= WORLD)
        want->seed = 0;
    assert_memory_equal(p->m, want, sizeof(*want));
    free(want);
}

/* --- their slots ------------------------------------------------------------------ */

static int dirfd_, opened[64], nopened;

/* A sealed slot r<rank>, copied by the code that saves. Its data's bytes. */
static uint64_t save(int rank, int world, struct dlr_share share, const char *but)
{
    const struct dlr_slot_owner owner = {7, rank, (uint32_t)world, share};
    const void *src[16];
    struct dlr_slot_plan *plan;
    atomic_bool stop = false;
    _Atomic int64_t deadline = 0;
    struct dlr_copy_job job = {.src = src, .stop = &stop, .deadline_ns = &deadline};
    struct dlr_copy *copy;
    struct dlr_slot *slot;
    struct program p;
    uint64_t bytes;
    char name[16];

    init(&p, rank, world, but);
    fill(p.m, rank);
    for (unsigned i = 0; i < p.rs.n; i++)
        src[i] = p.rs.list[i].addr;
    assert_int_equal(dlr_slot_plan_new(p.rs.list, p.rs.n, &owner, &plan, NULL), 0);
    dlr_format(name, sizeof(name), "r%d", rank);
    unlinkat(dirfd_, name, 0);
    assert_int_equal(
        dlr_slot_create(dirfd_, name, dlr_slot_plan_bytes(plan), &slot, NULL), 0);
    assert_int_equal(dlr_slot_begin(slot, plan, (struct dlr_version){1, 5}, p.rs.used),
                     0);
    job.slot = slot;
    job.plan = plan;
    job.views = p.rs.views;
    assert_int_equal(dlr_copy_new(2, &copy, NULL), 0);
    assert_int_equal(dlr_copy_run(copy, &job), 0);
    dlr_slot_seal(slot, plan);
    bytes = dlr_slot_plan_data(plan);
    dlr_copy_free(copy);
    dlr_slot_unmap(slot);
    dlr_slot_plan_free(plan);
    done(&p);
    return bytes;
}

/* One node with all of the world. */
static void save_node(int world)
{
    for (int r = 0; r < world; r++)
        save(r, world, (struct dlr_share){(uint32_t)r, (uint32_t)world}, NULL);
}

static int open_slot(void *arg, int rank, struct dlr_slot **ret, struct dlr_err *err)
{
    char name[16];
    int fd, rc;

    opened[nopened++ % 64] = rank;
    dlr_format(name, sizeof(name), "r%d", rank);
    fd = openat(dirfd_, name, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return dlr_fail(err, -ENOENT, "rank %d: no copy", rank);
    rc = dlr_slot_map(fd, true, ret, err);
    close(fd);
    return rc;
}

static int load(struct program *p, int rank, int world, const int32_t *near,
                unsigned nnear, struct dlr_unmatched *u, struct dlr_err *err)
{
    const struct dlr_sources from = {(uint32_t)world, open_slot, NULL, near, nnear};
    struct dlr_slot *slot;
    int rc = open_slot(NULL, rank, &slot, err);

    nopened = 0;
    if (rc == 0)
        rc = dlr_load(slot, &p->rs, u, NULL, NULL, err);
    dlr_slot_unmap(slot);
    return rc > 0 ? dlr_join(&from, rank, &p->rs, u, NULL, NULL, err) : rc;
}

static void loads_all(int rank, int world, const int32_t *near, unsigned nnear)
{
    struct dlr_unmatched u = {0};
    struct dlr_err err = {0};
    struct program p;

    init(&p, rank, world, NULL);
    if (load(&p, rank, world, near, nnear, &u, &err) != 0)
        fail_msg("rank %d: %s", rank, err.text);
    same_memory(&p, rank, false);
    done(&p);
}

/* --- the cut ---------------------------------------------------------------------- */

static const struct {
    const char *name;
    struct dlr_ckpt_region region;
    uint32_t seats;
    int dim; /* that is cut; -1: each keeps all of it */
} cuts[] = {
    {"rows", {"", DLR_CKPT_REPLICATED, "", 4, 2, {1001, 77}, {0}, {1001, 77}}, 4, 0},
    {"a row a rank",
     {"", DLR_CKPT_REPLICATED, "", 4, 2, {4, 9999}, {0}, {4, 9999}},
     4,
     0},
    {"fewer rows",
     {"", DLR_CKPT_REPLICATED, "", 4, 2, {3, 9999}, {0}, {3, 9999}},
     4,
     -1},
    {"one row",
     {"", DLR_CKPT_REPLICATED, "", 2, 3, {1, 1, 40001}, {0}, {1, 1, 40001}},
     3,
     2},
    {"one item", {"", DLR_CKPT_REPLICATED, "", 1 << 17, 0, {0}, {0}, {0}}, 4, -1},
    {"ones", {"", DLR_CKPT_REPLICATED, "", 1 << 17, 2, {1, 1}, {0}, {1, 1}}, 4, -1},
    {"small", {"", DLR_CKPT_REPLICATED, "", 1, 1, {65535}, {0}, {65535}}, 4, -1},
    {"just not small",
     {"", DLR_CKPT_REPLICATED, "", 1, 1, {65536}, {0}, {65536}},
     4,
     0},
    {"alone", {"", DLR_CKPT_REPLICATED, "", 4, 1, {99999}, {0}, {99999}}, 1, -1},
    {"nobody said", {"", DLR_CKPT_REPLICATED, "", 4, 1, {99999}, {0}, {99999}}, 0, -1},
    {"a box", {"", DLR_CKPT_REPLICATED, "", 4, 1, {199999}, {9}, {99999}}, 4, -1},
    {"a shard", {"", DLR_CKPT_SHARD, "", 4, 1, {99999}, {0}, {99999}}, 4, -1},
    {"local", {"", DLR_CKPT_LOCAL, "", 4, 1, {99999}, {0}, {99999}}, 4, -1},
    {"blob", {"", DLR_CKPT_BLOB, "", 1, 1, {99999}, {0}, {99999}}, 4, -1},
};

static void the_parts_are_each_row_once_or_all_of_it(void **state)
{
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        const struct dlr_ckpt_region *r = &cuts[i].region;
        uint64_t next = 0, next_at = 0;

        print_message("%s\n", cuts[i].name);
        for (uint32_t seat = 0; seat < cuts[i].seats; seat++) {
            struct dlr_share share = {seat, cuts[i].seats};
            struct dlr_ckpt_region part, whole;
            uint64_t at, bytes;
            bool cut = dlr_share_cut(r, share, &part, &at);

            assert_int_equal(cut, cuts[i].dim >= 0);
            assert_int_equal(dlr_share_is_part(&part, share, &whole), cut);
            if (!cut) {
                assert_memory_equal(&part, r, sizeof(part));
                continue;
            }
            assert_memory_equal(&whole, r, sizeof(whole));
            assert_int_equal(part.offset[cuts[i].dim], next);
            assert_int_equal(at, next_at);
            assert_true(part.local_shape[cuts[i].dim] > 0);
            assert_int_equal(dlr_region_bytes(&part, &bytes, NULL), 0);
            next += part.local_shape[cuts[i].dim];
            next_at += bytes;
        }
        if (cuts[i].dim >= 0)
            assert_int_equal(next, r->global_shape[cuts[i].dim]);
    }
}

static void a_box_that_is_no_part_of_this_share_is_none(void **state)
{
    struct dlr_ckpt_region part, whole;
    uint64_t at;

    assert_true(dlr_share_cut(&cuts[0].region, (struct dlr_share){1, 4}, &part, &at));
    assert_false(dlr_share_is_part(&part, (struct dlr_share){2, 4}, &whole));
    assert_false(dlr_share_is_part(&part, (struct dlr_share){1, 3}, &whole));
    assert_false(dlr_share_is_part(&part, (struct dlr_share){0, 0}, &whole));
    assert_false(dlr_share_is_part(&cuts[0].region, (struct dlr_share){1, 4}, &whole));
}

static void ranks_that_name_the_same_have_one_hash(void **state)
{
    struct dlr_ckpt_region two[] = {cuts[0].region, cuts[3].region}, other[2];
    uint64_t hash[5];

    two[0].name = "a";
    two[1].name = "b";
    for (unsigned i = 0; i < 5; i++) {
        const struct dlr_slot_owner owner = {
            7, 0, 4, {i % 2, i == 4 ? 0 : 2}}; /* the last one shares nothing */
        struct dlr_slot_plan *plan;

        other[0] = two[i == 1];
        other[1] = two[i != 1];
        if (i == 2)
            other[1].name = "c";
        if (i == 3)
            other[0].global_shape[0] = ++other[0].local_shape[0];
        assert_int_equal(dlr_slot_plan_new(other, 2, &owner, &plan, NULL), 0);
        hash[i] = dlr_slot_plan_shared(plan);
        dlr_slot_plan_free(plan);
    }
    assert_true(hash[0] != 0 && hash[0] == hash[1]);
    assert_true(hash[2] != hash[0] && hash[3] != hash[0] && hash[3] != hash[2]);
    assert_true(hash[4] == 0);
}

/* --- together again --------------------------------------------------------------- */

static void a_node_keeps_it_once(void **state)
{
    const uint64_t shared = 4 * (ROWS * COLS + SIDE * SIDE) + 2 * WIDE;
    uint64_t alone = save(0, WORLD, (struct dlr_share){0, 0}, NULL), all = 0;

    for (uint32_t r = 0; r < WORLD; r++)
        all += save((int)r, WORLD, (struct dlr_share){r, WORLD}, NULL);
    assert_int_equal(all, WORLD * (alone - shared) + shared);
}

static void every_rank_has_all_of_it_again(void **state)
{
    const int32_t near[] = {0, 1, 2, 3};

    save_node(WORLD);
    for (int r = 0; r < WORLD; r++)
        loads_all(r, WORLD, near, WORLD);
    assert_int_equal(nopened, WORLD); /* its own again, and each other's once */
}

/* Ranks 0, 2, 4 on one node and 1, 3 on another, as --distribution=cyclic has them; 5
 * alone.
 */
static void those_of_its_node_come_first_and_others_do_as_well(void **state)
{
    const int32_t near[] = {0, 2, 4}, order[] = {2, 0, 4};

    for (int r = 0; r < 5; r++)
        save(r, 6, (struct dlr_share){(uint32_t)r / 2, r % 2 ? 2 : 3}, NULL);
    save(5, 6, (struct dlr_share){0, 1}, NULL);
    loads_all(2, 6, near, 3);
    assert_int_equal(nopened, 3);
    assert_memory_equal(opened, order, sizeof(order));
    loads_all(1, 6, NULL, 0); /* they run elsewhere now */
    loads_all(5, 6, NULL, 0);
    assert_int_equal(nopened, 0);
}

static void a_part_that_is_corrupt_is_refused(void **state)
{
    struct dlr_unmatched u = {0};
    struct dlr_err err = {0};
    struct dlr_slot *slot;
    struct program p;
    uint32_t crc;
    size_t size;
    void *data;

    save_node(WORLD);
    assert_int_equal(open_slot(NULL, 3, &slot, NULL), 0);
    assert_int_equal(dlr_slot_block(slot, 1, &data, &size, &crc), 0);
    ((unsigned char *)data)[17] ^= 4;
    dlr_slot_unmap(slot);
    init(&p, 0, WORLD, NULL);
    assert_int_equal(load(&p, 0, WORLD, NULL, 0, &u, &err), -EBADMSG);
    assert_string_equal(err.text, "rank 3: block 1 of 2 is corrupt");
    assert_false(u.differs); /* another copy would do */
    done(&p);
}

static void a_part_that_nobody_has_is_an_error(void **state)
{
    struct dlr_unmatched u = {0};
    struct dlr_err err = {0};
    struct program p;

    save_node(WORLD);
    init(&p, 0, WORLD, NULL);
    unlinkat(dirfd_, "r2", 0);
    assert_int_equal(load(&p, 0, WORLD, NULL, 0, &u, &err), -ENOENT);
    assert_string_equal(err.text, "rank 2: no copy");
    save(2, WORLD, (struct dlr_share){2, WORLD}, "big");
    assert_int_equal(load(&p, 0, WORLD, NULL, 0, &u, &err), -EBADMSG);
    assert_string_equal(
        err.text,
        "region 'big': item 10000 of dimension 0 and others are in no rank's copy");
    done(&p);
}

static void another_number_of_ranks_loads_it(void **state)
{
    const struct dlr_sources from = {WORLD, open_slot, NULL, NULL, 0};

    save_node(WORLD);
    for (int world = 1; world < 7; world += 2)
        for (int r = 0; r < world; r++) {
            struct dlr_unmatched u = {.allowed = DLR_CKPT_MISSING | DLR_CKPT_LEFTOVER};
            struct dlr_err err = {0};
            struct program p;

            init(&p, r, world, "shard");
            if (dlr_reshape(&from, r, &p.rs, &u, NULL, NULL, &err) != 0)
                fail_msg("rank %d of %d: %s", r, world, err.text);
            same_memory(&p, r, true);
            done(&p);
            dlr_unmatched_done(&u);
        }
}

static void a_rank_is_made_whole_for_others_to_read(void **state)
{
    struct dlr_unmatched u = {0};
    struct dlr_slot *slot, *whole = NULL, *again = NULL;
    struct dlr_err err = {0};
    struct program p;

    save_node(WORLD);
    assert_int_equal(open_slot(NULL, 1, &slot, NULL), 0);
    assert_int_equal(dlr_slot_whole(slot, open_slot, NULL, &whole, &err), 1);
    assert_int_equal(dlr_slot_verify(whole, &err), 0);
    init(&p, 1, WORLD, NULL);
    assert_int_equal(dlr_load(whole, &p.rs, &u, NULL, NULL, &err), 0);
    same_memory(&p, 1, false);
    assert_int_equal(dlr_slot_whole(whole, open_slot, NULL, &again, &err), 0);
    assert_null(again);
    done(&p);
    dlr_slot_unmap(whole);
    dlr_slot_unmap(slot);
}

static int setup(void **state)
{
    if (standalone_setup(state) < 0)
        return -1;
    dirfd_ = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return dirfd_ < 0 ? -1 : 0;
}

static int teardown(void **state)
{
    close(dirfd_);
    return standalone_teardown(state);
}

#define NODE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_parts_are_each_row_once_or_all_of_it),
        cmocka_unit_test(a_box_that_is_no_part_of_this_share_is_none),
        cmocka_unit_test(ranks_that_name_the_same_have_one_hash),
        NODE(a_node_keeps_it_once),
        NODE(every_rank_has_all_of_it_again),
        NODE(those_of_its_node_come_first_and_others_do_as_well),
        NODE(a_part_that_is_corrupt_is_refused),
        NODE(a_part_that_nobody_has_is_an_error),
        NODE(another_number_of_ranks_loads_it),
        NODE(a_rank_is_made_whole_for_others_to_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
