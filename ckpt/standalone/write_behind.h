/* SPDX-License-Identifier: Apache-2.0 */
/* Two snapshots in this process's memory, and a thread that writes them to files while
 * the program goes on: one is written, the other may be filled.
 */
#ifndef DLR_CKPT_STANDALONE_WRITE_BEHIND_H
#define DLR_CKPT_STANDALONE_WRITE_BEHIND_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/slot/slot.h"
#include "common/base/err.h"

#define DLR_WRITE_BEHIND_SLOTS 2
#define DLR_WRITE_BEHIND_FLUSH_MS 300000 /* for files, when the program ends */

struct dlr_write_behind; /* opaque */

struct dlr_write_behind_ops {
    /* Makes a sealed snapshot durable, in the thread. */
    int (*write)(void *arg, struct dlr_slot *slot, uint64_t step, struct dlr_err *err);
    /* The process ends: puts what is about to be put. NULL: nothing is. */
    void (*ending)(void *arg);
    /* All of it is written, and the process ends. NULL: as above. */
    void (*ended)(void *arg);
};

/* A process that ends by exit() or from main() waits DLR_WRITE_BEHIND_FLUSH_MS at most
 * for what was put, but not for what was left.
 */

/* The slots have bytes each, whose memory the thread makes there while the program
 * computes.
 */
int dlr_write_behind_new(uint64_t bytes, const struct dlr_write_behind_ops *ops,
                         void *arg, struct dlr_write_behind **ret, struct dlr_err *err);

/* Waits for what is written now; what is not begun is not written. Accepts NULL. */
struct dlr_write_behind *dlr_write_behind_free(struct dlr_write_behind *b);

/* For one that cannot be freed, since a write does not end: nobody waits for it any
 * more.
 */
void dlr_write_behind_leave(struct dlr_write_behind *b);

/* The place of a slot that may be filled, its owner's until put() or drop(); it may be
 * replaced by a longer one after settle(). It waits while all are in use, being filled
 * or not written yet: -ETIMEDOUT.
 */
int dlr_write_behind_take(struct dlr_write_behind *b, int64_t timeout_ms,
                          struct dlr_slot ***ret_slot);

/* Before it is unmapped, for a longer one: the thread is not at its memory. Waits as
 * long as the first touch of it takes.
 */
void dlr_write_behind_settle(struct dlr_write_behind *b, struct dlr_slot **slot);

/* It is sealed and of step: it is written after those before it. Or it came to nothing.
 */
void dlr_write_behind_put(struct dlr_write_behind *b, struct dlr_slot **slot,
                          uint64_t step);
void dlr_write_behind_drop(struct dlr_write_behind *b, struct dlr_slot **slot);

/* Of what is put and not written yet nothing from step on is written. What is being
 * written is: true when it is such a step, and the caller has to wait.
 */
bool dlr_write_behind_reject(struct dlr_write_behind *b, uint64_t step);

/* Waits until all that was put is written or has failed, at most timeout_ms:
 * -ETIMEDOUT.
 */
int dlr_write_behind_wait(struct dlr_write_behind *b, int64_t timeout_ms);

bool dlr_write_behind_busy(struct dlr_write_behind *b);

/* How long the last write took, 0 while there was none. */
int64_t dlr_write_behind_took_ns(const struct dlr_write_behind *b);

/* Takes the first failure since the last call: its code with text, 0: none. A load when
 * there is none.
 */
int dlr_write_behind_failure(struct dlr_write_behind *b, struct dlr_err *err);

#endif
