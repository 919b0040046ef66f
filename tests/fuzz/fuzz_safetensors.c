/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/persist,common/local,common/config lib=jansson */
/* A snapshot file. Bits of the first byte: 0 the rest is a meta block whose sums are
 * put right; 1 it is one as it stands; files are made of it, alone and with the next
 * rank's, in which the form's own rules hold and which are read back as they were. 2:
 * three bytes more are taken first, and that byte of the file is changed: it is
 * refused. None: the rest is a file.
 */
#include <jansson.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ckpt/persist/safetensors.h"
#include "ckpt/persist/slot_file.h"
#include "tests/fuzz/snapshot.h"

#define SLOT_BYTES (UINT64_C(16) * DLR_SLOT_PAGE)

enum { SUMS = 1, BLOCK = 2, CHANGE = 4 };

static int compare_places(const void *a, const void *b)
{
    const json_int_t *x = a, *y = b;

    return x[0] != y[0] ? (x[0] > y[0]) - (x[0] < y[0]) : (x[1] > y[1]) - (x[1] < y[1]);
}

/* The tensors of a header are one after the other, from 0 to the end of the data. */
static void check_header(const json_t *header, uint64_t data)
{
    json_int_t(*places)[2] = calloc(json_object_size(header) + 1, sizeof(*places)),
    at = 0;
    json_t *tensor;
    const char *name;
    size_t n = 0;

    FUZZ_CHECK(places && json_is_object(json_object_get(header, "__metadata__")));
    json_object_foreach((json_t *)header, name, tensor)
    {
        const json_t *place = json_object_get(tensor, "data_offsets");

        if (strcmp(name, "__metadata__") == 0)
            continue;
        FUZZ_CHECK(json_is_array(json_object_get(tensor, "shape")));
        FUZZ_CHECK(json_is_string(json_object_get(tensor, "dtype")));
        places[n][0] = json_integer_value(json_array_get(place, 0));
        places[n++][1] = json_integer_value(json_array_get(place, 1));
    }
    qsort(places, n, sizeof(*places), compare_places);
    for (size_t i = 0; i < n; i++) {
        FUZZ_CHECK(places[i][0] == at && places[i][1] >= at);
        at = places[i][1];
    }
    FUZZ_CHECK((uint64_t)at == data);
    free(places);
}

static void check_form(const char *header, uint64_t bytes, uint64_t data)
{
    json_error_t why;
    json_t *json;
    uint64_t length;

    memcpy(&length, header, sizeof(length));
    FUZZ_CHECK(length + sizeof(length) == bytes && bytes % DLR_SLOT_PAGE == 0);
    json = json_loadb(header + sizeof(length), length, JSON_REJECT_DUPLICATES, &why);
    /* A name of ours need not be UTF-8; all else must be right. */
    FUZZ_CHECK(json || json_error_code(&why) == json_error_invalid_utf8);
    if (json)
        check_header(json, data);
    json_decref(json);
}

/* 0 when the file was read as a slot; it has this meta block when it is not NULL. */
static int read_back(int file, const void *meta, size_t bytes)
{
    struct dlr_slot *slot;
    struct dlr_err err;
    const void *got;
    size_t n;

    if (dlr_slot_file_map(file, -1, &slot, &err) < 0) {
        FUZZ_CHECK(err.text[0]);
        return -1;
    }
    dlr_slot_verify(slot, &err);
    dlr_slot_meta(slot, &got, &n);
    FUZZ_CHECK(!meta || (n == bytes && memcmp(got, meta, n) == 0));
    dlr_slot_unmap(slot);
    return 0;
}

static void put(int file, const void *buf, uint64_t bytes, uint64_t at)
{
    FUZZ_CHECK(pwrite(file, buf, bytes, (off_t)at) == (ssize_t)bytes);
}

/* The same block of the rank behind it. */
static unsigned char *next_rank(const unsigned char *meta, size_t size)
{
    unsigned char *next = malloc(size + 1);
    int32_t rank;

    FUZZ_CHECK(next);
    memcpy(next, meta, size);
    if (size >= sizeof(struct dlr_meta_head)) {
        memcpy(&rank, meta + offsetof(struct dlr_meta_head, rank), sizeof(rank));
        rank = (int32_t)((uint32_t)rank + 1);
        memcpy(next + offsetof(struct dlr_meta_head, rank), &rank, sizeof(rank));
        fuzz_seal_meta(next, size);
    }
    return next;
}

static void check_block(int file, unsigned char *meta, size_t size, unsigned change)
{
    static unsigned char zeros[SLOT_BYTES];
    struct dlr_safetensors_part parts[2] = {{meta, size, SLOT_BYTES, {{0}}, 0, 0}};
    unsigned char *next = next_rank(meta, size);
    struct dlr_err err;
    uint64_t bytes, at, end;
    char *header;
    unsigned n;

    parts[1] = parts[0];
    parts[1].meta = next;
    for (n = 1; n <= 2; n++) {
        const struct dlr_safetensors_part *last = &parts[n - 1];

        if (dlr_safetensors_header(parts, n, &header, &bytes, NULL, &err) < 0)
            break;
        end = last->at + last->info.data_bytes;
        check_form(header, bytes, end - bytes);
        at = change % bytes;
        header[at] ^= (char)(change >> 16);
        FUZZ_CHECK(ftruncate(file, 0) == 0);
        put(file, header, bytes, 0);
        for (unsigned i = 0; i < n; i++)
            put(file, zeros, parts[i].info.data_bytes, parts[i].at);
        FUZZ_CHECK((read_back(file, meta, size) == 0) == !(change >> 16));
        free(header);
    }
    free(next);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned flags = size ? data[0] : 0, change = 0;
    static int file = -1;
    unsigned char *rest;

    if (file < 0)
        file = memfd_create("snapshot", MFD_CLOEXEC);
    if (size == 0 || ftruncate(file, 0) < 0)
        return 0;
    data++;
    size--;
    if (flags & CHANGE && size >= 3) {
        change = (unsigned)(data[0] | data[1] << 8 | data[2] << 16);
        data += 3;
        size -= 3;
    }
    rest = malloc(size + 1);
    FUZZ_CHECK(rest);
    memcpy(rest, data, size);
    if (flags & SUMS)
        fuzz_seal_meta(rest, size);
    if (flags & (SUMS | BLOCK)) {
        check_block(file, rest, size, change);
    } else {
        put(file, rest, size, 0);
        read_back(file, NULL, 0);
    }
    free(rest);
    return 0;
}
