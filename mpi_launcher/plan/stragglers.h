/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that are slow but correct, by what they have measured themselves. */
#ifndef DLR_MPI_LAUNCHER_PLAN_STRAGGLERS_H
#define DLR_MPI_LAUNCHER_PLAN_STRAGGLERS_H

#include "mpi_launcher/plan/input.h"

/* Compares each speed with the median of those who report one of that check. A node
 * below 70 % of it, and further off than six standard deviations (by the median absolute
 * deviation), gets a verdict of that check: WARN, or FAIL when exclude. Of fewer than
 * three nodes nothing is said. The same for every order of reports. -ENOMEM.
 */
int dlr_plan_find_stragglers(struct dlr_plan_report *reports, unsigned n, bool exclude);

#endif
