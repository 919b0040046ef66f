/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots for fuzz targets: chance does not meet a CRC32C, so a target may have them
 * put right and reach what is checked behind them.
 */
#ifndef DLR_TESTS_FUZZ_SNAPSHOT_H
#define DLR_TESTS_FUZZ_SNAPSHOT_H

#include "ckpt/base/crc32c.h"
#include "ckpt/slot/meta.h"
#include "tests/fuzz/fuzz.h"

/* Makes the head's length, its sum and the block's sum those of these bytes. */
static inline void fuzz_seal_meta(unsigned char *meta, size_t bytes)
{
    const size_t crc_at = offsetof(struct dlr_meta_head, crc);
    uint32_t length = (uint32_t)bytes, crc;

    if (bytes < sizeof(struct dlr_meta_head) + sizeof(crc))
        return;
    memcpy(meta + offsetof(struct dlr_meta_head, meta_bytes), &length, sizeof(length));
    crc = dlr_crc32c(0, meta, crc_at);
    memcpy(meta + crc_at, &crc, sizeof(crc));
    crc = dlr_crc32c(0, meta, bytes - sizeof(crc));
    memcpy(meta + bytes - sizeof(crc), &crc, sizeof(crc));
}

/* The same for a block that lies in a whole slot file of so many bytes, and where the
 * data begins behind it.
 */
static inline void fuzz_seal_slot(unsigned char *file, size_t bytes)
{
    unsigned char *meta = file + DLR_SLOT_PAGE;
    struct dlr_meta_head head;

    if (bytes < DLR_SLOT_PAGE + sizeof(head))
        return;
    memcpy(&head, meta, sizeof(head));
    if (head.meta_bytes > bytes - DLR_SLOT_PAGE)
        return;
    fuzz_seal_meta(meta, head.meta_bytes);
}

#endif
