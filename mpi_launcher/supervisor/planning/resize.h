/* SPDX-License-Identifier: Apache-2.0 */
/* --dlrover-nodes: with no spare left the run goes on with fewer nodes and ranks, and
 * with more again once nodes are back.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_PLANNING_RESIZE_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_PLANNING_RESIZE_H

#include "mpi_launcher/supervisor/planning/planning.h"

/* -EINVAL with one line when --dlrover-nodes cannot be kept. */
int dlr_sup_resize_check(const struct dlr_sup_planning *planning, struct dlr_err *err);
/* The same of --dlrover-group, which must divide the places, unless that is one. */
int dlr_sup_group_check(const struct dlr_sup_planning *planning, struct dlr_err *err);
/* The round that is taken over has as many places as it has: "replanned". */
int dlr_sup_resize_adopted(struct dlr_sup_planning *planning, struct dlr_err *err);
/* The next round has so many places: "replanned". */
int dlr_sup_resize(struct dlr_sup_planning *planning, unsigned nplaces);

#endif
