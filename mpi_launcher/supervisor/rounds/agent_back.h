/* SPDX-License-Identifier: Apache-2.0 */
/* An agent says where it stands, and no supervisor has died: has it taken the round of
 * one that died, or does it know nothing of it?
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_ROUNDS_AGENT_BACK_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_ROUNDS_AGENT_BACK_H

#include "mpi_launcher/supervisor/rounds/rounds.h"

/* "round_state" of a node of the round that is planned or runs. */
void dlr_sup_agent_back(struct dlr_sup_rounds *rounds, unsigned node,
                        const json_t *msg);
/* Of another node: tasks of a former round that it has still are killed. */
void dlr_sup_agent_elsewhere(struct dlr_sup_rounds *rounds, unsigned node,
                             const json_t *msg);

#endif
