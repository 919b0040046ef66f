/* SPDX-License-Identifier: Apache-2.0 */
/* The version that a round begins with is kept by others again, too: partners' copies
 * and parity that were lost, or whose holder changed, are made while the program
 * starts. Until they are there nothing new is saved, so that the network is theirs; a
 * limit ends that.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_launcher/supervisor/copies/copies_state.h"
#include "mpi_launcher/supervisor/copies/fetch.h"
#include "mpi_launcher/supervisor/copies/orders.h"
#include "mpi_launcher/supervisor/copies/redundancy.h"
#include "mpi_launcher/supervisor/copies/reprotect.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"

static void sent(void *arg, unsigned node, uint64_t id, int rc, const char *why);

static struct dlr_transfer *add(struct dlr_reprotect *a)
{
    struct dlr_transfer *more = realloc(a->list, (a->n + 1) * sizeof(*more));

    if (!more)
        return NULL;
    a->list = more;
    more += a->n++;
    memset(more, 0, sizeof(*more));
    return more;
}

/* What rank's holders lack. */
static void add_rank(struct dlr_sup_copies *copies, unsigned rank)
{
    unsigned place = (unsigned)dlr_sup_place_of(copies->env.planning, rank);
    int home = dlr_sup_node_of(copies->env.planning, place);

    for (unsigned k = 1; k <= dlr_sup_copies(copies); k++) {
        int to = dlr_sup_holder_node(copies, place, k);
        struct dlr_transfer *t;

        if (home < 0 || to < 0 || to == home || dlr_sup_holder_has(copies, place, k))
            continue;
        t = add(&copies->reprotect);
        if (!t) {
            copies->reprotect.failed = true;
            return;
        }
        t->rank = rank;
        t->slot = copies->sets.rows > 0 ? dlr_sup_shard_of(copies, rank, k - 1) : rank;
        t->from = (unsigned)home;
        t->to = (unsigned)to;
    }
}

void dlr_reprotect_plan(struct dlr_sup_copies *copies)
{
    dlr_reprotect_stop(copies);
    if (!copies->plan->restore || dlr_restore_changes_world_size(copies) ||
        dlr_sup_copies(copies) == 0)
        return;
    copies->reprotect.wanted = true;
    for (unsigned r = 0; r < copies->plan->world; r++)
        add_rank(copies, r);
}

void dlr_reprotect_stop(struct dlr_sup_copies *copies)
{
    dlr_sup_requests_drop(copies, sent);
    free(copies->reprotect.list);
    copies->reprotect = (struct dlr_reprotect){.deadline_ms = INT64_MAX};
}

static void finish(struct dlr_sup_copies *copies)
{
    bool good = !copies->reprotect.failed;

    dlr_reprotect_stop(copies);
    dlr_commit_go_on(copies->commit, NULL, 0);
    if (good)
        dlr_redundancy_restored(copies);
}

static void end(struct dlr_sup_copies *copies, struct dlr_transfer *t, bool good)
{
    if (t->ended)
        return;
    t->ended = true;
    copies->reprotect.failed = copies->reprotect.failed || !good;
    if (--copies->reprotect.out == 0)
        finish(copies);
}

/* One slot takes all that a shard is made of. */
static void reserve(struct dlr_sup_copies *copies, const struct dlr_transfer *t)
{
    for (const struct dlr_transfer *o = copies->reprotect.list; o < t; o++)
        if (o->slot == t->slot && o->to == t->to)
            return;
    dlr_sup_ask_reserve(copies, t->to, t->slot,
                        t->slot == t->rank ? copies->plan->sources[t->rank].bytes
                                           : dlr_sup_shard_room(copies, t->rank));
}

/* What has not ended; nothing is saved until it has. */
static void order(struct dlr_sup_copies *copies)
{
    struct dlr_reprotect *a = &copies->reprotect;

    dlr_sup_requests_drop(copies, sent);
    a->deadline_ms = dlr_sup_now() + copies->env.conf->transfer_timeout_ms;
    dlr_commit_hold(copies->commit);
    for (unsigned i = 0; i < a->n; i++) {
        if (a->list[i].ended)
            continue;
        a->list[i].started = false;
        a->list[i].id = dlr_sup_request(copies, 1, sent, copies);
        reserve(copies, &a->list[i]);
    }
}

