/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/slurm/api.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/str.h"
#include "mpi_launcher/process/slurm_exit_status.h"
#include "mpi_launcher/slurm/compat.h"

#define MAX_NAMES 65536
#define CRED_EXPIRE "cred_expire=" /* in AuthInfo */
#define CRED_EXPIRE_S 120          /* Slurm's default */
/* SlurmdTimeout up to which pings are so frequent that one that is lost counts */
#define SOON_DOWN_S 120
#define GONE_S 10 /* from the last SIGKILL to a job that has ended on all its nodes */
#define LATER_S 5 /* it may take so much longer than it did before */

/* libslurm reads its configuration once, before the first RPC (slurm_init, slurm.h). */
static void connect_once(void)
{
    static bool done;

    if (!done)
        slurm_init(NULL);
    done = true;
}

static int slurm_failed(struct dlr_err *err, const char *what)
{
    int code = errno; /* "-1 with errno set": slurm.h */
    const char *text = slurm_strerror(code);

    switch (code) {
    case ESLURM_JOB_NOT_PENDING:
    case DLR_SLURM_SETTING_DB_INX:
    case ESLURM_TRANSITION_STATE_NO_UPDATE:
        return dlr_fail(err, -EAGAIN, "%s: %s", what, text);
    case ESLURM_ACCESS_DENIED:
    case ESLURM_USER_ID_MISSING:
        return dlr_fail(err, -EPERM, "%s: %s", what, text);
    case ESLURM_DISABLED:
        return dlr_fail(err, -ENOTSUP, "%s: %s", what, text);
    case ESLURM_BATCH_ONLY:
        return dlr_fail(err, -EINVAL, "%s: %s", what, text);
    case ESLURM_INVALID_JOB_ID:
    case ESLURM_ALREADY_DONE:
    case ESLURM_JOB_FINISHED:
        return dlr_fail(err, -ESRCH, "%s: %s", what, text);
    default:
        return dlr_fail(err, -EIO, "%s: %s", what, text);
    }
}

int dlr_slurm_check_library(struct dlr_err *err)
{
    long loaded = slurm_api_version() >> 16;

    if (!DLR_SLURM_API || loaded == DLR_SLURM_API)
        return 0;
    return dlr_fail(
        err, -EINVAL,
        "built with headers of Slurm %u.%02u, which has libslurm.so.%u, and "
        "linked to libslurm.so.%ld: make with CPPFLAGS=-I and LDFLAGS=-L of "
        "one Slurm",
        (unsigned)DLR_SLURM_YEAR, (unsigned)(SLURM_VERSION_NUMBER >> 8 & 0xff),
        (unsigned)DLR_SLURM_API, loaded);
}

unsigned dlr_slurm_release(void)
{
    return DLR_SLURM_YEAR * 100 + (SLURM_VERSION_NUMBER >> 8 & 0xff);
}

char **dlr_slurm_free_names(char **names, unsigned n)
{
    for (unsigned i = 0; names && i < n; i++)
        free(names[i]);
    free(names);
    return NULL;
}

int dlr_slurm_expand(const char *list, char ***ret_names, unsigned *ret_n,
                     struct dlr_err *err)
{
    dlr_slurm_hostlist hl = slurm_hostlist_create(list);
    int n = hl ? slurm_hostlist_count(hl) : 0;
    unsigned i = 0;
    char **names, *name;

    if (n <= 0 || n > MAX_NAMES) {
        if (hl)
            slurm_hostlist_destroy(hl);
        return dlr_fail(err, -EINVAL, "'%s' is not a list of nodes", list);
    }
    names = calloc(n, sizeof(*names));
    while (names && i < n && (name = slurm_hostlist_shift(hl)))
        names[i++] = name; /* allocated with malloc: slurm_hostlist_shift(3) */
    slurm_hostlist_destroy(hl);
    if (!names)
        return dlr_fail(err, -ENOMEM, "no memory for %d names", n);
    *ret_names = names;
    *ret_n = i;
    return 0;
}

int dlr_slurm_ping(struct dlr_err *err)
{
    connect_once();
    if (slurm_ping(0) == SLURM_SUCCESS || slurm_ping(1) == SLURM_SUCCESS)
        return 0;
    return slurm_failed(err, "slurmctld does not answer");
}

