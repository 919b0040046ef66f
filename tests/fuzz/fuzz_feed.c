/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=feed/client,ckpt/open */
/* The state of a feed as it lies in a version. The first byte says whether length and
 * checksum are put right, so that what lies behind them is reached. What is accepted
 * gives steps with samples that are there, and can be written and read again.
 */
#include <endian.h>

#include "ckpt/base/crc32c.h"
#include "feed/client/feed.h"
#include "feed/state.h"
#include "tests/fuzz/fuzz.h"

#define INDICES 64

static void put32(uint8_t *to, uint32_t value)
{
    value = htole32(value);
    memcpy(to, &value, sizeof(value));
}

static void make_right(uint8_t *bytes, size_t size)
{
    static const uint8_t head[] = "dlr-feed\1\0\0";

    if (size < DLR_FEED_STATE_HEAD)
        return;
    memcpy(bytes, head, 12);
    put32(bytes + 12, (uint32_t)size);
    put32(bytes + 16, dlr_crc32c(0, bytes + 20, size - 20));
}

static void check_steps(const struct dlr_sequence *s)
{
    static const uint64_t steps[] = {0, 1, 77, 1000000, DLR_SEQUENCE_STEP_MAX - 1};
    uint64_t index[INDICES], records = 0;

    for (unsigned i = 0; i < dlr_sequence_conf(s)->sources; i++)
        records += dlr_sequence_source(s, i)->length;
    for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct dlr_sequence_step step;

        if (dlr_sequence_step(s, steps[i], &step) < 0)
            continue;
        FUZZ_CHECK(step.samples > 0 && step.samples <= step.batch);
        FUZZ_CHECK(step.micro_batches > 0 && step.micro_batches <= step.samples);
        const uint32_t n = dlr_sequence_indices(s, steps[i], 0, INDICES, index);

        FUZZ_CHECK(n > 0 && n <= INDICES);
        for (uint32_t k = 0; k < n; k++)
            FUZZ_CHECK(index[k] < records);
    }
}

static void check_written(const struct dlr_sequence *s)
{
    static uint8_t again[DLR_FEED_STATE_MAX];
    struct dlr_sequence *same = NULL;
    const int size = dlr_feed_state_write(s, again, sizeof(again));

    if (size < 0)
        return;
    FUZZ_CHECK(dlr_feed_state_read(again, (size_t)size, &same, NULL) == 0);
    FUZZ_CHECK(dlr_feed_state_compare(same, s, NULL) == 0);
    dlr_sequence_free(same);
}

static void load_into_another(const uint8_t *bytes, size_t size)
{
    const struct dlr_feed_conf conf = {.length = 1000,
                                       .seed = 1,
                                       .global_batch = 64,
                                       .micro_batch = 8,
                                       .parts = 1,
                                       .grown = 1};
    struct dlr_feed *feed = NULL;
    struct dlr_feed_step step;

    FUZZ_CHECK(dlr_feed_open(NULL, &conf, &feed) == 0);
    dlr_feed_load(feed, 5, bytes, size);
    FUZZ_CHECK(dlr_feed_step(feed, 5, &step) == 0);
    dlr_feed_close(feed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dlr_sequence *s = NULL;
    uint8_t *bytes;

    if (size == 0)
        return 0;
    bytes = malloc(size);
    FUZZ_CHECK(bytes);
    memcpy(bytes, data + 1, size - 1);
    if (data[0] & 1)
        make_right(bytes, size - 1);
    if (dlr_feed_state_read(bytes, size - 1, &s, NULL) == 0) {
        check_steps(s);
        check_written(s);
    }
    dlr_sequence_free(s);
    load_into_another(bytes, size - 1);
    free(bytes);
    return 0;
}
