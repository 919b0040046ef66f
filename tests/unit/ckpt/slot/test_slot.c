/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/base/crc32c.h"
#include "ckpt/slot/meta.h"
#include "ckpt/slot/write.h"
#include "common/base/cleanup.h"

/* Three regions: one larger than a block, a scalar, a blob used in part. */
#define BIG 700000
static float big[BIG];
static uint32_t scalar;
static char blob[100];

static const struct dlr_ckpt_region regions[] = {
    {"model/weights",
     DLR_CKPT_SHARD,
     "f32",
     4,
     2,
     {1400, 1000},
     {700, 0},
     {700, 1000},
     {0},
     big},
    {"count", DLR_CKPT_LOCAL, "u32", 4, 0, {0}, {0}, {0}, {0}, &scalar},
    {"rng", DLR_CKPT_BLOB, "u8", 1, 1, {100}, {0}, {100}, {0}, blob},
};
#define N 3
static const uint64_t used[N] = {0, 0, 33};
static const struct dlr_slot_owner owner = {0x1122334455667788, 3, 8};

/* Fills every block of a begun snapshot, padding with zeros. */
static void fill(struct dlr_slot *slot, const struct dlr_slot_plan *plan)
{
    uint64_t data = dlr_slot_plan_data(plan);
    struct dlr_slot_piece p;

    memset(dlr_slot_data(slot, plan, 0), 0, data);
    for (uint64_t at = 0; dlr_slot_plan_piece(plan, at, data, &p); at = p.off + p.bytes)
        memcpy(dlr_slot_data(slot, plan, p.off),
               (const char *)regions[p.region].addr + p.at, p.bytes);
    for (uint32_t i = 0; i < dlr_slot_plan_blocks(plan); i++) {
        uint64_t from = (uint64_t)i * DLR_SLOT_BLOCK;
        size_t n = data - from < DLR_SLOT_BLOCK ? data - from : DLR_SLOT_BLOCK;

        dlr_slot_set_crc(slot, plan, i,
                         dlr_crc32c(0, dlr_slot_data(slot, plan, from), n));
    }
}

struct fixture {
    struct dlr_slot_plan *plan;
    struct dlr_slot *slot;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    for (unsigned i = 0; i < BIG; i++)
        big[i] = (float)i * 0.5f;
    scalar = 42;
    memset(blob, 'b', sizeof(blob));
    assert_int_equal(dlr_slot_plan_new(regions, N, &owner, &f->plan, NULL), 0);
    assert_int_equal(dlr_slot_anonymous(dlr_slot_plan_bytes(f->plan), &f->slot, NULL),
                     0);
    assert_int_equal(
        dlr_slot_begin(f->slot, f->plan, (struct dlr_version){2, 77}, used), 0);
    fill(f->slot, f->plan);
    dlr_slot_seal(f->slot, f->plan);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    dlr_slot_unmap(f->slot);
    dlr_slot_plan_free(f->plan);
    free(f);
    return 0;
}

