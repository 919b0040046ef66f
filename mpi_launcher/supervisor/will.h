/* SPDX-License-Identifier: Apache-2.0 */
/* What a few agents keep in memory for the day this host is gone: all that a supervisor
 * on another node needs to go on with the run. Over the encrypted connection only.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_WILL_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_WILL_H

#include <stdint.h>

struct dlr_sup;

/* Once the policy is there. Nobody gets one where no batch script is. */
void dlr_sup_will_open(struct dlr_sup *s);
void dlr_sup_will_free(struct dlr_sup *s);

void dlr_sup_will_changed(struct dlr_sup *s);
/* The node's agent has come, for the first time or again: it has none. */
void dlr_sup_will_greeted(struct dlr_sup *s, unsigned node);
void dlr_sup_will_tick(struct dlr_sup *s);

#endif
