/* SPDX-License-Identifier: Apache-2.0 */
/* What agents are told to do with copies. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_COPIES_ORDERS_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_COPIES_ORDERS_H

#include "mpi_launcher/supervisor/copies/copies.h"

/* A message of this type with the transfer's fields. */
json_t *dlr_sup_order(const struct dlr_sup_copies *copies, const struct dlr_transfer *t,
                      const char *type);
/* The same with one more, to node. */
void dlr_sup_ask(struct dlr_sup_copies *copies, const struct dlr_transfer *t,
                 const char *type, unsigned node, const char *key, const char *value);
/* The node is to have slots of so many bytes for a rank, or a shard. */
void dlr_sup_ask_reserve(struct dlr_sup_copies *copies, unsigned node, unsigned rank,
                         uint64_t bytes);

#endif
