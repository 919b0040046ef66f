/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/slot_meta.h"
#include "common/cleanup.h"
#include "common/str.h"

#define HEADER_MAX 100000000u /* bytes: the limit of the public readers */

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
    uint32_t align;   /* size of an item of that type */
    unsigned index;
};

static void choose_type(struct tensor *t)
{
    t->type = "U8";
    t->align = 1;
    if (t->r.region.kind == DLR_CKPT_BLOB)
        return;
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
        if (dlr_streq(types[i].ours, t->dtype) &&
            types[i].item_size == t->r.region.item_size) {
            t->type = types[i].theirs;
            t->align = types[i].item_size;
        }
}

static int by_size(const void *a, const void *b)
{
    const struct tensor *x = a, *y = b;

    if (x->align != y->align)
        return x->align > y->align ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A name is a key of the header: there once, and not the one that is the form's own. */
static int check_names(const struct tensor *list, unsigned n, struct dlr_err *err)
{
    DLR_AUTO_FREE const char **names = calloc(n + 1u, sizeof(*names));

    if (!names)
        return dlr_fail(err, -ENOMEM, "out of memory");
    for (unsigned i = 0; i < n; i++)
        names[i] = list[i].r.region.name;
    qsort(names, n, sizeof(*names), by_name);
    for (unsigned i = 0; i < n; i++) {
        if (dlr_streq(names[i], DLR_SAFETENSORS_OWN))
            return dlr_fail(err, -EBADMSG, "a region is named '%s'", names[i]);
        if (i > 0 && dlr_streq(names[i], names[i - 1]))
            return dlr_fail(err, -EBADMSG, "two regions are named '%s'", names[i]);
    }
    return 0;
}

static int read_tensors(const struct dlr_slot *slot, struct dlr_slot_info *info,
                        struct tensor **ret, uint64_t *ret_off, struct dlr_err *err)
{
    DLR_AUTO_FREE struct tensor *list = NULL;
    struct dlr_meta_walk walk;
    const void *meta;
    size_t bytes;
    unsigned n = 0;
    int rc;

    dlr_slot_meta(slot, &meta, &bytes);
    rc = dlr_slot_check_meta(meta, bytes, dlr_slot_bytes(slot), info, err);
    if (rc < 0)
        return rc;
    list = calloc(info->nregions + 1u, sizeof(*list));
    if (!list)
        return dlr_fail(err, -ENOMEM, "out of memory");
    if (dlr_meta_walk_init(&walk, meta, bytes) < 0)
        return dlr_fail(err, -EBADMSG, "the meta block changed while it was read");
    while (n < info->nregions && dlr_meta_next(&walk, &list[n].r) > 0) {
        memcpy(list[n].dtype, list[n].r.dtype, sizeof(list[n].dtype));
        list[n].index = n;
        choose_type(&list[n]);
        n++;
    }
    if (n != info->nregions)
        return dlr_fail(err, -EBADMSG, "region %u is malformed", n);
    rc = check_names(list, n, err);
    if (rc < 0)
        return rc;
    if (n > 0)
        qsort(list, n, sizeof(*list), by_size);
    *ret_off = walk.head.data_off;
    *ret = DLR_STEAL(list);
    return 0;
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

    if (r->kind == DLR_CKPT_BLOB || t->align != r->item_size)
        fprintf(out, "[%" PRIu64 "]", t->r.used);
    else
        put_dims(out, r->local_shape, r->ndim);
}

/* What the form has no place for: where the box lies in the whole, and its checksum. */
static void put_region(FILE *out, const struct tensor *t, uint32_t crc)
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
    fprintf(out, " crc32c=%08" PRIx32 "\"", crc);
}

static void put_header(FILE *out, const struct dlr_slot_info *info,
                       const struct tensor *list, const struct iovec *data)
{
    uint64_t at = 0;

    fprintf(out,
            "{\"" DLR_SAFETENSORS_OWN
            "\":{\"format\":\"dlrover-1\",\"dlrover.round\":\"%" PRIu32
            "\",\"dlrover.step\":\"%" PRIu64 "\",\"dlrover.rank\":\"%" PRId32
            "\",\"dlrover.world\":\"%" PRIu32 "\"",
            info->version.round, info->version.step, info->rank, info->world);
    for (unsigned i = 0; i < info->nregions; i++)
        put_region(out, &list[i], dlr_crc32c(0, data[i].iov_base, data[i].iov_len));
    fputc('}', out);
    for (unsigned i = 0; i < info->nregions; i++) {
        fputc(',', out);
        put_text(out, list[i].r.region.name);
        fprintf(out, ":{\"dtype\":\"%s\",\"shape\":", list[i].type);
        put_shape(out, &list[i]);
        fprintf(out, ",\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at,
                at + list[i].r.used);
        at += list[i].r.used;
    }
    fputc('}', out);
}

/* The length in front and the blanks behind. */
static int seal_header(struct dlr_safetensors *st, char *text, size_t size,
                       struct dlr_err *err)
{
    uint64_t whole = dlr_align_up(size + sizeof(uint64_t), DLR_SLOT_PAGE);
    uint64_t n = whole - sizeof(uint64_t);

    if (n > HEADER_MAX)
        return dlr_fail(err, -EFBIG, "a header of %" PRIu64 " bytes: at most %u", n,
                        HEADER_MAX);
    st->header = malloc(whole);
    if (!st->header)
        return dlr_fail(err, -ENOMEM, "out of memory");
    memcpy(st->header, &n, sizeof(n));
    memcpy(st->header + sizeof(n), text, size);
    memset(st->header + sizeof(n) + size, ' ', whole - sizeof(n) - size);
    st->parts[0] = (struct iovec){st->header, whole};
    return 0;
}

int dlr_safetensors_make(const struct dlr_slot *slot, struct dlr_safetensors *ret,
                         struct dlr_err *err)
{
    DLR_AUTO_FREE struct tensor *list = NULL;
    DLR_AUTO_FREE char *text = NULL;
    struct dlr_safetensors st = {0};
    struct dlr_slot_info info;
    uint64_t data_off = 0;
    size_t size = 0;
    FILE *out;
    int rc = read_tensors(slot, &info, &list, &data_off, err);

    if (rc < 0)
        return rc;
    st.nparts = info.nregions + 1;
    st.parts = calloc(st.nparts, sizeof(*st.parts));
    out = open_memstream(&text, &size);
    if (!st.parts || !out) {
        free(st.parts);
        if (out)
            fclose(out);
        return dlr_fail(err, -ENOMEM, "out of memory");
    }
    for (unsigned i = 0; i < info.nregions; i++)
        st.parts[i + 1] = (struct iovec){
            (char *)dlr_slot_base(slot) + data_off + list[i].r.off, list[i].r.used};
    put_header(out, &info, list, st.parts + 1);
    rc = fclose(out) < 0 ? dlr_fail(err, -ENOMEM, "out of memory")
                         : seal_header(&st, text, size, err);
    for (unsigned i = 0; i < st.nparts; i++)
        st.bytes += st.parts[i].iov_len;
    if (rc < 0)
        dlr_safetensors_done(&st);
    else
        *ret = st;
    return rc;
}

void dlr_safetensors_done(struct dlr_safetensors *st)
{
    free(st->header);
    free(st->parts);
    *st = (struct dlr_safetensors){0};
}
