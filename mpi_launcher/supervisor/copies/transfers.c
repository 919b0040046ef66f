/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/supervisor/copies/transfers.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_launcher/supervisor/copies/copies_state.h"
#include "mpi_launcher/supervisor/copies/orders.h"
#include "mpi_launcher/supervisor/copies/rejected_copies.h"

static void transfer_done(void *arg, unsigned node, uint64_t id, int rc,
                          const char *why);

struct dlr_sup_transfers *dlr_sup_transfers(struct dlr_sup_copies *copies)
{
    return &copies->transfers;
}

struct dlr_transfer *dlr_sup_add_transfer(struct dlr_sup_copies *copies, unsigned rank,
                                          int from, int to, bool essential)
{
    struct dlr_transfer *t;

    if (from < 0 || to < 0)
        return NULL;
    t = realloc(copies->transfers.list, (copies->transfers.n + 1) * sizeof(*t));
    if (!t)
        return NULL;
    copies->transfers.list = t;
    t += copies->transfers.n++;
    memset(t, 0, sizeof(*t));
    t->id = dlr_sup_request(copies, 1, transfer_done, copies);
    t->rank = rank;
    t->from = from;
    t->to = to;
    t->essential = essential;
    return t;
}

static void start_parts(struct dlr_sup_copies *copies, uint64_t of)
{
    for (unsigned i = 0; i < copies->transfers.n; i++)
        if (copies->transfers.list[i].of == of && !copies->transfers.list[i].ended)
            dlr_sup_transfer_start(copies, &copies->transfers.list[i]);
}

void dlr_sup_transfer_start(struct dlr_sup_copies *copies, struct dlr_transfer *t)
{
    const char *data = copies->members->list[t->to].data;

    t->started = true;
    if (t->rebuild)
        start_parts(copies, t->id);
    else if (t->path[0])
        dlr_sup_ask(copies, t, "load", t->to, "path", t->path);
    else
        dlr_sup_ask(copies, t, "send", t->from, "data", data ? data : "");
}

/* With one of its parts a rebuilding has failed. When all parts came and it failed
 * nevertheless, its shards are not of the same set, or not what was written: they are
 * not tried again.
 */
static void end_rebuild(struct dlr_sup_copies *copies,
                        const struct dlr_transfer *failed, bool blame)
{
    uint64_t of = failed->rebuild ? failed->id : failed->of;

    for (unsigned i = 0; i < copies->transfers.n; i++) {
        struct dlr_transfer *t = &copies->transfers.list[i];

        if (t->id == of || t->of == of)
            t->ended = true;
        if (failed->rebuild && blame && t->of == of && t->shard)
            dlr_reject_copy(copies, copies->members->list[t->from].node.name,
                            (int)t->rank, copies->transfers.version);
    }
}

static void end_transfer(struct dlr_sup_copies *copies, struct dlr_transfer *t, int rc,
                         const char *why)
{
    const char *from = t->path[0] ? t->path : copies->members->list[t->from].node.name;
    bool blame;

    if (t->ended)
        return;
    t->ended = true;
    if (rc == 0 && t->rebuild && t->path[0]) {
        copies->ops->made(copies->arg, t);
        return;
    }
    if (rc == 0) {
        copies->transfers.moved += t->of == 0;
        return;
    }
    dlr_journal_note(dlr_sup_journal(copies->env.io), "copy_failed", "s:i,s:s,s:s,s:s",
                     "rank", t->rank, "from", from, "to",
                     copies->members->list[t->to].node.name, "why", why);
    if (!t->essential)
        return;
    if (copies->transfers.rc == 0)
        snprintf(copies->transfers.why, sizeof(copies->transfers.why),
                 "rank %u's copy: %.200s", t->rank, why);
    copies->transfers.rc = rc;
    /* A lost node strikes nothing, nor does a full one: the next plan does without it.
     */
    blame = rc != -EPIPE && rc != -ENOSPC &&
            dlr_transfer_is_rejected(copies, from, (int)t->rank,
                                     copies->transfers.version, rc);
    if (t->of || t->rebuild)
        end_rebuild(copies, t, blame);
    if (blame)
        dlr_reject_copy(copies, from, (int)t->rank, copies->transfers.version);
}

struct dlr_transfer *dlr_sup_transfer(struct dlr_sup_copies *copies, uint64_t id)
{
    for (unsigned i = 0; i < copies->transfers.n; i++)
        if (copies->transfers.list[i].id == id)
            return &copies->transfers.list[i];
    return NULL;
}

static void transfer_done(void *arg, unsigned node, uint64_t id, int rc,
                          const char *why)
{
    struct dlr_sup_copies *copies = arg;
    struct dlr_transfer *t = dlr_sup_transfer(copies, id);

    if (!t || (node != t->from && node != t->to))
        return;
    if (t->path[0] && !t->rebuild && copies->ops->writes(copies->arg))
        rc = copies->ops->written(copies->arg, t, rc, why);
    if (rc != -EINPROGRESS)
        end_transfer(copies, t, dlr_sup_copy_rc(rc), why);
}

void dlr_sup_transfers_clear(struct dlr_sup_copies *copies)
{
    dlr_sup_requests_drop(copies, transfer_done);
    copies->transfers.n = copies->transfers.moved = 0;
    copies->transfers.rc = 0;
}

/* It is not over with them. */
static bool are_open(const struct dlr_sup_copies *copies)
{
    return copies->preparing || copies->ops->writes(copies->arg);
}

/* Those of the rank itself: one that is only read has another. */
static bool awaits_slots(const struct dlr_transfer *t, unsigned node, unsigned rank)
{
    return t->to == node && t->rank == rank && !t->of && !t->fetched && !t->started &&
           !t->ended;
}

bool dlr_sup_transfers_full(struct dlr_sup_copies *copies, unsigned node, unsigned rank,
                            const char *why)
{
    bool needed = false;

    if (!are_open(copies))
        return false;
    for (unsigned i = 0; i < copies->transfers.n; i++) {
        struct dlr_transfer *t = &copies->transfers.list[i];

        if (!awaits_slots(t, node, rank))
            continue;
        needed = needed || t->essential;
        end_transfer(copies, t, -ENOSPC, why);
    }
    return needed && copies->preparing;
}

void dlr_sup_transfers_ready(struct dlr_sup_copies *copies, unsigned node,
                             unsigned rank)
{
    if (!are_open(copies))
        return;
    for (unsigned i = 0; i < copies->transfers.n; i++)
        if (awaits_slots(&copies->transfers.list[i], node, rank))
            dlr_sup_transfer_start(copies, &copies->transfers.list[i]);
}

void dlr_sup_transfers_end_on(struct dlr_sup_copies *copies, unsigned node)
{
    for (unsigned i = 0; i < copies->transfers.n; i++) {
        struct dlr_transfer *t = &copies->transfers.list[i];

        if (t->from == node || t->to == node)
            end_transfer(copies, t, -EPIPE, "the node is gone");
    }
}

bool dlr_sup_transfers_ended(const struct dlr_sup_copies *copies)
{
    for (unsigned i = 0; i < copies->transfers.n; i++)
        if (!copies->transfers.list[i].ended)
            return false;
    return true;
}

void dlr_sup_transfers_fail(struct dlr_sup_copies *copies, int rc, const char *fmt, ...)
{
    va_list ap;

    copies->transfers.rc = rc;
    va_start(ap, fmt);
    vsnprintf(copies->transfers.why, sizeof(copies->transfers.why), fmt, ap);
    va_end(ap);
}
