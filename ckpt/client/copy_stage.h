/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of a snapshot that come from a device, in order: one thread sees them come,
 * all take what has come.
 */
#ifndef DLR_CKPT_CLIENT_COPY_STAGE_H
#define DLR_CKPT_CLIENT_COPY_STAGE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct dlr_copy_stage {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t come, taken, done; /* blocks, each no more than the one before */
    bool over;
};

void dlr_copy_stage_init(struct dlr_copy_stage *s);
void dlr_copy_stage_done(struct dlr_copy_stage *s);

/* Empty, for the next snapshot; nobody uses it. */
void dlr_copy_stage_begin(struct dlr_copy_stage *s);
/* So many have come, counted from the first; those who wait for one are woken. */
void dlr_copy_stage_come(struct dlr_copy_stage *s, uint32_t blocks);
/* No more will come, and with none of those that have is another taken if dropped. */
void dlr_copy_stage_end(struct dlr_copy_stage *s, bool dropped);

/* The next block: true, and the caller tells when it is through with it. With wait
 * until there is one, or the end. False: none.
 */
bool dlr_copy_stage_take(struct dlr_copy_stage *s, bool wait, uint32_t *ret_block);
void dlr_copy_stage_through(struct dlr_copy_stage *s);
/* Blocks until nobody is at work on a block; for the one thread, which has taken none.
 */
void dlr_copy_stage_settle(struct dlr_copy_stage *s);

#endif
