/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/slot_meta.h"
#include "common/cleanup.h"
#include "common/str.h"

#define HEADER_MAX 100000000u /* bytes: the limit of the public readers */
#define BEGIN                                                                          \
    "{\"" DLR_SAFETENSORS_OWN "\":{\"format\":\"dlrover-1\",\"dlrover.slot\":\""

/* Their names of types whose items are of that size. */
static const struct {
    const char *ours, *theirs;
    uint32_t item_size;
} types[] = {
    {"f64", "F64", 8},
    {"f32", "F32", 4},
    {"f16", "F16", 2},
    {"bf16", "BF16", 2},
    {"i64", "I64", 8},
    {"i32", "I32", 4},
    {"i16", "I16", 2},
    {"i8", "I8", 1},
    {"u64", "U64", 8},
    {"u32", "U32", 4},
    {"u16", "U16", 2},
    {"u8", "U8", 1},
    {"bool", "BOOL", 1},
    {"float64", "F64", 8},
    {"float32", "F32", 4},
    {"float16", "F16", 2},
    {"bfloat16", "BF16", 2},
    {"int64", "I64", 8},
    {"int32", "I32", 4},
    {"int16", "I16", 2},
    {"int8", "I8", 1},
    {"uint64", "U64", 8},
    {"uint32", "U32", 4},
    {"uint16", "U16", 2},
    {"uint8", "U8", 1},
    {"f8_e4m3", "F8_E4M3", 1},
    {"f8_e5m2", "F8_E5M2", 1},
    {"float8_e4m3fn", "F8_E4M3", 1},
    {"float8_e5m2", "F8_E5M2", 1},
};

struct tensor {
    struct dlr_slot_region r;
    char dtype[DLR_CKPT_DTYPE_MAX + 1];
    const char *type; /* theirs */
    bool plain;       /* its shape is ours, items and all */
};

static void choose_type(struct tensor *t)
{
    t->type = "U8";
    if (t->r.region.kind == DLR_CKPT_BLOB)
        return;
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
        if (dlr_streq(types[i].ours, t->dtype) &&
            types[i].item_size == t->r.region.item_size) {
            t->type = types[i].theirs;
            t->plain = true;
        }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A name is a key of the header: there once, and none that means something else. */
static int check_names(const struct tensor *list, unsigned n, struct dlr_err *err)
{
    DLR_AUTO_FREE const char **names = calloc(n + 1u, sizeof(*names));

    if (!names)
        return dlr_fail(err, -ENOMEM, "out of memory");
    for (unsigned i = 0; i < n; i++)
        names[i] = list[i].r.region.name;
    qsort(names, n, sizeof(*names), by_name);
    for (unsigned i = 0; i < n; i++) {
        if (dlr_safetensors_reserved(names[i]))
            return dlr_fail(err, -EBADMSG, "a region is named '%s'", names[i]);
        if (i > 0 && dlr_streq(names[i], names[i - 1]))
            return dlr_fail(err, -EBADMSG, "two regions are named '%s'", names[i]);
    }
    return 0;
}

static int read_tensors(const void *meta, size_t bytes, unsigned n, struct tensor **ret,
                        struct dlr_err *err)
{
    DLR_AUTO_FREE struct tensor *list = calloc(n + 1u, sizeof(*list));
    struct dlr_meta_walk walk;
    int rc;

    if (!list)
        return dlr_fail(err, -ENOMEM, "out of memory");
    if (dlr_meta_walk_init(&walk, meta, bytes) < 0)
        return dlr_fail(err, -EBADMSG, "the meta block changed while it was read");
    for (unsigned i = 0; i < n; i++) {
        if (dlr_meta_next(&walk, &list[i].r) <= 0)
            return dlr_fail(err, -EBADMSG, "region %u is malformed", i);
        memcpy(list[i].dtype, list[i].r.dtype, sizeof(list[i].dtype));
        choose_type(&list[i]);
    }
    rc = check_names(list, n, err);
    if (rc == 0)
        *ret = DLR_STEAL(list);
    return rc;
}

static void put_hex(FILE *out, const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fputc("0123456789abcdef"[bytes[i] >> 4], out);
        fputc("0123456789abcdef"[bytes[i] & 15], out);
    }
}

