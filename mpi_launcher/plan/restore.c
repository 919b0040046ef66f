/* SPDX-License-Identifier: Apache-2.0 */
/* From which version the ranks start, who has each rank's copy, and why nothing newer.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "mpi_launcher/plan/nodes.h"
#include "mpi_launcher/plan/parity_sets.h"

struct held {
    int32_t rank;
    uint32_t world;
    struct dlr_version version;
    uint64_t bytes;
    const char *where;
    long node; /* index, -1: a file */
};

struct pick {
    const struct dlr_plan_nodes *pn;
    const struct dlr_plan_want *want;
    struct dlr_plan *plan;
    struct held *held;
    size_t nheld;
    /* [nof] with this number of ranks */
    struct dlr_parity_sets of[1 + DLR_PLAN_WORLDS_MAX];
    unsigned nof; /* first, then with others */
    /* of the version that is looked at; NULL: no parity */
    const struct dlr_parity_sets *sets;
    /* [slots] one more than where the first node's copy is in held; 0 none */
    size_t *at;
};

static const struct dlr_parity_sets *sets_of(const struct pick *k, uint32_t world)
{
    for (unsigned i = 0; i < k->nof; i++)
        if (k->of[i].world == world)
            return &k->of[i];
    return NULL;
}

/* Slots are of ranks and, with sets, of their parity shards. */
static size_t slots(const struct dlr_parity_sets *sets, uint32_t world)
{
    return (size_t)world * (1 + (sets ? sets->rows : 0));
}

