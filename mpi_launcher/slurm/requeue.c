/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/slurm/requeue.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "mpi_launcher/slurm/api.h"
#include "mpi_launcher/slurm/more_memory.h"

#define RETRY_MS 200       /* slurmctld has no event for 'the job is pending now' */
#define PAUSE_MS 5000      /* and is away for longer than the time of a requeue */
#define OURS_MAX (1 << 20) /* bytes of a list in the job's directory */
#define TIMES_MAX 96       /* bytes of three numbers there */
#define TOOK_MAX 86400     /* seconds; longer nothing takes: somebody wrote into it */

/* The list that a job has after another requeue: of now (the user's own, and ours of
 * before) what is not in ours, and more. An exclusion bridges the time until Slurm
 * calls a node down: it holds for one requeue, so that a node that has come back is
 * asked again. *ret_list is on the heap. -ENOMEM.
 */
static int make_list(const char *now, const char *ours, const char *more,
                     char **ret_list, struct dlr_err *err)
{
    char **all = NULL, **old = NULL;
    unsigned n = 0, nold = 0;
    size_t size = 0;
    FILE *out = open_memstream(ret_list, &size);
    const char *comma = "";

    if (!out)
        return dlr_fail(err, -ENOMEM, "no memory for the list of nodes to exclude");
    if (ours[0] && dlr_slurm_expand(ours, &old, &nold, err) < 0)
        nold = 0; /* somebody wrote into it: all of now is kept */
    if (now[0] && dlr_slurm_expand(now, &all, &n, err) < 0) {
        fputs(now, out); /* what the user asked for is never dropped */
        comma = ",";
    }
    for (unsigned i = 0; i < n; i++)
        if (!dlr_slurm_has_name(old, nold, all[i])) {
            fprintf(out, "%s%s", comma, all[i]);
            comma = ",";
        }
    if (more[0])
        fprintf(out, "%s%s", comma, more);
    dlr_slurm_free_names(all, n);
    dlr_slurm_free_names(old, nold);
    return fclose(out) == 0 ? 0 : dlr_fail(err, -ENOMEM, "no memory for a list");
}

/* What was put there by us before: dead nodes of then, which Slurm calls down by itself
 * by now, or which are back. "" when not known.
 */
static char *load_ours(const struct dlr_requeue *r)
{
    char *text = NULL;
    size_t size;

    if (!r->ours_path ||
        dlr_file_load_own(AT_FDCWD, r->ours_path, OURS_MAX, &text, &size, NULL) < 0)
        text = NULL;
    return text ? text : strdup("");
}

static void save_ours(const struct dlr_requeue *r, const char *list)
{
    struct iovec part = {.iov_base = (void *)list, .iov_len = strlen(list)};

    if (r->ours_path)
        dlr_file_replace(AT_FDCWD, r->ours_path, 0600, &part, 1, NULL);
}

/* A job begins again only when it has ended on all its nodes, and on a dead one it has
 * when Slurm calls that down: after SlurmdTimeout. So it gives them back first. False:
 * one of them is still its own; the batch host, which a job cannot give back.
 */
static bool give_back(const struct dlr_requeue *r, const struct dlr_slurm_job *job)
{
    DLR_AUTO_FREE char *keep = NULL;
    struct dlr_err quiet;

    if (!r->exclude[0])
        return true;
    return job->running && job->may_requeue && job->nodes[0] && job->batch_host[0] &&
           !dlr_slurm_is_listed(r->exclude, job->batch_host) &&
           make_list(job->nodes, r->exclude, "", &keep, &quiet) == 0 &&
           dlr_slurm_shrink(r->job_id, keep, &quiet) == 0;
}

/* --- how long it takes to end ----------------------------------------------------- */

/* What a requeue leaves for the next one, whose job says when it came into the queue:
 * its former life had ended on all nodes then, the epilog with it.
 */
struct times {
    long long asked_s; /* the requeue, 0: not known */
    unsigned restarts; /* of the job then */
    long long took_s;  /* the longest that is known */
};

static struct times load_times(const struct dlr_requeue *r,
                               const struct dlr_slurm_job *job)
{
    DLR_AUTO_FREE char *text = NULL;
    struct times t = {0};
    size_t size;

    if (!r->times_path ||
        dlr_file_load_own(AT_FDCWD, r->times_path, TIMES_MAX, &text, &size, NULL) < 0 ||
        sscanf(text, "%lld %u %lld", &t.asked_s, &t.restarts, &t.took_s) != 3 ||
        t.asked_s < 0 || t.asked_s > UINT32_MAX || t.took_s < 0 || t.took_s > TOOK_MAX)
        return (struct times){0};
    if (t.asked_s > 0 && job->restarts == t.restarts + 1 &&
        job->queued > t.asked_s + t.took_s && job->queued <= t.asked_s + TOOK_MAX)
        t.took_s = job->queued - t.asked_s;
    return t;
}

