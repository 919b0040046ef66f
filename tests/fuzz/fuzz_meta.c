/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/slot,common/local,common/config */
/* A meta block as it comes from another node. Bit 0 of the first byte: its sums are put
 * right first. What was accepted lies within the slot, every region and every block of
 * it.
 */
#include "tests/fuzz/snapshot.h"

#define SLOT_BYTES (UINT64_C(16) * DLR_SLOT_PAGE)

static void check_regions(const void *meta, size_t bytes,
                          const struct dlr_slot_info *info)
{
    struct dlr_slot_region r;
    struct dlr_meta_walk walk;
    unsigned n = 0;
    int rc;

    FUZZ_CHECK(dlr_meta_walk_init(&walk, meta, bytes) == 0);
    while ((rc = dlr_meta_next(&walk, &r)) > 0) {
        size_t length = strlen(r.region.name);
        uint64_t box;

        FUZZ_CHECK(length > 0 && length <= DLR_CKPT_NAME_MAX);
        FUZZ_CHECK(strlen(r.dtype) <= DLR_CKPT_DTYPE_MAX);
        FUZZ_CHECK(dlr_region_bytes(&r.region, &box, NULL) == 0 && box == r.bytes);
        FUZZ_CHECK(r.used <= r.bytes && r.off % dlr_region_align(&r.region) == 0);
        FUZZ_CHECK(r.off <= info->data_bytes && r.bytes <= info->data_bytes - r.off);
        n++;
    }
    FUZZ_CHECK(rc == 0 && n == info->nregions);
}

static void check_blocks(struct dlr_slot *slot, const struct dlr_slot_info *info)
{
    const char *end = (const char *)dlr_slot_base(slot) + SLOT_BYTES;
    struct dlr_err err;
    size_t bytes;
    uint32_t crc;
    void *data;

    for (uint32_t i = 0; i < info->nblocks; i++) {
        FUZZ_CHECK(dlr_slot_block(slot, i, &data, &bytes, &crc) == 0);
        FUZZ_CHECK(bytes > 0 && (char *)data + bytes <= end);
    }
    FUZZ_CHECK(dlr_slot_block(slot, info->nblocks, &data, &bytes, &crc) < 0);
    dlr_slot_verify(slot, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct dlr_slot *slot;
    struct dlr_slot_info info;
    struct dlr_err err;
    unsigned char *meta;

    if (size == 0)
        return 0;
    if (!slot)
        FUZZ_CHECK(dlr_slot_anonymous(SLOT_BYTES, &slot, NULL) == 0);
    meta = malloc(size); /* so that one byte beyond is seen */
    FUZZ_CHECK(meta);
    memcpy(meta, data + 1, size - 1);
    if (data[0] & 1)
        fuzz_seal_meta(meta, size - 1);
    if (dlr_slot_check_meta(meta, size - 1, SLOT_BYTES, &info, &err) == 0) {
        check_regions(meta, size - 1, &info);
        FUZZ_CHECK(dlr_slot_put_meta(slot, meta, size - 1, &err) == 0);
        check_blocks(slot, &info);
    }
    free(meta);
    return 0;
}
