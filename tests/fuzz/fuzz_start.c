/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/standalone */
/* What a lock's file says of the start that holds it: what is taken is written back to
 * the same text.
 */
#include "ckpt/standalone/launch_id.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size), again[DLR_STANDALONE_START_MAX];
    struct dlr_standalone_start start;

    if (dlr_standalone_start_parse(text, &start) == 0) {
        dlr_standalone_start_text(&start, again);
        FUZZ_CHECK(strcmp(text, again) == 0);
        FUZZ_CHECK(!dlr_standalone_start_differs(&start, &start));
    }
    free(text);
    return 0;
}
