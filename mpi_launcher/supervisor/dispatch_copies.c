/* SPDX-License-Identifier: Apache-2.0 */
/* What has happened to copies. */
#include "ckpt/base/version.h"
#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/supervisor/copies/copies.h"
#include "mpi_launcher/supervisor/disk/disk.h"
#include "mpi_launcher/supervisor/dispatch.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/rounds/rounds.h"
#include "mpi_launcher/supervisor/saved_state.h"
#include "mpi_launcher/supervisor/supervisor.h"
#include "mpi_launcher/supervisor/versions/versions.h"

static void on_prepared(void *arg, int rc, const char *why)
{
    struct dlr_sup *s = arg;

    dlr_policy_prepared(s->policy, rc, why, dlr_sup_now());
}

static void on_changed(void *arg)
{
    dlr_sup_save_takeover_state(arg);
}

static bool is_anywhere(void *arg)
{
    const struct dlr_sup *s = arg;

    return dlr_sup_anywhere(s->rounds);
}

static bool is_adopting(void *arg)
{
    const struct dlr_sup *s = arg;

    return dlr_sup_adopting(s->rounds);
}

static bool is_older(void *arg, struct dlr_version v)
{
    const struct dlr_sup *s = arg;
    struct dlr_version older;

    return dlr_sup_vetted(s->versions, &older) && dlr_version_eq(older, v);
}

static bool are_writes(void *arg)
{
    const struct dlr_sup *s = arg;

    return dlr_sup_is_persisting(s->disk);
}

static int on_written(void *arg, struct dlr_transfer *t, int rc, const char *said)
{
    return dlr_sup_written(((struct dlr_sup *)arg)->disk, t, rc, said);
}

static void on_made(void *arg, const struct dlr_transfer *t)
{
    dlr_sup_write_rebuilt(((struct dlr_sup *)arg)->disk, t);
}

const struct dlr_sup_copies_ops dlr_sup_copies_ops = {
    .prepared = on_prepared,
    .changed = on_changed,
    .round = dlr_sup_running_now,
    .anywhere = is_anywhere,
    .adopting = is_adopting,
    .keeps = is_older,
    .writes = are_writes,
    .written = on_written,
    .made = on_made,
};
