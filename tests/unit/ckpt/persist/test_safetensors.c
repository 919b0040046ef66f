/* SPDX-License-Identifier: Apache-2.0 */
/* build: lib=jansson wrap=fstatvfs,pread */
/* A slot as a safetensors file, read back by a reader that takes nothing but the form
 * itself, and by our own, which takes nothing else.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "ckpt/base/crc32c.h"
#include "ckpt/persist/safetensors.h"
#include "ckpt/persist/slot_file.h"
#include "ckpt/slot/meta.h"
#include "ckpt/slot/write.h"
#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"

static const struct dlr_ckpt_region regions[] = {
    {"bytes", DLR_CKPT_LOCAL, "u8", 1, 1, {5}, {0}, {5}, {0}, NULL},
    {"model/weight \"w\\\"",
     DLR_CKPT_SHARD,
     "f32",
     4,
     2,
     {4, 3},
     {2, 0},
     {2, 3},
     {0},
     NULL},
    {"packed", DLR_CKPT_SHARD, "fp4x2", 3, 1, {2}, {0}, {2}, {0}, NULL},
    {"half", DLR_CKPT_REPLICATED, "bf16", 2, 1, {3}, {0}, {3}, {0}, NULL},
    {"rng", DLR_CKPT_BLOB, "u8", 1, 1, {100}, {0}, {100}, {0}, NULL},
    {"count", DLR_CKPT_LOCAL, "u64", 8, 0, {0}, {0}, {0}, {0}, NULL},
    {"none", DLR_CKPT_SHARD, "f32", 4, 1, {8}, {4}, {0}, {0}, NULL},
};
#define N (sizeof(regions) / sizeof(*regions))

/* What the form says of each: type, shape, bytes. */
static const struct {
    const char *type, *shape;
    size_t bytes;
} want[N] = {{"U8", "[5]", 5},   {"F32", "[2, 3]", 24}, {"U8", "[6]", 6},
             {"BF16", "[3]", 6}, {"U8", "[33]", 33},    {"U64", "[]", 8},
             {"F32", "[0]", 0}};

/* A sealed slot of a rank; byte k of region i is 16 * i + k. */
static struct dlr_slot *make_rank(int32_t rank)
{
    static const uint64_t used[N] = {0, 0, 0, 0, 33};
    const struct dlr_slot_owner owner = {7, rank, 8};
    struct dlr_slot_plan *plan;
    struct dlr_slot_piece p;
    struct dlr_slot *slot;
    uint64_t data;

    assert_int_equal(dlr_slot_plan_new(regions, N, &owner, &plan, NULL), 0);
    assert_int_equal(dlr_slot_anonymous(dlr_slot_plan_bytes(plan), &slot, NULL), 0);
    assert_int_equal(dlr_slot_begin(slot, plan, (struct dlr_version){2, 48}, used), 0);
    data = dlr_slot_plan_data(plan);
    memset(dlr_slot_data(slot, plan, 0), 0, data);
    for (uint64_t at = 0; dlr_slot_plan_piece(plan, at, data, &p); at = p.off + p.bytes)
        for (uint64_t k = 0; k < p.bytes; k++)
            ((unsigned char *)dlr_slot_data(slot, plan, p.off))[k] =
                (unsigned char)(16 * p.region + k);
    dlr_slot_set_crc(slot, plan, 0, dlr_crc32c(0, dlr_slot_data(slot, plan, 0), data));
    dlr_slot_seal(slot, plan);
    dlr_slot_plan_free(plan);
    return slot;
}

static struct dlr_slot *make_slot(void)
{
    return make_rank(3);
}

static char dir[64], path[128];
static bool failing_reads;

ssize_t __real_pread(int fd, void *buf, size_t n, off_t at);
ssize_t __wrap_pread(int fd, void *buf, size_t n, off_t at);

ssize_t __wrap_pread(int fd, void *buf, size_t n, off_t at)
{
    if (!failing_reads)
        return __real_pread(fd, buf, n, at);
    errno = EIO;
    return -1;
}

