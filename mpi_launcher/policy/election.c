/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/policy/election.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"

#define NEVER INT64_MIN
#define MINORITY_ASK_MS 10000 /* from one question to slurmctld to the next */
/* slurmctld pings nodes each third of SlurmdTimeout (100 s): one may be lost */
#define MISSED_MS 120000
#define LAST_MS 900000 /* without a supervisor whose node answers, and no majority */
#define MESH 64        /* so many may all ask each other */
/* of more, so many of the lowest at first, then twice as many ... */
#define FIRST_ASKED 16

struct voter {
    char *node;
    bool silent;
    int64_t heard_ms; /* NEVER: not yet */
};

struct dlr_election {
    struct dlr_election_ops ops;
    void *arg;
    struct voter *voters; /* without batch, with me, in the order of names */
    unsigned n, me;
    unsigned said_silent; /* voters whose last word was that, however old */
    unsigned window;      /* of the lowest are asked */
    bool leads;           /* all are asked: no lower one is known to be silent */
    int64_t vote_ms;
    bool silent, won;
    int64_t silent_ms;        /* since then */
    bool host;                /* the batch node answers a connect */
    enum dlr_witness witness; /* slurmctld's word ... */
    int64_t witness_ms;       /* ... then */
    int64_t missed_ms;        /* since when it does not hear the batch node; or NEVER */
    int64_t asked_witness_ms; /* NEVER: not yet */
    int64_t quorum_ms;        /* since when this agent would win; NEVER: would not */
};

struct dlr_election *dlr_election_free(struct dlr_election *e)
{
    if (!e)
        return NULL;
    for (unsigned i = 0; i < e->n; i++)
        free(e->voters[i].node);
    free(e->voters);
    free(e);
    return NULL;
}

static int by_name(const void *a, const void *b)
{
    const struct voter *x = a, *y = b;

    return strcmp(x->node, y->node); /* order of names */
}

static struct voter *find(const struct dlr_election *e, const char *node)
{
    const struct voter key = {.node = (char *)node};

    return bsearch(&key, e->voters, e->n, sizeof(key), by_name);
}

static void cleanup_election(struct dlr_election **e)
{
    dlr_election_free(*e);
}

int dlr_election_new(const char *me, const char *batch, const char *const *nodes,
                     unsigned n, int64_t vote_ms, const struct dlr_election_ops *ops,
                     void *arg, struct dlr_election **ret, struct dlr_err *err)
{
    DLR_CLEANUP(cleanup_election) struct dlr_election *e = calloc(1, sizeof(*e));
    const struct voter *mine;

    if (!e || !(e->voters = calloc(n ? n : 1, sizeof(*e->voters))))
        return dlr_fail(err, -ENOMEM, "out of memory");
    e->ops = *ops;
    e->arg = arg;
    e->vote_ms = vote_ms;
    e->asked_witness_ms = e->quorum_ms = e->missed_ms = NEVER;
    for (unsigned i = 0; i < n; i++) {
        struct voter *v = &e->voters[e->n];

        if (dlr_streq(nodes[i], batch))
            continue;
        v->heard_ms = NEVER;
        v->node = strdup(nodes[i]);
        if (!v->node)
            return dlr_fail(err, -ENOMEM, "out of memory");
        e->n++;
    }
    qsort(e->voters, e->n, sizeof(*e->voters), by_name);
    mine = find(e, me);
    if (!mine)
        return dlr_fail(err, -ENOENT, "'%s' is not among those who may vote", me);
    e->me = (unsigned)(mine - e->voters);
    *ret = DLR_STEAL(e);
    return 0;
}

static bool fresh(const struct dlr_election *e, const struct voter *v, int64_t now_ms)
{
    return v->heard_ms != NEVER && now_ms - v->heard_ms < e->vote_ms;
}

/* This agent's own vote needs no message. */
static bool votes_silent(const struct dlr_election *e, unsigned i, int64_t now_ms)
{
    if (i == e->me)
        return e->silent;
    return e->voters[i].silent && fresh(e, &e->voters[i], now_ms);
}

static void ask_witness(struct dlr_election *e, int64_t every_ms, int64_t now_ms)
{
    if (e->asked_witness_ms != NEVER && now_ms - e->asked_witness_ms < every_ms)
        return;
    e->asked_witness_ms = now_ms;
    e->ops.witness(e->arg);
}

/* A switch took the batch node and half of the others, or we are on the wrong side of a
 * cut: there the supervisor may live, and slurmctld hears its node.
 */
static bool minority_may(struct dlr_election *e, int64_t now_ms)
{
    bool fresh =
        e->witness != DLR_WITNESS_NONE && now_ms - e->witness_ms <= 2 * MINORITY_ASK_MS;

    if (fresh && e->witness == DLR_WITNESS_GONE)
        return true;
    ask_witness(e, MINORITY_ASK_MS, now_ms);
    return fresh && e->host && now_ms - e->silent_ms >= LAST_MS;
}

