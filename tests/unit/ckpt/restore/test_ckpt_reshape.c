/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/open */
/* Restores on another number of ranks, names that differ, regions of other ranks:
 * without a job, several ranks one after the other.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/ckpt.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "tests/unit/ckpt/standalone/standalone_dir.h"

#define ROWS 1009 /* no world divides it; rows of 4 KB: several blocks */
#define COLS 1024
#define TABLE 300
#define STEP 7

static bool turned; /* the first rank has the last part */

struct rank {
    struct dlr_ckpt *ck;
    uint32_t *rows, *cols; /* split by rows, split by columns */
    uint64_t rows_len, cols_len, rows_off, cols_off;
    uint16_t table[TABLE]; /* the same everywhere */
    uint64_t seed;
    char note[32];
    int rank;
};

/* The part of n items that rank has; ranks before it have more. */
static void share(uint64_t n, int rank, int world, uint64_t *ret_off, uint64_t *ret_len)
{
    uint64_t each = n / (uint64_t)world, more = n % (uint64_t)world, r = (uint64_t)rank;

    *ret_len = each + (r < more);
    *ret_off = r * each + (r < more ? r : more);
}

static void add_matrix(struct rank *r, const char *name, uint64_t row, uint64_t col,
                       uint64_t rows, uint64_t cols, void *addr)
{
    const struct dlr_ckpt_region region = {.name = name,
                                           .kind = DLR_CKPT_SHARD,
                                           .dtype = "u32",
                                           .item_size = 4,
                                           .ndim = 2,
                                           .global_shape = {ROWS, COLS},
                                           .offset = {row, col},
                                           .local_shape = {rows, cols},
                                           .addr = addr};

    assert_int_equal(dlr_ckpt_add(r->ck, &region), 0);
}

static void join(struct rank *r, int rank, int world)
{
    const struct dlr_ckpt_conf conf = {.dir = dir, .rank = rank, .world = world};
    int part = turned ? world - 1 - rank : rank;

    *r = (struct rank){.rank = rank};
    share(ROWS, part, world, &r->rows_off, &r->rows_len);
    share(COLS, part, world, &r->cols_off, &r->cols_len);
    r->rows = calloc(r->rows_len * COLS + 1, 4);
    r->cols = calloc(r->cols_len * ROWS + 1, 4);
    assert_int_equal(dlr_ckpt_open(&conf, &r->ck), 0);
    add_matrix(r, "rows", r->rows_off, 0, r->rows_len, COLS, r->rows);
    add_matrix(r, "cols", 0, r->cols_off, ROWS, r->cols_len, r->cols);
    dlr_ckpt_add_array(r->ck, "table", DLR_CKPT_REPLICATED, "u16", 2, r->table, TABLE);
    dlr_ckpt_add_array(r->ck, "seed", DLR_CKPT_LOCAL, "u64", 8, &r->seed, 1);
    dlr_ckpt_add_array(r->ck, "note", DLR_CKPT_BLOB, "u8", 1, r->note, sizeof(r->note));
}

static void leave(struct rank *r)
{
    dlr_ckpt_close(r->ck);
    free(r->rows);
    free(r->cols);
}

static uint32_t item(uint64_t row, uint64_t col)
{
    return (uint32_t)((row * COLS + col) * 2654435761u);
}

static void fill(struct rank *r)
{
    for (uint64_t i = 0; i < r->rows_len * COLS; i++)
        r->rows[i] = item(r->rows_off + i / COLS, i % COLS);
    for (uint64_t i = 0; i < r->cols_len * ROWS; i++)
        r->cols[i] = item(i / r->cols_len, r->cols_off + i % r->cols_len) + 1;
    for (unsigned i = 0; i < TABLE; i++)
        r->table[i] = (uint16_t)(i * 7);
    r->seed = 1000 + (uint64_t)r->rank;
    snprintf(r->note, sizeof(r->note), "rank %d", r->rank);
    dlr_ckpt_blob_size(r->ck, "note", strlen(r->note));
}

static void save(struct rank *r, uint64_t step)
{
    assert_int_equal(dlr_ckpt_begin(r->ck, step, NULL), 1);
    assert_int_equal(dlr_ckpt_fence(r->ck, NULL), 0);
}

