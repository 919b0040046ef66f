/* SPDX-License-Identifier: Apache-2.0 */
/* The network that a node's copies were to take leads nowhere; all take the one they
 * have in common.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_COPIES_FALLBACK_NETWORK_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_COPIES_FALLBACK_NETWORK_H

#include "mpi_launcher/supervisor/copies/copies.h"

void dlr_sup_on_unreached(struct dlr_sup_copies *copies, unsigned node,
                          const json_t *msg);
/* Do copies go over the control plane's network? */
bool dlr_sup_common_net(const struct dlr_sup_copies *copies);
void dlr_sup_net_state(const struct dlr_sup_copies *copies, json_t *state);
void dlr_sup_net_take(struct dlr_sup_copies *copies, const json_t *state);

#endif
