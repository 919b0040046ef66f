/* SPDX-License-Identifier: Apache-2.0 */
/* For what each rank of a wait graph is to blame. For watch/judge/judge.c. */
#ifndef DLR_WATCH_JUDGE_BLAME_H
#define DLR_WATCH_JUDGE_BLAME_H

#include "watch/judge/wait_graph.h"

struct dlr_blames {
    const struct dlr_wait_graph *g;
    uint32_t n;
    uint8_t *blames;  /* enum dlr_blame, of each rank */
    uint64_t *inside; /* of each group: the last operation waited for with INSIDE */
    bool proven;      /* that deadlocks are; true at the beginning */
    bool by_call, by_root, by_size; /* calls differ where these do */
};

/* Blames the ranks for which others wait, those that disagree, and those that hold each
 * other. -ENOMEM.
 */
int dlr_blames_find(struct dlr_blames *s);

/* Of several the first in the order of enum dlr_blame stays. */
void dlr_blames_add(struct dlr_blames *s, uint32_t rank, enum dlr_blame blame);

/* One for which somebody waits: by where it is, else by how they wait for it. One that
 * moves or waits itself is none.
 */
void dlr_blames_obstacle(struct dlr_blames *s, uint32_t rank, enum dlr_blame how);

#endif