/* given_back: only what is to end where it can. A node that is dead has its own time. */
static void save_times(const struct dlr_requeue *r, const struct dlr_slurm_job *job,
                       const struct times *t, bool given_back)
{
    char text[TIMES_MAX];
    struct iovec part = {.iov_base = text};

    if (!r->times_path)
        return;
    part.iov_len = (size_t)snprintf(text, sizeof(text), "%lld %u %lld\n",
                                    given_back ? (long long)time(NULL) : 0,
                                    job->restarts, t->took_s);
    dlr_file_replace(AT_FDCWD, r->times_path, 0600, &part, 1, NULL);
}

/* --- the requeue ------------------------------------------------------------------ */

/* When the job begins again, 0: when Slurm lets it. */
static time_t next_begin(const struct dlr_requeue *r, const struct dlr_slurm_job *job)
{
    bool given_back = give_back(r, job);
    struct times t = load_times(r, job);

    save_times(r, job, &t, given_back);
    if (job->expedited) /* at once, and not before it has ended */
        return 0;
    return given_back ? dlr_slurm_next_begin(t.took_s) : 0;
}

static int try_update(const struct dlr_requeue *r, const struct dlr_slurm_update *to,
                      int64_t deadline_ms, struct dlr_err *err)
{
    int rc;

    for (;;) {
        rc = dlr_slurm_update_pending(r->job_id, to, err);
        if (rc == 0)
            *err = (struct dlr_err){0}; /* of tries before */
        if ((rc != -EAGAIN && rc != -EIO) || dlr_now_ms() + RETRY_MS > deadline_ms)
            return rc;
        poll(NULL, 0, RETRY_MS);
    }
}

static int update(const struct dlr_requeue *r, const char *list, unsigned tasks,
                  time_t begin, int64_t deadline_ms, struct dlr_err *err)
{
    const struct dlr_slurm_update to = {.exclude = list,
                                        .min_nodes = r->min_nodes,
                                        .max_nodes = r->max_nodes,
                                        .tasks = tasks,
                                        .begin = begin};

    return try_update(r, &to, deadline_ms, err);
}

/* slurmctld may go on trying an update for seconds after we are killed. So what it may
 * set is kept before it is asked; a name too many does no harm.
 */
static void save_both(const struct dlr_requeue *r, const char *before)
{
    DLR_AUTO_FREE char *both = NULL;
    struct dlr_err quiet;

    if (make_list(before, "", r->exclude, &both, &quiet) == 0)
        save_ours(r, both);
}

/* Leaves only the user's own. */
static int exclude_nothing(const struct dlr_requeue *r, const struct dlr_slurm_job *job,
                           const char *ours, time_t begin, int64_t deadline_ms,
                           struct dlr_err *err)
{
    DLR_AUTO_FREE char *least = NULL;
    int rc = make_list(job->exc_nodes, ours, "", &least, err);

    rc = rc < 0 ? rc : update(r, least, 0, begin, deadline_ms, err);
    save_ours(r, "");
    return rc;
}

/* Slurm takes tasks and tasks of a node for a number of nodes that the job needs, however
 * few it may have (BadConstraints, for ever). 0: they fit into what is left.
 */
static unsigned fewer_tasks(const struct dlr_slurm_job *job, unsigned left)
{
    return left && job->per_node && left < job->tasks / job->per_node
               ? left * job->per_node
               : 0;
}

/* Sets the list, or leaves of it what the job could never start with: nodes that it
 * asks for by name, or all when its partition has too few others.
 */
