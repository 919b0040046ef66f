/* SPDX-License-Identifier: Apache-2.0 */
/* Time in which the process was stopped (scontrol suspend) is nobody's silence:
 * CLOCK_MONOTONIC runs on in it. Pure; times come in.
 */
#ifndef DLR_CKPT_STREAM_STOPPED_TIME_H
#define DLR_CKPT_STREAM_STOPPED_TIME_H

#include <stdint.h>

#define DLR_DATA_STOPPED_MS 1000 /* shorter: the machine is busy */

/* How much later than due_ms, when it wanted to look at its transfers again, it does;
 * 0: soon enough, or due_ms is 0, no time.
 */
static inline int64_t dlr_stopped_ms(int64_t due_ms, int64_t now_ms)
{
    return due_ms && now_ms - due_ms > DLR_DATA_STOPPED_MS ? now_ms - due_ms : 0;
}

/* A time that was noted before it dozed, as if it had not; of one noted since, now. */
static inline int64_t dlr_stopped_time_moved(int64_t at_ms, int64_t stopped_ms,
                                             int64_t now_ms)
{
    return at_ms + stopped_ms < now_ms ? at_ms + stopped_ms : now_ms;
}

#endif
