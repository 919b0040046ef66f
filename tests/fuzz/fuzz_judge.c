/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=watch/judge,watch,common/base */
/* Looks at a few ranks, whose pages may have said anything, and bytes in the place of what
 * was learned: whatever they say, a verdict counts each rank once and the reader keeps
 * within its bounds. The input is laid over two looks at each rank: 2 bytes where, 1 how
 * many, and so many bytes, until it ends.
 */
#include "tests/fuzz/fuzz.h"
#include "watch/judge/judge.h"
#include "watch/judge/learn.h"

#define RANKS 5

static struct dlr_look looks[2 * RANKS];

static void make(uint32_t i)
{
    struct dlr_look *look = &looks[i];

    *look = (struct dlr_look){.rank = (int32_t)(i % RANKS),
                              .data = DLR_LOOK_CALLS_TOO,
                              .pid = 1,
                              .step = 3,
                              .ncomms = 2,
                              .ncalls = 1};
    for (uint32_t c = 0; c < DLR_LOOK_COMMS; c++)
        look->comms[c] = (struct dlr_look_comm){.id = 1 + c,
                                                .size = RANKS,
                                                .my_rank = i % RANKS,
                                                .op = 1,
                                                .entered = 5,
                                                .left = 4};
    for (uint32_t c = 0; c < DLR_LOOK_CALLS; c++)
        look->in[c] = (struct dlr_look_call){
            .comm = 1, .peer = DLR_LOOK_NOBODY, .tid = 1, .call = 1};
}

static void overlay(unsigned char *bytes, size_t room, const uint8_t *data, size_t size)
{
    while (size > 3) {
        const size_t at = (data[0] | data[1] << 8) % room;
        size_t n = data[2];

        data += 3;
        size -= 3;
        n = n < size ? n : size;
        for (size_t i = 0; i < n; i++)
            bytes[(at + i) % room] = data[i];
        data += n;
        size -= n;
    }
}

/* What has no value of its type is for the reader of the page to refuse. */
static void clean(struct dlr_look *look)
{
    *(unsigned char *)&look->paused &= 1;
    *(unsigned char *)&look->finished &= 1;
    *(unsigned char *)&look->handler &= 1;
    look->data %= DLR_LOOK_CALLS_TOO + 1;
    look->state %= DLR_LOOK_DEAD + 1;
    look->phase[DLR_LOOK_NAME - 1] = '\0';
}

static void of_what_was_learned(const uint8_t *data, size_t size)
{
    unsigned char bytes[DLR_LEARN_BYTES];
    struct dlr_learn l = {0};

    if (dlr_learn_unpack(data, size, &l) >= 0) {
        dlr_learn_pack(&l, bytes);
        FUZZ_CHECK(!memcmp(bytes, data, size));
    }
    overlay((unsigned char *)&l, sizeof(l), data, size);
    dlr_learn_gap(&l, &looks[RANKS], l.steps_ns[0]);
    FUZZ_CHECK(dlr_learn_limit_ns(&l, &looks[RANKS], 1) > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t calls[] = {DLR_CALL_NEIGHBORS, 0, DLR_CALL_SENDS,
                                    DLR_CALL_RECEIVES,
                                    DLR_CALL_RECEIVES | DLR_CALL_ONE_OF};
    struct dlr_judge_rank ranks[RANKS];
    const struct dlr_judge_input in = {
        .ranks = ranks, .n = RANKS, .calls = calls, .ncalls = sizeof(calls)};
    struct dlr_verdict v;
    uint8_t parts[RANKS];

    for (uint32_t i = 0; i < 2 * RANKS; i++)
        make(i);
    overlay((unsigned char *)looks, sizeof(looks), data, size);
    for (uint32_t i = 0; i < 2 * RANKS; i++)
        clean(&looks[i]);
    for (uint32_t r = 0; r < RANKS; r++)
        ranks[r] = (struct dlr_judge_rank){.before = &looks[r],
                                           .after = &looks[RANKS + r],
                                           .still_ns = 9,
                                           .limit_ns = 5};
    FUZZ_CHECK(dlr_judge(&in, parts, &v) == 0);
    FUZZ_CHECK(v.moves + v.busy + v.waits + v.culprits + v.unknown == RANKS);
    FUZZ_CHECK(v.kind != DLR_VERDICT_STUCK || v.culprits > 0);
    FUZZ_CHECK(!v.culprits || parts[v.first] == DLR_PART_CULPRIT);
    of_what_was_learned(data, size);
    return 0;
}