static int make_dir(void **state)
{
    strcpy(dir, "/tmp/dlr-safetensors-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    dlr_format(path, sizeof(path), "%s/file", dir);
    return 0;
}

static int remove_dir(void **state)
{
    unlink(path);
    return rmdir(dir);
}

static int save_slot(const struct dlr_slot *slot, const struct dlr_slot_file_how *how,
                     struct dlr_err *err)
{
    struct dlr_slot_file_part part = {.slot = slot};

    return dlr_slot_file_write(&part, 1, AT_FDCWD, path, 0600, how, err);
}

/* Writes the slot to path; what is there then. */
static unsigned char *write_slot(const struct dlr_slot *slot, size_t *ret_bytes)
{
    const struct dlr_slot_file_how how = {.check = true};
    struct dlr_err err;
    char *file;

    assert_int_equal(save_slot(slot, &how, &err), 0);
    assert_int_equal(dlr_file_load(AT_FDCWD, path, 1 << 20, &file, ret_bytes, &err), 0);
    return (unsigned char *)file;
}

static int map_file(struct dlr_slot **ret, struct dlr_err *err)
{
    DLR_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);

    return dlr_slot_file_map(fd, 3, ret, err);
}

/* Item size of a type of the form. */
static size_t size_of(const char *type)
{
    static const char *const sizes[] = {"", "U8", "BF16", "", "F32", "", "", "", "U64"};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        if (!strcmp(sizes[i], type))
            return i;
    fail_msg("type %s", type);
    return 0;
}

/* Checks a tensor against the form and the table; returns its bytes. */
static size_t check_tensor(const json_t *t, unsigned i, const unsigned char *data)
{
    const json_t *off = json_object_get(t, "data_offsets");
    const char *type = json_string_value(json_object_get(t, "dtype"));
    json_int_t from = json_integer_value(json_array_get(off, 0));
    json_int_t to = json_integer_value(json_array_get(off, 1));
    DLR_AUTO_FREE char *shape = json_dumps(json_object_get(t, "shape"), 0);
    size_t items = 1, k;
    json_t *d;

    json_array_foreach(json_object_get(t, "shape"), k, d) items *=
        (size_t)json_integer_value(d);
    assert_string_equal(type, want[i].type);
    assert_string_equal(shape, want[i].shape);
    assert_int_equal(to - from, want[i].bytes);
    assert_int_equal(items * size_of(type), want[i].bytes);
    if (items > 0)
        assert_int_equal((size_t)from % size_of(type), 0);
    for (json_int_t b = from; b < to; b++)
        assert_int_equal(data[b], (unsigned char)(16 * i + (unsigned)(b - from)));
    return want[i].bytes;
}

#define ROOM (100 - 33) /* of the blob */

static json_t *read_header(const unsigned char *file, uint64_t *ret_bytes)
{
    json_t *head;

    memcpy(ret_bytes, file, 8);
    assert_int_equal((*ret_bytes + 8) % 4096, 0);
    assert_int_equal(file[8], '{');
    head = json_loadb((char *)file + 8, *ret_bytes, JSON_REJECT_DUPLICATES, NULL);
    *ret_bytes += 8;
    assert_true(json_is_object(head));
    return head;
}

static void a_strict_reader_takes_it(void **state)
{
    struct dlr_slot *slot = make_slot();
    uint64_t n, covered = 0;
    DLR_AUTO_FREE unsigned char *file = NULL;
    json_t *head, *t;
    const char *name;
    unsigned seen = 0;
    size_t bytes = 0;

    file = write_slot(slot, &bytes);
    head = read_header(file, &n);
    json_object_foreach(head, name, t)
    {
        unsigned i = 0;

        if (!strcmp(name, "__metadata__"))
            continue;
        /* One after the other, without holes. */
        assert_int_equal(
            json_integer_value(json_array_get(json_object_get(t, "data_offsets"), 0)),
            covered);
        if (!strcmp(name, "dlrover.room.rng")) {
            covered += ROOM;
            continue;
        }
        while (i < N && strcmp(regions[i].name, name))
            i++;
        assert_true(i < N);
        covered += check_tensor(t, i, file + n);
        seen++;
    }
    assert_int_equal(seen, N);
    assert_int_equal(n + covered, bytes);
    json_decref(head);
    dlr_slot_unmap(slot);
}

