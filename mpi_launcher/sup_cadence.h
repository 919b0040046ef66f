/* SPDX-License-Identifier: Apache-2.0 */
/* What saves cost this run, and how often they are ordered for it (--dlrover-ckpt-budget). */
#ifndef DLR_MPI_LAUNCHER_SUP_CADENCE_H
#define DLR_MPI_LAUNCHER_SUP_CADENCE_H

#include "mpi_launcher/sup.h"

struct dlr_sup_cadence;

/* A supervisor without one (out of memory) saves as often as it can. */
void dlr_sup_cadence_start(struct dlr_sup *s);
void dlr_sup_cadence_round(struct dlr_sup *s); /* begins to learn anew */

/* The agents' words: what a rank's last saves cost it, and a copy that came to node. */
void dlr_sup_cadence_sealed(struct dlr_sup *s, const json_t *msg);
void dlr_sup_cadence_copied(struct dlr_sup *s, unsigned node, const json_t *msg);

/* The network devices of node's copies: told once, and of each node that has others. */
void dlr_sup_cadence_uses(struct dlr_sup *s, unsigned node, const json_t *msg);

/* A version is whole, so long after its first rank sealed it: the distance of the next ones follows
 * from what is known now.
 */
void dlr_sup_cadence_commit(struct dlr_sup *s, int64_t took_ms);

#endif
