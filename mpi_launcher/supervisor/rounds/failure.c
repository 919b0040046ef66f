/* SPDX-License-Identifier: Apache-2.0 */
/* Who failed first in a round, and what it said last. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/journal/journal.h"
#include "mpi_launcher/supervisor/io/io.h"
#include "mpi_launcher/supervisor/nodes/members.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/rounds/rounds_state.h"
#include "mpi_launcher/supervisor/versions/versions.h"

int dlr_sup_failure_reset(struct dlr_sup_rounds *rounds, unsigned ntasks)
{
    for (unsigned i = 0; rounds->last_stderr && i < rounds->nlast_stderr; i++)
        free(rounds->last_stderr[i]);
    free(rounds->last_stderr);
    rounds->last_stderr = ntasks ? calloc(ntasks, sizeof(*rounds->last_stderr)) : NULL;
    rounds->nlast_stderr = ntasks;
    rounds->failure = (struct dlr_failure){0};
    rounds->nfailures = 0;
    rounds->stopped_by[0] = rounds->starved_by[0] = '\0';
    return rounds->last_stderr ? 0 : -ENOMEM;
}

void dlr_sup_no_failure(struct dlr_sup_rounds *rounds)
{
    rounds->failure.told = true;
}

const char *dlr_sup_last_words(const struct dlr_sup_rounds *rounds, unsigned *ret_rank,
                               unsigned *ret_node)
{
    const struct dlr_failure *f = &rounds->failure;

    if (!f->set || !rounds->last_stderr)
        return NULL;
    *ret_rank = f->rank;
    *ret_node = f->node;
    return rounds->last_stderr[f->rank];
}

static void add_class(json_t *row, const struct dlr_class_said *said)
{
    json_object_set_new(row, "class", json_string(dlr_class_name(said->class)));
    json_object_set_new(row, "rule", json_string(said->rule));
    json_object_set_new(row, "advice", json_string(said->advice));
}

void dlr_sup_tell_failure(struct dlr_sup_rounds *rounds)
{
    struct dlr_failure *f = &rounds->failure;
    struct dlr_class_said said = {0};
    bool known;
    json_t *row;

    if (!f->set || f->told)
        return;
    f->told = true;
    known = dlr_sup_first_cause(rounds, &said);
    row = json_pack("{s:I,s:i,s:s,s:s}", "round", (json_int_t)rounds->running_round,
                    "rank", f->rank, "node", rounds->members->list[f->node].node.name,
                    "stderr",
                    rounds->last_stderr && rounds->last_stderr[f->rank]
                        ? rounds->last_stderr[f->rank]
                        : "");
    if (row && WIFSIGNALED(f->status))
        json_object_set_new(row, "signal", json_integer(WTERMSIG(f->status)));
    else if (row)
        json_object_set_new(row, "code", json_integer(WEXITSTATUS(f->status)));
    if (row && known)
        add_class(row, &said);
    dlr_journal_event(dlr_sup_journal(rounds->env.io), "worker_exit", row);
    if (known)
        dlr_sup_note_class(rounds, f, &said);
    dlr_sup_blame_node(rounds->env.versions, f->node,
                       known && dlr_sup_class_sits_out(rounds, &said));
}

/* A failure breaks its peers' connections, and they fail too: the one that ended first,
 * by its node's clock, is the reason. Tasks that we killed are none. One that says by
 * its code that the run is to stop is the reason before all others, whenever it ended
 * and is heard: Slurm may have killed the rest of the step by then.
 */
static bool is_reason(const struct dlr_sup_rounds *rounds,
                      const struct dlr_failure *next)
{
    int status = next->status;
    enum dlr_phase phase = dlr_policy_phase(rounds->policy);
    const struct dlr_failure *f = &rounds->failure;
    bool stops = dlr_policy_stops(rounds->policy, status);

    if (status == 0 || (phase != DLR_PHASE_RUN && phase != DLR_PHASE_END))
        return false;
    if (!f->set)
        return phase == DLR_PHASE_RUN || (stops && dlr_policy_failure(rounds->policy));
    if (stops != dlr_policy_stops(rounds->policy, f->status))
        return stops;
    return phase == DLR_PHASE_END && next->at_ms < f->at_ms &&
           (next->starved || !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
}

/* Its words may name what another one has only noticed: not when we killed it. The
 * kernel, for want of memory, is another matter.
 */
static bool may_be_cause(const struct dlr_sup_rounds *rounds,
                         const struct dlr_failure *f)
{
    enum dlr_phase phase = dlr_policy_phase(rounds->policy);

    return f->status != 0 && (phase == DLR_PHASE_RUN || phase == DLR_PHASE_END) &&
           (f->starved || !WIFSIGNALED(f->status) ||
            (WTERMSIG(f->status) != SIGKILL && WTERMSIG(f->status) != SIGTERM));
}

void dlr_sup_on_exit(struct dlr_sup_rounds *rounds, unsigned node, const json_t *msg)
{
    int64_t status, at_ms = 0, starved = 0;
    struct dlr_failure f;
    unsigned rank;

    if (!dlr_sup_of_round(rounds, msg, rounds->env.step->world, &rank) ||
        dlr_msg_int(msg, "status", &status) < 0 ||
        dlr_sup_adopt_later(rounds, node, msg))
        return;
    dlr_policy_started(rounds->policy, rounds->running_round);
    if (status == 0)
        dlr_sup_ranks_ended(rounds);
    dlr_msg_int(msg, "at_ms", &at_ms);
    dlr_msg_int(msg, "starved", &starved);
    f = (struct dlr_failure){.set = true,
                             .rank = rank,
                             .node = node,
                             .status = status,
                             .starved = starved == 1,
                             .at_ms = at_ms};
    if (may_be_cause(rounds, &f))
        dlr_sup_note_failure(rounds, &f);
    if (!is_reason(rounds, &f))
        return;
    rounds->failure = f;
    dlr_policy_worker_exit(rounds->policy, rounds->running_round, rank, status,
                           dlr_sup_now());
}

void dlr_sup_on_stderr(struct dlr_sup_rounds *rounds, unsigned node, const json_t *msg)
{
    const char *text;
    unsigned rank;

    if (!dlr_sup_of_round(rounds, msg, rounds->env.step->world, &rank) ||
        dlr_msg_str(msg, "text", &text) < 0 || !rounds->last_stderr)
        return;
    free(rounds->last_stderr[rank]);
    rounds->last_stderr[rank] = strdup(text);
}
