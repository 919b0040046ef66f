/* SPDX-License-Identifier: Apache-2.0 */
/* --dlrover-min-nodes: with no spare left the run goes on with fewer nodes and ranks, and with
 * more again once nodes are back. What a rank then needs of the state: sup_worlds.c.
 */
#include <errno.h>
#include <stdlib.h>

#include "mpi_launcher/sup.h"

int dlr_sup_resize_check(const struct dlr_sup *s, struct dlr_err *err)
{
    unsigned least = s->conf.min_nodes, copies = dlr_sup_copies(s);

    if (!least || least >= s->full_places)
        return 0;
    if (s->sets.rows > 0)
        return dlr_fail(err, -EINVAL,
                        "--dlrover-min-nodes=%u: fewer ranks cannot be restored from "
                        "parity: say --dlrover-redundancy=partner, or no --dlrover-min-"
                        "nodes",
                        least);
    if (s->full_places > 1 && least <= copies)
        return dlr_fail(err, -EINVAL,
                        "--dlrover-min-nodes=%u: with --dlrover-redundancy each "
                        "snapshot is on %u nodes: say %u or more",
                        least, copies + 1, copies + 1);
    return 0;
}

int dlr_sup_resize_adopted(struct dlr_sup *s, struct dlr_err *err)
{
    if (s->plan.nplaces == s->step.nplaces)
        return 0;
    return dlr_sup_replan_step(s, s->plan.nplaces, err);
}

/* Seats and holders of the former rounds are of other places. */
int dlr_sup_resize(void *arg, unsigned nplaces)
{
    struct dlr_sup *s = arg;
    struct dlr_err err;
    int rc = dlr_sup_replan_step(s, nplaces, &err);

    if (rc < 0) {
        dlr_sup_say(s, "%s", err.text);
        return rc;
    }
    s->nformer = 0;
    free(s->kept);
    s->kept = NULL;
    dlr_sup_send_peers(s); /* a successor must know how many ranks there are */
    dlr_journal_note(s->journal, "resized", "s:i,s:i,s:i", "nodes", s->step.nplaces,
                     "world", s->step.world, "of", s->full_places);
    dlr_sup_say(s, "going on with %u of %u nodes and %u ranks", s->step.nplaces,
                s->full_places, s->step.world);
    return 0;
}
