/* SPDX-License-Identifier: Apache-2.0 */
/* What is written to the disk and found there: who is told of it. */
#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/supervisor/disk/disk.h"
#include "mpi_launcher/supervisor/dispatch.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/supervisor.h"

static void on_known(void *arg)
{
    struct dlr_sup *s = arg;

    dlr_policy_replan(s->policy, dlr_sup_now());
}

static void on_awaited(void *arg, int64_t limit_ms)
{
    struct dlr_sup *s = arg;

    dlr_policy_hold(s->policy, dlr_sup_now(), limit_ms);
}

static void on_persisted(void *arg)
{
    struct dlr_sup *s = arg;

    dlr_policy_persisted(s->policy, dlr_sup_now());
}

const struct dlr_sup_disk_ops dlr_sup_disk_ops = {
    .known = on_known,
    .awaited = on_awaited,
    .persisted = on_persisted,
    .over = dlr_sup_is_over,
};
