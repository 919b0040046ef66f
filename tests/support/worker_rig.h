/* SPDX-License-Identifier: Apache-2.0 */
/* A worker as the agent meets it: what libdlrover says and does, one small region. */
#ifndef DLR_TESTS_SUPPORT_WORKER_RIG_H
#define DLR_TESTS_SUPPORT_WORKER_RIG_H

#include "ckpt/base/page.h"
#include "ckpt/slot/write.h"
#include "tests/support/agent_rig.h"

struct worker {
    int fd, rank;
    unsigned round;
    struct dlr_page *page;
    struct dlr_slot *slots[3];
    unsigned nslots; /* 0 means 2 */
    uint64_t shared; /* said with SEALED: hash of what it keeps a part of */
    struct dlr_slot_plan *plan;
    struct dlr_local_msg welcome;
};

/* Says hello and takes the welcome; false when the agent gives none. */
bool rig_hello(struct rig *rig, struct worker *w, unsigned round, int rank);
/* Rank 4 of round 0, of an agent that is started with this option more (NULL: none). */
void rig_welcomed(struct rig *rig, struct worker *w, const char *option);
/* Asks for slots and maps them. */
void rig_worker_slots(struct worker *w);
/* What libdlrover does at that step. Returns the slot. */
unsigned rig_worker_save(struct worker *w, uint64_t step);
void rig_bye(struct worker *w);

#endif
