/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/judge/place.h"

#define ANY_TAG (-1)
#define TICK_NS 20000000u /* the times of a call may be those of the kernel's ticks */

static bool comms_moved(const struct dlr_look *a, const struct dlr_look *b)
{
    if (a->ncomms != b->ncomms)
        return true;
    for (uint32_t i = 0; i < dlr_look_comms(b); i++)
        if (a->comms[i].id != b->comms[i].id ||
            a->comms[i].entered != b->comms[i].entered ||
            a->comms[i].left != b->comms[i].left)
            return true;
    return false;
}

/* Between two looks. */
static bool has_moved(const struct dlr_look *a, const struct dlr_look *b)
{
    return a->step != b->step || a->step_ns != b->step_ns ||
           a->moved_ns != b->moved_ns || a->phase_ns != b->phase_ns ||
           a->paused != b->paused || a->finished != b->finished || comms_moved(a, b);
}

bool dlr_call_is_main(const struct dlr_look *look, const struct dlr_look_call *call)
{
    return look->pid == 0 || call->tid == (uint32_t)look->pid;
}

/* Whether something has ended since the call was entered. */
static bool is_background(const struct dlr_look *look, const struct dlr_look_call *call)
{
    uint64_t ended_ns = 0;

    if (look->step != UINT64_MAX)
        return call->entered_ns + TICK_NS < look->step_ns;
    if (call->peer == DLR_LOOK_NOBODY)
        return false;
    for (uint32_t i = 0; i < dlr_look_comms(look); i++)
        if (look->comms[i].left_ns > ended_ns)
            ended_ns = look->comms[i].left_ns;
    return call->entered_ns + TICK_NS < ended_ns;
}

bool dlr_call_waits(const struct dlr_judge_input *in, const struct dlr_look *look,
                    const struct dlr_look_call *call)
{
    const unsigned kind = dlr_call_kind(in, call->call);

    if (kind & DLR_CALL_ALONE)
        return false;
    if (call->peer == DLR_LOOK_NOBODY && kind & (DLR_CALL_SENDS | DLR_CALL_RECEIVES))
        return false; /* MPI_PROC_NULL */
    if (call->peer == DLR_LOOK_ANY && !dlr_call_is_main(look, call))
        return false;
    return !is_background(look, call);
}

enum dlr_fit dlr_call_fits(const struct dlr_judge_input *in,
                           const struct dlr_look_call *a, const struct dlr_look_call *b)
{
    const unsigned both = DLR_CALL_SENDS | DLR_CALL_RECEIVES,
                   x = dlr_call_kind(in, a->call) & both,
                   y = dlr_call_kind(in, b->call) & both;

    if (x == both || y == both)
        return DLR_FIT_PERHAPS;
    if (a->tag != b->tag && a->tag != ANY_TAG && b->tag != ANY_TAG)
        return DLR_FIT_NOT;
    if (!x || !y)
        return DLR_FIT_PERHAPS;
    return (x | y) == both ? DLR_FIT_SURE : DLR_FIT_NOT;
}

static bool is_waiting(const struct dlr_judge_input *in, const struct dlr_look *look)
{
    for (uint32_t i = 0; i < dlr_look_calls(look); i++)
        if (dlr_call_waits(in, look, &look->in[i]))
            return true;
    return false;
}

/* For one that has not moved and whose data are known. */
static enum dlr_place place_of_still(const struct dlr_judge_input *in,
                                     const struct dlr_judge_rank *r)
{
    const struct dlr_look *look = r->after;
    bool same = r->before->state == look->state;

    if (look->finished)
        return DLR_PLACE_LEFT;
    if (same && look->state == DLR_LOOK_STOPPED)
        return r->still_ns < dlr_judge_named_ns(r->limit_ns) ? DLR_PLACE_EXCUSED
                                                             : DLR_PLACE_STOPPED;
    if (is_waiting(in, look) && look->state != DLR_LOOK_TRACED)
        return DLR_PLACE_WAITS;
    if (look->lost || look->torn || look->garbage)
        return DLR_PLACE_UNKNOWN; /* the call in which it waits may be one of these */
    if (look->paused || r->still_ns < dlr_judge_named_ns(r->limit_ns))
        return DLR_PLACE_EXCUSED;
    if (same && look->state == DLR_LOOK_TRACED)
        return DLR_PLACE_TRACED;
    return same && look->state == DLR_LOOK_DISK ? DLR_PLACE_DISK : DLR_PLACE_BUSY;
}

enum dlr_place dlr_place_of(const struct dlr_judge_input *in, uint32_t rank)
{
    const struct dlr_judge_rank *r = &in->ranks[rank];

    if (r->after && r->after->rank == (int32_t)rank && r->after->state == DLR_LOOK_DEAD)
        return DLR_PLACE_LEFT;
    if (!dlr_look_has_data(r->before, rank) || !dlr_look_has_data(r->after, rank))
        return DLR_PLACE_UNKNOWN;
    return has_moved(r->before, r->after) ? DLR_PLACE_MOVES : place_of_still(in, r);
}
