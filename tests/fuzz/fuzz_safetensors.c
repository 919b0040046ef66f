/* SPDX-License-Identifier: Apache-2.0 */
/* A slot file as it lies on a disk, mapped, checked and written in the safetensors form: bit 0 of
 * the first byte puts its sums right first, the words of the state page and the meta block follow;
 * zeros are left out of the input. The form's own rules hold for what comes out.
 */
#include <jansson.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ckpt/safetensors.h"
#include "tests/fuzz/snapshot.h"

#define PAGE_WORDS offsetof(struct dlr_slot_page, zero)
#define FILE_BYTES (4 * DLR_SLOT_PAGE)

/* The tensors of a header are one after the other, from 0 to the end of the file. */
static void check_header(const json_t *header, const struct dlr_safetensors *st)
{
    uint64_t sum = 0, data = st->bytes - st->parts[0].iov_len;
    json_t *tensor;
    const char *name;

    FUZZ_CHECK(json_is_object(json_object_get(header, "__metadata__")));
    FUZZ_CHECK(json_object_size(header) == st->nparts);
    json_object_foreach((json_t *)header, name, tensor)
    {
        const json_t *at = json_object_get(tensor, "data_offsets");
        json_int_t from = json_integer_value(json_array_get(at, 0));
        json_int_t to = json_integer_value(json_array_get(at, 1));

        if (strcmp(name, "__metadata__") == 0)
            continue;
        FUZZ_CHECK(json_array_size(at) == 2 && 0 <= from && from <= to);
        FUZZ_CHECK((uint64_t)to <= data);
        FUZZ_CHECK(json_is_array(json_object_get(tensor, "shape")));
        FUZZ_CHECK(json_is_string(json_object_get(tensor, "dtype")));
        sum += (uint64_t)(to - from);
    }
    FUZZ_CHECK(sum == data);
}

static void check_file(const struct dlr_safetensors *st)
{
    json_error_t why;
    json_t *header;
    uint64_t length;

    FUZZ_CHECK(st->parts[0].iov_len > sizeof(length));
    memcpy(&length, st->header, sizeof(length));
    FUZZ_CHECK(length + sizeof(length) == st->parts[0].iov_len);
    FUZZ_CHECK(st->parts[0].iov_len % DLR_SLOT_PAGE == 0);
    header =
        json_loadb(st->header + sizeof(length), length, JSON_REJECT_DUPLICATES, &why);
    /* A name of ours need not be UTF-8; all else must be right. */
    FUZZ_CHECK(header || json_error_code(&why) == json_error_invalid_utf8);
    if (header)
        check_header(header, st);
    json_decref(header);
}

static int write_file(const uint8_t *data, size_t size)
{
    static unsigned char bytes[FILE_BYTES];
    static int file = -1;

    if (file < 0)
        file = memfd_create("slot", MFD_CLOEXEC);
    memset(bytes, 0, sizeof(bytes));
    memcpy(bytes, data + 1, PAGE_WORDS);
    memcpy(bytes + DLR_SLOT_PAGE, data + 1 + PAGE_WORDS, size - 1 - PAGE_WORDS);
    if (data[0] & 1)
        fuzz_seal_slot(bytes, sizeof(bytes));
    FUZZ_CHECK(pwrite(file, bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes));
    return file;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dlr_safetensors st;
    struct dlr_slot *slot;
    struct dlr_err err;

    if (size < 1 + PAGE_WORDS || size - 1 - PAGE_WORDS > FILE_BYTES - DLR_SLOT_PAGE)
        return 0;
    if (dlr_slot_map(write_file(data, size), false, &slot, &err) < 0)
        return 0;
    dlr_slot_verify(slot, &err);
    if (dlr_safetensors_make(slot, &st, &err) == 0) {
        check_file(&st);
        dlr_safetensors_done(&st);
    }
    dlr_slot_unmap(slot);
    return 0;
}
