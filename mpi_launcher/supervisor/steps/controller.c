/* SPDX-License-Identifier: Apache-2.0 */
/* slurmctld is away, or munged is: no step can be made. An srun that has started
 * nothing says so by its failure alone, so slurmctld is asked before anybody is blamed.
 * Without an answer the policy waits: memory is held, no restart is spent.
 */
#include "mpi_launcher/supervisor/steps/controller.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "mpi_launcher/process/slurm_exit_status.h"
#include "mpi_launcher/supervisor/io/reactor.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/steps/slurm_command.h"
#include "mpi_launcher/supervisor/steps/steps_state.h"

#define ASK_MS 30000      /* for slurmctld to answer one question */
#define ASK_EVERY_MS 1000 /* from an answer that did not come to the next question */
#define PAUSE_DOUBLED 4   /* times, from one wait to the next without a task between */
/* from its return: it still counts steps whose end it has not heard of */
#define SETTLE_MS 30000
#define SLOW_MS 5000 /* of an srun that starts nothing: sooner, it was told no */
#define AWAY "slurmctld cannot be reached"

static void away(struct dlr_sup_steps *steps, enum dlr_controller_query what,
                 const char *why)
{
    struct dlr_sup_controller *c = &steps->controller;

    if (what == DLR_QUERY_AGAIN) {
        c->again_ms = dlr_sup_now() + ASK_EVERY_MS;
        return;
    }
    steps->ops->away(steps->arg, what, why);
}

/* slurmctld answers, but an srun that gave up after a while may have waited for it
 * until just now. Once: the next one that starts nothing has another reason.
 */
static bool was_away(struct dlr_sup_steps *steps, enum dlr_controller_query what,
                     int64_t now_ms)
{
    if ((what != DLR_QUERY_STEP && what != DLR_QUERY_LAUNCH) ||
        steps->controller.start_retried ||
        now_ms - steps->controller.launch_ms < SLOW_MS)
        return false;
    steps->controller.start_retried = true;
    return true;
}

static void is_back(struct dlr_sup_steps *steps, int64_t now_ms)
{
    struct dlr_sup_controller *c = &steps->controller;

    if (!c->back_ms || now_ms - c->back_ms >= SETTLE_MS)
        c->back_ms = now_ms;
    dlr_journal_note(dlr_sup_journal(steps->env.io), "controller_back", "s:I",
                     "took_ms", (json_int_t)(now_ms - c->since_ms));
    dlr_user_line(steps->env.io, "slurmctld answers again after %lld s",
                  (long long)(now_ms - c->since_ms) / 1000);
    steps->ops->back(steps->arg);
}

static void answered(struct dlr_sup_steps *steps, enum dlr_controller_query what)
{
    struct dlr_sup_controller *c = &steps->controller;
    int64_t now = dlr_sup_now();

    if (what == DLR_QUERY_AGAIN)
        is_back(steps, now);
    else if (what == DLR_QUERY_RENDEZVOUS)
        steps->ops->failed(steps->arg, what, c->code, c->why);
    else if (c->back_ms && now - c->back_ms < SETTLE_MS)
        away(steps, what, "slurmctld has just come back and does not start it yet");
    else if (was_away(steps, what, now))
        away(steps, what, "srun has started nothing and slurmctld may have been away");
    else
        steps->ops->failed(steps->arg, what, c->code, c->why);
}

/* What was asked about may be over by now: another rendezvous, another round. */
static bool is_past(const struct dlr_sup_steps *steps)
{
    const struct dlr_sup_controller *c = &steps->controller;

    return steps->ops->finished(steps->arg) ||
           c->phase != dlr_policy_phase(steps->policy) ||
           c->phase_ms != steps->ops->since(steps->arg);
}

