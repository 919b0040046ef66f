/* SPDX-License-Identifier: Apache-2.0 */
/* Which run this is, and where its files and memory are. A run is one supervised srun
 * of a job; its name is the same after a requeue, so that it finds its state again.
 */
#ifndef DLR_MPI_LAUNCHER_RUN_RUN_INFO_H
#define DLR_MPI_LAUNCHER_RUN_RUN_INFO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/err.h"
#include "mpi_launcher/run/tries.h"

#define DLR_RUN_PATH 2048

struct dlr_runinfo {
    char job[32];
    char cluster[64];
    char name[64]; /* "train", "train+1"; or "a1b2c3d4-0": hash of argv and directory */
    unsigned incarnation; /* SLURM_RESTART_COUNT: how often the job was requeued */
    char job_dir[DLR_RUN_PATH]; /* <state-dir>/job-<id> */
    char dir[DLR_RUN_PATH];     /* <state-dir>/job-<id>/<name>: journal and state */
    char memory[DLR_RUN_PATH];  /* /dev/shm/dlrover-<uid>-<job>/<name> on each node */
    char key[256];              /* "cluster.job.run" */
    /* hash of argv, directory and environment, of what tells programs apart */
    uint64_t command;
    /* which try of the run it is: the newest, when nobody was asked */
    enum dlr_tries_place place;
    struct dlr_tries before; /* the tries before this one */
    unsigned told;           /* DLR_TRIES_REPORTED: the code */
    /* equal words were tried before, in another environment: no try of that run */
    bool anew;
};

/* Which run is asked for. */
struct dlr_run_want {
    char *const *argv;     /* srun's arguments */
    const char *state_dir; /* "": $HOME/.dlrover */
    const char *asked;     /* --dlrover-name, "" for none */
    const char *kept; /* the name of a supervisor that died before us, NULL: none */
    pid_t keeper;     /* the run is alive as long as this process */
    /* What is known of the run in dir, for an srun of this info (its job and command);
     * -ENOENT: there is none. NULL: equal sruns are runs of their own.
     */
    int (*past)(const struct dlr_runinfo *info, const char *dir,
                struct dlr_tries_run *ret, struct dlr_err *err);
};

/* Fills ret from want and the environment (SLURM_JOB_ID, SLURM_RESTART_COUNT,
 * SLURM_CLUSTER_NAME, HOME). With a kept name it asks no file system. Without, it
 * creates the directories (0700) and counts one more occurrence of the name asked for,
 * or of these words in this directory, in this incarnation, under a lock: "train", then
 * "train+1", unless it is one more try of the run before. -EBUSY when one of those is
 * still running: which was which could not be known after a requeue. Blocking: file
 * system.
 */
int dlr_runinfo_make(const struct dlr_run_want *want, struct dlr_runinfo *ret,
                     struct dlr_err *err);

/* Writes the path of a job's directory (state_dir "" is $HOME/.dlrover) and creates it
 * (0700).
 */
int dlr_runinfo_job_dir(const char *state_dir, const char *job, char *buf, size_t size,
                        struct dlr_err *err);

#endif