static void note(struct dlr_plan *plan, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void note(struct dlr_plan *plan, const char *fmt, ...)
{
    va_list ap;

    if (plan->nnotes == DLR_PLAN_NOTES_MAX)
        return;
    va_start(ap, fmt);
    vsnprintf(plan->notes[plan->nnotes++], DLR_PLAN_NOTE, fmt, ap);
    va_end(ap);
}

/* --- what is there ---------------------------------------------------------------- */

static bool is_struck(const struct dlr_plan_want *want, const char *where, int32_t rank,
                      struct dlr_version v)
{
    unsigned i;

    for (i = 0; i < want->nrejected; i++) {
        const struct dlr_plan_rejected *s = &want->rejected[i];

        bool it = s->later ? v.round <= s->version.round && v.step >= s->version.step
                           : dlr_version_eq(s->version, v);

        if (it && (s->rank < 0 || s->rank == rank) &&
            (dlr_streq(s->where, "*") || dlr_streq(s->where, where)))
            return true;
    }
    return false;
}

static void hold(struct pick *k, const struct dlr_plan_copy *copy, const char *where,
                 long node)
{
    const struct dlr_plan_want *want = k->want;

    if (copy->rank < 0 ||
        (uint32_t)copy->rank >= slots(sets_of(k, copy->world), copy->world) ||
        (want->limited && dlr_version_cmp(copy->version, want->newest) > 0) ||
        is_struck(want, where, copy->rank, copy->version))
        return;
    k->held[k->nheld++] =
        (struct held){copy->rank, copy->world, copy->version, copy->bytes, where, node};
}

/* Newest version first, then rank; a file after the nodes, nodes by index (name). */
static int by_version(const void *a, const void *b)
{
    const struct held *x = a, *y = b;
    int rc = dlr_version_cmp(y->version, x->version);

    if (rc == 0)
        rc = (x->world > y->world) - (x->world < y->world);
    if (rc == 0)
        rc = (x->rank > y->rank) - (x->rank < y->rank);
    if (rc == 0)
        rc = (x->node < 0) - (y->node < 0);
    if (rc == 0)
        rc = (x->node > y->node) - (x->node < y->node);
    return rc ? rc : strcmp(x->where, y->where);
}

static int gather(struct pick *k)
{
    const struct dlr_plan_nodes *pn = k->pn;
    size_t room = k->want->nfiles;
    unsigned i, c;

    for (i = 0; i < pn->n; i++)
        room += pn->report[i]->ncopies;
    k->held = calloc(room + 1, sizeof(*k->held));
    if (!k->held)
        return -ENOMEM;
    for (i = 0; i < pn->n; i++)
        for (c = 0; c < pn->report[i]->ncopies; c++)
            hold(k, &pn->report[i]->copies[c], pn->node[i].name, i);
    for (i = 0; i < k->want->nfiles; i++)
        hold(k, &k->want->files[i].copy, k->want->files[i].path, -1);
    qsort(k->held, k->nheld, sizeof(*k->held), by_version);
    return 0;
}

/* Copies of one version from at on: their end, and how many ranks have one. */
static size_t group_end(const struct pick *k, size_t at, unsigned *ret_ranks)
{
    size_t i = at;

    *ret_ranks = 0;
    for (; i < k->nheld && k->held[i].world == k->held[at].world &&
           dlr_version_eq(k->held[i].version, k->held[at].version);
         i++)
        *ret_ranks += (unsigned)k->held[i].rank < k->held[i].world &&
                      (i == at || k->held[i - 1].rank != k->held[i].rank);
    return i;
}

/* --- the choice ------------------------------------------------------------------- */

/* The lower the better: here; another node, the more switches in common the better; a
 * file; a node that the others have trouble to reach.
 */
static unsigned distance(const struct pick *k, const struct held *h, long seat)
{
    const struct dlr_plan_nodes *pn = k->pn;

    if (h->node >= 0 && h->node == seat)
        return 0;
    if (h->node < 0)
        return UINT_MAX - 1;
    if (pn->doubt[h->node])
        return UINT_MAX;
    if (seat < 0)
        return 1;
    return 1 + DLR_TOPO_PATH - dlr_topo_common(&pn->node[h->node], &pn->node[seat]);
}

static int take(struct pick *k, const struct held *h, long seat)
{
    struct dlr_plan_source *s = &k->plan->sources[h->rank];

    s->bytes = h->bytes;
    s->from = h->node < 0 ? DLR_PLAN_FILE : DLR_PLAN_NODE;
    if (h->node >= 0 && h->node == seat)
        s->from = DLR_PLAN_LOCAL;
    else
        s->where = strdup(h->where);
    return s->from == DLR_PLAN_LOCAL || s->where ? 0 : -ENOMEM;
}

/* Who has a slot of the version that is looked at. */
static const char *node_of(void *arg, unsigned slot)
{
    const struct pick *k = arg;

    return k->at[slot] ? k->held[k->at[slot] - 1].where : NULL;
}

/* What is there of the version that is held[at..end), slot by slot, on nodes. */
static void look_at(struct pick *k, size_t at, size_t end)
{
    k->sets = sets_of(k, k->held[at].world);
    if (!k->sets)
        return;
    memset(k->at, 0, slots(k->sets, k->sets->world) * sizeof(*k->at));
    for (size_t i = end; i > at; i--)
        if (k->held[i - 1].node >= 0)
            k->at[k->held[i - 1].rank] = i;
}

/* Whether every rank that has no copy can be made of the rest of its group. */
static bool can_rebuild(struct pick *k, size_t at, size_t end)
{
    char where[DLR_PLAN_WHERE];
    size_t i = at;

    look_at(k, at, end);
    if (!k->sets)
        return false;
    for (unsigned r = 0; r < k->sets->world; r++) {
        while (i < end && k->held[i].rank < (int32_t)r)
            i++;
        if ((i == end || k->held[i].rank != (int32_t)r) &&
            dlr_parity_sets_sources(k->sets, r, node_of, k, where, sizeof(where)) < 0)
            return false;
    }
    return true;
}

/* The ranks of the version that have no source yet. A shard's slot is as large as the
 * largest of its group.
 */
static int take_rebuilt(struct pick *k)
{
    for (unsigned r = 0; r < k->plan->made_by; r++) {
        struct dlr_plan_source *s = &k->plan->sources[r];
        unsigned ranks[DLR_PARITY_DATA_MAX];
        char where[DLR_PLAN_WHERE];
        int rc;

        if (s->bytes > 0)
            continue;
        rc = dlr_parity_sets_sources(k->sets, r, node_of, k, where, sizeof(where));
        if (rc < 0)
            return rc;
        dlr_parity_sets_group(k->sets, r, ranks);
        for (unsigned j = 0; j < k->sets->rows; j++) {
            size_t i = k->at[dlr_parity_sets_shard(k->sets, ranks[0], j)];

            if (i && k->held[i - 1].bytes > s->bytes)
                s->bytes = k->held[i - 1].bytes;
        }
        s->from = DLR_PLAN_PARITY;
        s->where = strdup(where);
        if (!s->where)
            return -ENOMEM;
    }
    return 0;
}

/* A file is the last resort: what is left of the rank's set in memory comes before it.
 */
static bool has_parity(const struct pick *k, const struct held *h)
{
    char where[DLR_PLAN_WHERE];

    return k->sets && h->node < 0 &&
           dlr_parity_sets_sources(k->sets, (unsigned)h->rank, node_of, (void *)k,
                                   where, sizeof(where)) >= 0;
}

static int take_version(struct pick *k, size_t at, size_t end,
                        const unsigned *place_node)
{
    bool other = k->held[at].world != k->plan->world;

    k->plan->restore = true;
    k->plan->version = k->held[at].version;
    k->plan->made_by = k->held[at].world;
    k->plan->sources = calloc(k->plan->made_by, sizeof(*k->plan->sources));
    if (!k->plan->sources)
        return -ENOMEM;
    look_at(k, at, end);
    while (at < end && (unsigned)k->held[at].rank < k->plan->made_by) {
        size_t best = at, i;
        long seat = -1;

        if (place_node && !other)
            seat = place_node[k->plan->place_of[k->held[at].rank]];
        for (i = at; i < end && k->held[i].rank == k->held[at].rank; i++)
            if (distance(k, &k->held[i], seat) < distance(k, &k->held[best], seat))
                best = i;
        if (!has_parity(k, &k->held[best]) && take(k, &k->held[best], seat) < 0)
            return -ENOMEM;
        at = i;
    }
    return k->sets ? take_rebuilt(k) : 0;
}

/* --- explanations ----------------------------------------------------------------- */

static const char *fate(const struct pick *k, const char *node, int32_t rank,
                        struct dlr_version v)
{
    if (is_struck(k->want, node, rank, v))
        return "failed to load";
    return dlr_plan_nodes_find(k->pn, node) < 0 ? "gone" : "without a whole copy";
}

static long former_seat(const struct pick *k, int32_t rank)
{
    return k->want->nformer == k->want->nplaces ? (long)k->plan->place_of[rank] : -1;
}

/* "rank 1: version 4/120 was on n1 and n2, both gone" */
static void explain_rank(const struct pick *k, int32_t rank, struct dlr_version v)
{
    long p = former_seat(k, rank);
    const char *a, *b, *fate_a, *fate_b;

    if (p < 0 || dlr_streq(k->want->former[p].partner, DLR_PLAN_SEVERAL)) {
        note(k->plan, "rank %d: no copy of version %u/%" PRIu64 " is left", rank,
             v.round, v.step);
        return;
    }
    a = k->want->former[p].node.name;
    b = k->want->former[p].partner;
    fate_a = fate(k, a, rank, v);
    fate_b = fate(k, b, rank, v);
    if (!b[0] || dlr_streq(a, b))
        note(k->plan, "rank %d: version %u/%" PRIu64 " was on %s only: %s", rank,
             v.round, v.step, a, fate_a);
    else if (dlr_streq(fate_a, fate_b))
        note(k->plan, "rank %d: version %u/%" PRIu64 " was on %s and %s, both %s", rank,
             v.round, v.step, a, b, fate_a);
    else
        note(k->plan, "rank %d: version %u/%" PRIu64 " was on %s (%s) and %s (%s)",
             rank, v.round, v.step, a, fate_a, b, fate_b);
}

/* Ranks without a copy of v among held[at..end). */
static void explain_missing(const struct pick *k, size_t at, size_t end,
                            struct dlr_version v)
{
    unsigned missing = 0, ranks = k->plan->world, r;

    for (r = 0; r < ranks; r++) {
        while (at < end && k->held[at].rank < (int32_t)r)
            at++;
        if (at < end && k->held[at].rank == (int32_t)r)
            continue;
        if (missing++ < DLR_PLAN_NOTES_MAX - 2)
            explain_rank(k, (int32_t)r, v);
    }
    if (missing > DLR_PLAN_NOTES_MAX - 2)
        note(k->plan, "and %u more ranks without version %u/%" PRIu64,
             missing - (DLR_PLAN_NOTES_MAX - 2), v.round, v.step);
}

/* What is newer than the choice: the commit the job knew of, else the first part found.
 */
static void explain(const struct pick *k)
{
    const struct dlr_plan *plan = k->plan;
    struct dlr_version v = k->want->committed;
    size_t at = 0, end = 0;
    unsigned ranks = 0;

    if (k->want->limited && k->want->has_committed &&
        dlr_version_cmp(v, k->want->newest) > 0)
        return; /* not wanted, so not missing */
    if (k->want->has_committed &&
        (!plan->restore || dlr_version_cmp(v, plan->version) > 0)) {
        for (; at < k->nheld; at = end) {
            end = group_end(k, at, &ranks);
            if (dlr_version_eq(k->held[at].version, v))
                break;
        }
        explain_missing(k, at, end, v);
        return;
    }
    if (!k->nheld ||
        (plan->restore && dlr_version_eq(k->held[0].version, plan->version)))
        return;
    group_end(k, 0, &ranks);
    note(k->plan, "version %u/%" PRIu64 " is not whole: %u of %u ranks have it",
         k->held[0].version.round, k->held[0].version.step, ranks, k->held[0].world);
}

/* --- with parity ------------------------------------------------------------------ */

/* Worlds with fewer places than sets need have none. */
static void add_sets(struct pick *k, unsigned nplaces, const unsigned *tasks,
                     const unsigned *ranks)
{
    if (dlr_parity_sets_init(&k->of[k->nof], nplaces, tasks, ranks, k->want->members,
                             k->want->rows) == 0)
        k->nof++;
}

static int begin(struct pick *k)
{
    const struct dlr_plan_want *want = k->want;
    size_t most = 1;

    if (want->rows)
        add_sets(k, want->nplaces, want->tasks, want->ranks);
    for (unsigned i = 0; want->rows && i < want->nworlds && i < DLR_PLAN_WORLDS_MAX;
         i++)
        add_sets(k, want->worlds[i].nplaces, want->worlds[i].tasks,
                 want->worlds[i].ranks);
    for (unsigned i = 0; i < k->nof; i++)
        if (slots(&k->of[i], k->of[i].world) > most)
            most = slots(&k->of[i], k->of[i].world);
    k->at = calloc(most, sizeof(*k->at));
    return k->at ? gather(k) : -ENOMEM;
}

static void pick_done(struct pick *k)
{
    for (unsigned i = 0; i < k->nof; i++)
        dlr_parity_sets_done(&k->of[i]);
    free(k->held);
    free(k->at);
}

int dlr_plan_choose(const struct dlr_plan_nodes *pn, const struct dlr_plan_want *want,
                    const unsigned *place_node, struct dlr_plan *plan,
                    struct dlr_err *err)
{
    DLR_CLEANUP(pick_done) struct pick k = {.pn = pn, .want = want, .plan = plan};
    size_t at, end;
    unsigned ranks;
    int rc;

    plan->notes = calloc(DLR_PLAN_NOTES_MAX, sizeof(*plan->notes));
    rc = plan->notes ? begin(&k) : -ENOMEM;
    for (at = 0; rc == 0 && at < k.nheld; at = end) {
        end = group_end(&k, at, &ranks);
        if (ranks == k.held[at].world || can_rebuild(&k, at, end)) {
            rc = take_version(&k, at, end, place_node);
            break;
        }
    }
    if (rc < 0)
        return dlr_fail(err, rc, "out of memory");
    explain(&k);
    return 0;
}
