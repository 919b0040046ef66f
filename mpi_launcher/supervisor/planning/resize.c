/* SPDX-License-Identifier: Apache-2.0 */
/* --dlrover-nodes: with no spare left the run goes on with fewer nodes and ranks, and
 * with more again once nodes are back. What a rank then needs of the state:
 * mpi_launcher/supervisor/copies/fetch.c.
 */
#include "mpi_launcher/supervisor/planning/resize.h"

#include <errno.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/str.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/peers.h"
#include "mpi_launcher/supervisor/planning/planning_state.h"

int dlr_sup_resize_check(const struct dlr_sup_planning *planning, struct dlr_err *err)
{
    unsigned least = planning->env.conf->nodes.min;
    unsigned copies =
        planning->step.nplaces > 1 ? planning->env.conf->redundancy.copies : 0;

    if (!least || least >= planning->full_places)
        return 0;
    if (planning->full_places > 1 && least <= copies)
        return dlr_fail(err, -EINVAL,
                        "--dlrover-nodes=%u: with --dlrover-redundancy each "
                        "snapshot is on %u nodes: say %u or more",
                        least, copies + 1, copies + 1);
    return 0;
}

int dlr_sup_group_check(const struct dlr_sup_planning *planning, struct dlr_err *err)
{
    unsigned group = planning->env.conf->group, n = planning->full_places;
    char divisors[128] = "1";

    if (group && (n == 1 || n % group == 0)) /* one node crosses nothing */
        return 0;
    for (unsigned k = 2; k <= n; k++) {
        size_t used = strlen(divisors);

        if (n % k == 0 && used + 16 < sizeof(divisors))
            dlr_format(divisors + used, sizeof(divisors) - used, ", %u", k);
    }
    return dlr_fail(err, -EINVAL,
                    "--dlrover-group=%u does not divide the %u training nodes of this "
                    "run: these do: %s",
                    group, n, divisors);
}

/* The step is planned for so many, and what follows from that. */
static int change(struct dlr_sup_planning *planning, unsigned nplaces,
                  struct dlr_err *err)
{
    int rc;

    dlr_sup_places_remember(planning);
    rc = dlr_sup_replan_step(planning, nplaces, err);
    return rc < 0 ? rc : planning->ops->replanned(planning->arg, err);
}

/* Of a version that so many ranks made. 0: another run's. */
static unsigned places_of(const struct dlr_sup_planning *planning, unsigned world)
{
    unsigned n =
        (unsigned)((uint64_t)world * planning->full_places / planning->full_world);

    return n <= planning->full_places &&
                   (uint64_t)planning->full_world * n / planning->full_places == world
               ? n
               : 0;
}

/* A former supervisor knew the places that made the version. */
int dlr_sup_resize_adopted(struct dlr_sup_planning *planning, struct dlr_err *err)
{
    unsigned now = planning->plan.nplaces;
    unsigned was =
        planning->plan.restore ? places_of(planning, planning->plan.made_by) : 0;
    unsigned least = planning->env.conf->nodes.min;
    struct dlr_err why;
    int rc = 0;

    /* Fewer than this run may have had are another run's (--dlrover-restore-from). */
    if (dlr_sup_parity_rows(planning) > 0 && least && was >= least && was != now &&
        was != planning->step.nplaces && change(planning, was, &why) < 0) {
        dlr_warn("of the %u nodes that made version %u/%llu nothing is known: %s", was,
                 planning->plan.version.round,
                 (unsigned long long)planning->plan.version.step, why.text);
        rc = change(planning, now, err);
    }
    if (rc == 0 && now != planning->step.nplaces)
        rc = change(planning, now, err);
    return rc;
}

/* Seats of the former round are of other places. */
int dlr_sup_resize(struct dlr_sup_planning *planning, unsigned nplaces)
{
    struct dlr_err err;
    int rc = change(planning, nplaces, &err);

    if (rc < 0) {
        dlr_user_line(planning->env.io, "%s", err.text);
        return rc;
    }
    planning->nformer = 0;
    dlr_sup_send_peers(
        planning->env.nodes); /* a successor must know how many ranks there are */
    dlr_journal_note(dlr_sup_journal(planning->env.io), "resized", "s:i,s:i,s:i",
                     "nodes", planning->step.nplaces, "world", planning->step.world,
                     "of", planning->full_places);
    dlr_user_line(planning->env.io, "going on with %u of %u nodes and %u ranks",
                  planning->step.nplaces, planning->full_places, planning->step.world);
    return 0;
}
