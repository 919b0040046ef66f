/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/requeue.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/str.h"
#include "mpi_launcher/slurmapi.h"

#define RETRY_MS 200 /* slurmctld has no event for 'the job is pending now' */

/* The user's own --exclude stays in force. */
static int merge(const char *old, const char *more, char *buf, size_t size)
{
    return dlr_format(buf, size, "%s%s%s", old, old[0] && more[0] ? "," : "", more);
}

static int exclude(const struct dlr_requeue *r, const char *list, int64_t deadline_ms,
                   struct dlr_err *err)
{
    int rc;

    for (;;) {
        rc = dlr_slurm_update_pending(r->job_id, list, r->min_nodes, r->max_nodes, err);
        if (rc != -EAGAIN || dlr_now_ms() + RETRY_MS > deadline_ms)
            return rc;
        poll(NULL, 0, RETRY_MS);
    }
}

int dlr_requeue_job(const struct dlr_requeue *r, struct dlr_err *err)
{
    int64_t deadline_ms = dlr_now_ms() + r->timeout_ms;
    struct dlr_slurm_job job = {0};
    struct dlr_err quiet;
    char list[8192];
    int rc;

    rc = dlr_slurm_load_job(r->job_id, &job, &quiet);
    if (rc == 0 && job.restarts > r->incarnation) {
        dlr_fail(err, -EALREADY, "somebody has done so before");
        return 0;
    }
    if (rc < 0)
        job.exc_nodes[0] = '\0';
    rc = merge(job.exc_nodes, r->exclude, list, sizeof(list));
    if (rc < 0)
        return dlr_fail(err, rc, "the list of nodes to exclude is too long");
    do {
        rc = dlr_slurm_requeue(r->job_id, err);
        if (rc != -EAGAIN && rc != -EIO)
            break;
        poll(NULL, 0, RETRY_MS);
    } while (dlr_now_ms() < deadline_ms);
    if (rc < 0)
        return rc;
    rc = exclude(r, list, deadline_ms, err);
    return rc == -ESRCH ? rc : 0; /* it is being ended: slurmctld left it alone */
}