int dlr_slurm_load_job(uint32_t job_id, struct dlr_slurm_job *ret, struct dlr_err *err)
{
    job_info_msg_t *msg = NULL;
    const slurm_job_info_t *job;
    uint32_t i;

    connect_once();
    if (slurm_load_job(&msg, job_id, SHOW_DETAIL) != SLURM_SUCCESS)
        return slurm_failed(err, "cannot load the job");
    /* The id of an array is also that of one of its tasks, and asking for it brings
     * all.
     */
    for (i = 0; i < msg->record_count && msg->job_array[i].job_id != job_id; i++)
        ;
    if (i == msg->record_count) {
        slurm_free_job_info_msg(msg);
        return dlr_fail(err, -ESRCH, "there is no job %u", job_id);
    }
    job = &msg->job_array[i];
    memset(ret, 0, sizeof(*ret));
    if (job->batch_host)
        dlr_format(ret->batch_host, sizeof(ret->batch_host), "%s", job->batch_host);
    if (job->exc_nodes)
        dlr_format(ret->exc_nodes, sizeof(ret->exc_nodes), "%s", job->exc_nodes);
    if (job->req_nodes)
        dlr_format(ret->req_nodes, sizeof(ret->req_nodes), "%s", job->req_nodes);
    if (job->partition)
        dlr_format(ret->partition, sizeof(ret->partition), "%s", job->partition);
    if (job->nodes && strlen(job->nodes) < sizeof(ret->nodes))
        dlr_format(ret->nodes, sizeof(ret->nodes), "%s", job->nodes);
    ret->restarts = job->restart_cnt;
    ret->tasks = job->num_tasks;
    ret->per_node = job->ntasks_per_node == NO_VAL16 ? 0 : job->ntasks_per_node;
    ret->state = job->job_state & JOB_STATE_BASE;
    ret->completing = job->job_state & JOB_COMPLETING;
    ret->running = ret->state == JOB_RUNNING && !ret->completing;
    ret->may_requeue = job->requeue;
    ret->preempted = job->preempt_time != 0;
    ret->expedited = dlr_slurm_is_expedited(job);
    ret->queued = job->submit_time;
    ret->limit = job->end_time;
    ret->memory_per_cpu = job->pn_min_memory & MEM_PER_CPU;
    if (!job->mem_per_tres) /* GPUs have their own */
        ret->memory_mb = job->pn_min_memory & ~MEM_PER_CPU;
    ret->nodes_now = job->num_nodes;
    ret->cpus_now = job->num_cpus;
    slurm_free_job_info_msg(msg);
    return 0;
}

const char *dlr_slurm_fate(const struct dlr_slurm_job *job)
{
    if (job->completing || (job->state != JOB_RUNNING && job->state != JOB_SUSPENDED))
        return "ends";
    return job->preempted ? "preempted" : "runs";
}

bool dlr_slurm_is_listed(const char *list, const char *node)
{
    char **names = NULL;
    bool found;
    unsigned n = 0;

    if (dlr_slurm_expand(list, &names, &n, NULL) < 0)
        return true; /* not known */
    found = dlr_slurm_has_name(names, n, node);
    dlr_slurm_free_names(names, n);
    return found;
}

static unsigned count_beside(const char *nodes, const char *without)
{
    char **names = NULL, **barred = NULL;
    unsigned n = 0, nbarred = 0, left = 0;

    dlr_slurm_expand(nodes, &names, &n, NULL);
    dlr_slurm_expand(without, &barred, &nbarred, NULL);
    for (unsigned i = 0; i < n; i++)
        left += !dlr_slurm_has_name(barred, nbarred, names[i]);
    dlr_slurm_free_names(names, n);
    dlr_slurm_free_names(barred, nbarred);
    return left;
}

