/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/standalone */
/* Rank 0's word on which steps are saved: what is taken is a stride that nests with all
 * others.
 */
#include "ckpt/standalone/save_interval.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    uint64_t from = 7;
    unsigned every = 3;

    if (dlr_save_interval_parse(text, &from, &every)) {
        FUZZ_CHECK(strncmp(text, "dlrover-cadence 1\nfrom ", 23) == 0);
        FUZZ_CHECK(every > 0 && every <= DLR_SAVE_INTERVAL_MAX &&
                   (every & (every - 1)) == 0);
    } else {
        FUZZ_CHECK(from == 7 && every == 3);
    }
    free(text);
    return 0;
}
