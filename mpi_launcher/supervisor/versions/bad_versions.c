/* SPDX-License-Identifier: Apache-2.0 */
/* Versions that a program found bad though every byte of them is as it was saved. Numbers that are
 * none: they and what followed from them are struck off, for this run and after a requeue. Memory
 * that changed while it was saved: that version alone.
 */
#include <string.h>

#include "common/json/message.h"
#include "mpi_launcher/supervisor/supervisor.h"

#define KEPT 64u /* marks in the state; older ones are of versions that are gone */

static bool covers(const struct dlr_plan_struck *mark, struct dlr_version v)
{
    if (!mark->lasting)
        return false;
    return mark->later ? mark->version.round >= v.round && mark->version.step <= v.step
                       : dlr_version_eq(mark->version, v);
}

bool dlr_sup_is_bad(const struct dlr_sup *s, struct dlr_version v)
{
    for (unsigned i = 0; i < s->nstruck; i++)
        if (covers(&s->struck[i], v))
            return true;
    return false;
}

static void strike(struct dlr_sup *s, struct dlr_version v, bool later)
{
    unsigned n = s->nstruck;

    dlr_sup_strike(s, "*", -1, v);
    if (s->nstruck == n)
        return;
    s->struck[n].lasting = true;
    s->struck[n].later = later;
}

void dlr_sup_mark_bad(struct dlr_sup *s, struct dlr_version v, const char *why)
{
    if (dlr_sup_is_bad(s, v))
        return;
    strike(s, v, true);
    dlr_journal_note(dlr_sup_journal(s->io), "marked_bad", "s:o,s:s", "version",
                     dlr_sup_version(&v), "why", why);
    dlr_sup_say(s->io, "step %llu and later ones are not restored any more: %s",
                (unsigned long long)v.step, why);
    dlr_sup_save_state(s);
}

void dlr_sup_on_bad(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    uint64_t round, rank, step;
    char why[300];

    if (dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        dlr_msg_uint(msg, "rank", INT32_MAX, &rank) < 0 ||
        dlr_msg_uint(msg, "step", INT64_MAX, &step) < 0 ||
        round > dlr_policy_round(s->policy))
        return;
    snprintf(why, sizeof(why), "rank %u on %.200s said so", (unsigned)rank,
             s->members->list[node].node.name);
    dlr_sup_mark_bad(s, (struct dlr_version){(uint32_t)round, step}, why);
}

/* The line is for the first one: which region it is the program must mend, and the journal and the
 * program's own stderr tell of every other.
 */
static void tell_torn(struct dlr_sup *s, struct dlr_version v, unsigned rank,
                      const char *why, bool committed)
{
    if (s->torn++ == 0)
        dlr_sup_say(s->io, "rank %u: %s", rank, why);
    dlr_journal_note(dlr_sup_journal(s->io), "torn", "s:o,s:i,s:b,s:i,s:s", "version",
                     dlr_sup_version(&v), "rank", rank, "committed", committed, "count",
                     s->torn, "why", why);
}

/* A program that tears each save must not fill our memory: of many the oldest is forgotten. */
static void forget_torn(struct dlr_sup *s)
{
    unsigned n = 0, oldest = 0;

    for (unsigned i = s->nstruck; i-- > 0;) {
        if (!s->struck[i].lasting || s->struck[i].later)
            continue;
        n++;
        oldest = i;
    }
    if (n < KEPT)
        return;
    memmove(&s->struck[oldest], &s->struck[oldest + 1],
            (s->nstruck - oldest - 1) * sizeof(*s->struck));
    s->nstruck--;
}

/* A newer one is whole, or it was given up before. */
static bool was_aborted(const struct dlr_sup *s, struct dlr_version v)
{
    for (unsigned i = 0; i < s->aborts && i < DLR_SUP_ABORTED; i++)
        if (dlr_version_eq(s->aborted[i], v))
            return true;
    return false;
}

static bool was_committed(const struct dlr_sup *s, struct dlr_version v)
{
    struct dlr_version newest;

    return dlr_commit_newest(s->commit, &newest) && newest.round == v.round &&
           newest.step >= v.step && !was_aborted(s, v);
}

void dlr_sup_on_torn(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    struct dlr_version v;
    uint64_t round, rank, step;
    const char *why = "";
    bool committed;

    if (!dlr_sup_has_plan(s->plan) ||
        dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        dlr_msg_uint(msg, "rank", s->plan->world - 1, &rank) < 0 ||
        dlr_msg_uint(msg, "step", INT64_MAX, &step) < 0 || round != s->running_round)
        return;
    dlr_msg_str(msg, "why", &why);
    v = (struct dlr_version){(uint32_t)round, step};
    committed = was_committed(s, v);
    /* Nobody has begun from it: that ends its round. One that is only given up is struck off too, and
     * that is kept before it is told: all ranks have it whole, and a supervisor that is lost with its
     * word would leave a version that counts.
     */
    if (!dlr_sup_is_bad(s, v)) { /* else another rank, or an agent again, says it */
        tell_torn(s, v, (unsigned)rank, why, committed);
        forget_torn(s);
        strike(s, v, false);
        dlr_sup_save_state(s);
    }
    if (!committed)
        dlr_commit_missed(s->commit, (unsigned)rank, v, why, dlr_sup_now());
}

/* The newest; those that hold for later steps, too, first. */
static void put_marks(const struct dlr_sup *s, json_t *list, bool later)
{
    for (unsigned i = s->nstruck; i-- > 0 && json_array_size(list) < KEPT;) {
        json_t *mark;

        if (!s->struck[i].lasting || s->struck[i].later != later)
            continue;
        mark = dlr_sup_version(&s->struck[i].version);
        if (!later)
            json_array_append_new(mark, json_string("only"));
        json_array_append_new(list, mark);
    }
}

json_t *dlr_sup_bad_state(const struct dlr_sup *s)
{
    json_t *list = json_array();

    put_marks(s, list, true);
    put_marks(s, list, false);
    return list;
}

void dlr_sup_bad_take(struct dlr_sup *s, const json_t *state)
{
    const json_t *list = json_object_get(state, "bad");

    size_t n = json_array_size(list) < KEPT ? json_array_size(list) : KEPT;

    for (size_t i = n; i-- > 0;) { /* the newest is first there, and last here */
        const json_t *mark = json_array_get(list, i);
        struct dlr_version v;

        if (dlr_sup_version_read(mark, &v)) /* else it would strike the first round */
            strike(s, v, json_array_size(mark) < 3);
    }
}
