/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent was told at its start: the same until its end, and every engine's to
 * read.
 */
#ifndef DLR_MPI_LAUNCHER_AGENT_BASE_SELF_H
#define DLR_MPI_LAUNCHER_AGENT_BASE_SELF_H

#include "common/config/job_config.h"
#include "mpi_launcher/wire/identity.h"

#define DLR_AGENT_NODE 256 /* a node's name, NUL included */
#define DLR_AGENT_ADDR 280 /* "host:port" */

struct dlr_agent_conf {         /* what only the agent is told; see config.c */
    char control[DLR_OPT_TEXT]; /* host:port of the supervisor */
    char job[DLR_OPT_TEXT];
    char run[DLR_OPT_TEXT];
    unsigned gen;
    char memory[DLR_OPT_TEXT];  /* directory of this run's snapshots */
    char run_dir[DLR_OPT_TEXT]; /* journal and state, on a shared file system */
    char key[DLR_OPT_TEXT];     /* "cluster.job.run" */
    char peer_ports[DLR_OPT_TEXT];
    char node[DLR_OPT_TEXT];
    char data_program[DLR_OPT_TEXT];
    char report_program[DLR_OPT_TEXT];
    char stacks_program[DLR_OPT_TEXT];
};

struct dlr_agent_self {
    struct dlr_agent_conf conf;
    struct dlr_job_config job;
    struct dlr_run_id run;
    char node[DLR_AGENT_NODE];
    int dir_fd; /* the memory directory */
};

#endif
