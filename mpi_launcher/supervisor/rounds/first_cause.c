/* SPDX-License-Identifier: Apache-2.0 */
/* Which of a round's failures was the cause: the one that ended first, unless it says
 * itself that another rank went before it.
 */
#include "mpi_launcher/supervisor/rounds/first_cause.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "mpi_launcher/supervisor/nodes/members.h"
#include "mpi_launcher/supervisor/rounds/rounds_state.h"

void dlr_sup_note_failure(struct dlr_sup_rounds *rounds, const struct dlr_failure *f)
{
    if (rounds->nfailures < DLR_FAILURES_KEPT)
        rounds->failures[rounds->nfailures++] = *f;
}

/* Our own are read when they are needed first. They cannot be wrong; without memory for
 * them there are none.
 */
static const struct dlr_class_rules *rules_of(struct dlr_sup_rounds *rounds)
{
    if (!rounds->rules)
        rounds->rules = dlr_class_rules_new();
    if (rounds->rules && dlr_class_rules_count(rounds->rules) == rounds->nrules_of_user)
        dlr_class_rules_add_own(rounds->rules, NULL);
    return rounds->rules;
}

int dlr_sup_users_rules(struct dlr_sup_rounds *rounds, struct dlr_err *err)
{
    const char *path = rounds->env.conf->rules;
    DLR_AUTO_FREE char *text = NULL;
    struct dlr_err why;
    int rc;

    if (!*path)
        return 0;
    rc = dlr_file_load_own(AT_FDCWD, path, DLR_CLASS_RULES_FILE, &text, NULL, &why);
    if (rc < 0)
        return dlr_fail(err, rc, "--dlrover-set=rules=%.200s: %.300s", path, why.text);
    rounds->rules = dlr_class_rules_new();
    if (!rounds->rules)
        return dlr_fail(err, -ENOMEM, "out of memory");
    rc = dlr_class_rules_parse(rounds->rules, text, &why);
    if (rc < 0)
        return dlr_fail(err, rc, "--dlrover-set=rules=%.200s: %.300s", path, why.text);
    rounds->nrules_of_user = dlr_class_rules_count(rounds->rules);
    return 0;
}

static bool is_users(const struct dlr_sup_rounds *rounds,
                     const struct dlr_class_said *said)
{
    return said->rule[0] && said->at < rounds->nrules_of_user;
}

/* What the node's own device says is of the node; a link, a file system or another
 * processor may fail on the good ones first.
 */
bool dlr_sup_class_sits_out(const struct dlr_sup_rounds *rounds,
                            const struct dlr_class_said *said)
{
    return said->action == DLR_CLASS_ELSEWHERE &&
           (said->class == DLR_CLASS_HARDWARE || is_users(rounds, said));
}

void dlr_sup_note_class(struct dlr_sup_rounds *rounds, const struct dlr_failure *f,
                        const struct dlr_class_said *said)
{
    if (said->action == DLR_CLASS_MORE_MEMORY && (f->starved || is_users(rounds, said)))
        dlr_format(rounds->starved_by, sizeof(rounds->starved_by),
                   "rank %u on %s wanted more memory than it was given", f->rank,
                   rounds->members->list[f->node].node.name);
    if (said->action == DLR_CLASS_STOP && is_users(rounds, said))
        dlr_format(rounds->stopped_by, sizeof(rounds->stopped_by),
                   "rule '%s' says stop: %.400s", said->rule, said->advice);
}

bool dlr_sup_rule_stops(const struct dlr_sup_rounds *rounds, char *buf, size_t size)
{
    dlr_format(buf, size, "%s", rounds->stopped_by);
    return rounds->stopped_by[0];
}

bool dlr_sup_starves(const struct dlr_sup_rounds *rounds, char *buf, size_t size)
{
    dlr_format(buf, size, "%s", rounds->starved_by);
    return rounds->starved_by[0];
}

static bool classify(struct dlr_sup_rounds *rounds, const struct dlr_failure *f,
                     struct dlr_class_said *ret)
{
    const struct dlr_class_rules *rules = rules_of(rounds);
    struct dlr_ending e = {.code = WIFEXITED(f->status) ? WEXITSTATUS(f->status) : -1,
                           .signal = WIFSIGNALED(f->status) ? WTERMSIG(f->status) : 0,
                           .oom = f->starved};

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
        best->starved = f->starved;
        best->at_ms = f->at_ms;
        *ret = said;
    }
    return true;
}