static void run_world(int world)
{
    for (int k = 0; k < world; k++) {
        struct rank r;

        join(&r, k, world);
        fill(&r);
        save(&r, STEP);
        leave(&r);
    }
}

static void assert_shards(const struct rank *r)
{
    for (uint64_t i = 0; i < r->rows_len * COLS; i++)
        if (r->rows[i] != item(r->rows_off + i / COLS, i % COLS))
            fail_msg("rank %d: row item %u", r->rank, (unsigned)i);
    for (uint64_t i = 0; i < r->cols_len * ROWS; i++)
        if (r->cols[i] != item(i / r->cols_len, r->cols_off + i % r->cols_len) + 1)
            fail_msg("rank %d: column item %u", r->rank, (unsigned)i);
    for (unsigned i = 0; i < TABLE; i++)
        assert_int_equal(r->table[i], (uint16_t)(i * 7));
}

/* --- tests ------------------------------------------------------------------------ */

static const struct {
    int from, to;
} worlds[] = {{4, 2}, {2, 4}, {3, 2}, {2, 3}, {1, 3}, {5, 1}, {3, 3}};

static void another_number_of_ranks_finds_every_byte(void **state)
{
    for (unsigned i = 0; i < sizeof(worlds) / sizeof(worlds[0]); i++) {
        print_message("%d ranks to %d\n", worlds[i].from, worlds[i].to);
        run_world(worlds[i].from);
        for (int k = 0; k < worlds[i].to; k++) {
            const char *names[4];
            uint64_t step = 0;
            struct rank r;
            bool is_new = k >= worlds[i].from;

            join(&r, k, worlds[i].to);
            assert_int_equal(dlr_ckpt_allow(r.ck, is_new ? DLR_CKPT_MISSING : 0), 0);
            assert_int_equal(dlr_ckpt_restore(r.ck, &step), 1);
            assert_int_equal(step, STEP);
            assert_shards(&r);
            assert_int_equal(r.seed, is_new ? 0 : 1000 + k);
            assert_int_equal(dlr_ckpt_unmatched(r.ck, DLR_CKPT_MISSING, names, 4),
                             is_new ? 2 : 0);
            if (is_new)
                assert_string_equal(names[0], "seed");
            leave(&r);
        }
        assert_int_equal(standalone_teardown(NULL), 0);
        assert_int_equal(standalone_setup(NULL), 0);
    }
}

static void as_many_ranks_that_cut_otherwise_find_every_byte(void **state)
{
    run_world(3);
    turned = true;
    for (int k = 0; k < 3; k++) {
        uint64_t step = 0;
        struct rank r;

        join(&r, k, 3);
        assert_int_equal(dlr_ckpt_restore(r.ck, &step), 1);
        assert_int_equal(step, STEP);
        assert_shards(&r);
        assert_int_equal(r.seed, 1000 + k);
        leave(&r);
    }
    turned = false;
}

static void a_new_rank_has_no_state_of_its_own(void **state)
{
    struct rank r;
    uint64_t step;

    run_world(2);
    join(&r, 2, 3);
    assert_int_equal(dlr_ckpt_restore(r.ck, &step), -EBADMSG);
    assert_string_equal(dlr_ckpt_error(r.ck),
                        "the version lacks 'seed', 'note', named here "
                        "(dlr_ckpt_allow: DLR_CKPT_MISSING)");
    leave(&r);
}

