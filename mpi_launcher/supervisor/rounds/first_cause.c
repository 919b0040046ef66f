/* SPDX-License-Identifier: Apache-2.0 */
/* Which of a round's failures was the cause: the one that ended first, unless it says
 * itself that another rank went before it.
 */
#include "mpi_launcher/supervisor/rounds/first_cause.h"

#include <string.h>
#include <sys/wait.h>

#include "mpi_launcher/supervisor/rounds/rounds_state.h"

void dlr_sup_note_failure(struct dlr_sup_rounds *rounds, const struct dlr_failure *f)
{
    if (rounds->nfailures < DLR_FAILURES_KEPT)
        rounds->failures[rounds->nfailures++] = *f;
}

/* The rules are read when they are needed first. Our own cannot be wrong; without
 * memory for them there are none.
 */
static const struct dlr_class_rules *rules_of(struct dlr_sup_rounds *rounds)
{
    if (!rounds->rules)
        rounds->rules = dlr_class_rules_new();
    if (rounds->rules && !dlr_class_rules_count(rounds->rules))
        dlr_class_rules_add_own(rounds->rules, NULL);
    return rounds->rules;
}

static bool classify(struct dlr_sup_rounds *rounds, const struct dlr_failure *f,
                     struct dlr_class_said *ret)
{
    const struct dlr_class_rules *rules = rules_of(rounds);
    struct dlr_ending e = {.code = WIFEXITED(f->status) ? WEXITSTATUS(f->status) : -1,
                           .signal = WIFSIGNALED(f->status) ? WTERMSIG(f->status) : 0};

    if (rounds->last_stderr && f->rank < rounds->nlast_stderr)
        e.text = rounds->last_stderr[f->rank];
    e.len = e.text ? strlen(e.text) : 0;
    return rules && dlr_classify(rules, &e, ret);
}

static bool names_another(enum dlr_class c)
{
    return c == DLR_CLASS_NETWORK || c == DLR_CLASS_PEER || c == DLR_CLASS_TIMEOUT;
}

/* Its code says of its own node what is to be done: nobody else's words count. */
static bool says_elsewhere(const struct dlr_sup_rounds *rounds, int status)
{
    return WIFEXITED(status) &&
           dlr_failure_rules_exit(&rounds->env.conf->on, WEXITSTATUS(status)) ==
               DLR_FAILURE_ELSEWHERE;
}

bool dlr_sup_first_cause(struct dlr_sup_rounds *rounds, struct dlr_class_said *ret)
{
    struct dlr_failure *best = &rounds->failure, first = *best;
    bool known = classify(rounds, best, ret);

    if (!known || !names_another(ret->class) ||
        dlr_policy_stops(rounds->policy, first.status) ||
        says_elsewhere(rounds, first.status))
        return known;
    for (unsigned i = 0; i < rounds->nfailures; i++) {
        const struct dlr_failure *f = &rounds->failures[i];
        struct dlr_class_said said;

        if (f->at_ms - first.at_ms > DLR_CLASS_ORIGIN_MS ||
            !classify(rounds, f, &said) || said.class == DLR_CLASS_KILLED ||
            !dlr_class_before(said.class, f->at_ms, ret->class, best->at_ms))
            continue;
        best->rank = f->rank;
        best->node = f->node;
        best->status = f->status;
        best->at_ms = f->at_ms;
        *ret = said;
    }
    return true;
}
