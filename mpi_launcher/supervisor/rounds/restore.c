/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a round's restore: all ranks have loaded the version, or a copy of it
 * is struck off.
 */
#include <errno.h>
#include <stdio.h>

#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/journal/journal.h"
#include "mpi_launcher/supervisor/copies/fetch.h"
#include "mpi_launcher/supervisor/copies/rejected_copies.h"
#include "mpi_launcher/supervisor/io/io.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/members.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "mpi_launcher/supervisor/planning/version_json.h"
#include "mpi_launcher/supervisor/rounds/rounds_state.h"

/* Of the rank itself, or of another whose part it needs. A copy that was fetched for
 * that goes with its round, and comes anew once.
 */
static void strike_corrupt(struct dlr_sup_rounds *rounds, unsigned rank,
                           unsigned corrupt, unsigned node, struct dlr_version v)
{
    bool here =
        corrupt == rank ||
        dlr_sup_node_of(rounds->env.planning,
                        dlr_sup_place_of(rounds->env.planning, corrupt)) == (int)node;

    if (here)
        dlr_reject_copy(rounds->env.copies, rounds->members->list[node].node.name,
                        (int)corrupt, v);
    else if (dlr_transfer_is_rejected(rounds->env.copies, "*", (int)corrupt, v,
                                      -ECONNRESET))
        dlr_reject_copy(rounds->env.copies, "*", (int)corrupt, v);
}

/* Of a version of another number of ranks, which all read from whoever has it: a file,
 * or memory of this node, is bad; what was fetched from another one was whole when it
 * came, and comes anew once.
 */
static void strike_read(struct dlr_sup_rounds *rounds, unsigned corrupt, unsigned node,
                        struct dlr_version v)
{
    const struct dlr_plan_source *src = &rounds->env.plan->sources[corrupt];

    if (!src->where)
        return; /* the next plan is of what is there then */
    if (src->from == DLR_PLAN_FILE ||
        dlr_streq(src->where, rounds->members->list[node].node.name) ||
        dlr_transfer_is_rejected(rounds->env.copies, src->where, (int)corrupt, v,
                                 -ECONNRESET))
        dlr_reject_copy(rounds->env.copies, src->where, (int)corrupt, v);
}

static void strike(struct dlr_sup_rounds *rounds, unsigned rank, unsigned node,
                   struct dlr_version v, uint64_t corrupt)
{
    bool other = dlr_restore_changes_world_size(rounds->env.copies);

    if (corrupt && other)
        strike_read(rounds, (unsigned)corrupt - 1, node, v);
    else if (corrupt)
        strike_corrupt(rounds, rank, (unsigned)corrupt - 1, node, v);
    else if (!other && !dlr_sup_bring_failed(rounds->env.copies))
        dlr_reject_copy(rounds->env.copies, rounds->members->list[node].node.name,
                        (int)rank, v);
    else if (dlr_transfer_is_rejected(rounds->env.copies, "*", -1, v, -ECONNRESET))
        dlr_reject_copy(rounds->env.copies, "*", -1,
                        v); /* no copy is known to be bad, twice */
}

static void restore_failed(struct dlr_sup_rounds *rounds, unsigned rank, unsigned node,
                           struct dlr_version v, const char *why, bool differs,
                           uint64_t corrupt)
{
    const char *where = rounds->members->list[node].node.name;
    char text[600];

    snprintf(text, sizeof(text), "rank %u could not load version %u/%llu on %s: %s",
             rank, v.round, (unsigned long long)v.step, where, why);
    dlr_user_line(rounds->env.io, "%s", text);
    dlr_journal_note(dlr_sup_journal(rounds->env.io), "restore_failed",
                     "s:I,s:i,s:o,s:s,s:s", "round", (json_int_t)rounds->running_round,
                     "rank", rank, "version", dlr_sup_version(&v), "where", where,
                     "why", why);
    if (differs) {
        rounds->restore_deadline_ms = INT64_MAX;
        dlr_policy_restore_refused(rounds->policy, rounds->running_round, text,
                                   dlr_sup_now());
        return;
    }
    strike(rounds, rank, node, v, corrupt);
    rounds->restore_deadline_ms = INT64_MAX;
    dlr_policy_restore_failed(rounds->policy, rounds->running_round, text,
                              dlr_sup_now());
}

static void all_restored(struct dlr_sup_rounds *rounds, struct dlr_version v)
{
    json_t *msg = dlr_msg_new("go");

    rounds->restore_deadline_ms = INT64_MAX;
    json_object_set_new(msg, "round", json_integer(rounds->running_round));
    dlr_sup_send_all(rounds->env.nodes, msg);
    if (rounds->go_reported)
        return; /* by the former supervisor, but perhaps not to all */
    rounds->go_reported = true;
    dlr_sup_rounds_changed(rounds);
    dlr_journal_note(dlr_sup_journal(rounds->env.io), "restored", "s:I,s:o,s:i,s:I",
                     "round", (json_int_t)rounds->running_round, "version",
                     dlr_sup_version(&v), "fetched",
                     dlr_sup_fetched(rounds->env.copies), "took_ms",
                     (json_int_t)(dlr_sup_now() - rounds->launch_ms));
}

void dlr_sup_on_restored(struct dlr_sup_rounds *rounds, unsigned node,
                         const json_t *msg)
{
    const char *why = "";
    struct dlr_version v;
    uint64_t vround, step, corrupt;
    int64_t rc;
    unsigned rank;

    if (!dlr_sup_of_round(rounds, msg, rounds->env.plan->world, &rank) ||
        dlr_msg_uint(msg, "vround", UINT32_MAX, &vround) < 0 ||
        dlr_msg_uint(msg, "step", INT64_MAX, &step) < 0 ||
        dlr_msg_int(msg, "rc", &rc) < 0 ||
        dlr_policy_phase(rounds->policy) != DLR_PHASE_RUN || !rounds->restored ||
        rounds->restored[rank] || dlr_sup_adopt_later(rounds, node, msg))
        return;
    v = (struct dlr_version){.round = vround, .step = step};
    dlr_msg_str(msg, "why", &why);
    if (rc) {
        rounds->restored[rank] = 2;
        corrupt = 0;
        dlr_msg_uint(msg, "corrupt", rounds->env.plan->made_by, &corrupt);
        restore_failed(rounds, rank, node, v, why,
                       json_is_true(json_object_get(msg, "differs")), corrupt);
        return;
    }
    rounds->restored[rank] = 1;
    if (++rounds->nrestored == rounds->env.plan->world)
        all_restored(rounds, v);
}

void dlr_sup_restore_tick(struct dlr_sup_rounds *rounds, int64_t now_ms)
{
    unsigned without = 0;
    char text[200];

    if (now_ms < rounds->restore_deadline_ms)
        return;
    rounds->restore_deadline_ms = INT64_MAX;
    while (rounds->restored && without < rounds->env.plan->world &&
           rounds->restored[without])
        without++;
    if (rounds->nrestored == 0)
        dlr_format(text, sizeof(text),
                   "no rank has loaded its state in time "
                   "(--dlrover-set=restore-timeout)");
    else
        dlr_format(text, sizeof(text),
                   "rank %u has not loaded its state in time, %u of %u ranks have "
                   "(--dlrover-set=restore-timeout): each rank restores, or none",
                   without, rounds->nrestored, rounds->env.plan->world);
    dlr_policy_restore_failed(rounds->policy, dlr_policy_round(rounds->policy), text,
                              now_ms);
}

bool dlr_sup_has_restored(const struct dlr_sup_rounds *rounds)
{
    return rounds->go_reported;
}