static void what_a_vanished_rank_held_can_be_read(void **state)
{
    struct dlr_ckpt_region what;
    struct dlr_ckpt_version v;
    uint64_t step, seed = 0, bytes = 0;
    char note[32] = "";
    struct rank r;

    run_world(4);
    join(&r, 1, 2);
    assert_int_equal(dlr_ckpt_peek(r.ck, 3, "seed", &seed, 8, &bytes, NULL), 0);
    assert_int_equal(seed, 1003); /* before the restore, too */
    seed = 0;
    assert_int_equal(dlr_ckpt_list(r.ck, &v, 1), 1);
    assert_int_equal(v.world, 4);
    assert_int_equal(dlr_ckpt_restore(r.ck, &step), 1);
    assert_int_equal(dlr_ckpt_peek(r.ck, 3, "seed", &seed, 8, &bytes, &what), 0);
    assert_int_equal(seed, 1003);
    assert_int_equal(bytes, 8);
    assert_int_equal(what.kind, DLR_CKPT_LOCAL);
    assert_string_equal(what.dtype, "u64");
    assert_int_equal(dlr_ckpt_peek(r.ck, 2, "note", NULL, 0, &bytes, NULL), 0);
    assert_int_equal(bytes, 6);
    assert_int_equal(dlr_ckpt_peek(r.ck, 2, "note", note, 5, &bytes, NULL), -ERANGE);
    assert_int_equal(dlr_ckpt_peek(r.ck, 2, "note", note, 6, &bytes, NULL), 0);
    assert_string_equal(note, "rank 2");
    assert_int_equal(dlr_ckpt_peek(r.ck, 4, "note", note, 6, &bytes, NULL), -ENOENT);
    assert_string_equal(dlr_ckpt_error(r.ck), "the version has ranks 0 to 3, not 4");
    assert_int_equal(dlr_ckpt_peek(r.ck, 3, "nope", note, 6, &bytes, NULL), -ENOENT);
    assert_string_equal(dlr_ckpt_error(r.ck), "that rank had no region 'nope'");
    save(&r, STEP + 1);
    assert_int_equal(dlr_ckpt_peek(r.ck, 3, "seed", &seed, 8, &bytes, NULL), -ENOENT);
    leave(&r);
}

static void large_regions_are_read_across_blocks(void **state)
{
    DLR_AUTO_FREE uint32_t *rows = malloc((size_t)ROWS * COLS * 4);
    uint64_t step, bytes = 0;
    struct rank r;

    run_world(2);
    join(&r, 0, 1);
    assert_int_equal(dlr_ckpt_restore(r.ck, &step), 1);
    assert_int_equal(
        dlr_ckpt_peek(r.ck, 1, "rows", rows, (uint64_t)ROWS * COLS * 4, &bytes, NULL),
        0);
    assert_int_equal(bytes, (uint64_t)(ROWS / 2) * COLS * 4);
    for (uint64_t i = 0; i < bytes / 4; i++)
        assert_int_equal(rows[i], item(ROWS - ROWS / 2 + i / COLS, i % COLS));
    leave(&r);
}

/* What one rank named is another size, kind or place; others save it as world ranks. */
static const struct odd {
    const char *what;
    struct dlr_ckpt_region region;
    int rank, world;
    const char *text;
} odd[] = {
    {"another global shape",
     {.name = "w",
      .item_size = 4,
      .ndim = 1,
      .global_shape = {60},
      .local_shape = {60}},
     0,
     1,
     "region 'w' is [0+20 of 40] in the snapshot, [0+60 of 60] here"},
    {"more than the ranks had",
     {.name = "x",
      .item_size = 4,
      .ndim = 1,
      .global_shape = {40},
      .local_shape = {40}},
     0,
     1,
     "region 'x': item 20 of dimension 0 and others are in no rank's copy"},
    {"the same box, other contents",
     {.name = "y",
      .item_size = 4,
      .ndim = 1,
      .global_shape = {20},
      .local_shape = {20}},
     0,
     1,
     "region 'y' was the same box on several ranks, with other contents on rank 1: "
     "only "
     "the same number of ranks can load it (or name it LOCAL)"},
    {"overlapping boxes, equal contents",
     {.name = "z",
      .item_size = 4,
      .ndim = 1,
      .global_shape = {30},
      .local_shape = {30}},
     0,
     1,
     NULL},
};

