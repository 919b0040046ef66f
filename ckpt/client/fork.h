/* SPDX-License-Identifier: Apache-2.0 */
/* Handles belong to the process that has opened them: a forked child has none of the
 * library's threads, and the agent speaks with its parent.
 */
#ifndef DLR_CKPT_CLIENT_FORK_H
#define DLR_CKPT_CLIENT_FORK_H

#include <stdbool.h>

struct dlr_ckpt;

/* How many forks since the library's first handle have led to this process. What a
 * system call tells would cost more than all else that a begin without a save does.
 */
unsigned dlr_forks(void);

/* Whether ck is the parent's. */
bool dlr_forked(const struct dlr_ckpt *ck);

/* 0; -EBUSY with a text in ck where it is. */
int dlr_fork_check(struct dlr_ckpt *ck);

#endif
