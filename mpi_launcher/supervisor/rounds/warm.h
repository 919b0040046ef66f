/* SPDX-License-Identifier: Apache-2.0 */
/* Spares on which the program runs ahead up to its first round, or a command of the
 * user's runs once (--dlrover-set=warm).
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_ROUNDS_WARM_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_ROUNDS_WARM_H

#include "mpi_launcher/supervisor/rounds/rounds.h"

/* A process of the round can stay; processes of a spare have run ahead, or do not any
 * more.
 */
void dlr_sup_on_can_stay(struct dlr_sup_rounds *rounds, unsigned node,
                         const json_t *msg);
void dlr_sup_on_warm(struct dlr_sup_rounds *rounds, unsigned node, const json_t *msg);

/* The agent of a node has said hello: it may know of nothing. */
void dlr_sup_warm_greeted(struct dlr_sup_rounds *rounds, unsigned node);
/* Spares that have not been told yet are. */
void dlr_sup_warm_tick(struct dlr_sup_rounds *rounds);
/* Another round begins: nobody is told. */
void dlr_sup_warm_reset(struct dlr_sup_rounds *rounds);

/* Asked: is anything to run ahead on spares now? */
bool dlr_sup_warm_wanted(const struct dlr_sup_rounds *rounds);

#endif