static void crc32c_matches_the_published_vectors(void **state)
{
    /* RFC 3720 appendix B.4, and the check value of the CRC catalogues. */
    unsigned char buf[32];

    memset(buf, 0, 32);
    assert_int_equal(dlr_crc32c(0, buf, 32), 0x8a9136aa);
    memset(buf, 0xff, 32);
    assert_int_equal(dlr_crc32c(0, buf, 32), 0x62a8ab43);
    for (int i = 0; i < 32; i++)
        buf[i] = (unsigned char)i;
    assert_int_equal(dlr_crc32c(0, buf, 32), 0x46dd794e);
    for (int i = 0; i < 32; i++)
        buf[i] = (unsigned char)(31 - i);
    assert_int_equal(dlr_crc32c(0, buf, 32), 0x113fdb5c);
    assert_int_equal(dlr_crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(dlr_crc32c(dlr_crc32c(0, "1234", 4), "56789", 5), 0xe3069283);
}

static void a_sealed_slot_says_what_it_holds(void **state)
{
    struct fixture *f = *state;
    struct dlr_slot_info info;

    assert_int_equal(dlr_slot_state(f->slot), DLR_SLOT_SEALED);
    assert_int_equal(dlr_slot_verify(f->slot, NULL), 0);
    assert_int_equal(dlr_slot_info(f->slot, &info), 0);
    assert_int_equal(info.version.round, 2);
    assert_int_equal(info.version.step, 77);
    assert_int_equal(info.rank, 3);
    assert_int_equal(info.world, 8);
    assert_int_equal(info.key, owner.key);
    assert_int_equal(info.nregions, N);
    assert_int_equal(info.nblocks, 3);
    assert_int_equal(info.data_bytes, 2800000 + 4 + 100);
    assert_int_equal(dlr_slot_size(regions, N), dlr_slot_bytes(f->slot));
}

static void the_regions_come_back_as_they_were_named(void **state)
{
    struct fixture *f = *state;
    struct dlr_slot_region r;
    struct dlr_meta_walk walk;
    const void *meta;
    size_t bytes;

    dlr_slot_meta(f->slot, &meta, &bytes);
    assert_int_equal(dlr_meta_walk_init(&walk, meta, bytes), 0);
    for (unsigned i = 0; i < N; i++) {
        assert_int_equal(dlr_meta_next(&walk, &r), 1);
        assert_string_equal(r.region.name, regions[i].name);
        assert_string_equal(r.region.dtype, regions[i].dtype);
        assert_int_equal(r.region.kind, regions[i].kind);
        assert_memory_equal(r.region.offset, regions[i].offset,
                            sizeof(r.region.offset));
        assert_memory_equal(r.region.local_shape, regions[i].local_shape,
                            sizeof(r.region.local_shape));
        assert_int_equal(r.used, i == 2 ? 33 : r.bytes);
        assert_memory_equal(dlr_slot_data(f->slot, f->plan, r.off), regions[i].addr,
                            r.bytes);
    }
    assert_int_equal(dlr_meta_next(&walk, &r), 0);
}

static void every_flipped_bit_of_the_meta_block_is_found(void **state)
{
    struct fixture *f = *state;
    const void *meta;
    size_t bytes;

    dlr_slot_meta(f->slot, &meta, &bytes);
    for (size_t bit = 0; bit < bytes * 8; bit++) {
        DLR_AUTO_FREE unsigned char *copy = malloc(bytes);

        memcpy(copy, meta, bytes);
        copy[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_int_equal(
            dlr_slot_check_meta(copy, bytes, dlr_slot_bytes(f->slot), NULL, NULL),
            -EBADMSG);
    }
}

static void a_cut_meta_block_is_refused(void **state)
{
    struct fixture *f = *state;
    const void *meta;
    size_t bytes;

    dlr_slot_meta(f->slot, &meta, &bytes);
    for (size_t n = 0; n < bytes; n++) {
        DLR_AUTO_FREE unsigned char *copy = malloc(n + 1); /* ASan sees a read beyond */

        memcpy(copy, meta, n);
        assert_int_equal(
            dlr_slot_check_meta(copy, n, dlr_slot_bytes(f->slot), NULL, NULL),
            -EBADMSG);
    }
}

/* Recomputes the checksums of a block whose fields were changed: what a hostile peer
 * sends.
 */
static void resign(unsigned char *meta, size_t bytes)
{
    uint32_t crc = dlr_crc32c(0, meta, 124);

    memcpy(meta + 124, &crc, 4);
    crc = dlr_crc32c(0, meta, bytes - 4);
    memcpy(meta + bytes - 4, &crc, 4);
}

static const struct hostile {
    const char *name;
    size_t at, size;
    uint64_t value;
} hostile[] = {
    {"meta_bytes huge", 8, 4, 0xffffffff},
    {"meta_bytes less", 8, 4, 128},
    {"regions huge", 12, 4, 0xffffffff},
    {"regions one more", 12, 4, 4},
    {"regions none", 12, 4, 0},
    {"blocks huge", 16, 4, 0xffffffff},
    {"blocks none", 16, 4, 0},
    {"dims huge", 20, 4, 0xfffffff0},
    {"names huge", 24, 4, 0xffffff00},
    {"rank negative", 32, 4, 0xffffffff},
    {"rank beyond the world", 32, 4, 8 * DLR_SLOT_OWNERS},
    {"world of none", 36, 4, 0},
    {"data far away", 64, 8, UINT64_MAX - 4095},
    {"data over the meta block", 64, 8, 4096},
    {"data huge", 72, 8, UINT64_MAX},
    {"data larger than the slot", 72, 8, UINT64_C(4) << 20},
    {"name of nothing", 128 + 0, 2, 0},
    {"name longer than all names", 128 + 0, 2, 0xffff},
    {"name over its end", 128 + 0, 2, 14},
    {"kind unknown", 128 + 2, 1, 9},
    {"dimensions huge", 128 + 3, 1, 255},
    {"item of nothing", 128 + 4, 4, 0},
    {"item huge", 128 + 4, 4, 0xffffffff},
    {"type without end", 128 + 8, 8, 0x4141414141414141},
    {"region elsewhere", 128 + 24, 8, 64},
    {"region beyond", 128 + 24, 8, UINT64_MAX - 63},
    {"region larger than its box", 128 + 32, 8, 2800004},
    {"length of a shard changed", 128 + 40, 8, 4},
    {"blob longer than its room", 128 + 2 * 48 + 40, 8, 101},
    {"box beyond the array", 128 + 3 * 48 + 16, 8, UINT64_MAX},
    {"box wraps", 128 + 3 * 48 + 32, 8, UINT64_MAX},
    {"version of tomorrow", 4, 2, 2},
};

static void hostile_fields_with_right_checksums_are_refused(void **state)
{
    struct fixture *f = *state;
    const void *meta;
    size_t bytes;

    dlr_slot_meta(f->slot, &meta, &bytes);
    for (unsigned i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
        DLR_AUTO_FREE unsigned char *copy = malloc(bytes);

        memcpy(copy, meta, bytes);
        memcpy(copy + hostile[i].at, &hostile[i].value, hostile[i].size);
        if (i == 23) /* fifteen characters and no NUL */
            memset(copy + 128 + 8, 'A', 16);
        resign(copy, bytes);
        print_message("  %s\n", hostile[i].name);
        assert_int_equal(
            dlr_slot_check_meta(copy, bytes, dlr_slot_bytes(f->slot), NULL, NULL),
            -EBADMSG);
        assert_int_equal(dlr_slot_put_meta(f->slot, copy, bytes, NULL), -EBADMSG);
        assert_int_equal(dlr_slot_state(f->slot), DLR_SLOT_SEALED);
    }
}

static void a_meta_block_that_does_not_fit_the_slot_is_refused(void **state)
{
    struct fixture *f = *state;
    struct dlr_err err;
    const void *meta;
    size_t bytes;

    dlr_slot_meta(f->slot, &meta, &bytes);
    assert_int_equal(dlr_slot_check_meta(meta, bytes, 1 << 20, NULL, &err), -EBADMSG);
    assert_string_equal(err.text, "2808296 bytes do not fit a slot of 1048576");
}

static void a_flipped_bit_in_any_block_is_named(void **state)
{
    struct fixture *f = *state;
    unsigned char *data = dlr_slot_data(f->slot, f->plan, 0);
    struct dlr_err err;

    data[(2 << 20) + 5] ^= 1;
    assert_int_equal(dlr_slot_verify(f->slot, &err), -EBADMSG);
    assert_string_equal(err.text, "block 2 of 3 is corrupt");
    data[(2 << 20) + 5] ^= 1;
    assert_int_equal(dlr_slot_verify(f->slot, &err), 0);
}

static void a_received_copy_equals_its_source(void **state)
{
    struct fixture *f = *state;
    struct dlr_slot *to;
    const void *meta;
    size_t bytes;

    assert_int_equal(dlr_slot_anonymous(dlr_slot_bytes(f->slot), &to, NULL), 0);
    dlr_slot_meta(f->slot, &meta, &bytes);
    assert_int_equal(dlr_slot_put_meta(to, meta, bytes, NULL), 0);
    assert_int_equal(dlr_slot_state(to), DLR_SLOT_OPEN);
    assert_int_equal(dlr_slot_verify(to, NULL), -EBADMSG);
    for (uint32_t i = 0; i < 3; i++) {
        void *a, *b;
        uint32_t crc;
        size_t n;

        assert_int_equal(dlr_slot_block(f->slot, i, &a, &n, &crc), 0);
        assert_int_equal(dlr_slot_block(to, i, &b, &n, &crc), 0);
        memcpy(b, a, n);
    }
    assert_int_equal(dlr_slot_verify(to, NULL), 0);
    dlr_slot_unmap(to);
}

static void a_block_beyond_the_last_is_refused(void **state)
{
    struct fixture *f = *state;
    uint32_t crc;
    size_t n;
    void *p;

    assert_int_equal(dlr_slot_block(f->slot, 3, &p, &n, &crc), -ERANGE);
    assert_int_equal(dlr_slot_block(f->slot, UINT32_MAX, &p, &n, &crc), -ERANGE);
}

static void a_slot_too_small_for_the_plan_is_not_begun(void **state)
{
    struct fixture *f = *state;
    struct dlr_slot *small;

    assert_int_equal(dlr_slot_anonymous(8192, &small, NULL), 0);
    assert_int_equal(dlr_slot_begin(small, f->plan, (struct dlr_version){0, 1}, NULL),
                     -ENOSPC);
    assert_int_equal(dlr_slot_state(small), DLR_SLOT_FREE);
    dlr_slot_unmap(small);
}

static void a_file_that_is_no_slot_or_is_cut_is_not_mapped(void **state)
{
    int fd = memfd_create("slot", MFD_CLOEXEC);
    struct fixture *f = *state;
    struct dlr_slot *slot;
    struct dlr_err err;

    assert_int_equal(dlr_slot_map(fd, false, &slot, &err), -EBADMSG);
    assert_int_equal(pwrite(fd, dlr_slot_base(f->slot), dlr_slot_bytes(f->slot), 0),
                     dlr_slot_bytes(f->slot));
    assert_int_equal(dlr_slot_map(fd, false, &slot, &err), 0);
    assert_int_equal(dlr_slot_verify(slot, NULL), 0);
    assert_int_equal(dlr_slot_fd(slot), -1);
    dlr_slot_unmap(slot);
    assert_int_equal(ftruncate(fd, 4096 * 3), 0);
    assert_int_equal(dlr_slot_map(fd, true, &slot, &err), -EBADMSG);
    assert_string_equal(err.text, "a slot of 2809856 bytes in a file of 12288");
    close(fd);
}

static void pieces_cover_a_window_and_end_with_it(void **state)
{
    struct fixture *f = *state;
    struct dlr_slot_piece p;

    assert_true(dlr_slot_plan_piece(f->plan, 1000, 2000, &p));
    assert_int_equal(p.region, 0);
    assert_int_equal(p.at, 1000);
    assert_int_equal(p.bytes, 1000);
    assert_false(dlr_slot_plan_piece(f->plan, 2000, 2000, &p));
    assert_true(dlr_slot_plan_piece(f->plan, 2800000, 2800200, &p));
    assert_int_equal(p.region, 1);
    assert_int_equal(p.bytes, 4);
    assert_true(dlr_slot_plan_piece(f->plan, 2800004, 2800200, &p));
    assert_int_equal(p.region, 2);
    assert_int_equal(p.bytes, 100);
    assert_false(dlr_slot_plan_piece(f->plan, 2800104, 2800200, &p)); /* the end */
}

static void a_large_region_table_stays_compact(void **state)
{
    enum { MANY = 13600 };
    struct dlr_ckpt_region *many = calloc(MANY, sizeof(*many));
    char(*names)[64] = calloc(MANY, sizeof(*names));
    struct dlr_slot_plan *plan;

    for (unsigned i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof(names[i]), "module.layers.%u.attention.weight", i);
        many[i] = (struct dlr_ckpt_region){names[i], DLR_CKPT_SHARD, "bf16", 2,
                                           1,        {10},           {0},    {10}};
    }
    assert_int_equal(dlr_slot_plan_new(many, MANY, &owner, &plan, NULL), 0);
    assert_int_equal(dlr_slot_plan_data(plan), MANY * 20);
    assert_true(dlr_slot_plan_bytes(plan) - MANY * 20 < 2 << 20);
    dlr_slot_plan_free(plan);
    free(many);
    free(names);
}

/* Named in an order that would leave holes; the second item is two numbers. */
static void larger_items_come_first_and_leave_no_hole(void **state)
{
    static const struct dlr_ckpt_region odd[] = {
        {"flag", DLR_CKPT_LOCAL, "u8", 1, 1, {3}, {0}, {3}, {0}, NULL},
        {"pair", DLR_CKPT_LOCAL, "c128", 16, 0, {0}, {0}, {0}, {0}, NULL},
        {"blob", DLR_CKPT_BLOB, "f64", 8, 1, {2}, {0}, {2}, {0}, NULL},
        {"rgb", DLR_CKPT_LOCAL, "rgb16", 6, 1, {5}, {0}, {5}, {0}, NULL},
        {"half", DLR_CKPT_LOCAL, "bf16", 2, 1, {7}, {0}, {7}, {0}, NULL},
        {"none", DLR_CKPT_SHARD, "f64", 8, 1, {9}, {9}, {0}, {0}, NULL},
        {"big", DLR_CKPT_LOCAL, "page", 4096, 0, {0}, {0}, {0}, {0}, NULL},
    };
    static const struct {
        const char *name;
        uint64_t off, used;
        unsigned region;
    } want[] = {{"big", 0, 4096, 6},  {"pair", 4096, 16, 1}, {"none", 4112, 0, 5},
                {"rgb", 4112, 30, 3}, {"half", 4142, 14, 4}, {"flag", 4156, 3, 0},
                {"blob", 4159, 11, 2}};
    static const uint64_t lengths[7] = {0, 0, 11};
    struct dlr_slot_plan *plan;
    struct dlr_slot_region r;
    struct dlr_slot_piece p;
    struct dlr_meta_walk walk;
    struct dlr_slot *slot;
    const void *meta;
    size_t bytes;

    assert_int_equal(dlr_slot_plan_new(odd, 7, &owner, &plan, NULL), 0);
    assert_int_equal(dlr_slot_plan_data(plan), 4175);
    assert_int_equal(dlr_slot_anonymous(dlr_slot_plan_bytes(plan), &slot, NULL), 0);
    assert_int_equal(dlr_slot_begin(slot, plan, (struct dlr_version){1, 2}, lengths),
                     0);
    dlr_slot_set_crc(slot, plan, 0, dlr_crc32c(0, dlr_slot_data(slot, plan, 0), 4175));
    dlr_slot_seal(slot, plan);
    assert_int_equal(dlr_slot_verify(slot, NULL), 0);
    dlr_slot_meta(slot, &meta, &bytes);
    assert_int_equal(dlr_meta_walk_init(&walk, meta, bytes), 0);
    for (unsigned i = 0; i < 7; i++) {
        assert_int_equal(dlr_meta_next(&walk, &r), 1);
        assert_string_equal(r.region.name, want[i].name);
        assert_int_equal(r.off, want[i].off);
        assert_int_equal(r.used, want[i].used);
        if (r.bytes == 0)
            continue;
        assert_true(dlr_slot_plan_piece(plan, r.off, 4175, &p));
        assert_int_equal(p.region, want[i].region);
        assert_int_equal(p.bytes, r.bytes);
    }
    dlr_slot_unmap(slot);
    dlr_slot_plan_free(plan);
}

static void no_regions_at_all_make_a_sound_slot(void **state)
{
    struct dlr_slot_plan *plan;
    struct dlr_slot *slot;

    assert_int_equal(dlr_slot_plan_new(NULL, 0, &owner, &plan, NULL), 0);
    assert_int_equal(dlr_slot_anonymous(dlr_slot_plan_bytes(plan), &slot, NULL), 0);
    assert_int_equal(dlr_slot_begin(slot, plan, (struct dlr_version){0, 1}, NULL), 0);
    dlr_slot_seal(slot, plan);
    assert_int_equal(dlr_slot_verify(slot, NULL), 0);
    dlr_slot_unmap(slot);
    dlr_slot_plan_free(plan);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(crc32c_matches_the_published_vectors),
        T(a_sealed_slot_says_what_it_holds),
        T(the_regions_come_back_as_they_were_named),
        T(every_flipped_bit_of_the_meta_block_is_found),
        T(a_cut_meta_block_is_refused),
        T(hostile_fields_with_right_checksums_are_refused),
        T(a_meta_block_that_does_not_fit_the_slot_is_refused),
        T(a_flipped_bit_in_any_block_is_named),
        T(a_received_copy_equals_its_source),
        T(a_block_beyond_the_last_is_refused),
        T(a_slot_too_small_for_the_plan_is_not_begun),
        T(a_file_that_is_no_slot_or_is_cut_is_not_mapped),
        T(pieces_cover_a_window_and_end_with_it),
        T(a_large_region_table_stays_compact),
        cmocka_unit_test(larger_items_come_first_and_leave_no_hole),
        T(no_regions_at_all_make_a_sound_slot),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
