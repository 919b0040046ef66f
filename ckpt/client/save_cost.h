/* SPDX-License-Identifier: Apache-2.0 */
/* What a save costs one rank: how much longer the steps that overlap it take than
 * others, whatever the reason (begin and fence, copies on its cores, traffic, page
 * faults). Pure: durations come in.
 *
 * A save overlaps the step that begins it and those that begin before it is decided,
 * when its copies have arrived. They are compared with the newest steps that overlap
 * none, so that steps which become longer or shorter are compared with their like. Both
 * sides are midmeans: the mean of what is left without the lowest and the highest
 * quarter. An evaluation, a collection of garbage or a first step does not move one, as
 * it does not move a median; steps that are short and long by turns do not make it jump
 * between the two, as they do a median.
 */
#ifndef DLR_CKPT_CLIENT_SAVE_COST_H
#define DLR_CKPT_CLIENT_SAVE_COST_H

#include <stdbool.h>
#include <stdint.h>

#define DLR_SAVE_COST_PLAIN 32 /* steps without a save that are compared with */
#define DLR_SAVE_COST_SAVES 16 /* saves that count */

struct dlr_save_cost {
    int64_t plain_ns[DLR_SAVE_COST_PLAIN], extra_ns[DLR_SAVE_COST_SAVES];
    uint64_t plains, saves; /* that were ever seen */
    int64_t under_ns;       /* of the steps that overlap the save under way */
    unsigned under_steps, under_saves;
};

/* A step is over. saves: one began in it. overlaps: an earlier one was undecided when
 * it began. True when the cost of one more save, or of several without a step between
 * them, is known.
 */
bool dlr_save_cost_step(struct dlr_save_cost *c, int64_t ns, bool saves, bool overlaps);

int64_t dlr_save_cost_plain_ns(const struct dlr_save_cost *c); /* 0: none was seen */
/* Of one save; 0: none is known. It may be below zero: noise is larger. */
int64_t dlr_save_cost_extra_ns(const struct dlr_save_cost *c);

#endif
