/* SPDX-License-Identifier: Apache-2.0 */
/* --dlrover-nodes: with no spare left the run goes on with fewer nodes and ranks, and with
 * more again once nodes are back. What a rank then needs of the state: mpi_launcher/supervisor/copies/fetch.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "mpi_launcher/supervisor/supervisor.h"

int dlr_sup_resize_check(const struct dlr_sup *s, struct dlr_err *err)
{
    unsigned least = s->conf.nodes.min, copies = dlr_sup_copies(s);

    if (!least || least >= s->full_places)
        return 0;
    if (s->full_places > 1 && least <= copies)
        return dlr_fail(err, -EINVAL,
                        "--dlrover-nodes=%u: with --dlrover-redundancy each "
                        "snapshot is on %u nodes: say %u or more",
                        least, copies + 1, copies + 1);
    return 0;
}

/* --- parity of former rounds ---------------------------------------------------------------- */

static unsigned world_of(const struct dlr_plan_world *w)
{
    unsigned world = 0;

    for (unsigned p = 0; p < w->nplaces; p++)
        world += w->tasks[p];
    return world;
}

/* The newest commit is of the last plan's ranks, or what that plan restores: the next one may need it. */
static bool is_needed(const struct dlr_sup *s, unsigned world)
{
    return world == s->plan->world || (s->plan->restore && world == s->plan->made_by);
}

/* Two of them are needed at most. */
static_assert(DLR_PLAN_WORLDS_MAX > 2, "one can go");

static void forget_oldest(struct dlr_sup *s)
{
    struct dlr_plan_world *w = s->worlds;

    while (w + 1 < s->worlds + s->nworlds && is_needed(s, world_of(w)))
        w++;
    free(w->tasks);
    free(w->ranks);
    s->nworlds--;
    memmove(w, w + 1, (size_t)(s->worlds + s->nworlds - w) * sizeof(*w));
}

static unsigned *copy_of(const unsigned *list, unsigned n)
{
    unsigned *copy = list ? calloc(n + 1, sizeof(*copy)) : NULL;

    return copy ? memcpy(copy, list, n * sizeof(*copy)) : NULL;
}

/* The places of the step as it is, before it is planned for another number of them. Without memory for
 * it what they leave can be restored from whole copies only.
 */
static void remember(struct dlr_sup *s)
{
    struct dlr_plan_world seats = dlr_sup_seats(s), now = {.nplaces = seats.nplaces};
    unsigned world = dlr_sup_seats_world(s);

    if (s->sets.rows == 0)
        return;
    for (unsigned i = 0; i < s->nworlds; i++)
        if (world_of(&s->worlds[i]) == world)
            return;
    now.tasks = copy_of(seats.tasks, now.nplaces);
    now.ranks = copy_of(seats.ranks, world);
    if (!now.tasks || (seats.ranks && !now.ranks)) {
        free(now.tasks);
        free(now.ranks);
        return;
    }
    if (s->nworlds == DLR_PLAN_WORLDS_MAX)
        forget_oldest(s);
    s->worlds[s->nworlds++] = now;
}

int dlr_sup_world_sets(const struct dlr_sup *s, unsigned world, struct dlr_sets *ret)
{
    unsigned members = s->conf.redundancy.members, rows = s->sets.rows;
    struct dlr_plan_world seats = dlr_sup_seats(s);

    memset(ret, 0, sizeof(*ret));
    if (rows == 0)
        return -ENOENT;
    if (world == dlr_sup_seats_world(s))
        return dlr_sets_init(ret, seats.nplaces, seats.tasks, seats.ranks, members,
                             rows);
    for (unsigned i = 0; i < s->nworlds; i++)
        if (world_of(&s->worlds[i]) == world)
            return dlr_sets_init(ret, s->worlds[i].nplaces, s->worlds[i].tasks,
                                 s->worlds[i].ranks, members, rows);
    return -ENOENT;
}

