/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at a few ranks, made by hand. At the beginning all ranks compute, have ended
 * operation 811 of the world and have stood for a minute, of 3 s that they may.
 */
#ifndef DLR_TESTS_UNIT_WATCH_JUDGE_LOOK_RIG_H
#define DLR_TESTS_UNIT_WATCH_JUDGE_LOOK_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watch/judge/judge.h"

#define RIG_SECOND UINT64_C(1000000000)
#define RIG_NOW (1000 * RIG_SECOND)
#define RIG_ENDED 811

enum {
    RIG_ALLREDUCE = 1,
    RIG_BCAST,
    RIG_SEND,
    RIG_RECV,
    RIG_RECV_ONE_OF,
    RIG_WAIT,
    RIG_EXCHANGE,
    RIG_FILE,
    RIG_NEIGHBORS,
    RIG_TEST,
    RIG_CALLS
};

struct rig {
    uint32_t n;
    struct dlr_look *looks; /* both of a rank are the same unless `before` says so */
    struct dlr_look *before;
    struct dlr_judge_rank *ranks;
    uint8_t *parts;
    struct dlr_verdict verdict;
    bool suspended;
};

void rig_start(struct rig *rig, uint32_t n);
void rig_stop(struct rig *rig);

/* From now on the rank's look before is another. */
struct dlr_look *rig_before(struct rig *rig, uint32_t rank);

/* Of a communicator the line of each member, none of whose operations has begun. */
void rig_add_comm(struct rig *rig, uint64_t id, const uint32_t *members, uint32_t n);

void rig_enter(struct rig *rig, uint32_t rank, uint64_t comm, uint32_t call);
void rig_begin(struct rig *rig, uint32_t rank, uint64_t comm, uint32_t call);
void rig_wait(struct rig *rig, uint32_t rank, uint64_t comm, uint32_t call,
              int32_t peer, int32_t tag);

void rig_judge(struct rig *rig);
/* Whether these ranks, in words such as "1 4", are the culprits. */
void rig_expect(struct rig *rig, enum dlr_verdict_kind kind, enum dlr_blame blame,
                const char *culprits);

#endif
