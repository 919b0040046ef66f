/* SPDX-License-Identifier: Apache-2.0 */
/* Versions that a program found bad though every byte of them is as it was saved.
 * Numbers that are none: they and what followed from them are struck off, for this run
 * and after a requeue. Memory that changed while it was saved: that version alone.
 */
#include "common/json/message.h"
#include "mpi_launcher/supervisor/planning/version_json.h"
#include "mpi_launcher/supervisor/versions/versions_state.h"

#define KEPT 64u /* marks in the state; older ones are of versions that are gone */

static bool covers(const struct dlr_plan_rejected *mark, struct dlr_version v)
{
    if (!mark->lasting)
        return false;
    return mark->later ? mark->version.round >= v.round && mark->version.step <= v.step
                       : dlr_version_eq(mark->version, v);
}

bool dlr_sup_is_bad(const struct dlr_sup_versions *versions, struct dlr_version v)
{
    unsigned n;
    const struct dlr_plan_rejected *marks = dlr_sup_struck(versions->env.copies, &n);

    for (unsigned i = 0; i < n; i++)
        if (covers(&marks[i], v))
            return true;
    return false;
}

void dlr_sup_mark_bad(struct dlr_sup_versions *versions, struct dlr_version v,
                      const char *why)
{
    if (dlr_sup_is_bad(versions, v))
        return;
    dlr_sup_strike_version(versions->env.copies, v, true, true);
    dlr_journal_note(dlr_sup_journal(versions->env.io), "marked_bad", "s:o,s:s",
                     "version", dlr_sup_version(&v), "why", why);
    dlr_user_line(versions->env.io,
                  "step %llu and later ones are not restored any more: %s",
                  (unsigned long long)v.step, why);
    versions->ops->changed(versions->arg, true);
}

void dlr_sup_on_bad(struct dlr_sup_versions *versions, unsigned node, const json_t *msg)
{
    uint64_t round, rank, step;
    char why[300];

    if (dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        dlr_msg_uint(msg, "rank", INT32_MAX, &rank) < 0 ||
        dlr_msg_uint(msg, "step", INT64_MAX, &step) < 0 ||
        round > dlr_policy_round(versions->policy))
        return;
    snprintf(why, sizeof(why), "rank %u on %.200s said so", (unsigned)rank,
             versions->members->list[node].node.name);
    dlr_sup_mark_bad(versions, (struct dlr_version){(uint32_t)round, step}, why);
}

/* The line is for the first one: which region it is the program must mend, and the
 * journal and the program's own stderr tell of every other.
 */
static void tell_torn(struct dlr_sup_versions *versions, struct dlr_version v,
                      unsigned rank, const char *why, bool committed)
{
    if (versions->torn++ == 0)
        dlr_user_line(versions->env.io, "rank %u: %s", rank, why);
    dlr_journal_note(dlr_sup_journal(versions->env.io), "torn", "s:o,s:i,s:b,s:i,s:s",
                     "version", dlr_sup_version(&v), "rank", rank, "committed",
                     committed, "count", versions->torn, "why", why);
}

/* A program that tears each save must not fill our memory: of many the oldest is
 * forgotten.
 */
static void forget_torn(struct dlr_sup_versions *versions)
{
    unsigned n, torn = 0, oldest = 0;
    const struct dlr_plan_rejected *marks = dlr_sup_struck(versions->env.copies, &n);

    for (unsigned i = n; i-- > 0;) {
        if (!marks[i].lasting || marks[i].later)
            continue;
        torn++;
        oldest = i;
    }
    if (torn >= KEPT)
        dlr_sup_unstrike(versions->env.copies, oldest);
}

/* A newer one is whole, or it was given up before. */
static bool was_aborted(const struct dlr_sup_versions *versions, struct dlr_version v)
{
    for (unsigned i = 0; i < versions->aborts && i < DLR_SUP_ABORTED; i++)
        if (dlr_version_eq(versions->aborted[i], v))
            return true;
    return false;
}

static bool was_committed(const struct dlr_sup_versions *versions, struct dlr_version v)
{
    struct dlr_version newest;

    return dlr_commit_newest(versions->commit, &newest) && newest.round == v.round &&
           newest.step >= v.step && !was_aborted(versions, v);
}

void dlr_sup_on_torn(struct dlr_sup_versions *versions, unsigned node,
                     const json_t *msg)
{
    struct dlr_version v;
    uint64_t round, rank, step;
    const char *why = "";
    bool committed;

    if (!dlr_sup_has_plan(versions->env.plan) ||
        dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        dlr_msg_uint(msg, "rank", versions->env.plan->world - 1, &rank) < 0 ||
        dlr_msg_uint(msg, "step", INT64_MAX, &step) < 0 ||
        round != versions->ops->round(versions->arg))
        return;
    dlr_msg_str(msg, "why", &why);
    v = (struct dlr_version){(uint32_t)round, step};
    committed = was_committed(versions, v);
    /* Nobody has begun from it: that ends its round. One that is only given up is
     * struck off too, and that is kept before it is told: all ranks have it whole, and
     * a supervisor that is lost with its word would leave a version that counts.
     */
    if (!dlr_sup_is_bad(versions,
                        v)) { /* else another rank, or an agent again, says it */
        tell_torn(versions, v, (unsigned)rank, why, committed);
        forget_torn(versions);
        dlr_sup_strike_version(versions->env.copies, v, true, false);
        versions->ops->changed(versions->arg, true);
    }
    if (!committed)
        dlr_commit_missed(versions->commit, (unsigned)rank, v, why, dlr_sup_now());
}

/* The newest; those that hold for later steps, too, first. */
static void put_marks(const struct dlr_sup_versions *versions, json_t *list, bool later)
{
    unsigned n;
    const struct dlr_plan_rejected *marks = dlr_sup_struck(versions->env.copies, &n);

    for (unsigned i = n; i-- > 0 && json_array_size(list) < KEPT;) {
        json_t *mark;

        if (!marks[i].lasting || marks[i].later != later)
            continue;
        mark = dlr_sup_version(&marks[i].version);
        if (!later)
            json_array_append_new(mark, json_string("only"));
        json_array_append_new(list, mark);
    }
}

json_t *dlr_bad_versions_save(const struct dlr_sup_versions *versions)
{
    json_t *list = json_array();

    put_marks(versions, list, true);
    put_marks(versions, list, false);
    return list;
}

void dlr_bad_versions_load(struct dlr_sup_versions *versions, const json_t *state)
{
    const json_t *list = json_object_get(state, "bad");

    size_t n = json_array_size(list) < KEPT ? json_array_size(list) : KEPT;

    for (size_t i = n; i-- > 0;) { /* the newest is first there, and last here */
        const json_t *mark = json_array_get(list, i);
        struct dlr_version v;

        if (dlr_sup_version_take(mark, &v)) /* else it would strike the first round */
            dlr_sup_strike_version(versions->env.copies, v, true,
                                   json_array_size(mark) < 3);
    }
}
