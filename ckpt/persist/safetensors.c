/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/persist/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/slot/meta.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"

#define PREFIX 16 /* of a name: a rank and a slash */

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

static int read_tensors(const struct dlr_safetensors_part *p, struct tensor **ret,
                        struct dlr_err *err)
{
    unsigned n = p->info.nregions;
    DLR_AUTO_FREE struct tensor *list = calloc(n + 1u, sizeof(*list));
    struct dlr_meta_walk walk;
    int rc;

    if (!list)
        return dlr_fail(err, -ENOMEM, "out of memory");
    if (dlr_meta_walk_init(&walk, p->meta, p->bytes) < 0)
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
static void put_region(FILE *out, const char *prefix, const struct tensor *t)
{
    static const char *const kinds[] = {
        [DLR_CKPT_SHARD] = "shard",
        [DLR_CKPT_REPLICATED] = "replicated",
        [DLR_CKPT_LOCAL] = "local",
        [DLR_CKPT_BLOB] = "blob",
    };
    const struct dlr_ckpt_region *r = &t->r.region;
    char key[DLR_CKPT_NAME_MAX + PREFIX + 32];

    snprintf(key, sizeof(key), "dlrover.region.%s%s", prefix, r->name);
    fputc(',', out);
    put_text(out, key);
    fprintf(out, ":\"%s dtype=%s item=%" PRIu32 " global=", kinds[r->kind],
            plain_dtype(t->dtype), r->item_size);
    put_dims(out, r->global_shape, r->ndim);
    fputs(" offset=", out);
    put_dims(out, r->offset, r->ndim);
    fputc('"', out);
}

/* The rank behind a key that each of several has. */
static void put_key(FILE *out, const char *key, unsigned n, int32_t rank)
{
    fprintf(out, ",\"%s", key);
    if (n > 1)
        fprintf(out, ".%" PRId32, rank);
    fputs("\":\"", out);
}

/* A checksum for each MiB of the data, as the block ends with them before its own. */
static void put_sums(FILE *out, const struct dlr_safetensors_part *p)
{
    uint32_t n = p->info.nblocks;
    const unsigned char *at =
        (const unsigned char *)p->meta + p->bytes - (n + (size_t)1) * sizeof(uint32_t);

    for (uint32_t i = 0, crc; i < n; i++, at += sizeof(crc)) {
        memcpy(&crc, at, sizeof(crc));
        fprintf(out, "%s%08" PRIx32, i ? " " : "", crc);
    }
    fputc('"', out);
}

/* What every rank of the file has alike, and the blocks, which are what we read. */
static void put_common(FILE *out, const struct dlr_safetensors_part *parts, unsigned n)
{
    fputs(DLR_SAFETENSORS_BEGIN, out);
    for (unsigned i = 0; i < n; i++) {
        if (i > 0)
            fputc(' ', out);
        put_hex(out, parts[i].meta, parts[i].bytes);
    }
    fprintf(out,
            "\",\"dlrover.round\":\"%" PRIu32 "\",\"dlrover.step\":\"%" PRIu64
            "\",\"dlrover.world\":\"%" PRIu32 "\",\"dlrover.rank\":\"",
            parts->info.version.round, parts->info.version.step, parts->info.world);
    for (unsigned i = 0; i < n; i++)
        fprintf(out, "%s%" PRId32, i ? " " : "", parts[i].info.rank);
    fputc('"', out);
}

static void put_place(FILE *out, uint64_t at, uint64_t bytes)
{
    fprintf(out, ",\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, at + bytes);
}

/* Bytes that are no region's. */
static void put_filler(FILE *out, const char *name, uint64_t at, uint64_t bytes)
{
    fputc(',', out);
    put_text(out, name);
    fprintf(out, ":{\"dtype\":\"U8\",\"shape\":[%" PRIu64 "]", bytes);
    put_place(out, at, bytes);
}

/* from: where its slot's data begin in the file's. */
static void put_tensor(FILE *out, const char *prefix, uint64_t from,
                       const struct tensor *t)
{
    uint64_t room = t->r.bytes - t->r.used;
    char name[DLR_CKPT_NAME_MAX + sizeof(DLR_SAFETENSORS_ROOM) + PREFIX];

    snprintf(name, sizeof(name), "%s%s", prefix, t->r.region.name);
    fputc(',', out);
    put_text(out, name);
    fprintf(out, ":{\"dtype\":\"%s\",\"shape\":", t->type);
    put_shape(out, t);
    put_place(out, from + t->r.off, t->r.used);
    if (room == 0)
        return;
    snprintf(name, sizeof(name), DLR_SAFETENSORS_ROOM "%s%s", prefix, t->r.region.name);
    put_filler(out, name, from + t->r.off + t->r.used, room);
}

/* What goes before the names of a rank's regions where there are several ranks. */
static void name_prefix(unsigned n, int32_t rank, char buf[PREFIX])
{
    buf[0] = '\0';
    if (n > 1)
        snprintf(buf, PREFIX, "%" PRId32 "/", rank);
}

static void put_metadata(FILE *out, const struct dlr_safetensors_part *parts,
                         unsigned n, struct tensor *const *lists)
{
    char prefix[PREFIX];

    put_common(out, parts, n);
    for (unsigned i = 0; i < n; i++) {
        const struct dlr_safetensors_part *p = &parts[i];

        put_key(out, "dlrover.layout", n, p->info.rank);
        fprintf(out, "%016" PRIx64 "\"", p->info.layout);
        put_key(out, "dlrover.crc32c", n, p->info.rank);
        put_sums(out, p);
        name_prefix(n, p->info.rank, prefix);
        for (unsigned k = 0; k < p->info.nregions; k++)
            put_region(out, prefix, &lists[i][k]);
    }
    fputc('}', out);
}

/* A slot's data begin where a write past the page cache may; what lies before them has
 * a name.
 */
static void put_tensors(FILE *out, struct dlr_safetensors_part *parts, unsigned n,
                        struct tensor *const *lists)
{
    char prefix[PREFIX], pad[32];
    uint64_t at = 0;

    for (unsigned i = 0; i < n; i++) {
        struct dlr_safetensors_part *p = &parts[i];
        uint64_t end = at + p->info.data_bytes, next = dlr_align_up(end, DLR_SLOT_PAGE);

        name_prefix(n, p->info.rank, prefix);
        for (unsigned k = 0; k < p->info.nregions; k++)
            put_tensor(out, prefix, at, &lists[i][k]);
        snprintf(pad, sizeof(pad), "dlrover.pad.%" PRId32, p->info.rank);
        if (i + 1 < n && next > end)
            put_filler(out, pad, end, next - end);
        p->at = at; /* behind the header */
        at = next;
    }
}

/* The length in front and the blanks behind. */
static int seal(const char *text, size_t size, char **ret, uint64_t *ret_bytes,
                struct dlr_err *err)
{
    uint64_t whole = dlr_align_up(size + sizeof(uint64_t), DLR_SLOT_PAGE), n;
    char *header;

    n = whole - sizeof(n);
    if (n > DLR_SAFETENSORS_MAX)
        return dlr_fail(err, -EFBIG, "a header of %" PRIu64 " bytes: at most %u", n,
                        DLR_SAFETENSORS_MAX);
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

/* Reads a part's block, which may lie in memory that somebody writes. */
static int read_part(struct dlr_safetensors_part *p, struct tensor **ret,
                     struct dlr_err *err)
{
    struct dlr_meta_head head;
    int rc = dlr_slot_check_meta(p->meta, p->bytes, p->most, &p->info, err);

    if (rc < 0)
        return rc;
    memcpy(&head, p->meta, sizeof(head));
    p->data_off = head.data_off;
    if (p->data_off > p->most || p->info.data_bytes > p->most - p->data_off)
        return dlr_fail(err, -EBADMSG, "the meta block changed while it was read");
    return read_tensors(p, ret, err);
}

/* In the order of ranks and of one snapshot, so that there is one form of a file. */
static int check_together(const struct dlr_safetensors_part *parts, unsigned n,
                          struct dlr_err *err)
{
    for (unsigned i = 1; i < n; i++) {
        const struct dlr_slot_info *a = &parts[i - 1].info, *b = &parts[i].info;

        if (a->rank >= b->rank || a->world != b->world || a->key != b->key ||
            !dlr_version_eq(a->version, b->version))
            return dlr_fail(err, -EBADMSG,
                            "rank %" PRId32 " does not belong behind rank %" PRId32,
                            b->rank, a->rank);
    }
    return 0;
}

static int put_header(struct dlr_safetensors_part *parts, unsigned n,
                      struct tensor *const *lists, char **ret, uint64_t *ret_bytes,
                      struct dlr_err *err)
{
    DLR_AUTO_FREE char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    int rc;

    if (!out)
        return dlr_fail(err, -ENOMEM, "out of memory");
    put_metadata(out, parts, n, lists);
    put_tensors(out, parts, n, lists);
    fputc('}', out);
    if (fclose(out) < 0)
        return dlr_fail(err, -ENOMEM, "out of memory");
    rc = seal(text, size, ret, ret_bytes, err);
    for (unsigned i = 0; rc == 0 && i < n; i++)
        parts[i].at += *ret_bytes;
    return rc;
}

int dlr_safetensors_header(struct dlr_safetensors_part *parts, unsigned n, char **ret,
                           uint64_t *ret_bytes, unsigned *ret_bad, struct dlr_err *err)
{
    DLR_AUTO_FREE struct tensor **lists = calloc(n + 1u, sizeof(*lists));
    unsigned i = 0;
    int rc = lists ? 0 : dlr_fail(err, -ENOMEM, "out of memory");

    while (rc == 0 && i < n) {
        rc = read_part(&parts[i], &lists[i], err);
        i += rc == 0;
    }
    if (ret_bad)
        *ret_bad = rc == -EBADMSG ? i : n;
    if (rc == 0)
        rc = check_together(parts, n, err);
    if (rc == 0)
        rc = put_header(parts, n, lists, ret, ret_bytes, err);
    for (i = 0; lists && i < n; i++)
        free(lists[i]);
    return rc;
}
