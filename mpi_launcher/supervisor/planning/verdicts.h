/* SPDX-License-Identifier: Apache-2.0 */
/* What is told of the nodes' checks, and of faults that the user injects. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_PLANNING_VERDICTS_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_PLANNING_VERDICTS_H

#include "mpi_launcher/supervisor/planning/planning.h"

/* Each verdict of the plan but "ok" is a line of the journal. With one of "drain" goes
 * the command by which an administrator drains the node, unless it is injected.
 */
void dlr_sup_tell_verdicts(const struct dlr_sup_planning *planning,
                           const struct dlr_plan *plan);

/* DLROVER_INJECT in the environment, which all steps of ours inherit: -EINVAL when it
 * cannot be obeyed; told to the user and to the journal, so that nobody takes what comes
 * of it for a real fault. Nothing where it is not set.
 */
int dlr_sup_inject_check(struct dlr_err *err);
void dlr_sup_inject_tell(const struct dlr_sup_planning *planning);

#endif