static void metadata_says_what_the_form_cannot(void **state)
{
    struct dlr_slot *slot = make_slot();
    DLR_AUTO_FREE unsigned char *file = NULL;
    json_t *head, *meta, *value;
    const char *key;
    char crc[16];
    size_t bytes = 0;
    uint64_t n;

    file = write_slot(slot, &bytes);
    head = read_header(file, &n);
    meta = json_object_get(head, "__metadata__");
    json_object_foreach(meta, key, value) assert_true(json_is_string(value));
    assert_string_equal(json_string_value(json_object_get(meta, "dlrover.step")), "48");
    assert_string_equal(json_string_value(json_object_get(meta, "dlrover.rank")), "3");
    assert_string_equal(json_string_value(json_object_get(meta, "dlrover.world")), "8");
    snprintf(crc, sizeof(crc), "%08x", dlr_crc32c(0, file + n, bytes - n));
    assert_string_equal(json_string_value(json_object_get(meta, "dlrover.crc32c")),
                        crc);
    assert_string_equal(
        json_string_value(json_object_get(meta, "dlrover.region.model/weight \"w\\\"")),
        "shard dtype=f32 item=4 global=[4,3] offset=[2,0]");
    json_decref(head);
    dlr_slot_unmap(slot);
}

static void the_file_is_read_as_the_slot_it_was(void **state)
{
    struct dlr_slot *slot = make_slot(), *back = NULL;
    DLR_AUTO_FREE unsigned char *file = NULL;
    const void *meta, *again;
    size_t bytes, n, crc_at;
    void *data, *copy;
    uint32_t crc;

    file = write_slot(slot, &bytes);
    assert_int_equal(map_file(&back, NULL), 0);
    assert_int_equal(dlr_slot_state(back), DLR_SLOT_SEALED);
    assert_int_equal(dlr_slot_verify(back, NULL), 0);
    dlr_slot_meta(slot, &meta, &bytes);
    dlr_slot_meta(back, &again, &n);
    assert_int_equal(n, bytes);
    assert_memory_equal(again, meta, bytes);
    assert_int_equal(dlr_slot_block(slot, 0, &data, &bytes, &crc), 0);
    assert_int_equal(dlr_slot_block(back, 0, &copy, &crc_at, &crc), 0);
    assert_memory_equal(copy, data, bytes);
    dlr_slot_unmap(slot);
    dlr_slot_unmap(back);
}

static void put_file(const unsigned char *file, size_t bytes)
{
    struct iovec part = {(void *)file, bytes};

    assert_int_equal(dlr_file_replace(AT_FDCWD, path, 0600, &part, 1, NULL), 0);
}

static void every_changed_byte_is_found(void **state)
{
    struct dlr_slot *slot = make_slot(), *back;
    DLR_AUTO_FREE unsigned char *file = NULL;
    DLR_AUTO_CLOSE int fd = -1;
    size_t bytes = 0;

    file = write_slot(slot, &bytes);
    fd = open(path, O_RDWR | O_CLOEXEC);
    for (size_t i = 0; i < bytes; i++) {
        unsigned char byte = file[i] ^ (unsigned char)(1u << i % 8);
        struct dlr_err err;
        int rc;

        assert_int_equal(pwrite(fd, &byte, 1, (off_t)i), 1);
        rc = dlr_slot_file_map(fd, 3, &back, &err);
        if (rc == 0) {
            rc = dlr_slot_verify(back, &err);
            dlr_slot_unmap(back);
        }
        assert_int_equal(rc, -EBADMSG);
        assert_true(err.text[0]);
        assert_int_equal(pwrite(fd, &file[i], 1, (off_t)i), 1);
    }
    assert_int_equal(dlr_slot_file_map(fd, -1, &back, NULL), 0);
    dlr_slot_unmap(back);
    dlr_slot_unmap(slot);
}

