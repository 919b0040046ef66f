/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/watch/judge/look_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const uint8_t calls[RIG_CALLS] = {
    [RIG_SEND] = DLR_CALL_SENDS,
    [RIG_RECV] = DLR_CALL_RECEIVES,
    [RIG_EXCHANGE] = DLR_CALL_SENDS | DLR_CALL_RECEIVES,
    [RIG_FILE] = DLR_CALL_ALONE,
    [RIG_NEIGHBORS] = DLR_CALL_NEIGHBORS,
    [RIG_TEST] = DLR_CALL_POLLS,
    [RIG_RECV_ONE_OF] = DLR_CALL_RECEIVES | DLR_CALL_ONE_OF,
};

void rig_start(struct rig *rig, uint32_t n)
{
    *rig = (struct rig){.n = n};
    rig->looks = calloc(n, sizeof(*rig->looks));
    rig->ranks = calloc(n, sizeof(*rig->ranks));
    rig->parts = calloc(n, 1);
    for (uint32_t r = 0; r < n; r++) {
        rig->looks[r] = (struct dlr_look){.rank = (int32_t)r,
                                          .data = DLR_LOOK_CALLS_TOO,
                                          .pid = 100 + (int32_t)r,
                                          .step = 7,
                                          .step_ns = RIG_NOW - 70 * RIG_SECOND,
                                          .steps_ns = 7 * RIG_SECOND,
                                          .moved_ns = RIG_NOW - 60 * RIG_SECOND,
                                          .ncomms = 1};
        rig->looks[r].comms[0] = (struct dlr_look_comm){.id = DLR_LOOK_WORLD,
                                                        .size = n,
                                                        .my_rank = r,
                                                        .op = RIG_ALLREDUCE,
                                                        .entered = RIG_ENDED,
                                                        .left = RIG_ENDED};
        rig->ranks[r] = (struct dlr_judge_rank){.before = &rig->looks[r],
                                                .after = &rig->looks[r],
                                                .still_ns = 60 * RIG_SECOND,
                                                .limit_ns = 3 * RIG_SECOND};
    }
}

void rig_stop(struct rig *rig)
{
    free(rig->looks);
    free(rig->before);
    free(rig->ranks);
    free(rig->parts);
}

struct dlr_look *rig_before(struct rig *rig, uint32_t rank)
{
    if (!rig->before)
        rig->before = calloc(rig->n, sizeof(*rig->before));
    rig->before[rank] = rig->looks[rank];
    rig->ranks[rank].before = &rig->before[rank];
    return &rig->before[rank];
}

void rig_add_comm(struct rig *rig, uint64_t id, const uint32_t *members, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct dlr_look *look = &rig->looks[members[i]];

        look->comms[look->ncomms++] =
            (struct dlr_look_comm){.id = id, .size = n, .my_rank = i};
    }
}

static struct dlr_look_comm *comm_of(struct dlr_look *look, uint64_t id)
{
    for (uint32_t i = 0; i < look->ncomms; i++)
        if (look->comms[i].id == id)
            return &look->comms[i];
    fail_msg("rank %d is not in %llu", look->rank, (unsigned long long)id);
    return NULL;
}

void rig_begin(struct rig *rig, uint32_t rank, uint64_t comm, uint32_t call)
{
    struct dlr_look_comm *c = comm_of(&rig->looks[rank], comm);

    c->op = call;
    c->type = 4;
    c->bytes = 4096;
    c->entered++;
}

void rig_wait(struct rig *rig, uint32_t rank, uint64_t comm, uint32_t call,
              int32_t peer, int32_t tag)
{
    struct dlr_look *look = &rig->looks[rank];

    look->in[look->ncalls++] = (struct dlr_look_call){.comm = comm,
                                                      .peer = peer,
                                                      .tag = tag,
                                                      .tid = 100 + rank,
                                                      .call = call,
                                                      .bytes = 4096,
                                                      .entered_ns = look->moved_ns};
}

void rig_enter(struct rig *rig, uint32_t rank, uint64_t comm, uint32_t call)
{
    rig_begin(rig, rank, comm, call);
    rig_wait(rig, rank, comm, call, DLR_LOOK_NOBODY, 0);
}

void rig_judge(struct rig *rig)
{
    const struct dlr_judge_input in = {.ranks = rig->ranks,
                                       .n = rig->n,
                                       .calls = calls,
                                       .ncalls = RIG_CALLS,
                                       .suspended = rig->suspended};

    assert_int_equal(dlr_judge(&in, rig->parts, &rig->verdict), 0);
}

void rig_expect(struct rig *rig, enum dlr_verdict_kind kind, enum dlr_blame blame,
                const char *culprits)
{
    char found[256] = "";

    rig_judge(rig);
    for (uint32_t r = 0; r < rig->n; r++)
        if (rig->parts[r] == DLR_PART_CULPRIT)
            snprintf(found + strlen(found), sizeof(found) - strlen(found), "%s%u",
                     *found ? " " : "", r);
    assert_string_equal(dlr_blame_name(rig->verdict.blame), dlr_blame_name(blame));
    assert_string_equal(found, culprits);
    assert_int_equal(rig->verdict.kind, kind);
}