static bool has_quorum(struct dlr_election *e, unsigned yes, bool lowest,
                       int64_t now_ms)
{
    if (e->n > 1 && 2 * yes > e->n)
        return true;
    if (yes == 0)
        return false;
    if (e->n > 2)
        return lowest && (e->leads || e->n <= MESH) && minority_may(e, now_ms);
    if (e->witness != DLR_WITNESS_NONE && now_ms - e->witness_ms <= 2 * e->vote_ms)
        return true;
    ask_witness(e, e->vote_ms, now_ms);
    return false;
}

static void count(struct dlr_election *e, int64_t now_ms)
{
    unsigned yes = 0;
    bool lowest = true;

    if (!e->silent || e->won)
        return;
    for (unsigned i = 0; i < e->n; i++) {
        if (!votes_silent(e, i, now_ms))
            continue;
        yes++;
        lowest = lowest && i >= e->me;
    }
    if (!has_quorum(e, yes, lowest, now_ms) || !lowest) {
        e->quorum_ms = NEVER;
        return;
    }
    if (e->quorum_ms == NEVER)
        e->quorum_ms = now_ms;
    if (now_ms - e->quorum_ms < e->vote_ms)
        return;
    e->won = true;
    e->ops.win(e->arg);
}

void dlr_election_silent(struct dlr_election *e, bool silent, int64_t now_ms)
{
    bool deposed = e->won && !silent;

    if (silent == e->silent)
        return;
    e->silent = silent;
    e->silent_ms = now_ms;
    e->missed_ms = NEVER;
    e->won = e->won && silent;
    e->quorum_ms = NEVER;
    e->window = 0;
    e->leads = false;
    if (silent)
        dlr_election_tick(e, now_ms);
    if (deposed)
        e->ops.stand_down(e->arg);
}

/* Of many, votes are counted with the tick, and when they become a majority: to count
 * takes all of them.
 */
void dlr_election_vote(struct dlr_election *e, const char *node, bool silent,
                       int64_t now_ms)
{
    struct voter *v = find(e, node);
    bool before = 2 * e->said_silent > e->n;

    if (!v || v == &e->voters[e->me])
        return;
    e->said_silent += silent;
    e->said_silent -= v->silent;
    v->silent = silent;
    v->heard_ms = now_ms;
    if (e->n <= MESH || (!before && 2 * e->said_silent > e->n))
        count(e, now_ms);
}

void dlr_election_host(struct dlr_election *e, bool answers)
{
    e->host = answers;
}

/* What it says of a node whose pings are lost for long. */
static enum dlr_witness judge(struct dlr_election *e, enum dlr_witness said,
                              int64_t now_ms)
{
    if (said != DLR_WITNESS_MISSES) {
        e->missed_ms = said == DLR_WITNESS_NONE ? e->missed_ms : NEVER;
        return said;
    }
    if (e->missed_ms == NEVER)
        e->missed_ms = now_ms;
    return now_ms - e->missed_ms >= MISSED_MS ? DLR_WITNESS_GONE : DLR_WITNESS_ANSWERS;
}

void dlr_election_witness(struct dlr_election *e, enum dlr_witness said, int64_t now_ms)
{
    e->witness = judge(e, said, now_ms);
    e->witness_ms = now_ms;
    count(e, now_ms);
}

static bool knows_lower(const struct dlr_election *e, int64_t now_ms)
{
    for (unsigned i = 0; i < e->me; i++)
        if (votes_silent(e, i, now_ms))
            return true;
    return false;
}

/* How many of the lowest are asked now. Only who may win needs all votes: of many
 * agents each asks the lowest, more of them with each tick, until a lower one is known
 * to be silent, who asks us from then on.
 */
static unsigned next_window(struct dlr_election *e, int64_t now_ms)
{
    if (e->n <= MESH || e->won)
        return e->n;
    if (knows_lower(e, now_ms)) {
        e->leads = false;
        return 0;
    }
    e->leads = e->leads || e->window >= e->me;
    if (e->leads)
        return e->n;
    e->window = e->window ? 2 * e->window : FIRST_ASKED;
    return e->window < e->me ? e->window : e->me;
}

void dlr_election_tick(struct dlr_election *e, int64_t now_ms)
{
    unsigned asked;

    if (!e->silent)
        return;
    asked = next_window(e, now_ms);
    for (unsigned i = 0; i < asked; i++)
        if (i != e->me)
            e->ops.ask(e->arg, e->voters[i].node);
    count(e, now_ms);
}

bool dlr_election_is_silent(const struct dlr_election *e)
{
    return e->silent;
}

bool dlr_election_live(const struct dlr_election *e, const char *node, int64_t now_ms)
{
    const struct voter *v = find(e, node);

    return v && (v == &e->voters[e->me] || fresh(e, v, now_ms));
}

bool dlr_election_agrees(const struct dlr_election *e, const char *node, int64_t now_ms)
{
    const struct voter *v = find(e, node);

    return v && votes_silent(e, (unsigned)(v - e->voters), now_ms);
}
