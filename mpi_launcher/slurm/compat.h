/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm's API as it was in 22.05, in each release from there to 26.05: the only place
 * that includes its headers and knows its releases. What changed, and when, was read in
 * slurm/slurm.h of each release (docs/plugin.md has the table); `make check-slurm-api`
 * compiles against declarations of all of them.
 */
#ifndef DLR_MPI_LAUNCHER_SLURM_COMPAT_H
#define DLR_MPI_LAUNCHER_SLURM_COMPAT_H

#define SLURM_BACKWARD_COMPAT /* from 26.05 on: job ids stay numbers */
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <string.h>

#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(22, 5, 0)
#error "Slurm 22.05 is the oldest release that is supported"
#endif

/* The API_CURRENT of these headers' release, which is the number of its libslurm.so: 38
 * in 22.05, and one more in each release since. 0: a release we do not know.
 */
#define DLR_SLURM_YEAR (SLURM_VERSION_NUMBER >> 16)
#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(22, 6, 0)
#define DLR_SLURM_API 38
#elif SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(26, 6, 0)
#define DLR_SLURM_API                                                                  \
    (39 + (DLR_SLURM_YEAR - 23) * 2 +                                                  \
     (SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(DLR_SLURM_YEAR, 11, 0)))
#else
#define DLR_SLURM_API 0
#endif

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0)
typedef hostlist_t *dlr_slurm_hostlist;
#else
typedef hostlist_t dlr_slurm_hostlist; /* is a pointer there */
#endif

/* ESLURM_JOB_SETTING_DB_INX of 22.05. Headers of 24.11 do not have it any more, nor its
 * number for anything else.
 */
#define DLR_SLURM_SETTING_DB_INX 2103

/* Names the job that desc is about. */
static inline void dlr_slurm_desc_job(job_desc_msg_t *desc, uint32_t job)
{
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
    desc->step_id.job_id = job;
#else
    desc->job_id = job;
#endif
}

/* Whether the job begins at once after a requeue: sbatch --requeue=expedite. */
static inline bool dlr_slurm_is_expedited(const slurm_job_info_t *job)
{
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
    return job->bitflags & EXPEDITED_REQUEUE;
#else
    return false;
#endif
}

/* The number behind requeue_delay= in SchedulerParameters; NULL: there is none. */
static inline const char *dlr_slurm_requeue_delay(const slurm_conf_t *conf)
{
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
    static const char word[] = "requeue_delay=";
    const char *at = conf->sched_params ? strstr(conf->sched_params, word) : NULL;

    return at ? at + sizeof(word) - 1 : NULL;
#else
    return NULL;
#endif
}

/* Frees what slurm_load_ctl_conf() gave. */
static inline void dlr_slurm_free_conf(slurm_conf_t *conf)
{
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(26, 5, 0)
    slurm_free_conf(conf);
#else
    slurm_free_ctl_conf(conf);
#endif
}

/* All steps of job. 0, or -1 with errno; *ret is freed with
 * slurm_free_job_step_info_response_msg().
 */
static inline int dlr_slurm_steps_of(uint32_t job, job_step_info_response_msg_t **ret)
{
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
    slurm_step_id_t all = {.job_id = job, .step_id = NO_VAL, .step_het_comp = NO_VAL};

    return slurm_get_job_steps(&all, ret, SHOW_ALL);
#else
    return slurm_get_job_steps(0, job, NO_VAL, ret, SHOW_ALL);
#endif
}

/* Sends signal to every task of a step. 0, or -1 with errno. */
static inline int dlr_slurm_signal_step(slurm_step_id_t step, uint16_t signal)
{
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
    return slurm_kill_job_step(&step, signal, 0);
#elif SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0)
    return slurm_kill_job_step(step.job_id, step.step_id, signal, 0);
#else
    return slurm_kill_job_step(step.job_id, step.step_id, signal);
#endif
}

#endif