static int ask_ended(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_sup_steps *steps = arg;
    struct dlr_sup_controller *c = &steps->controller;
    enum dlr_controller_query what = c->what;
    int status;

    dlr_sup_unwatch(steps->env.io, c->ask.pidfd);
    status = dlr_proc_reap(&c->ask);
    c->what = DLR_QUERY_NOTHING;
    if (!is_past(steps) && what == DLR_QUERY_LAUNCH && WIFEXITED(status) &&
        (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == DLR_SLURM_QUEUED) &&
        steps->ops->queued(steps->arg, WEXITSTATUS(status) == DLR_SLURM_QUEUED))
        return 0;
    if (!is_past(steps) && status == 0)
        answered(steps, what);
    else if (!is_past(steps))
        away(steps, what, AWAY);
    return dlr_sup_steps_go_on(steps);
}

static void start(struct dlr_sup_steps *steps)
{
    struct dlr_sup_controller *c = &steps->controller;
    struct dlr_words words = {0};
    enum dlr_controller_query what = c->what;
    struct dlr_err err;

    c->phase = dlr_policy_phase(steps->policy);
    c->phase_ms = steps->ops->since(steps->arg);
    c->late_ms = dlr_sup_now() + ASK_MS;
    if (what == DLR_QUERY_LAUNCH && c->queued) {
        dlr_sup_slurm_words(steps, &words, "queued", true);
        dlr_words_add(&words, "%d", (int)c->queued);
    } else {
        dlr_sup_slurm_words(steps, &words, "ping", false);
    }
    if (dlr_sup_start_slurm(&words, -1, &c->ask, &err) == 0) {
        dlr_sup_watch(steps->env.io, c->ask.pidfd, ask_ended, steps);
    } else {
        c->what = DLR_QUERY_NOTHING;
        away(steps, what, AWAY);
    }
    dlr_words_done(&words);
}

void dlr_sup_ask_controller(struct dlr_sup_steps *steps, enum dlr_controller_query what,
                            int code, const char *why, int64_t launch_ms)
{
    struct dlr_sup_controller *c = &steps->controller;

    c->code = code;
    c->launch_ms = launch_ms;
    snprintf(c->why, sizeof(c->why), "%s", why);
    if (c->what == DLR_QUERY_NOTHING) {
        c->what = what;
        start(steps);
        return;
    }
    c->what = what; /* the answer that is awaited serves this, too */
    c->phase = dlr_policy_phase(steps->policy);
    c->phase_ms = steps->ops->since(steps->arg);
}

void dlr_sup_ask_launch(struct dlr_sup_steps *steps, const char *why, int64_t launch_ms,
                        pid_t srun)
{
    steps->controller.queued = srun;
    dlr_sup_ask_controller(steps, DLR_QUERY_LAUNCH, 0, why, launch_ms);
}

bool dlr_sup_is_asked(const struct dlr_sup_steps *steps)
{
    return steps->controller.what != DLR_QUERY_NOTHING;
}

void dlr_sup_controller_started(struct dlr_sup_steps *steps)
{
    steps->controller.start_retried = false;
    steps->controller.waits = 0;
}

/* Each start that is refused costs a round: they become rarer, until a task has
 * started.
 */
static int64_t pause_ms(struct dlr_sup_controller *c)
{
    unsigned doubled = c->waits < PAUSE_DOUBLED ? c->waits++ : PAUSE_DOUBLED;

    return (int64_t)ASK_EVERY_MS << doubled;
}

void dlr_sup_controller_wait(struct dlr_sup_steps *steps, const char *why,
                             int64_t now_ms)
{
    struct dlr_sup_controller *c = &steps->controller;

    c->since_ms = now_ms;
    c->again_ms = now_ms + pause_ms(c);
    dlr_user_line(steps->env.io,
                  "%s: waiting for it (--dlrover-set=controller-timeout)", why);
    dlr_journal_note(dlr_sup_journal(steps->env.io), "controller_away", "s:s", "why",
                     why);
}

void dlr_sup_controller_tick(struct dlr_sup_steps *steps, int64_t now_ms)
{
    struct dlr_sup_controller *c = &steps->controller;

    if (c->what != DLR_QUERY_NOTHING) {
        if (now_ms >= c->late_ms)
            dlr_proc_kill(&c->ask, SIGKILL); /* its end is no answer */
        return;
    }
    if (dlr_policy_phase(steps->policy) != DLR_PHASE_WAIT || now_ms < c->again_ms)
        return;
    c->what = DLR_QUERY_AGAIN;
    start(steps);
}