static void save_odd(int rank)
{
    const struct dlr_ckpt_conf conf = {.dir = dir, .rank = rank, .world = 2};
    uint64_t at = 20 * (uint64_t)rank;
    uint32_t data[20], z[20];
    struct dlr_ckpt *ck;
    struct dlr_ckpt_region r = {.name = "w",
                                .dtype = "u32",
                                .item_size = 4,
                                .ndim = 1,
                                .global_shape = {40},
                                .offset = {at},
                                .local_shape = {20},
                                .addr = data};

    for (unsigned i = 0; i < 20; i++) {
        data[i] = (uint32_t)(i + at);
        z[i] = (uint32_t)(i + at / 2);
    }
    assert_int_equal(dlr_ckpt_open(&conf, &ck), 0);
    assert_int_equal(dlr_ckpt_add(ck, &r), 0);
    r.name = "x";
    r.offset[0] = 0;
    r.local_shape[0] = 10 + at / 2;
    memset(data, 0, rank ? 0 : sizeof(data));
    memset(data, 0, sizeof(uint32_t) * 10);
    assert_int_equal(dlr_ckpt_add(ck, &r), 0);
    dlr_ckpt_add_array(ck, "y", DLR_CKPT_SHARD, "u32", 4, data, 20);
    r = (struct dlr_ckpt_region){"z",  DLR_CKPT_SHARD, "u32", 4,   1,
                                 {30}, {at / 2},       {20},  {0}, z};
    assert_int_equal(dlr_ckpt_add(ck, &r), 0);
    assert_int_equal(dlr_ckpt_begin(ck, 1, NULL), 1);
    assert_int_equal(dlr_ckpt_fence(ck, NULL), 0);
    dlr_ckpt_close(ck);
}

static void what_cannot_be_put_together_is_named(void **state)
{
    save_odd(0);
    save_odd(1);
    for (unsigned i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        const struct dlr_ckpt_conf conf = {.dir = dir, .world = odd[i].world};
        struct dlr_ckpt_region r = odd[i].region;
        uint32_t data[60] = {0};
        struct dlr_ckpt *ck;
        uint64_t step;

        print_message("%s\n", odd[i].what);
        assert_int_equal(dlr_ckpt_open(&conf, &ck), 0);
        r.dtype = "u32";
        r.addr = data;
        assert_int_equal(dlr_ckpt_add(ck, &r), 0);
        dlr_ckpt_allow(ck, DLR_CKPT_LEFTOVER);
        assert_int_equal(dlr_ckpt_restore(ck, &step), odd[i].text ? -EBADMSG : 1);
        if (odd[i].text)
            assert_string_equal(dlr_ckpt_error(ck), odd[i].text);
        for (unsigned k = 0; !odd[i].text && k < 30; k++)
            assert_int_equal(data[k], k);
        dlr_ckpt_close(ck);
    }
}

static void a_corrupt_block_of_any_rank_makes_the_version_useless(void **state)
{
    char path[128], byte = 0x55;
    struct rank r;
    uint64_t step = 0;
    int fd;

    run_world(2);
    dlr_format(path, sizeof(path), "%s/r1-%d.safetensors", dir, STEP);
    fd = open(path, O_RDWR);
    assert_int_equal(pwrite(fd, &byte, 1, 3000000), 1);
    close(fd);
    join(&r, 0, 1);
    assert_int_equal(dlr_ckpt_restore(r.ck, &step), -EBADMSG);
    assert_non_null(strstr(dlr_ckpt_error(r.ck), "rank 1's file of step"));
    assert_int_equal(r.rows[0], 0);
    leave(&r);
}

/* --- names ------------------------------------------------------------------------ */

static const struct {
    unsigned allow;
    const char *names[6]; /* that restore asks for; saved were a to e */
    int left, missing;
    const char *text; /* NULL: it succeeds */
} names[] = {
    {0, {"a", "b", "c", "d", "e"}, 0, 0, NULL},
    {0,
     {"a", "b", "c", "d"},
     1,
     0,
     "the version holds 'e', not named here (dlr_ckpt_allow: DLR_CKPT_LEFTOVER)"},
    {DLR_CKPT_MISSING,
     {"a"},
     4,
     0,
     "the version holds 'b', 'c', 'd' and 1 more, not named here (dlr_ckpt_allow: "
     "DLR_CKPT_LEFTOVER)"},
    {DLR_CKPT_LEFTOVER, {"a"}, 4, 0, NULL},
    {DLR_CKPT_LEFTOVER,
     {"a", "z"},
     4,
     1,
     "the version lacks 'z', named here (dlr_ckpt_allow: DLR_CKPT_MISSING)"},
    {0,
     {"a", "b", "c", "d", "z"},
     1,
     1,
     "the version holds 'e', not named here, and lacks 'z', named here "
     "(dlr_ckpt_allow)"},
    {DLR_CKPT_LEFTOVER | DLR_CKPT_MISSING, {"z"}, 5, 1, NULL},
};