bool dlr_slurm_has_word(const char *words, const char *word)
{
    size_t n = strlen(word);

    for (const char *p = words; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
        if (strcspn(p, ",") == n && strncmp(p, word, n) == 0)
            return true;
    return false;
}

int dlr_slurm_count_nodes(const char *partitions, const char *without, unsigned *ret_n,
                          struct dlr_err *err)
{
    partition_info_msg_t *msg = NULL;

    connect_once();
    if (slurm_load_partitions(0, &msg, SHOW_ALL) != SLURM_SUCCESS)
        return slurm_failed(err, "cannot load the partitions");
    *ret_n = 0;
    for (uint32_t i = 0; i < msg->record_count; i++) {
        const partition_info_t *part = &msg->partition_array[i];
        unsigned left;

        if (!part->name || !part->nodes || !dlr_slurm_has_word(partitions, part->name))
            continue;
        left = count_beside(part->nodes, without);
        *ret_n = left > *ret_n ? left : *ret_n;
    }
    slurm_free_partition_info_msg(msg);
    return 0;
}

/* A node's state, or -errno. */
static int load_state(const char *node, uint32_t *ret, struct dlr_err *err)
{
    node_info_msg_t *msg = NULL;

    connect_once();
    if (slurm_load_node_single(&msg, (char *)node, SHOW_ALL) != SLURM_SUCCESS)
        return slurm_failed(err, "cannot load the node");
    *ret = msg->record_count ? msg->node_array[0].node_state : NODE_STATE_UNKNOWN;
    slurm_free_node_info_msg(msg);
    return 0;
}

/* slurmctld's; dlr_slurm_free_conf() it. NULL: not to be had. */
static slurm_conf_t *load_conf(void)
{
    slurm_conf_t *conf = NULL;

    connect_once();
    return slurm_load_ctl_conf(0, &conf) == SLURM_SUCCESS ? conf : NULL;
}

static unsigned slurmd_timeout(void)
{
    slurm_conf_t *conf = load_conf();
    unsigned s = conf ? conf->slurmd_timeout : 0;

    if (conf)
        dlr_slurm_free_conf(conf);
    return s;
}

int dlr_slurm_is_gone(uint32_t job_id, const char *node, struct dlr_err *err)
{
    struct dlr_slurm_job job;
    uint32_t state = 0;
    int rc = load_state(node, &state, err);

    if (rc < 0)
        return rc;
    if ((state & NODE_STATE_BASE) == NODE_STATE_DOWN)
        return DLR_SLURM_GONE;
    rc = dlr_slurm_load_job(job_id, &job, err);
    if (rc < 0)
        return rc;
    if (job.nodes[0] && !dlr_slurm_is_listed(job.nodes, node))
        return DLR_SLURM_GONE;
    if (!(state & NODE_STATE_NO_RESPOND))
        return 0;
    return slurmd_timeout() > SOON_DOWN_S ? DLR_SLURM_MISSES : DLR_SLURM_GONE;
}

/* JOB_RUNNING: slurmctld would bring a job back that has been cancelled and still ends.
 */
int dlr_slurm_requeue(uint32_t job_id, struct dlr_err *err)
{
    connect_once();
    if (slurm_requeue(job_id, JOB_RUNNING) != SLURM_SUCCESS)
        return slurm_failed(err, "cannot requeue the job");
    return 0;
}

/* slurmctld from 24.11 on takes the cores of a node that was given back out of its rows
 * when it is next asked for all nodes (select_p_select_nodeinfo_set_all() of 26.05).
 * When the job ends before that it never does, and they count as allocated for as long
 * as other jobs run in the partition. It is asked for what has changed after a time to
 * come: nothing.
 */
static void have_cores_counted(void)
{
    node_info_msg_t *msg = NULL;

    if (slurm_load_node(INT32_MAX, &msg, SHOW_ALL) == SLURM_SUCCESS)
        slurm_free_node_info_msg(msg);
}

int dlr_slurm_shrink(uint32_t job_id, const char *keep, struct dlr_err *err)
{
    job_desc_msg_t desc;

    connect_once();
    slurm_init_job_desc_msg(&desc);
    dlr_slurm_desc_job(&desc, job_id);
    desc.req_nodes = (char *)keep;
    if (slurm_update_job(&desc) != SLURM_SUCCESS)
        return slurm_failed(err, "cannot give nodes back");
    have_cores_counted();
    return 0;
}

unsigned dlr_slurm_kill_wait(void)
{
    slurm_conf_t *conf = load_conf();
    unsigned s = conf ? conf->kill_wait : 0;

    if (conf)
        dlr_slurm_free_conf(conf);
    return s;
}

/* What Slurm waits for before a job that has ended may begin again. */
static long slurms_delay_s(const slurm_conf_t *conf)
{
    const char *delay = dlr_slurm_requeue_delay(conf);
    const char *expire = conf->authinfo ? strstr(conf->authinfo, CRED_EXPIRE) : NULL;
    long s = CRED_EXPIRE_S;

    if (delay)
        return strtol(delay, NULL, 10);
    if (expire)
        sscanf(expire, CRED_EXPIRE "%ld", &s);
    return s;
}

time_t dlr_slurm_next_begin(int64_t took_s)
{
    slurm_conf_t *conf = load_conf();
    long wait_s, delay_s;

    if (!conf)
        return 0;
    delay_s = slurms_delay_s(conf);
    wait_s = conf->kill_wait + GONE_S;
    if (took_s + LATER_S > wait_s)
        wait_s = took_s + LATER_S;
    dlr_slurm_free_conf(conf);
    return wait_s < delay_s ? time(NULL) + wait_s : 0;
}

int dlr_slurm_update_pending(uint32_t job_id, const struct dlr_slurm_update *to,
                             struct dlr_err *err)
{
    job_desc_msg_t desc;

    connect_once();
    slurm_init_job_desc_msg(&desc);
    dlr_slurm_desc_job(&desc, job_id);
    desc.exc_nodes = (char *)to->exclude;
    if (to->begin)
        desc.begin_time = to->begin;
    if (to->min_nodes) {
        desc.min_nodes = to->min_nodes;
        desc.max_nodes = to->max_nodes;
    }
    if (to->tasks)
        desc.num_tasks = to->tasks;
    if (to->memory_mb)
        desc.pn_min_memory = to->memory_mb | (to->memory_per_cpu ? MEM_PER_CPU : 0);
    if (slurm_update_job(&desc) != SLURM_SUCCESS)
        return slurm_failed(err, to->exclude ? "cannot exclude nodes from the job"
                                             : "cannot give the job more memory");
    return 0;
}

/* Slurm's name of a host is its short one. */
static bool is_this_host(const char *name)
{
    char host[256] = "";
    size_t n;

    if (!name || gethostname(host, sizeof(host) - 1) < 0)
        return true; /* not known: the pid decides */
    n = strcspn(host, ".");
    return strcspn(name, ".") == n && strncmp(name, host, n) == 0;
}

/* The steps that an srun of this host has in the job, with a signal for each (0: none);
 * their number.
 */
static int steps_of_srun(uint32_t job_id, pid_t srun_pid, int sig, struct dlr_err *err)
{
    job_step_info_response_msg_t *msg = NULL;
    int n = 0;

    connect_once();
    if (dlr_slurm_steps_of(job_id, &msg) != SLURM_SUCCESS)
        return slurm_failed(err, "cannot list the job's steps");
    for (uint32_t i = 0; i < msg->job_step_count; i++) {
        const job_step_info_t *step = &msg->job_steps[i];

        if (step->step_id.job_id != job_id || step->srun_pid != (uint32_t)srun_pid ||
            !is_this_host(step->srun_host))
            continue; /* of another task of the array, or another host's process */
        if (sig)
            dlr_slurm_signal_step(step->step_id, sig);
        else if (step->step_id.step_id == SLURM_PENDING_STEP)
            continue; /* a request that waits is listed, too */
        n++;
    }
    slurm_free_job_step_info_response_msg(msg);
    return n;
}

int dlr_slurm_has_step_of(uint32_t job_id, pid_t srun_pid, struct dlr_err *err)
{
    int n = steps_of_srun(job_id, srun_pid, 0, err);

    return n < 0 ? n : n > 0;
}

int dlr_slurm_cancel_steps_of(uint32_t job_id, pid_t srun_pid, struct dlr_err *err)
{
    return steps_of_srun(job_id, srun_pid, SIGKILL, err);
}