static void a_cut_or_longer_file_is_refused(void **state)
{
    struct dlr_slot *slot = make_slot(), *back;
    DLR_AUTO_FREE unsigned char *file = NULL;
    size_t bytes = 0;

    file = write_slot(slot, &bytes);
    for (size_t n = 0; n < bytes; n += n < 4096 ? 61 : 1) {
        put_file(file, n);
        assert_int_equal(map_file(&back, NULL), -EBADMSG);
    }
    file = realloc(file, bytes + 1);
    file[bytes] = 0;
    put_file(file, bytes + 1);
    assert_int_equal(map_file(&back, NULL), -EBADMSG);
    put_file(dlr_slot_base(slot), dlr_slot_bytes(slot)); /* as node memory has it */
    assert_int_equal(map_file(&back, NULL), -EBADMSG);
    dlr_slot_unmap(slot);
}

/* Three blocks, the last one short, in a file at path. */
static void write_blocks(uint64_t bytes)
{
    const struct dlr_ckpt_region r = {"all", DLR_CKPT_SHARD, "u8", 1,   1, {bytes},
                                      {0},   {bytes},        {0},  NULL};
    const struct dlr_slot_owner owner = {7, 3, 8};
    const struct dlr_slot_file_how how = {.check = true};
    struct dlr_slot_plan *plan;
    struct dlr_slot *slot;
    unsigned char *data;

    assert_int_equal(dlr_slot_plan_new(&r, 1, &owner, &plan, NULL), 0);
    assert_int_equal(dlr_slot_anonymous(dlr_slot_plan_bytes(plan), &slot, NULL), 0);
    assert_int_equal(dlr_slot_begin(slot, plan, (struct dlr_version){2, 48}, NULL), 0);
    data = dlr_slot_data(slot, plan, 0);
    for (uint64_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)(i * 7 + i / 1009);
    for (uint32_t i = 0; i < dlr_slot_plan_blocks(plan); i++) {
        uint64_t from = (uint64_t)i * DLR_SLOT_BLOCK, left = bytes - from;

        dlr_slot_set_crc(
            slot, plan, i,
            dlr_crc32c(0, data + from, left < DLR_SLOT_BLOCK ? left : DLR_SLOT_BLOCK));
    }
    dlr_slot_seal(slot, plan);
    dlr_slot_plan_free(plan);
    assert_int_equal(save_slot(slot, &how, NULL), 0);
    dlr_slot_unmap(slot);
}

#define THREE_BLOCKS (2 * (uint64_t)DLR_SLOT_BLOCK + 4321)

/* A mapped file would end this process. */
static void a_file_that_is_cut_while_it_is_read_is_a_bad_copy(void **state)
{
    struct dlr_slot *slot;
    struct dlr_err err;
    uint32_t crc;
    size_t n;
    void *data;

    write_blocks(THREE_BLOCKS);
    assert_int_equal(map_file(&slot, NULL), 0);
    assert_int_equal(truncate(path, 2 * DLR_SLOT_BLOCK + 100), 0);
    assert_int_equal(dlr_slot_block(slot, 0, &data, &n, &crc), 0);
    assert_int_equal(dlr_crc32c(0, data, n), crc);
    assert_int_equal(dlr_slot_block(slot, 2, &data, &n, &crc), -ENODATA);
    assert_int_equal(dlr_slot_verify(slot, &err), -EBADMSG);
    assert_string_equal(err.text, "block 1 cannot be read: No data available");
    dlr_slot_unmap(slot);
}

static void a_disk_that_fails_is_a_bad_copy(void **state)
{
    struct dlr_slot *slot;
    struct dlr_err err;

    write_blocks(THREE_BLOCKS);
    assert_int_equal(map_file(&slot, NULL), 0);
    failing_reads = true;
    assert_int_equal(dlr_slot_verify(slot, &err), -EBADMSG);
    failing_reads = false;
    assert_string_equal(err.text, "block 0 cannot be read: Input/output error");
    assert_int_equal(dlr_slot_verify(slot, NULL), 0);
    dlr_slot_unmap(slot);
}

/* Whose memory is not kept for who has passed them, and is read again for who comes
 * back.
 */
