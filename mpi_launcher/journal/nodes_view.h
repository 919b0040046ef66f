/* SPDX-License-Identifier: Apache-2.0 */
/* What events say of a run's nodes: which there are, and what each does. Private to the
 * run's view.
 */
#ifndef DLR_MPI_LAUNCHER_JOURNAL_NODES_VIEW_H
#define DLR_MPI_LAUNCHER_JOURNAL_NODES_VIEW_H

#include <jansson.h>

#include "mpi_launcher/journal/run_view.h"

/* The events 'start', 'node_up' and 'node_dead'. */
void dlr_cli_nodes_start(struct dlr_cli_state *s, const json_t *e);
void dlr_cli_nodes_up(struct dlr_cli_state *s, const json_t *e);
void dlr_cli_nodes_dead(struct dlr_cli_state *s, const json_t *e);

/* The event 'warm': what runs ahead on a spare. */
void dlr_cli_nodes_warm(struct dlr_cli_state *s, const json_t *e);

/* Another event says that the node is gone; name may be NULL. */
void dlr_cli_nodes_gone(struct dlr_cli_state *s, const char *name, const char *why);

/* A plan: what it does not name has no place. */
void dlr_cli_nodes_plan(struct dlr_cli_state *s, const json_t *e);

/* Its places and spares alone: what it does not name stays as it is. */
void dlr_cli_nodes_place(struct dlr_cli_state *s, const json_t *e);

void dlr_cli_nodes_forget(struct dlr_cli_state *s);

#endif
