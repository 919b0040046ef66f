/* SPDX-License-Identifier: Apache-2.0 */
/* Where a rank is, by two looks at it: it moves, stands where it may, waits for others, or
 * stands and waits for nobody. Pure.
 */
#ifndef DLR_WATCH_JUDGE_PLACE_H
#define DLR_WATCH_JUDGE_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "watch/judge/judge.h"

/* Where a rank is. Only those that WAIT have waits. */
enum dlr_place {
    DLR_PLACE_UNKNOWN,
    DLR_PLACE_MOVES,
    DLR_PLACE_EXCUSED, /* stands no longer than it may */
    DLR_PLACE_WAITS,
    DLR_PLACE_BUSY, /* from here on: stands too long, and waits for nobody */
    DLR_PLACE_DISK,
    DLR_PLACE_TRACED,
    DLR_PLACE_STOPPED,
    DLR_PLACE_LEFT,
};

enum dlr_place dlr_place_of(const struct dlr_judge_input *in, uint32_t rank);

/* Whether it is the process's first thread that is in the call. */
bool dlr_call_is_main(const struct dlr_look *look, const struct dlr_look_call *call);

/* Whether the rank waits for others in the call. It does not where the call names nobody,
 * and where a thread stands in it while the rank goes on: something has ended since it was
 * entered, or another thread than the first receives from anybody.
 */
bool dlr_call_waits(const struct dlr_judge_input *in, const struct dlr_look *look,
                    const struct dlr_look_call *call);

/* Whether it has stood for so long that it is named. */
static inline bool dlr_rank_is_late(const struct dlr_judge_input *in, uint32_t rank)
{
    const struct dlr_judge_rank *r = &in->ranks[rank];

    return r->still_ns >= dlr_judge_named_ns(r->limit_ns);
}

enum dlr_fit { DLR_FIT_NOT, DLR_FIT_PERHAPS, DLR_FIT_SURE };

/* Whether two calls of which each names the other's rank are a message's two ends. */
enum dlr_fit dlr_call_fits(const struct dlr_judge_input *in,
                           const struct dlr_look_call *a,
                           const struct dlr_look_call *b);

static inline unsigned dlr_call_kind(const struct dlr_judge_input *in, uint32_t call)
{
    return call < in->ncalls ? in->calls[call] : 0;
}

static inline bool dlr_look_has_data(const struct dlr_look *look, uint32_t rank)
{
    return look && look->rank == (int32_t)rank && look->data >= DLR_LOOK_STEPS;
}

static inline uint32_t dlr_look_comms(const struct dlr_look *look)
{
    return look->ncomms < DLR_LOOK_COMMS ? look->ncomms : DLR_LOOK_COMMS;
}

static inline uint32_t dlr_look_calls(const struct dlr_look *look)
{
    return look->ncalls < DLR_LOOK_CALLS ? look->ncalls : DLR_LOOK_CALLS;
}

#endif