void dlr_reprotect_start(struct dlr_sup_copies *copies)
{
    struct dlr_reprotect *a = &copies->reprotect;

    if (a->wanted && a->n == 0 && !a->failed)
        dlr_redundancy_restored(copies);
    if (a->n == 0 || a->failed)
        return;
    a->out = a->n;
    order(copies);
}

/* A shard that is not whole yet is summed anew, of all it is made of. */
static void reopen(struct dlr_reprotect *a, const struct dlr_transfer *open)
{
    for (unsigned i = 0; i < a->n; i++) {
        struct dlr_transfer *t = &a->list[i];

        if (t->ended && t->slot == open->slot && t->to == open->to) {
            t->ended = false;
            a->out++;
        }
    }
}

void dlr_reprotect_turn(struct dlr_sup_copies *copies)
{
    struct dlr_reprotect *a = &copies->reprotect;

    if (!a->out)
        return;
    for (unsigned i = 0; i < a->n; i++)
        if (!a->list[i].ended)
            reopen(a, &a->list[i]);
    order(copies);
}

void dlr_reprotect_ready(struct dlr_sup_copies *copies, unsigned node, unsigned slot)
{
    const char *data = copies->members->list[node].data;

    for (unsigned i = 0; copies->reprotect.out && i < copies->reprotect.n; i++) {
        struct dlr_transfer *t = &copies->reprotect.list[i];

        if (t->slot != slot || t->to != node || t->started || t->ended)
            continue;
        t->started = true;
        dlr_sup_ask(copies, t, "send", t->from, "data", data ? data : "");
    }
}

/* That it was sent is not yet that it is kept: its holder says so. */
static void sent(void *arg, unsigned node, uint64_t id, int rc, const char *why)
{
    struct dlr_sup_copies *copies = arg;

    for (unsigned i = 0; copies->reprotect.out && i < copies->reprotect.n; i++) {
        struct dlr_transfer *t = &copies->reprotect.list[i];

        if (t->id != id || t->from != node)
            continue;
        if (rc < 0 && !t->ended)
            dlr_journal_note(dlr_sup_journal(copies->env.io), "copy_failed",
                             "s:i,s:s,s:s,s:s", "rank", t->rank, "from",
                             copies->members->list[t->from].node.name, "to",
                             copies->members->list[t->to].node.name, "why", why);
        if (rc < 0)
            end(copies, t, false);
        return;
    }
}

void dlr_reprotect_copied(struct dlr_sup_copies *copies, unsigned node, unsigned rank,
                          struct dlr_version v)
{
    for (unsigned i = 0; copies->reprotect.out && i < copies->reprotect.n; i++) {
        struct dlr_transfer *t = &copies->reprotect.list[i];

        if (t->rank == rank && t->to == node &&
            dlr_version_eq(v, copies->plan->version))
            end(copies, t, true);
    }
}

void dlr_reprotect_lost(struct dlr_sup_copies *copies, unsigned node)
{
    for (unsigned i = 0; copies->reprotect.out && i < copies->reprotect.n; i++)
        if (copies->reprotect.list[i].from == node ||
            copies->reprotect.list[i].to == node)
            end(copies, &copies->reprotect.list[i], false);
}

void dlr_reprotect_tick(struct dlr_sup_copies *copies, int64_t now_ms)
{
    if (!copies->reprotect.out || now_ms < copies->reprotect.deadline_ms)
        return;
    dlr_user_line(
        copies->env.io,
        "%u copies of step %llu were not made in %lld s "
        "(--dlrover-set=transfer-timeout): the next save protects the job again",
        copies->reprotect.out, (unsigned long long)copies->plan->version.step,
        (long long)(copies->env.conf->transfer_timeout_ms / 1000));
    copies->reprotect.failed = true;
    finish(copies);
}
