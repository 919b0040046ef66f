/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a round's restore: all ranks have loaded the version, or a copy of it is struck off. */
#include <errno.h>
#include <stdio.h>

#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/supervisor.h"

/* Of the rank itself, or of another whose part it needs. A copy that was brought for that goes with its
 * round, and comes anew once.
 */
static void strike_corrupt(struct dlr_sup *s, unsigned rank, unsigned corrupt,
                           unsigned node, struct dlr_version v)
{
    bool here = corrupt == rank ||
                dlr_sup_node_of(s->planning, dlr_sup_place_of(s->planning, corrupt)) ==
                    (int)node;

    if (here)
        dlr_sup_strike(s, s->members->list[node].node.name, (int)corrupt, v);
    else if (dlr_sup_blames(s, "*", (int)corrupt, v, -ECONNRESET))
        dlr_sup_strike(s, "*", (int)corrupt, v);
}

/* Of a version of another number of ranks, which all read from whoever has it: a file, or memory of this
 * node, is bad; what was brought from another one was whole when it came, and comes anew once.
 */
static void strike_read(struct dlr_sup *s, unsigned corrupt, unsigned node,
                        struct dlr_version v)
{
    const struct dlr_plan_source *src = &s->plan->sources[corrupt];

    if (!src->where)
        return; /* the next plan is of what is there then */
    if (src->from == DLR_PLAN_FILE ||
        dlr_streq(src->where, s->members->list[node].node.name) ||
        dlr_sup_blames(s, src->where, (int)corrupt, v, -ECONNRESET))
        dlr_sup_strike(s, src->where, (int)corrupt, v);
}

static void strike(struct dlr_sup *s, unsigned rank, unsigned node,
                   struct dlr_version v, uint64_t corrupt)
{
    bool other = dlr_sup_other_world(s);

    if (corrupt && other)
        strike_read(s, (unsigned)corrupt - 1, node, v);
    else if (corrupt)
        strike_corrupt(s, rank, (unsigned)corrupt - 1, node, v);
    else if (!other && !s->bring_failed)
        dlr_sup_strike(s, s->members->list[node].node.name, (int)rank, v);
    else if (dlr_sup_blames(s, "*", -1, v, -ECONNRESET))
        dlr_sup_strike(s, "*", -1, v); /* no copy is known to be bad, twice */
}

static void restore_failed(struct dlr_sup *s, unsigned rank, unsigned node,
                           struct dlr_version v, const char *why, bool differs,
                           uint64_t corrupt)
{
    const char *where = s->members->list[node].node.name;
    char text[600];

    snprintf(text, sizeof(text), "rank %u could not load version %u/%llu on %s: %s",
             rank, v.round, (unsigned long long)v.step, where, why);
    dlr_sup_say(s->io, "%s", text);
    dlr_journal_note(dlr_sup_journal(s->io), "restore_failed", "s:I,s:i,s:o,s:s,s:s",
                     "round", (json_int_t)s->running_round, "rank", rank, "version",
                     dlr_sup_version(&v), "where", where, "why", why);
    if (differs) {
        s->restore_deadline_ms = INT64_MAX;
        dlr_policy_restore_refused(s->policy, s->running_round, text, dlr_sup_now());
        return;
    }
    strike(s, rank, node, v, corrupt);
    s->restore_deadline_ms = INT64_MAX;
    dlr_policy_restore_failed(s->policy, s->running_round, text, dlr_sup_now());
}

static void all_restored(struct dlr_sup *s, struct dlr_version v)
{
    json_t *msg = dlr_msg_new("go");

    s->restore_deadline_ms = INT64_MAX;
    json_object_set_new(msg, "round", json_integer(s->running_round));
    dlr_sup_send_all(s->nodes, msg);
    if (s->go_told)
        return; /* by the former supervisor, but perhaps not to all */
    s->go_told = true;
    dlr_sup_keep(s);
    dlr_journal_note(dlr_sup_journal(s->io), "restored", "s:I,s:o,s:i,s:I", "round",
                     (json_int_t)s->running_round, "version", dlr_sup_version(&v),
                     "brought", s->brought, "took_ms",
                     (json_int_t)(dlr_sup_now() - s->launch_ms));
}

void dlr_sup_on_restored(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    const char *why = "";
    struct dlr_version v;
    uint64_t vround, step, corrupt;
    int64_t rc;
    unsigned rank;

    if (!dlr_sup_of_round(s, msg, s->plan->world, &rank) ||
        dlr_msg_uint(msg, "vround", UINT32_MAX, &vround) < 0 ||
        dlr_msg_uint(msg, "step", INT64_MAX, &step) < 0 ||
        dlr_msg_int(msg, "rc", &rc) < 0 ||
        dlr_policy_phase(s->policy) != DLR_PHASE_RUN || !s->restored ||
        s->restored[rank] || dlr_sup_adopt_later(s, node, msg))
        return;
    v = (struct dlr_version){.round = vround, .step = step};
    dlr_msg_str(msg, "why", &why);
    if (rc) {
        s->restored[rank] = 2;
        corrupt = 0;
        dlr_msg_uint(msg, "corrupt", s->plan->made_by, &corrupt);
        restore_failed(s, rank, node, v, why,
                       json_is_true(json_object_get(msg, "differs")), corrupt);
        return;
    }
    s->restored[rank] = 1;
    if (++s->nrestored == s->plan->world)
        all_restored(s, v);
}

void dlr_sup_restore_tick(struct dlr_sup *s, int64_t now_ms)
{
    unsigned without = 0;
    char text[200];

    if (now_ms < s->restore_deadline_ms)
        return;
    s->restore_deadline_ms = INT64_MAX;
    while (s->restored && without < s->plan->world && s->restored[without])
        without++;
    if (s->nrestored == 0)
        dlr_format(text, sizeof(text),
                   "no rank has loaded its state in time "
                   "(--dlrover-set=restore-timeout)");
    else
        dlr_format(text, sizeof(text),
                   "rank %u has not loaded its state in time, %u of %u ranks have "
                   "(--dlrover-set=restore-timeout): each rank restores, or none",
                   without, s->nrestored, s->plan->world);
    dlr_policy_restore_failed(s->policy, dlr_policy_round(s->policy), text, now_ms);
}
