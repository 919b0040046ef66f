/* SPDX-License-Identifier: Apache-2.0 */
/* Which run this is, and where its files and memory are. A run is one supervised srun of a
 * job; its name is the same after a requeue, so that it finds its state again.
 */
#ifndef DLR_MPI_LAUNCHER_RUNINFO_H
#define DLR_MPI_LAUNCHER_RUNINFO_H

#include "common/err.h"

#define DLR_RUN_PATH 2048

struct dlr_runinfo {
    char job[32];
    char cluster[64];
    char name[64];        /* "a1b2c3d4-0": hash of argv and directory, occurrence */
    unsigned incarnation; /* SLURM_RESTART_COUNT: how often the job was requeued */
    char job_dir[DLR_RUN_PATH]; /* <state-dir>/job-<id> */
    char dir[DLR_RUN_PATH];     /* <state-dir>/job-<id>/<name>: journal and state */
    char memory[DLR_RUN_PATH];  /* /dev/shm/dlrover-<uid>-<job>/<name> on each node */
    char key[256];              /* "cluster.job.run" */
};

/* Fills ret from the environment (SLURM_JOB_ID, SLURM_RESTART_COUNT, SLURM_CLUSTER_NAME, HOME)
 * and creates the directories (0700). state_dir "" is $HOME/.dlrover. name: one given before
 * (a supervisor started again), or NULL to count a new occurrence of this srun in this
 * incarnation, under a lock. Blocking: file system.
 */
int dlr_runinfo_make(char *const *argv, const char *state_dir, const char *name,
                     struct dlr_runinfo *ret, struct dlr_err *err);

#endif
