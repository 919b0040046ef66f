/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of versions: who is told of it. */
#include "ckpt/base/version.h"
#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/supervisor/disk/disk.h"
#include "mpi_launcher/supervisor/dispatch.h"
#include "mpi_launcher/supervisor/rounds/rounds.h"
#include "mpi_launcher/supervisor/supervisor.h"
#include "mpi_launcher/supervisor/versions/versions.h"

static void on_committed(void *arg, struct dlr_version v)
{
    struct dlr_sup *s = arg;

    dlr_policy_committed(s->policy, v.step);
}

static void on_told(void *arg, struct dlr_version v)
{
    dlr_sup_periodic_commit(((struct dlr_sup *)arg)->disk, v);
}

static bool is_writing(void *arg)
{
    return dlr_sup_periodic_writes(((struct dlr_sup *)arg)->disk);
}

static int64_t launched_at(void *arg)
{
    const struct dlr_sup *s = arg;

    return dlr_sup_launched_ms(s->rounds);
}

const struct dlr_sup_versions_ops dlr_sup_versions_ops = {
    .committed = on_committed,
    .told = on_told,
    .changed = dlr_sup_state_changed,
    .writes = is_writing,
    .round = dlr_sup_running_now,
    .launched = launched_at,
};
