/* SPDX-License-Identifier: Apache-2.0 */
/* What a state means, and its words. */
#include "mpi_launcher/journal/run_view.h"

/* Steps that have not come for this long, or for three times their own length, have
 * stopped.
 */
#define STALL_MS 10000
#define FIRST_STALL_MS 60000 /* while the length of a step is not known */

static const struct {
    const char *name, *words;
} phases[] = {
    [DLR_CLI_NOTHING] = {"nothing", "nothing has happened yet"},
    [DLR_CLI_AGENTS] = {"agents", "waiting for the agents of the nodes"},
    [DLR_CLI_RENDEZVOUS] = {"rendezvous", "nodes meet and are checked"},
    [DLR_CLI_PREPARE] = {"prepare", "copies of the state move into place"},
    [DLR_CLI_LAUNCH] = {"launch", "srun starts the tasks"},
    [DLR_CLI_LOAD] = {"restore", "tasks load the checkpoint"},
    [DLR_CLI_RUN] = {"run", "the program runs; it has told no step yet"},
    [DLR_CLI_TRAIN] = {"train", "training"},
    [DLR_CLI_ENDING] = {"end", "the processes of the last round go away"},
    [DLR_CLI_CLEARED] = {"cleared", "the next round is being prepared"},
    [DLR_CLI_PERSIST] = {"persist", "survivors write their state"},
    [DLR_CLI_REQUEUE] = {"requeue", "back in the queue"},
    [DLR_CLI_FINISHED] = {"over", "over"},
};
static const char *const conditions[] = {
    [DLR_CLI_STARTING] = "starting",   [DLR_CLI_RUNNING] = "running",
    [DLR_CLI_STALLED] = "stalled",     [DLR_CLI_RECOVERING] = "recovering",
    [DLR_CLI_SUSPENDED] = "suspended", [DLR_CLI_REQUEUED] = "requeued",
    [DLR_CLI_DONE] = "done",           [DLR_CLI_FAILED] = "failed",
};
static const char *const roles[] = {
    [DLR_CLI_WAITING] = "waiting",   [DLR_CLI_READY] = "ready",
    [DLR_CLI_TRAINING] = "training", [DLR_CLI_SPARE] = "spare",
    [DLR_CLI_EXCLUDED] = "left out", [DLR_CLI_DEAD] = "dead",
    [DLR_CLI_RELEASED] = "released",
};

const char *dlr_cli_phase_name(enum dlr_cli_phase phase)
{
    return phases[phase].name;
}

const char *dlr_cli_phase_words(enum dlr_cli_phase phase)
{
    return phases[phase].words;
}

const char *dlr_run_condition_name(enum dlr_run_condition condition)
{
    return conditions[condition];
}

const char *dlr_cli_role_name(enum dlr_cli_role role)
{
    return roles[role];
}

enum dlr_cli_role dlr_cli_state_role(const struct dlr_cli_state *s,
                                     const struct dlr_cli_node *n)
{
    bool gone = s->phase == DLR_CLI_FINISHED || s->phase == DLR_CLI_REQUEUE;

    if (n->role == DLR_CLI_EXCLUDED || n->role == DLR_CLI_DEAD)
        return n->role;
    if (gone)
        return DLR_CLI_RELEASED;
    if (n->role == DLR_CLI_TRAINING &&
        (s->phase < DLR_CLI_LAUNCH || s->phase > DLR_CLI_TRAIN))
        return DLR_CLI_READY;
    return n->role;
}

unsigned dlr_cli_state_count(const struct dlr_cli_state *s, enum dlr_cli_role role)
{
    unsigned n = 0;

    for (size_t i = 0; i < s->nnodes; i++)
        n += dlr_cli_state_role(s, &s->nodes[i]) == role;
    return n;
}

static bool stalled(const struct dlr_cli_state *s, int64_t now_ms)
{
    double limit_ms = s->rate > 0 ? 3000 / s->rate : FIRST_STALL_MS;

    if (limit_ms < STALL_MS)
        limit_ms = STALL_MS;
    return (double)(now_ms - s->step_ms) > limit_ms;
}

enum dlr_run_condition dlr_cli_state_condition(const struct dlr_cli_state *s,
                                               int64_t now_ms)
{
    if (s->suspended && s->phase < DLR_CLI_REQUEUE)
        return DLR_CLI_SUSPENDED;
    switch (s->phase) {
    case DLR_CLI_FINISHED:
        return s->code == 0 ? DLR_CLI_DONE : DLR_CLI_FAILED;
    case DLR_CLI_REQUEUE:
        return DLR_CLI_REQUEUED;
    case DLR_CLI_TRAIN:
        return s->still || stalled(s, now_ms) ? DLR_CLI_STALLED : DLR_CLI_RUNNING;
    case DLR_CLI_RUN:
        return s->still ? DLR_CLI_STALLED : DLR_CLI_RUNNING;
    default:
        return s->had_round ? DLR_CLI_RECOVERING : DLR_CLI_STARTING;
    }
}
