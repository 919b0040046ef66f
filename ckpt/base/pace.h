/* SPDX-License-Identifier: Apache-2.0 */
/* How fast copies may go out: a token bucket, and the rate that leaves the training's
 * steps as long as they are without. Pure; time comes in.
 */
#ifndef DLR_CKPT_BASE_PACE_H
#define DLR_CKPT_BASE_PACE_H

#include <stdbool.h>
#include <stdint.h>

/* All fields 0: no limit. */
struct dlr_bucket {
    uint64_t rate; /* bytes per second, 0: any */
    double level;  /* bytes that may go now; below 0 after a large piece */
    int64_t at_ns; /* level was true then */
};

void dlr_bucket_rate(struct dlr_bucket *b, uint64_t rate, int64_t now_ns);
/* 0: bytes were taken, send them; else nanoseconds to wait and ask again. */
int64_t dlr_bucket_take(struct dlr_bucket *b, uint64_t bytes, int64_t now_ns);

/* Learns steps with and without a copy on its way. Zero-initialized: no limit yet. */
struct dlr_pace {
    bool known, sending; /* since the step was seen, was anything being sent? */
    uint64_t step;
    int64_t at_ns;
    double quiet_ns, busy_ns; /* mean length of a step without, with */
    unsigned quiet, busy;     /* how many were seen; busy: at this rate */
    double link;              /* bytes per second that went out without a limit */
    uint64_t rate;            /* 0: any */
    unsigned unheard;         /* steps in a row beside a copy */
    unsigned listen; /* steps that copies still all but stop for, to hear one alone */
    int64_t listen_until_ns; /* or until then */
    uint64_t rate_before;    /* in force again after that */
};

/* The newest step, when it began, whether a copy is on its way now, and what time that
 * is; to be called when one begins and ends, and every now and then. True when the rate
 * has changed. The first two may be anything: what cannot be teaches nothing.
 */
bool dlr_pace_see(struct dlr_pace *p, uint64_t step, int64_t at_ns, bool sending,
                  int64_t now_ns);
/* So much went out in so long, at the rate in force. */
void dlr_pace_sent(struct dlr_pace *p, uint64_t bytes, int64_t ns);

#endif