static int exclude(const struct dlr_requeue *r, const struct dlr_slurm_job *job,
                   time_t begin, int64_t deadline_ms, struct dlr_err *err)
{
    DLR_AUTO_FREE char *ours = load_ours(r), *list = NULL, *more = NULL;
    unsigned left = 0;
    int rc;

    if (!ours)
        return dlr_fail(err, -ENOMEM, "no memory for the list of nodes to exclude");
    rc = make_list(r->exclude, job->req_nodes, "", &more, err);
    rc = rc < 0 ? rc : make_list(job->exc_nodes, ours, more, &list, err);
    if (rc < 0)
        return rc;
    if (more[0] && dlr_slurm_count_nodes(job->partition, list, &left, NULL) == 0 &&
        left < r->min_nodes) {
        rc = exclude_nothing(r, job, ours, begin, deadline_ms, err);
        return rc < 0 ? rc
                      : dlr_fail(err, -ENOSPC,
                                 "%s: not excluded, since partition '%s' has %u nodes "
                                 "beside it and %u are needed",
                                 more, job->partition, left, r->min_nodes);
    }
    save_both(r, ours);
    rc = update(r, list, fewer_tasks(job, left), begin, deadline_ms, err);
    if (rc < 0)
        return rc;
    save_ours(r, more);
    return dlr_streq(more, r->exclude)
               ? 0
               : dlr_fail(err, -ENOSPC,
                          "of %s those are not excluded that the job asks for by name",
                          r->exclude);
}

/* slurmctld may be away for a moment. */
static int plan_memory(const struct dlr_requeue *r, int64_t deadline_ms,
                       struct dlr_slurm_job *job, struct dlr_more_memory *ret,
                       struct dlr_err *err)
{
    int rc;

    for (;;) {
        rc = dlr_slurm_load_job(r->job_id, job, err);
        if (rc == 0 && job->restarts <= r->incarnation)
            rc = dlr_more_memory_plan(job, r->memory_path, r->memory_anyway, ret, err);
        if ((rc != -EIO && rc != -EAGAIN) || dlr_now_ms() + RETRY_MS > deadline_ms)
            return rc;
        poll(NULL, 0, RETRY_MS);
    }
}

/* Before the exclusion, which lets the job begin. */
static int give_memory(const struct dlr_requeue *r, const struct dlr_slurm_job *job,
                       const struct dlr_more_memory *m, int64_t deadline_ms,
                       char *ret_memory, struct dlr_err *err)
{
    const struct dlr_slurm_update to = {.memory_mb = m->to_mb,
                                        .memory_per_cpu = job->memory_per_cpu};
    int rc;

    dlr_more_memory_count(r->memory_path, m);
    rc = try_update(r, &to, deadline_ms, err);
    if (rc == 0)
        dlr_more_memory_show(job, m, ret_memory, DLR_REQUEUE_SAID);
    return rc;
}

static int ask_requeue(const struct dlr_requeue *r, int64_t deadline_ms,
                       struct dlr_err *err)
{
    int rc;

    do {
        rc = dlr_slurm_requeue(r->job_id, err);
        if (rc != -EAGAIN && rc != -EIO)
            break;
        poll(NULL, 0, RETRY_MS);
    } while (dlr_now_ms() < deadline_ms);
    return rc;
}

/* -EAGAIN, -EIO: slurmctld is away. */
static int try_to(const struct dlr_requeue *r, char *ret_memory, struct dlr_err *err)
{
    int64_t deadline_ms = dlr_now_ms() + r->timeout_ms;
    struct dlr_more_memory more = {0};
    struct dlr_slurm_job job = {0};
    struct dlr_err quiet, refused = {0};
    time_t begin;
    int rc;

    ret_memory[0] = '\0';
    rc = r->memory_path ? plan_memory(r, deadline_ms, &job, &more, err)
                        : dlr_slurm_load_job(r->job_id, &job, &quiet);
    if (rc >= 0 && job.restarts > r->incarnation) {
        dlr_fail(err, -EALREADY, "somebody has done so before");
        return 0;
    }
    if (r->only_ask || (rc < 0 && r->memory_path))
        return rc;
    if (rc < 0)
        job.exc_nodes[0] = '\0';
    begin = next_begin(r, &job);
    rc = ask_requeue(r, deadline_ms, err);
    if (rc < 0)
        return rc;
    if (more.to_mb)
        give_memory(r, &job, &more, deadline_ms, ret_memory, &refused);
    rc = exclude(r, &job, begin, deadline_ms, err);
    if (rc == 0 && !err->code)
        *err = refused;
    return rc == -ESRCH ? rc : 0; /* it is being ended: slurmctld left it alone */
}

int dlr_requeue_job(const struct dlr_requeue *r, char *ret_memory, struct dlr_err *err)
{
    int rc;

    while ((rc = try_to(r, ret_memory, err)) == -EAGAIN || rc == -EIO) {
        if (!r->script_lost)
            break;
        poll(NULL, 0, PAUSE_MS);
    }
    return rc;
}
