/* SPDX-License-Identifier: Apache-2.0 */
/* What Slurm's accounting says of a site's failures: how often nodes are lost, for how
 * long, and how long jobs wait. Pure; the texts hold words of all users.
 */
#ifndef DLR_MPI_LAUNCHER_SIMULATOR_SITE_H
#define DLR_MPI_LAUNCHER_SIMULATOR_SITE_H

#include "common/base/err.h"
#include "mpi_launcher/simulator/conf.h"

struct dlr_site {
    unsigned long jobs;      /* that have run */
    double node_days;        /* that they have used */
    unsigned long node_fail; /* jobs that ended because of a node */
    double queue_s;          /* median wait of jobs, -1: not known */
    unsigned long downs;     /* losses of single nodes, 0: no history */
    unsigned long groups;    /* of several nodes within a minute */
    double down_s;           /* mean length of a loss that is over, -1: not known */
    unsigned long skipped;   /* lines that were not understood */
};

/* Output of `sacct -P` with the columns JobID, State, NNodes, ElapsedRaw and, if it is
 * there, Eligible and Start. Foreign bytes: fuzz target site.
 */
int dlr_site_sacct_parse(const char *text, struct dlr_site *site, struct dlr_err *err);

/* Output of `sacctmgr -P show event` with the columns NodeName, State, TimeStart and
 * TimeEnd. Foreign bytes: fuzz target site.
 */
int dlr_site_events_parse(const char *text, struct dlr_site *site, struct dlr_err *err);

/* Sets what the site knows: rates from both texts, or the first. */
void dlr_site_apply(const struct dlr_site *site, struct dlr_sim_conf *conf);

#endif