static void blocks_are_read_when_they_are_asked_for(void **state)
{
    const struct dlr_slot_file_how how = {0};
    struct dlr_slot *slot;
    unsigned char there[DLR_SLOT_BLOCK / DLR_SLOT_PAGE];
    uint32_t crc;
    size_t n;
    void *data;

    write_blocks(THREE_BLOCKS);
    assert_int_equal(map_file(&slot, NULL), 0);
    for (unsigned round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(dlr_slot_block(slot, i, &data, &n, &crc), 0);
            assert_int_equal(dlr_crc32c(0, data, n), crc);
            dlr_slot_pass(slot, i);
        }
        data = (char *)data - DLR_SLOT_BLOCK;
        assert_int_equal(mincore(data, DLR_SLOT_BLOCK, there), 0);
        for (unsigned i = 0; i < sizeof(there); i++)
            assert_int_equal(there[i] & 1, 0);
    }
    assert_int_equal(save_slot(slot, &how, NULL), 0);
    dlr_slot_unmap(slot);
    assert_int_equal(map_file(&slot, NULL), 0);
    assert_int_equal(dlr_slot_verify(slot, NULL), 0);
    dlr_slot_unmap(slot);
}

static void a_corrupt_block_leaves_the_old_file(void **state)
{
    static const struct dlr_slot_file_how how = {.check = true};
    struct dlr_slot *slot = make_slot(), *back;
    struct dlr_err err;
    size_t bytes = 0, n;
    uint32_t crc;
    void *data;

    free(write_slot(slot, &bytes));
    assert_int_equal(dlr_slot_block(slot, 0, &data, &n, &crc), 0);
    ((unsigned char *)data)[n - 1] ^= 4;
    assert_int_equal(save_slot(slot, &how, &err), -EBADMSG);
    assert_string_equal(err.text, "block 0 of the slot is corrupt");
    assert_int_equal(map_file(&back, NULL), 0);
    assert_int_equal(dlr_slot_verify(back, NULL), 0);
    dlr_slot_unmap(back);
    dlr_slot_unmap(slot);
}

/* The file system is asked first, and says how much it has. */
static uint64_t room;
int __real_fstatvfs(int fd, struct statvfs *ret);
int __wrap_fstatvfs(int fd, struct statvfs *ret);
int __wrap_fstatvfs(int fd, struct statvfs *ret)
{
    int rc = __real_fstatvfs(fd, ret);

    if (room) {
        ret->f_frsize = 1;
        ret->f_bavail = room;
    }
    return rc;
}

static void what_does_not_fit_is_refused_with_the_numbers(void **state)
{
    static const struct dlr_slot_file_how how = {.check = true};
    struct dlr_slot *slot = make_slot();
    struct dlr_err err;
    char want_text[160];
    size_t bytes = 0;

    free(write_slot(slot, &bytes));
    room = bytes - 1;
    assert_int_equal(save_slot(slot, &how, &err), -ENOSPC);
    snprintf(want_text, sizeof(want_text), "'%s/' has room for %zu of %zu bytes", dir,
             bytes - 1, bytes);
    assert_string_equal(err.text, want_text);
    room = bytes;
    assert_int_equal(save_slot(slot, &how, &err), 0);
    room = 0;
    dlr_slot_unmap(slot);
}

static int make_header(const struct dlr_slot *slot, char **ret, uint64_t *ret_bytes,
                       struct dlr_err *err)
{
    struct dlr_safetensors_part part = {.most = dlr_slot_bytes(slot)};
    unsigned bad = 7;
    int rc;

    dlr_slot_meta(slot, &part.meta, &part.bytes);
    rc = dlr_safetensors_header(&part, 1, ret, ret_bytes, &bad, err);
    assert_true(bad <= 1);
    return rc;
}

static void a_spoilt_table_is_refused(void **state)
{
    struct dlr_slot *slot = make_slot();
    struct dlr_err err;
    uint64_t bytes;
    char *header;

    for (size_t at = 4096; at < 4096 + 600; at += 7) {
        ((unsigned char *)dlr_slot_base(slot))[at] ^= 0x10;
        assert_int_equal(make_header(slot, &header, &bytes, &err), -EBADMSG);
        ((unsigned char *)dlr_slot_base(slot))[at] ^= 0x10;
    }
    dlr_slot_unmap(slot);
}