/* Text between quotes. What is no UTF-8 of ours to judge goes through as it is. */
static void put_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (const char *p = text; *p; p++) {
        unsigned char c = (unsigned char)*p;

        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < ' ')
            fprintf(out, "\\u%04x", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}

/* A type's name as it can stand in a line of words. */
static const char *plain_dtype(const char *dtype)
{
    for (const char *p = dtype; *p; p++)
        if (*p <= ' ' || *p >= 0x7f || *p == '"' || *p == '\\')
            return "-";
    return *dtype ? dtype : "-";
}

static void put_dims(FILE *out, const uint64_t *dims, unsigned n)
{
    fputc('[', out);
    for (unsigned d = 0; d < n; d++)
        fprintf(out, "%s%" PRIu64, d ? "," : "", dims[d]);
    fputc(']', out);
}

/* A shape whose product is the number of bytes, whatever the item was. */
static void put_shape(FILE *out, const struct tensor *t)
{
    const struct dlr_ckpt_region *r = &t->r.region;

    if (!t->plain)
        fprintf(out, "[%" PRIu64 "]", t->r.used);
    else
        put_dims(out, r->local_shape, r->ndim);
}

/* What the form has no place for: where the box lies in the whole. */
static void put_region(FILE *out, const struct tensor *t)
{
    static const char *const kinds[] = {
        [DLR_CKPT_SHARD] = "shard",
        [DLR_CKPT_REPLICATED] = "replicated",
        [DLR_CKPT_LOCAL] = "local",
        [DLR_CKPT_BLOB] = "blob",
    };
    const struct dlr_ckpt_region *r = &t->r.region;
    char key[DLR_CKPT_NAME_MAX + 32];

    snprintf(key, sizeof(key), "dlrover.region.%s", r->name);
    fputc(',', out);
    put_text(out, key);
    fprintf(out, ":\"%s dtype=%s item=%" PRIu32 " global=", kinds[r->kind],
            plain_dtype(t->dtype), r->item_size);
    put_dims(out, r->global_shape, r->ndim);
    fputs(" offset=", out);
    put_dims(out, r->offset, r->ndim);
    fputc('"', out);
}

/* A checksum for each MiB of the data, as the block ends with them before its own. */
static void put_sums(FILE *out, const unsigned char *meta, size_t bytes, uint32_t n)
{
    const unsigned char *at = meta + bytes - (n + (size_t)1) * sizeof(uint32_t);

    fputs(",\"dlrover.crc32c\":\"", out);
    for (uint32_t i = 0, crc; i < n; i++, at += sizeof(crc)) {
        memcpy(&crc, at, sizeof(crc));
        fprintf(out, "%s%08" PRIx32, i ? " " : "", crc);
    }
    fputc('"', out);
}

static void put_metadata(FILE *out, const void *meta, size_t bytes,
                         const struct dlr_slot_info *info, const struct tensor *list)
{
    fputs(BEGIN, out);
    put_hex(out, meta, bytes);
    fprintf(out,
            "\",\"dlrover.round\":\"%" PRIu32 "\",\"dlrover.step\":\"%" PRIu64
            "\",\"dlrover.rank\":\"%" PRId32 "\",\"dlrover.world\":\"%" PRIu32
            "\",\"dlrover.layout\":\"%016" PRIx64 "\"",
            info->version.round, info->version.step, info->rank, info->world,
            info->layout);
    put_sums(out, meta, bytes, info->nchunks);
    for (unsigned i = 0; i < info->nregions; i++)
        put_region(out, &list[i]);
    fputc('}', out);
}

