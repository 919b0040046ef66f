/* SPDX-License-Identifier: Apache-2.0 */
/* What each tensor is used for at this moment, and what follows for its chunks: whether
 * one may move, whether its memory is free, whether its gradients are all there. Only
 * counters: nothing is moved here, and no order of calls is expected.
 */
#ifndef DLR_CHUNK_STATES_H
#define DLR_CHUNK_STATES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

enum dlr_chunk_state {
    DLR_CHUNK_FREE,           /* no value */
    DLR_CHUNK_COMPUTE,        /* in use: its chunks stay where they are */
    DLR_CHUNK_HOLD,           /* a value, not in use */
    DLR_CHUNK_HOLD_AFTER_FWD, /* the same, used in this forward */
    DLR_CHUNK_HOLD_AFTER_BWD, /* its gradient is complete */
    DLR_CHUNK_STATES,
};

enum dlr_chunk_stage {
    DLR_CHUNK_IDLE, /* before the first iteration, and after an exception */
    DLR_CHUNK_FWD,
    DLR_CHUNK_BWD,
    DLR_CHUNK_ADAM,
};

/* The pass that a use belongs to. A forward pass in the stage BWD is one that activation
 * checkpointing makes again.
 */
enum dlr_chunk_pass {
    DLR_CHUNK_FORWARD,
    DLR_CHUNK_BACKWARD,
};

/* The chunks of a tensor: 0 where it lies in none. Of tied ones only the first counts,
 * and is named in each call.
 */
struct dlr_chunk_span {
    uint32_t chunk, chunks;
    bool frozen; /* never has a gradient */
};

struct dlr_chunk_states; /* opaque */

/* All tensors are FREE, the stage is IDLE. Spans lie below chunks and are copied. *ret:
 * dlr_chunk_states_free(). -ENOMEM.
 */
int dlr_chunk_states_new(const struct dlr_chunk_span *spans, uint32_t n,
                         uint32_t chunks, struct dlr_chunk_states **ret);
struct dlr_chunk_states *dlr_chunk_states_free(struct dlr_chunk_states *s);

/* To FWD from any stage (another micro-batch, an evaluation), from FWD to BWD, from BWD
 * to ADAM. What FWD used is HOLD from its end on. At the beginning of ADAM all with a
 * backward pass are complete. At the beginning of the next FWD what was complete is HOLD
 * behind ADAM, else FREE: the caller has taken the gradient. -EINVAL: no such step;
 * -EBUSY: a tensor is in use. With text.
 */
int dlr_chunk_states_stage(struct dlr_chunk_states *s, enum dlr_chunk_stage stage,
                           struct dlr_err *err);

/* One more use. 1: it had no value, which the caller makes before it is read; else 0.
 * -ESTALE: its gradient is complete, and took the parameter's place; -EINVAL: the stage
 * has no such pass. With text.
 */
int dlr_chunk_states_access(struct dlr_chunk_states *s, uint32_t tensor,
                            enum dlr_chunk_pass pass, struct dlr_err *err);

/* The end of one use, of those begun in the same pass. 1: it completed the gradient of
 * the tensor: as many backward passes as forward ones; else 0. -EINVAL with text: there
 * is no such use.
 */
int dlr_chunk_states_release(struct dlr_chunk_states *s, uint32_t tensor,
                             enum dlr_chunk_pass pass, struct dlr_err *err);

/* Its value, or its gradient, is gone; it stays complete. -EBUSY: it is in use. */
int dlr_chunk_states_drop(struct dlr_chunk_states *s, uint32_t tensor);

/* After an exception, in any stage: no use is left, the stage is IDLE. What was not
 * complete has its value still; what was is FREE, since its gradient has taken the
 * place. Returns how many those are.
 */
uint32_t dlr_chunk_states_reset(struct dlr_chunk_states *s);

enum dlr_chunk_stage dlr_chunk_states_now(const struct dlr_chunk_states *s);
enum dlr_chunk_state dlr_chunk_states_tensor(const struct dlr_chunk_states *s,
                                             uint32_t tensor);

/* A chunk in which a tensor is in use; one of whose tensors none has a value. */
bool dlr_chunk_states_pinned(const struct dlr_chunk_states *s, uint32_t chunk);
bool dlr_chunk_states_empty(const struct dlr_chunk_states *s, uint32_t chunk);

/* No gradient of this chunk is still to come: all of its tensors are complete, or frozen;
 * in ADAM those without a gradient count as zero. False for a chunk that has none.
 */
bool dlr_chunk_states_reducible(const struct dlr_chunk_states *s, uint32_t chunk);

#endif
