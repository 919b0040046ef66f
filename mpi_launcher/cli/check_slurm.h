/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover check --slurm: the check of a node that slurmd runs as HealthCheckProgram or
 * Prolog. It keeps the results and drains the node by the rules of health/run/drain.h.
 */
#ifndef DLR_MPI_LAUNCHER_CLI_CHECK_SLURM_H
#define DLR_MPI_LAUNCHER_CLI_CHECK_SLURM_H

#include <stdbool.h>
#include <stdint.h>

#include "health/health.h"

#define DLR_CHECK_SLURM_LIMIT_MS 10000 /* all of it: a Prolog holds a job up */

struct dlr_check_slurm {
    const struct dlr_health_env *env;
    const char *checks;
    const char *node;         /* as Slurm names it */
    const char *const *bases; /* where the history lies: dlr_history_open() */
    bool may_resume;
    int64_t now_s; /* since the epoch */
};

/* The name that slurmd gave this node, else its host name without the domain. */
void dlr_check_slurm_node(char *buf, size_t size);

/* Runs the checks in a child, with sinfo and scontrol out of PATH, prints the results
 * and what was decided, which goes to syslog, too. DLR_CLI_FAIL when this call has
 * drained the node, by which a Prolog has Slurm requeue the job; DLR_CLI_OK in any
 * other case, whatever went wrong: any other status of a Prolog drains the node past
 * all limits. Blocking for at most DLR_CHECK_SLURM_LIMIT_MS.
 */
int dlr_check_slurm(const struct dlr_check_slurm *c);

/* Prints the history of the node. DLR_CLI_OK, or DLR_CLI_FAIL with a line on stderr. */
int dlr_check_history(const char *node, const char *const *bases);

#endif