static void put_place(FILE *out, uint64_t at, uint64_t bytes)
{
    fprintf(out, ",\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, at + bytes);
}

static void put_tensor(FILE *out, const struct tensor *t)
{
    uint64_t room = t->r.bytes - t->r.used;
    char name[DLR_CKPT_NAME_MAX + sizeof(DLR_SAFETENSORS_ROOM)];

    fputc(',', out);
    put_text(out, t->r.region.name);
    fprintf(out, ":{\"dtype\":\"%s\",\"shape\":", t->type);
    put_shape(out, t);
    put_place(out, t->r.off, t->r.used);
    if (room == 0)
        return;
    snprintf(name, sizeof(name), DLR_SAFETENSORS_ROOM "%s", t->r.region.name);
    fputc(',', out);
    put_text(out, name);
    fprintf(out, ":{\"dtype\":\"U8\",\"shape\":[%" PRIu64 "]", room);
    put_place(out, t->r.off + t->r.used, room);
}

/* The length in front and the blanks behind; at least as much as stands before a slot's data, so that
 * a file's size is room enough for its slot.
 */
static int seal(const char *text, size_t size, uint64_t least, char **ret,
                uint64_t *ret_bytes, struct dlr_err *err)
{
    uint64_t whole = dlr_align_up(size + sizeof(uint64_t), DLR_SLOT_PAGE), n;
    char *header;

    whole = whole > least ? whole : least;
    n = whole - sizeof(n);

    if (n > HEADER_MAX)
        return dlr_fail(err, -EFBIG, "a header of %" PRIu64 " bytes: at most %u", n,
                        HEADER_MAX);
    header = aligned_alloc(DLR_SLOT_PAGE, whole);
    if (!header)
        return dlr_fail(err, -ENOMEM, "out of memory");
    memcpy(header, &n, sizeof(n));
    memcpy(header + sizeof(n), text, size);
    memset(header + sizeof(n) + size, ' ', whole - sizeof(n) - size);
    *ret = header;
    *ret_bytes = whole;
    return 0;
}

bool dlr_safetensors_reserved(const char *name)
{
    return dlr_streq(name, DLR_SAFETENSORS_OWN) ||
           dlr_after(name, DLR_SAFETENSORS_ROOM) != NULL;
}

int dlr_safetensors_header(const struct dlr_slot *slot, char **ret, uint64_t *ret_bytes,
                           struct dlr_err *err)
{
    DLR_AUTO_FREE struct tensor *list = NULL;
    DLR_AUTO_FREE char *text = NULL;
    struct dlr_slot_info info;
    struct dlr_meta_head head;
    size_t bytes, size = 0;
    const void *meta;
    FILE *out;
    int rc;

    dlr_slot_meta(slot, &meta, &bytes);
    rc = dlr_slot_check_meta(meta, bytes, dlr_slot_bytes(slot), &info, err);
    if (rc == 0)
        rc = read_tensors(meta, bytes, info.nregions, &list, err);
    if (rc < 0)
        return rc;
    out = open_memstream(&text, &size);
    if (!out)
        return dlr_fail(err, -ENOMEM, "out of memory");
    memcpy(&head, meta, sizeof(head));
    put_metadata(out, meta, bytes, &info, list);
    for (unsigned i = 0; i < info.nregions; i++)
        put_tensor(out, &list[i]);
    fputc('}', out);
    return fclose(out) < 0 ? dlr_fail(err, -ENOMEM, "out of memory")
                           : seal(text, size, head.data_off, ret, ret_bytes, err);
}

/* --- back ---------------------------------------------------------------------------------- */

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int dlr_safetensors_meta(const char *header, uint64_t bytes, void **ret,
                         size_t *ret_bytes, struct dlr_err *err)
{
    DLR_AUTO_FREE unsigned char *meta = NULL;
    const size_t from = sizeof(uint64_t) + strlen(BEGIN);
    uint64_t n;
    size_t k = 0;

    if (bytes < from || memcmp(header + sizeof(n), BEGIN, strlen(BEGIN)) != 0)
        return dlr_fail(err, -EBADMSG, "not a snapshot file");
    meta = malloc((bytes - from) / 2 + 1);
    if (!meta)
        return dlr_fail(err, -ENOMEM, "out of memory");
    for (uint64_t i = from; i + 1 < bytes; i += 2) {
        int high = digit(header[i]), low = digit(header[i + 1]);

        if (high < 0 || low < 0)
            break;
        meta[k++] = (unsigned char)(high << 4 | low);
    }
    *ret = DLR_STEAL(meta);
    *ret_bytes = k;
    return 0;
}

int dlr_safetensors_length(const void *begin, uint64_t file_bytes, uint64_t *ret,
                           struct dlr_err *err)
{
    uint64_t n;

    memcpy(&n, begin, sizeof(n));
    if (n > HEADER_MAX || (n + sizeof(n)) % DLR_SLOT_PAGE != 0)
        return dlr_fail(err, -EBADMSG, "not a snapshot file");
    if (n + sizeof(n) > file_bytes)
        return dlr_fail(err, -EBADMSG,
                        "a header of %" PRIu64 " bytes in a file of %" PRIu64, n,
                        file_bytes);
    *ret = n + sizeof(n);
    return 0;
}