static void a_name_that_cannot_be_a_key_is_refused(void **state)
{
    static const struct {
        const char *names[2], *why;
    } rows[] = {
        {{"a", "__metadata__"}, "a region is named '__metadata__'"},
        {{"dlrover.room.a", "a"}, "a region is named 'dlrover.room.a'"},
        {{"a", "a"}, "two regions are named 'a'"},
    };
    const struct dlr_slot_owner owner = {7, 0, 1};

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_ckpt_region two[] = {regions[0], regions[0]};
        struct dlr_slot_plan *plan;
        struct dlr_slot *slot;
        struct dlr_err err;
        uint64_t bytes;
        char *header;

        for (unsigned k = 0; k < 2; k++)
            two[k].name = rows[i].names[k];
        assert_int_equal(dlr_slot_plan_new(two, 2, &owner, &plan, NULL), 0);
        assert_int_equal(dlr_slot_anonymous(dlr_slot_plan_bytes(plan), &slot, NULL), 0);
        assert_int_equal(dlr_slot_begin(slot, plan, (struct dlr_version){0, 1}, NULL),
                         0);
        dlr_slot_seal(slot, plan);
        assert_int_equal(make_header(slot, &header, &bytes, &err), -EBADMSG);
        assert_string_equal(err.text, rows[i].why);
        dlr_slot_plan_free(plan);
        dlr_slot_unmap(slot);
    }
}

/* --- several ranks in one file ---------------------------------------------------- */

static const int32_t node_ranks[] = {2, 3, 11};
#define SHARED (sizeof(node_ranks) / sizeof(*node_ranks))
static struct dlr_slot_file_part parts[SHARED];

static int make_node(void **state)
{
    for (unsigned i = 0; i < SHARED; i++)
        parts[i] = (struct dlr_slot_file_part){.slot = make_rank(node_ranks[i])};
    return make_dir(state);
}

static int remove_node(void **state)
{
    for (unsigned i = 0; i < SHARED; i++)
        dlr_slot_unmap((struct dlr_slot *)parts[i].slot);
    return remove_dir(state);
}

static int write_node(struct dlr_err *err)
{
    static const struct dlr_slot_file_how how = {.check = true};

    return dlr_slot_file_write(parts, SHARED, AT_FDCWD, path, 0600, &how, err);
}

static unsigned char *read_node(size_t *ret_bytes)
{
    struct dlr_err err;
    char *file;

    assert_int_equal(write_node(&err), 0);
    assert_int_equal(dlr_file_load(AT_FDCWD, path, 1 << 20, &file, ret_bytes, &err), 0);
    return (unsigned char *)file;
}

/* Region and rank of a tensor named "RANK/NAME". */
static unsigned find_tensor(const char *name, unsigned *ret_part)
{
    const char *slash = strchr(name, '/');
    unsigned i = 0;

    assert_non_null(slash);
    for (*ret_part = 0; atoi(name) != node_ranks[*ret_part]; ++*ret_part)
        assert_true(*ret_part + 1 < SHARED);
    while (strcmp(regions[i].name, slash + 1)) {
        i++;
        assert_true(i < N);
    }
    return i;
}

static void a_strict_reader_takes_a_file_of_several(void **state)
{
    DLR_AUTO_FREE unsigned char *file = NULL;
    json_t *head, *t;
    const char *name;
    unsigned seen = 0, pads = 0, part;
    size_t bytes = 0;
    uint64_t n, covered = 0;

    file = read_node(&bytes);
    head = read_header(file, &n);
    json_object_foreach(head, name, t)
    {
        const json_t *off = json_object_get(t, "data_offsets");

        if (!strcmp(name, "__metadata__"))
            continue;
        assert_int_equal(json_integer_value(json_array_get(off, 0)), covered);
        covered = (uint64_t)json_integer_value(json_array_get(off, 1));
        if (!strncmp(name, "dlrover.", 8)) {
            pads += !strncmp(name, "dlrover.pad.", 12);
            continue;
        }
        check_tensor(t, find_tensor(name, &part), file + n);
        assert_true(n + covered <= parts[part].slice.at + parts[part].slice.bytes);
        seen++;
    }
    assert_int_equal(seen, SHARED * N);
    assert_int_equal(pads, SHARED - 1);
    assert_int_equal(n + covered, bytes);
    json_decref(head);
}