/* Seats that Slurm's tasks have, too, or that no plan can have, are not kept. */
int dlr_sup_reseat(struct dlr_sup *s, const unsigned *tasks, const unsigned *ranks)
{
    unsigned n = s->step->nplaces, world = 0;
    bool kept = s->plan->nplaces == n, in_order = true;
    int rc = 0;

    remember(s);
    for (unsigned p = 0; kept && p < n; p++) {
        kept = tasks[p] > 0;
        world += tasks[p];
    }
    for (unsigned r = 0; kept && r < world; r++)
        in_order = in_order && ranks[r] == r;
    if (kept && world == s->step->world &&
        !memcmp(tasks, s->step->tasks, n * sizeof(*tasks)))
        kept = s->step->ranks
                   ? memcmp(ranks, s->step->ranks, world * sizeof(*ranks)) != 0
                   : !in_order;
    free(s->seats.tasks);
    free(s->seats.ranks);
    s->seats = (struct dlr_plan_world){0};
    if (kept) {
        s->seats.tasks = copy_of(tasks, n);
        s->seats.ranks = in_order ? NULL : copy_of(ranks, world);
        s->seats.nplaces = s->seats.tasks && (in_order || s->seats.ranks) ? n : 0;
    }
    if (s->sets.rows > 0) {
        unsigned rows = s->sets.rows;

        dlr_sets_done(&s->sets);
        rc = dlr_sets_init(&s->sets, s->plan->nplaces, tasks, ranks,
                           s->conf.redundancy.members, rows);
    }
    return rc;
}

/* --- another number of places ------------------------------------------------------------- */

/* The step is planned for so many, and what follows from that. */
static int change(struct dlr_sup *s, unsigned nplaces, struct dlr_err *err)
{
    int rc;

    remember(s);
    rc = dlr_sup_replan_step(s, nplaces, err);
    if (rc < 0)
        return rc;
    dlr_sets_done(&s->sets);
    s->sets.rows = 0;
    return dlr_sup_redundancy_check(s, err);
}

/* Of a version that so many ranks made. 0: another run's. */
static unsigned places_of(const struct dlr_sup *s, unsigned world)
{
    unsigned n = (unsigned)((uint64_t)world * s->full_places / s->full_world);

    return n <= s->full_places && (uint64_t)s->full_world * n / s->full_places == world
               ? n
               : 0;
}

/* A former supervisor knew the places that made the version. Holders were chosen before it was known
 * who shares parity.
 */
int dlr_sup_resize_adopted(struct dlr_sup *s, struct dlr_err *err)
{
    unsigned now = s->plan->nplaces;
    unsigned was = s->plan->restore ? places_of(s, s->plan->made_by) : 0;
    unsigned least = s->conf.nodes.min;
    struct dlr_err why;
    int rc = 0;

    /* Fewer than this run may have had are another run's (--dlrover-restore-from). */
    if (s->sets.rows > 0 && least && was >= least && was != now &&
        was != s->step->nplaces && change(s, was, &why) < 0) {
        dlr_warn("of the %u nodes that made version %u/%llu nothing is known: %s", was,
                 s->plan->version.round, (unsigned long long)s->plan->version.step,
                 why.text);
        rc = change(s, now, err);
    }
    if (rc == 0 && now != s->step->nplaces)
        rc = change(s, now, err);
    if (rc == 0 && s->sets.rows > 0 && dlr_sup_holders_make(s) < 0)
        rc = dlr_fail(err, -ENOMEM, "out of memory");
    return rc;
}

/* Seats and holders of the former rounds are of other places. */
int dlr_sup_resize(void *arg, unsigned nplaces)
{
    struct dlr_sup *s = arg;
    struct dlr_err err;
    int rc = change(s, nplaces, &err);

    if (rc < 0) {
        dlr_sup_say(s->io, "%s", err.text);
        return rc;
    }
    s->nformer = 0;
    free(s->kept);
    s->kept = NULL;
    dlr_sup_send_peers(s->nodes); /* a successor must know how many ranks there are */
    dlr_journal_note(dlr_sup_journal(s->io), "resized", "s:i,s:i,s:i", "nodes",
                     s->step->nplaces, "world", s->step->world, "of", s->full_places);
    dlr_sup_say(s->io, "going on with %u of %u nodes and %u ranks", s->step->nplaces,
                s->full_places, s->step->world);
    return 0;
}
