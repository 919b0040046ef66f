/* SPDX-License-Identifier: Apache-2.0 */
/* What an iteration did, operator by operator: recorded in the first one, and compared
 * with in those that follow. Pure: the caller says what happens.
 */
#ifndef DLR_CHUNK_TRACE_H
#define DLR_CHUNK_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "chunk/iteration.h"
#include "common/base/err.h"

/* So many iterations in a row that did what was not foreseen: it is recorded again. */
#define DLR_CHUNK_TRACE_MISSES 3
#define DLR_CHUNK_TRACE_MOMENTS (UINT32_C(1) << 24)

struct dlr_chunk_trace; /* opaque */

/* bytes: of each chunk, copied. *ret: dlr_chunk_trace_free(). -ENOMEM. */
int dlr_chunk_trace_new(const uint64_t *bytes, uint32_t chunks,
                        struct dlr_chunk_trace **ret);
struct dlr_chunk_trace *dlr_chunk_trace_free(struct dlr_chunk_trace *trace);

/* An iteration with inputs of these shapes (any number that is another one for others)
 * begins; one that has not ended is forgotten. True: it is recorded, since there is no
 * trace of these shapes or it was wrong too often.
 */
bool dlr_chunk_trace_begin(struct dlr_chunk_trace *trace, uint64_t shapes);

/* An operator begins. -E2BIG: too many, -ENOMEM; then the iteration has overflowed. */
int dlr_chunk_trace_tick(struct dlr_chunk_trace *trace, const char *name);

/* In this moment a chunk is used, or others on the device take so many bytes at most. An
 * operator whose chunk the host takes goes on in a moment more. Before the first tick:
 * nothing happens. 1: that was not foreseen, 0: it was, or it is recorded. -E2BIG and
 * -ENOMEM as of a tick.
 */
int dlr_chunk_trace_use(struct dlr_chunk_trace *trace, uint32_t chunk,
                        enum dlr_chunk_intent intent);
int dlr_chunk_trace_others(struct dlr_chunk_trace *trace, uint64_t bytes);

/* It ends. overflowed: it was cut short, as by memory that did not do; then all is as if
 * it had not been. 1: what was recorded is the trace from now on, of others the most
 * bytes since the first one with these shapes and operators; else 0.
 */
int dlr_chunk_trace_end(struct dlr_chunk_trace *trace, bool overflowed);

/* Valid until an end that returns 1. False: there is none. */
bool dlr_chunk_trace_get(const struct dlr_chunk_trace *trace,
                         struct dlr_chunk_iteration *ret);

#endif
