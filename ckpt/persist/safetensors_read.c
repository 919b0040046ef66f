/* SPDX-License-Identifier: Apache-2.0 */
/* The way back: what a header says of itself, before anything of it is believed. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/persist/safetensors.h"
#include "ckpt/slot/meta.h"

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Bytes of the text of blocks, of which there are *ret_n. */
static size_t measure(const char *text, size_t most, unsigned *ret_n)
{
    size_t i = 0;

    *ret_n = 1;
    while (i < most && (digit(text[i]) >= 0 || text[i] == ' '))
        *ret_n += text[i++] == ' ';
    return i;
}

static size_t read_hex(const char *text, size_t most, unsigned char *ret)
{
    size_t k = 0;

    for (; 2 * k + 1 < most; k++) {
        int high = digit(text[2 * k]), low = digit(text[2 * k + 1]);

        if (high < 0 || low < 0)
            break;
        ret[k] = (unsigned char)(high << 4 | low);
    }
    return k;
}

static int check_begin(const char *header, uint64_t bytes, struct dlr_err *err)
{
    const char *text = header + sizeof(uint64_t),
               *version = text + strlen(DLR_SAFETENSORS_FORM);

    if (bytes < sizeof(uint64_t) + strlen(DLR_SAFETENSORS_BEGIN) ||
        memcmp(text, DLR_SAFETENSORS_FORM, strlen(DLR_SAFETENSORS_FORM)) != 0)
        return dlr_fail(err, -EBADMSG, "not a snapshot file");
    if (memcmp(text, DLR_SAFETENSORS_BEGIN, strlen(DLR_SAFETENSORS_BEGIN)) != 0)
        return dlr_fail(err, -EBADMSG,
                        "its form is not dlrover-" DLR_SAFETENSORS_VERSION
                        ", the only one that this version reads, but dlrover-%.*s",
                        (int)strspn(version, "0123456789"), version);
    return 0;
}

int dlr_safetensors_parts(const char *header, uint64_t bytes,
                          struct dlr_safetensors_part **ret, unsigned *ret_n,
                          struct dlr_err *err)
{
    const size_t from = sizeof(uint64_t) + strlen(DLR_SAFETENSORS_BEGIN);
    struct dlr_safetensors_part *parts;
    const char *text = header + from;
    unsigned char *block;
    size_t left;
    unsigned n;
    int rc = check_begin(header, bytes, err);

    if (rc < 0)
        return rc;
    left = measure(text, bytes - from, &n);
    parts = calloc(1, n * (sizeof(*parts) + sizeof(uint64_t)) + left / 2 + 1);
    if (!parts)
        return dlr_fail(err, -ENOMEM, "out of memory");
    block = (unsigned char *)(parts + n);
    for (unsigned i = 0; i < n; i++) {
        size_t k = read_hex(text, left, block), used = 2 * k + 1;

        parts[i].meta = block;
        parts[i].bytes = k;
        parts[i].most = DLR_SLOT_DATA_MAX;
        block += dlr_align_up(k, sizeof(uint64_t));
        used = used < left ? used : left;
        text += used;
        left -= used;
    }
    *ret = parts;
    *ret_n = n;
    return 0;
}

int dlr_safetensors_length(const void *begin, uint64_t file_bytes, uint64_t *ret,
                           struct dlr_err *err)
{
    uint64_t n;

    memcpy(&n, begin, sizeof(n));
    if (n > DLR_SAFETENSORS_MAX || (n + sizeof(n)) % DLR_SLOT_PAGE != 0)
        return dlr_fail(err, -EBADMSG, "not a snapshot file");
    if (n + sizeof(n) > file_bytes)
        return dlr_fail(err, -EBADMSG,
                        "a header of %" PRIu64 " bytes in a file of %" PRIu64, n,
                        file_bytes);
    *ret = n + sizeof(n);
    return 0;
}