static void each_rank_is_read_as_the_slot_it_was(void **state)
{
    DLR_AUTO_FREE unsigned char *file = NULL;
    size_t bytes = 0, size, n;
    const void *meta, *again;
    struct dlr_slot *back;
    struct dlr_err err;
    uint32_t crc;
    void *data, *copy;

    file = read_node(&bytes);
    for (unsigned i = 0; i < SHARED; i++) {
        DLR_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
        const struct dlr_slice *s = &parts[i].slice;

        assert_int_equal(dlr_slot_file_map(fd, node_ranks[i], &back, &err), 0);
        assert_int_equal(dlr_slot_verify(back, &err), 0);
        dlr_slot_meta(parts[i].slot, &meta, &size);
        dlr_slot_meta(back, &again, &n);
        assert_int_equal(n, size);
        assert_memory_equal(again, meta, size);
        assert_memory_equal((const char *)meta + size - 4, &s->crc, 4);
        assert_int_equal(dlr_slot_block(parts[i].slot, 0, &data, &size, &crc), 0);
        assert_int_equal(dlr_slot_block(back, 0, &copy, &n, &crc), 0);
        assert_memory_equal(copy, data, size);
        assert_int_equal(s->bytes, size);
        assert_int_equal(s->at % 4096, 0);
        assert_memory_equal(file + s->at, data, size);
        assert_int_equal(s->room, dlr_slot_bytes(back));
        dlr_slot_unmap(back);
    }
    assert_int_equal(parts[SHARED - 1].slice.at + parts[SHARED - 1].slice.bytes, bytes);
}

static void a_rank_that_is_not_in_it_is_not_found(void **state)
{
    DLR_AUTO_CLOSE int fd = -1;
    struct dlr_slot *back;
    struct dlr_err err;

    assert_int_equal(write_node(&err), 0);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(dlr_slot_file_map(fd, 4, &back, &err), -EBADMSG);
    assert_string_equal(err.text, "rank 4 is not in it");
}

/* Those between two ranks' data mean nothing. */
static bool is_pad(size_t i)
{
    for (unsigned p = 0; p + 1 < SHARED; p++)
        if (i >= parts[p].slice.at + parts[p].slice.bytes && i < parts[p + 1].slice.at)
            return true;
    return false;
}

static int read_all(int fd)
{
    struct dlr_slot *back;
    struct dlr_err err;
    int rc = 0;

    for (unsigned i = 0; rc == 0 && i < SHARED; i++) {
        rc = dlr_slot_file_map(fd, node_ranks[i], &back, &err);
        if (rc < 0)
            continue;
        rc = dlr_slot_verify(back, &err);
        dlr_slot_unmap(back);
    }
    return rc;
}

/* The header is changed behind our back: who reads it again finds that. */
static void a_header_is_read_once_while_the_file_stays(void **state)
{
    DLR_CLEANUP(dlr_slot_file_heads_done) struct dlr_slot_file_heads heads = {0};
    DLR_AUTO_FREE unsigned char *file = NULL;
    DLR_AUTO_CLOSE int fd = -1;
    size_t bytes = 0;
    struct dlr_slot *back;
    struct dlr_err err;
    struct stat st;
    struct timespec times[2];

    file = read_node(&bytes);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(fstat(fd, &st), 0);
    times[0] = times[1] = st.st_mtim;
    for (unsigned i = 0; i < SHARED; i++) {
        assert_int_equal(dlr_slot_file_map_by(&heads, fd, node_ranks[i], &back, &err),
                         0);
        assert_int_equal(dlr_slot_verify(back, &err), 0);
        dlr_slot_unmap(back);
        assert_int_equal(pwrite(fd, "x", 1, 20), 1);
        assert_int_equal(futimens(fd, times), 0);
        assert_int_equal(dlr_slot_file_map(fd, node_ranks[i], &back, &err), -EBADMSG);
    }
    assert_int_equal(dlr_slot_file_map_by(&heads, fd, 4, &back, &err), -EBADMSG);
    assert_string_equal(err.text, "rank 4 is not in it");
    times[1].tv_nsec ^= 1;
    assert_int_equal(futimens(fd, times), 0);
    assert_int_equal(dlr_slot_file_map_by(&heads, fd, node_ranks[0], &back, &err),
                     -EBADMSG);
}

