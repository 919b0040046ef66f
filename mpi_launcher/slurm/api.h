/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm's C API, the little of it we use, behind one file: signatures change by
 * release. Every call but the first three talks to slurmctld and may block for
 * MessageTimeout: call it in a process that may wait. Errors carry Slurm's own text.
 */
#ifndef DLR_MPI_LAUNCHER_SLURM_API_H
#define DLR_MPI_LAUNCHER_SLURM_API_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>

#include "common/base/err.h"
#include "common/base/str.h"

/* Is the libslurm that was loaded of the release whose headers this was compiled with?
 * Structs differ where it is not: call nothing else then. -EINVAL.
 */
int dlr_slurm_check_library(struct dlr_err *err);

/* "n[1-3,7]" -> its names in order, *ret_n of them, and the array's; free with
 * dlr_slurm_free_names(). -EINVAL.
 */
int dlr_slurm_expand(const char *list, char ***ret_names, unsigned *ret_n,
                     struct dlr_err *err);
char **dlr_slurm_free_names(char **names, unsigned n);

static inline bool dlr_slurm_has_name(char **names, unsigned n, const char *name)
{
    for (unsigned i = 0; i < n; i++)
        if (dlr_streq(names[i], name))
            return true;
    return false;
}

/* The release whose headers this was compiled with, as 2205: year and month. */
unsigned dlr_slurm_release(void);

/* Does slurmctld, or its backup, answer, and does munged work? Asks once, without the
 * long attempts of other calls. -EIO.
 */
int dlr_slurm_ping(struct dlr_err *err);

struct dlr_slurm_job {
    char batch_host[256];
    char exc_nodes[65536], req_nodes[65536]; /* not to have; to have by name */
    char partition[1024];                    /* or several, with commas between them */
    char nodes[4096]; /* it has; "": too many to be shown here, or none */
    unsigned restarts;
    unsigned tasks, per_node; /* that it asked for; 0: not said */
    bool running, may_requeue;
    uint32_t state;             /* Slurm's base state */
    bool completing, preempted; /* being ended; in the grace of a preemption */
    bool expedited;             /* it begins at once after a requeue, by Slurm */
    uint64_t memory_mb;         /* of a node, or a CPU; 0: all, or counted otherwise */
    bool memory_per_cpu;
    unsigned nodes_now, cpus_now; /* that it has */
    time_t queued; /* when it came into the queue: a former life had ended everywhere */
    time_t limit;  /* when its time is over */
};
int dlr_slurm_load_job(uint32_t job_id, struct dlr_slurm_job *ret, struct dlr_err *err);
/* Is the node in the list? Where that cannot be read, as of a list that is not known:
 * true.
 */
bool dlr_slurm_is_listed(const char *list, const char *node);

/* Is it one of the words of "main,low"? */
bool dlr_slurm_has_word(const char *words, const char *word);

/* How many nodes the largest of the partitions ("main,low") has beside those of
 * without, alive or not. -EIO.
 */
int dlr_slurm_count_nodes(const char *partitions, const char *without, unsigned *ret_n,
                          struct dlr_err *err);

/* What a running job could have on each of the nodes that it has: they fit what else it
 * asks for. -EIO.
 */
struct dlr_slurm_memory {
    uint64_t mb;   /* of a node, or of a CPU where the job counts so; 0: not known */
    bool accounts; /* limits of accounts are enforced, and not looked at */
};
int dlr_slurm_memory(const struct dlr_slurm_job *job, struct dlr_slurm_memory *ret,
                     struct dlr_err *err);

/* "runs", "preempted" (it still runs) or "ends": whom a SIGTERM came from. */
const char *dlr_slurm_fate(const struct dlr_slurm_job *job);

/* DLR_SLURM_GONE when slurmctld calls the node down, or has taken it from the job;
 * DLR_SLURM_MISSES when it does not hear it (GONE, too, where SlurmdTimeout is two
 * minutes or less); 0. -EIO.
 */
int dlr_slurm_is_gone(uint32_t job_id, const char *node, struct dlr_err *err);

/* alive.c: of the job's nodes in list, those whose slurmd takes connects and which
 * slurmctld calls neither down nor silent: "NAME" each, a line; "-NAME" those that have
 * left the job. -EIO.
 */
int dlr_slurm_alive(uint32_t job_id, const char *list, FILE *out, struct dlr_err *err);

/* Puts a batch job back into the queue. -EPERM, -EINVAL (not a batch job), -ENOTSUP (requeue
 * disabled).
 */
int dlr_slurm_requeue(uint32_t job_id, struct dlr_err *err);

/* A running job keeps these of its nodes and gives the others back, for good; its batch
 * host is to be one of them. -ENOTSUP: the site does not allow it.
 */
int dlr_slurm_shrink(uint32_t job_id, const char *keep, struct dlr_err *err);

/* KillWait, in seconds. 0: not known. */
unsigned dlr_slurm_kill_wait(void);

/* When a job that is requeued now can begin: its processes are gone by then (KillWait),
 * and what took_s, as long as a former life took to end everywhere, is over. 0: Slurm's
 * own time for it (cred_expire, requeue_delay) is as soon, or not known.
 */
time_t dlr_slurm_next_begin(int64_t took_s);

struct dlr_slurm_update {
    const char *exclude; /* nodes that it must not get; "" clears, NULL: as it is */
    uint64_t memory_mb;  /* of a node, or a CPU */
    bool memory_per_cpu;
    unsigned min_nodes, max_nodes, tasks;
    time_t begin; /* when it may begin */
};
/* Of a pending job; numbers that are 0 stay as they are. -EAGAIN: not pending yet, or
 * slurmctld is busy with it: try again.
 */
int dlr_slurm_update_pending(uint32_t job_id, const struct dlr_slurm_update *to,
                             struct dlr_err *err);

/* 1 when the srun with this pid has a step of the job, 0 when slurmctld has made none
 * yet. -EIO.
 */
int dlr_slurm_has_step_of(uint32_t job_id, pid_t srun_pid, struct dlr_err *err);

/* Cancels the steps of a job that were started by the srun with this pid. Their number.
 */
int dlr_slurm_cancel_steps_of(uint32_t job_id, pid_t srun_pid, struct dlr_err *err);

#endif
