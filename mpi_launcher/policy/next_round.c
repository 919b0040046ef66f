/* SPDX-License-Identifier: Apache-2.0 */
/* The next round: its nodes meet, fewer of them where the user allows it; or it waits
 * for slurmctld, or there is none.
 */
#include <errno.h>
#include <stdio.h>

#include "mpi_launcher/policy/state.h"

/* Every setback strikes a copy off or spares it for the only time
 * (mpi_launcher/supervisor/copies/transfer_retry.c), so they end by themselves; this
 * ends a bug's loop.
 */
#define MAX_SETBACKS 16

/* As many places as nodes are left: fewer where the user allowed it, more when some are
 * back.
 */
static int fit_places(struct dlr_policy *p, char *why, size_t size)
{
    unsigned up = dlr_policy_count(p, NODE_UP);
    unsigned n = up < p->conf.nplaces ? up : p->conf.nplaces;

    if (p->conf.group > 1 && n < p->conf.nplaces)
        n -= n % p->conf.group;
    if (n < p->conf.min_places) {
        snprintf(why, size, "%u nodes are left and %u are needed", up,
                 p->conf.min_places);
        return -ENOSPC;
    }
    if (n == p->places)
        return 0;
    if (p->ops.resize(p->arg, n) < 0) {
        snprintf(why, size, "%u nodes are left, and the step cannot be made for them",
                 up);
        return n > p->places ? 0 : -ENOSPC; /* as few as before are still enough */
    }
    p->places = n;
    return 0;
}

void dlr_policy_rendezvous(struct dlr_policy *p, int64_t now_ms)
{
    char why[128];

    if (p->requeues_with_job) {
        dlr_policy_requeue(p, "another run of the job needs the requeue", now_ms);
        return;
    }
    if (fit_places(p, why, sizeof(why)) < 0) {
        if (dlr_policy_await_more(p, now_ms))
            return;
        dlr_policy_requeue(p, why, now_ms);
        return;
    }
    dlr_policy_enter(p, DLR_PHASE_RENDEZVOUS, now_ms, p->conf.rendezvous_timeout_ms);
    p->ops.rendezvous(p->arg, p->failed_rendezvous < p->conf.rendezvous_tries);
    if (dlr_policy_heeds(p, now_ms))
        p->ops.ask_fate(p->arg); /* a job that ends starts nothing */
}

void dlr_policy_set_back(struct dlr_policy *p, const char *why, int64_t now_ms)
{
    char text[384];

    if (++p->failed_restores > MAX_SETBACKS) {
        snprintf(text, sizeof(text),
                 "no copy could be used %u times in a row, last: %s",
                 p->failed_restores, why);
        dlr_policy_finish(p, 1, text);
        return;
    }
    dlr_policy_rendezvous(p, now_ms);
}

void dlr_policy_wait(struct dlr_policy *p, const char *why, int64_t now_ms)
{
    dlr_policy_enter(p, DLR_PHASE_WAIT, now_ms, p->conf.controller_timeout_ms);
    p->ops.wait_controller(p->arg, why);
}
