/* SPDX-License-Identifier: Apache-2.0 */
/* The batch host is gone, or cut off. Its successor: a supervisor that an elected agent
 * has started on its own node goes on in the same allocation. Its predecessor, where
 * that lives: it is deposed, and does nothing from then on.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_SUCCESSION_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_SUCCESSION_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct dlr_sup;

/* What the elected agent has put into the state that we begin with; without it nothing.
 */
void dlr_sup_succession_take(struct dlr_sup *s, const json_t *state);
/* Before the policy starts: who is not there any more, and where our output goes. */
void dlr_sup_succession_begin(struct dlr_sup *s, int64_t now_ms);
/* An agent has come to us: from now on we act, and the predecessor must not. */
void dlr_sup_succession_greeted(struct dlr_sup *s);

/* To be asked before anything is started, written or requeued. While most agents are
 * heard it is false without a look at the state directory.
 */
bool dlr_sup_is_deposed(struct dlr_sup *s);

#endif