static void every_changed_byte_of_several_is_found(void **state)
{
    DLR_AUTO_FREE unsigned char *file = NULL;
    DLR_AUTO_CLOSE int fd = -1;
    size_t bytes = 0;

    file = read_node(&bytes);
    fd = open(path, O_RDWR | O_CLOEXEC);
    for (size_t i = 0; i < bytes; i++) {
        unsigned char byte = file[i] ^ (unsigned char)(1u << i % 8);

        assert_int_equal(pwrite(fd, &byte, 1, (off_t)i), 1);
        assert_int_equal(read_all(fd), is_pad(i) ? 0 : -EBADMSG);
        assert_int_equal(pwrite(fd, &file[i], 1, (off_t)i), 1);
    }
    assert_int_equal(read_all(fd), 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes - 1), 0);
    assert_int_equal(read_all(fd), -EBADMSG);
}

static void the_corrupt_one_of_several_is_named(void **state)
{
    struct dlr_err err;
    size_t n;
    uint32_t crc;
    void *data;

    for (unsigned meta = 0; meta < 2; meta++)
        for (unsigned i = 0; i < SHARED; i++) {
            unsigned char *at = (unsigned char *)dlr_slot_base(parts[i].slot) + 4200;

            if (!meta) {
                assert_int_equal(dlr_slot_block(parts[i].slot, 0, &data, &n, &crc), 0);
                at = (unsigned char *)data + n - 1;
            }
            *at ^= 4;
            assert_int_equal(write_node(&err), -EBADMSG);
            for (unsigned k = 0; k < SHARED; k++)
                assert_int_equal(parts[k].bad, k == i);
            assert_int_equal(access(path, F_OK), -1);
            *at ^= 4;
        }
    assert_int_equal(write_node(&err), 0);
}

static void ranks_out_of_order_are_refused(void **state)
{
    struct dlr_slot_file_part was = parts[0];
    struct dlr_err err;

    parts[0] = parts[1];
    assert_int_equal(write_node(&err), -EBADMSG);
    assert_string_equal(err.text, "rank 3 does not belong behind rank 3");
    parts[0] = parts[2];
    assert_int_equal(write_node(&err), -EBADMSG);
    parts[0] = was;
    assert_int_equal(write_node(&err), 0);
}

static void a_file_of_another_form_says_so(void **state)
{
    struct dlr_slot *slot = make_slot(), *back;
    DLR_AUTO_FREE unsigned char *file = NULL;
    struct dlr_err err;
    size_t bytes = 0;
    char *form;

    file = write_slot(slot, &bytes);
    form = strstr((char *)file + 8, "dlrover-2");
    assert_non_null(form);
    form[8] = '1';
    put_file(file, bytes);
    assert_int_equal(map_file(&back, &err), -EBADMSG);
    assert_string_equal(err.text, "its form is not dlrover-2, the only one that this "
                                  "version reads, but dlrover-1");
    dlr_slot_unmap(slot);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)
#define NODE(f) cmocka_unit_test_setup_teardown(f, make_node, remove_node)
    const struct CMUnitTest tests[] = {
        TEST(a_strict_reader_takes_it),
        TEST(metadata_says_what_the_form_cannot),
        TEST(the_file_is_read_as_the_slot_it_was),
        TEST(every_changed_byte_is_found),
        TEST(a_cut_or_longer_file_is_refused),
        TEST(a_file_that_is_cut_while_it_is_read_is_a_bad_copy),
        TEST(a_disk_that_fails_is_a_bad_copy),
        TEST(blocks_are_read_when_they_are_asked_for),
        TEST(a_corrupt_block_leaves_the_old_file),
        TEST(what_does_not_fit_is_refused_with_the_numbers),
        TEST(a_file_of_another_form_says_so),
        NODE(a_strict_reader_takes_a_file_of_several),
        NODE(each_rank_is_read_as_the_slot_it_was),
        NODE(a_rank_that_is_not_in_it_is_not_found),
        NODE(a_header_is_read_once_while_the_file_stays),
        NODE(every_changed_byte_of_several_is_found),
        NODE(the_corrupt_one_of_several_is_named),
        NODE(ranks_out_of_order_are_refused),
        cmocka_unit_test(a_spoilt_table_is_refused),
        cmocka_unit_test(a_name_that_cannot_be_a_key_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
