/* SPDX-License-Identifier: Apache-2.0 */
/* The version that a round begins with is kept by others again, too: partners' copies and parity
 * that were lost, or whose holder changed, are made while the program starts. Until they are
 * there nothing new is saved, so that the network is theirs; a limit ends that.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_launcher/supervisor/supervisor.h"

static void sent(void *arg, unsigned node, uint64_t id, int rc, const char *why);

static struct dlr_transfer *add(struct dlr_sup_again *a)
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
static void add_rank(struct dlr_sup *s, unsigned rank)
{
    unsigned place = (unsigned)dlr_sup_place_of(s->planning, rank);
    int home = dlr_sup_node_of(s->planning, place);

    for (unsigned k = 1; k <= dlr_sup_copies(s); k++) {
        int to = dlr_sup_holder_node(s, place, k);
        struct dlr_transfer *t;

        if (home < 0 || to < 0 || to == home || dlr_sup_holder_has(s, place, k))
            continue;
        t = add(&s->again);
        if (!t) {
            s->again.failed = true;
            return;
        }
        t->rank = rank;
        t->slot = s->sets.rows > 0 ? dlr_sup_shard_of(s, rank, k - 1) : rank;
        t->from = (unsigned)home;
        t->to = (unsigned)to;
    }
}

void dlr_sup_again_plan(struct dlr_sup *s)
{
    dlr_sup_again_stop(s);
    if (!s->plan->restore || dlr_sup_other_world(s) || dlr_sup_copies(s) == 0)
        return;
    s->again.wanted = true;
    for (unsigned r = 0; r < s->plan->world; r++)
        add_rank(s, r);
}

void dlr_sup_again_stop(struct dlr_sup *s)
{
    dlr_sup_requests_drop(s->copies, sent);
    free(s->again.list);
    s->again = (struct dlr_sup_again){.deadline_ms = INT64_MAX};
}

static void finish(struct dlr_sup *s)
{
    bool good = !s->again.failed;

    dlr_sup_again_stop(s);
    dlr_commit_go_on(s->commit, NULL, 0);
    if (good)
        dlr_sup_covered(s);
}

static void end(struct dlr_sup *s, struct dlr_transfer *t, bool good)
{
    if (t->ended)
        return;
    t->ended = true;
    s->again.failed = s->again.failed || !good;
    if (--s->again.out == 0)
        finish(s);
}

/* One slot takes all that a shard is made of. */
static void reserve(struct dlr_sup *s, const struct dlr_transfer *t)
{
    for (const struct dlr_transfer *o = s->again.list; o < t; o++)
        if (o->slot == t->slot && o->to == t->to)
            return;
    dlr_sup_ask_reserve(s, t->to, t->slot,
                        t->slot == t->rank ? s->plan->sources[t->rank].bytes
                                           : dlr_sup_shard_room(s, t->rank));
}

/* What has not ended; nothing is saved until it has. */
static void order(struct dlr_sup *s)
{
    struct dlr_sup_again *a = &s->again;

    dlr_sup_requests_drop(s->copies, sent);
    a->deadline_ms = dlr_sup_now() + s->conf.transfer_timeout_ms;
    dlr_commit_hold(s->commit);
    for (unsigned i = 0; i < a->n; i++) {
        if (a->list[i].ended)
            continue;
        a->list[i].started = false;
        a->list[i].id = dlr_sup_request(s->copies, 1, sent, s);
        reserve(s, &a->list[i]);
    }
}

void dlr_sup_again_start(struct dlr_sup *s)
{
    struct dlr_sup_again *a = &s->again;

    if (a->wanted && a->n == 0 && !a->failed)
        dlr_sup_covered(s);
    if (a->n == 0 || a->failed)
        return;
    a->out = a->n;
    order(s);
}

/* A shard that is not whole yet is summed anew, of all it is made of. */
static void reopen(struct dlr_sup_again *a, const struct dlr_transfer *open)
{
    for (unsigned i = 0; i < a->n; i++) {
        struct dlr_transfer *t = &a->list[i];

        if (t->ended && t->slot == open->slot && t->to == open->to) {
            t->ended = false;
            a->out++;
        }
    }
}

void dlr_sup_again_turn(struct dlr_sup *s)
{
    struct dlr_sup_again *a = &s->again;

    if (!a->out)
        return;
    for (unsigned i = 0; i < a->n; i++)
        if (!a->list[i].ended)
            reopen(a, &a->list[i]);
    order(s);
}

void dlr_sup_again_ready(struct dlr_sup *s, unsigned node, unsigned slot)
{
    const char *data = s->members->list[node].data;

    for (unsigned i = 0; s->again.out && i < s->again.n; i++) {
        struct dlr_transfer *t = &s->again.list[i];

        if (t->slot != slot || t->to != node || t->started || t->ended)
            continue;
        t->started = true;
        dlr_sup_ask(s, t, "send", t->from, "data", data ? data : "");
    }
}

/* That it was sent is not yet that it is kept: its holder says so. */
static void sent(void *arg, unsigned node, uint64_t id, int rc, const char *why)
{
    struct dlr_sup *s = arg;

    for (unsigned i = 0; s->again.out && i < s->again.n; i++) {
        struct dlr_transfer *t = &s->again.list[i];

        if (t->id != id || t->from != node)
            continue;
        if (rc < 0 && !t->ended)
            dlr_journal_note(dlr_sup_journal(s->io), "copy_failed", "s:i,s:s,s:s,s:s",
                             "rank", t->rank, "from",
                             s->members->list[t->from].node.name, "to",
                             s->members->list[t->to].node.name, "why", why);
        if (rc < 0)
            end(s, t, false);
        return;
    }
}

void dlr_sup_again_copied(struct dlr_sup *s, unsigned node, unsigned rank,
                          struct dlr_version v)
{
    for (unsigned i = 0; s->again.out && i < s->again.n; i++) {
        struct dlr_transfer *t = &s->again.list[i];

        if (t->rank == rank && t->to == node && dlr_version_eq(v, s->plan->version))
            end(s, t, true);
    }
}

void dlr_sup_again_lost(struct dlr_sup *s, unsigned node)
{
    for (unsigned i = 0; s->again.out && i < s->again.n; i++)
        if (s->again.list[i].from == node || s->again.list[i].to == node)
            end(s, &s->again.list[i], false);
}

void dlr_sup_again_tick(struct dlr_sup *s, int64_t now_ms)
{
    if (!s->again.out || now_ms < s->again.deadline_ms)
        return;
    dlr_sup_say(
        s->io,
        "%u copies of step %llu were not made in %lld s "
        "(--dlrover-set=transfer-timeout): the next save protects the job again",
        s->again.out, (unsigned long long)s->plan->version.step,
        (long long)(s->conf.transfer_timeout_ms / 1000));
    s->again.failed = true;
    finish(s);
}
