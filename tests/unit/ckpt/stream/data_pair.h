/* SPDX-License-Identifier: Apache-2.0 */
/* A sender and a receiver (tests/support/data_rig.h) with a slot of RANK that is sealed
 * at the one, and two for its copies at the other. What fails ends the test.
 */
#ifndef DLR_TESTS_CKPT_STREAM_DATA_PAIR_H
#define DLR_TESTS_CKPT_STREAM_DATA_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/support/data_rig.h"

#define MIB (UINT64_C(1) << 20)
#define RANK 3
#define ROUND 5

struct pair {
    struct rig_data from, to;
    struct dlr_slot *src, *dst[2]; /* src: slot 0 of RANK, with step 7 */
    uint64_t data;
};

/* data: bytes of the snapshot; option: of both command lines, or NULL. */
void pair_up(struct pair *p, uint64_t data, const char *option);
/* The same of two that are started. */
void pair_fill(struct pair *p, uint64_t data);
void pair_down(struct pair *p);

/* Orders to send v; id is what its D_DONE will carry. */
void pair_send(struct pair *p, struct dlr_version v, uint64_t id);

/* Whether the receiver has anything whole. */
bool pair_any_whole(const struct pair *p);

/* The slot of the receiver that holds v whole, compared byte by byte with from. */
struct dlr_slot *pair_expect_copy(struct pair *p, const struct dlr_slot *from);

/* Returns when p has done all that was ordered before. */
void pair_settle(struct rig_data *p);

#endif
