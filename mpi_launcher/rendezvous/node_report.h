/* SPDX-License-Identifier: Apache-2.0 */
/* The report of this node: who it is, what its checks say, which snapshots it can
 * prove.
 */
#ifndef DLR_MPI_LAUNCHER_RENDEZVOUS_NODE_REPORT_H
#define DLR_MPI_LAUNCHER_RENDEZVOUS_NODE_REPORT_H

#include "mpi_launcher/plan/input.h"

/* The batch host's clock as it was heard here; wall_ns 0: not heard. */
struct dlr_report_clock {
    int64_t wall_ns;  /* its CLOCK_REALTIME */
    int64_t taken_ns; /* our CLOCK_BOOTTIME at that moment */
    int64_t error_ns; /* how far off taken_ns may be */
};

/* Name of this node as Slurm knows it, else its host name. */
void dlr_report_node_name(char *buf, size_t size);

/* This node and its place in the network: by the survey, else as its slurmd says. */
void dlr_report_place(const struct dlr_plan_survey *survey,
                      struct dlr_topo_node *ret_node);

/* Makes the report. Cannot fail: what could not be found out is a check called "report"
 * with the verdict FAIL, so that the node is left out and everybody knows why.
 * Blocking: reads every snapshot of the run, asks peers for at most peer_timeout_ms.
 * dlr_plan_report_done().
 */
void dlr_report_make(const struct dlr_plan_survey *survey,
                     const struct dlr_report_clock *clock,
                     struct dlr_plan_report *ret_report);

/* Adds what another check has found, unless that is ok or skip. */
void dlr_report_add(struct dlr_plan_report *report,
                    const struct dlr_health_result *result);

/* A report that says only that none could be made. */
void dlr_report_refuse(const char *why, struct dlr_plan_report *ret_report);

#endif