static void name_five(struct dlr_ckpt *ck, const char *const *list, uint32_t *data)
{
    for (unsigned i = 0; i < 5 && list[i]; i++)
        assert_int_equal(
            dlr_ckpt_add_array(ck, list[i], DLR_CKPT_REPLICATED, "u32", 4, &data[i], 1),
            0);
}

static void names_of_one_side_are_told_and_may_be_allowed(void **state)
{
    static const char *const saved[] = {"a", "b", "c", "d", "e"};
    uint32_t data[5] = {11, 12, 13, 14, 15};

    for (int rank = 0; rank < 2; rank++) {
        const struct dlr_ckpt_conf conf = {.dir = dir, .rank = rank, .world = 2};
        struct dlr_ckpt *ck;

        assert_int_equal(dlr_ckpt_open(&conf, &ck), 0);
        name_five(ck, saved, data);
        assert_int_equal(dlr_ckpt_begin(ck, 1, NULL), 1);
        assert_int_equal(dlr_ckpt_fence(ck, NULL), 0);
        dlr_ckpt_close(ck);
    }
    for (unsigned i = 0; i < 2 * sizeof(names) / sizeof(names[0]); i++) {
        const struct dlr_ckpt_conf conf = {.dir = dir, .world = 1 + (int)i % 2};
        uint32_t got[5] = {0};
        const char *list[8];
        struct dlr_ckpt *ck;
        uint64_t step;

        print_message("row %u, %d ranks\n", i / 2, conf.world);
        assert_int_equal(dlr_ckpt_open(&conf, &ck), 0);
        name_five(ck, names[i / 2].names, got);
        assert_int_equal(dlr_ckpt_allow(ck, names[i / 2].allow), 0);
        assert_int_equal(dlr_ckpt_restore(ck, &step), names[i / 2].text ? -EBADMSG : 1);
        if (names[i / 2].text)
            assert_string_equal(dlr_ckpt_error(ck), names[i / 2].text);
        assert_int_equal(dlr_ckpt_unmatched(ck, DLR_CKPT_LEFTOVER, list, 8),
                         names[i / 2].left);
        if (names[i / 2].left)
            assert_string_equal(list[names[i / 2].left - 1], "e");
        assert_int_equal(dlr_ckpt_unmatched(ck, DLR_CKPT_MISSING, list, 8),
                         names[i / 2].missing);
        if (!names[i / 2].text)
            assert_int_equal(got[0], names[i / 2].names[0][0] == 'a' ? 11 : 0);
        dlr_ckpt_close(ck);
    }
}

static void what_may_be_allowed_is_checked(void **state)
{
    static char byte;
    struct dlr_ckpt *ck;

    assert_int_equal(
        dlr_ckpt_open(&(struct dlr_ckpt_conf){.dir = dir, .world = 1}, &ck), 0);
    assert_int_equal(dlr_ckpt_allow(ck, 4), -EINVAL);
    assert_int_equal(dlr_ckpt_unmatched(ck, 3, NULL, 0), -EINVAL);
    assert_int_equal(dlr_ckpt_allow(ck, DLR_CKPT_MISSING), 0);
    assert_int_equal(dlr_ckpt_add_array(ck, "x", DLR_CKPT_BLOB, "u8", 1, &byte, 1), 0);
    assert_int_equal(dlr_ckpt_begin(ck, 1, NULL), 1);
    assert_int_equal(dlr_ckpt_allow(ck, 0), -EBUSY); /* it would change nothing */
    assert_string_equal(dlr_ckpt_error(ck),
                        "allow comes before restore and the first begin");
    dlr_ckpt_close(ck);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, standalone_setup, standalone_teardown)
    const struct CMUnitTest tests[] = {
        T(another_number_of_ranks_finds_every_byte),
        T(as_many_ranks_that_cut_otherwise_find_every_byte),
        T(a_new_rank_has_no_state_of_its_own),
        T(what_a_vanished_rank_held_can_be_read),
        T(large_regions_are_read_across_blocks),
        T(what_cannot_be_put_together_is_named),
        T(a_corrupt_block_of_any_rank_makes_the_version_useless),
        T(names_of_one_side_are_told_and_may_be_allowed),
        T(what_may_be_allowed_is_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
