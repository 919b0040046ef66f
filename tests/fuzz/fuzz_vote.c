/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/standalone */
/* A word of a rank without a job. The first byte: bit 0, its sum is put right first;
 * bits 1 and 2, the rank that it should be of; bits 3 to 5, of how many. What is taken
 * is of these, and nothing beyond it was read.
 */
#include "ckpt/base/crc32c.h"
#include "ckpt/standalone/vote.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dlr_vote w = {.beat = 7};
    uint64_t heard = 9, place;
    uint32_t rank, world, crc;
    unsigned char *text;

    if (size == 0)
        return 0;
    rank = data[0] >> 1 & 3;
    world = (data[0] >> 3 & 7) + rank + 1u;
    size--;
    text = malloc(size ? size : 1); /* so that one byte beyond is seen */
    FUZZ_CHECK(text);
    memcpy(text, data + 1, size);
    if (data[0] & 1 && size >= sizeof(crc)) {
        crc = dlr_crc32c(0, text, size - sizeof(crc));
        memcpy(text + size - sizeof(crc), &crc, sizeof(crc));
    }
    if (dlr_vote_parse(text, size, rank, world, world - 1, &w, &heard) == 0) {
        size_t list = dlr_vote_list(rank, world, w.verdict);

        FUZZ_CHECK(w.rank == rank && w.world == world && memcmp(text, "DLA1", 4) == 0);
        FUZZ_CHECK(w.verdict >= DLR_VOTE_ASKED && w.verdict <= DLR_VOTE_READING);
        FUZZ_CHECK(size == sizeof(w) + list + sizeof(crc));
        memcpy(&place, text + size - sizeof(crc) - sizeof(place), sizeof(place));
        FUZZ_CHECK(heard == (list > 0 ? place : 0));
    } else {
        FUZZ_CHECK(w.beat == 7 && heard == 9);
    }
    free(text);
    return 0;
}
