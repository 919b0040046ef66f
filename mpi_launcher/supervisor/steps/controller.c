/* SPDX-License-Identifier: Apache-2.0 */
/* slurmctld is away, or munged is: no step can be made. An srun that has started nothing says so
 * by its failure alone, so slurmctld is asked before anybody is blamed. Without an answer the
 * policy waits: memory is held, no restart is spent.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "mpi_launcher/process/slurm_exit_status.h"
#include "mpi_launcher/supervisor/supervisor.h"

#define ASK_MS 30000      /* for slurmctld to answer one question */
#define ASK_EVERY_MS 1000 /* from an answer that did not come to the next question */
#define PAUSE_DOUBLED 4   /* times, from one wait to the next without a task between */
#define SETTLE_MS                                                                      \
    30000 /* from its return: it still counts steps whose end it has not heard of */
#define SLOW_MS 5000 /* of an srun that starts nothing: sooner, it was told no */
#define AWAY "slurmctld cannot be reached"

static void away(struct dlr_sup *s, enum dlr_asking what, const char *why)
{
    struct dlr_controller *c = &s->controller;

    if (what == DLR_ASK_AGAIN) {
        c->again_ms = dlr_sup_now() + ASK_EVERY_MS;
        return;
    }
    if (what == DLR_ASK_STEP)
        s->failure.told = true; /* nobody failed */
    dlr_policy_controller_away(s->policy, why, dlr_sup_now());
}

/* slurmctld answers, but an srun that gave up after a while may have waited for it until just now.
 * Once: the next one that starts nothing has another reason.
 */
static bool was_away(struct dlr_sup *s, enum dlr_asking what, int64_t now_ms)
{
    if ((what != DLR_ASK_STEP && what != DLR_ASK_LAUNCH) || s->controller.excused ||
        now_ms - s->launch_ms < SLOW_MS)
        return false;
    s->controller.excused = true;
    return true;
}

static void answered(struct dlr_sup *s, enum dlr_asking what)
{
    struct dlr_controller *c = &s->controller;
    int64_t now = dlr_sup_now();
    struct dlr_plan none = {0};

    if (what == DLR_ASK_MEET) {
        dlr_sup_rendezvous_late(s);
        return;
    }
    if (what != DLR_ASK_AGAIN && c->back_ms && now - c->back_ms < SETTLE_MS) {
        away(s, what, "slurmctld has just come back and does not start it yet");
        return;
    }
    if (was_away(s, what, now)) {
        away(s, what, "srun has started nothing and slurmctld may have been away");
        return;
    }
    switch (what) {
    case DLR_ASK_NOTHING:
    case DLR_ASK_MEET:
        break;
    case DLR_ASK_AGENTS:
        dlr_policy_agents_gone(s->policy, now);
        break;
    case DLR_ASK_PLAN:
        dlr_sup_take_plan(s, -EPROTO, &none, c->why);
        break;
    case DLR_ASK_STEP:
        dlr_policy_step_ended(s->policy, s->running_round, c->code, now);
        break;
    case DLR_ASK_LAUNCH:
        dlr_policy_launch_late(s->policy, s->running_round, c->why, now);
        break;
    case DLR_ASK_REQUEUE:
        dlr_policy_requeue_failed(s->policy, c->why);
        break;
    case DLR_ASK_AGAIN:
        if (!c->back_ms || now - c->back_ms >= SETTLE_MS)
            c->back_ms = now;
        dlr_journal_note(dlr_sup_journal(s->io), "controller_back", "s:I", "took_ms",
                         (json_int_t)(now - c->since_ms));
        dlr_sup_say(s->io, "slurmctld answers again after %lld s",
                    (long long)(now - c->since_ms) / 1000);
        dlr_policy_controller_back(s->policy, now);
        break;
    }
}

/* What was asked about may be over by now: another rendezvous, another round. */
static bool is_past(const struct dlr_sup *s)
{
    const struct dlr_controller *c = &s->controller;

    return s->finished || c->phase != dlr_policy_phase(s->policy) ||
           c->phase_ms != s->phase_ms;
}

static int ask_ended(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_sup *s = arg;
    struct dlr_controller *c = &s->controller;
    enum dlr_asking what = c->what;
    int status;

    dlr_sup_unwatch(s->io, c->ask.pidfd);
    status = dlr_proc_reap(&c->ask);
    c->what = DLR_ASK_NOTHING;
    if (!is_past(s) && what == DLR_ASK_LAUNCH && WIFEXITED(status) &&
        (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == DLR_SLURM_QUEUED) &&
        dlr_sup_launch_queued(s, WEXITSTATUS(status) == DLR_SLURM_QUEUED))
        return 0;
    if (!is_past(s) && status == 0)
        answered(s, what);
    else if (!is_past(s))
        away(s, what, AWAY);
    return dlr_sup_is_over(s) ? -1 : 0;
}

static void start(struct dlr_sup *s)
{
    struct dlr_controller *c = &s->controller;
    struct dlr_words words = {0};
    enum dlr_asking what = c->what;
    struct dlr_err err;

    c->phase = dlr_policy_phase(s->policy);
    c->phase_ms = s->phase_ms;
    c->late_ms = dlr_sup_now() + ASK_MS;
    if (what == DLR_ASK_LAUNCH && s->queue.may && s->workers.pid) {
        dlr_sup_slurm_words(s, &words, "queued", true);
        dlr_words_add(&words, "%d", (int)s->workers.pid);
    } else {
        dlr_sup_slurm_words(s, &words, "ping", false);
    }
    if (dlr_sup_start_slurm(s, &words, -1, &c->ask, &err) == 0) {
        dlr_sup_watch(s->io, c->ask.pidfd, ask_ended, s);
    } else {
        c->what = DLR_ASK_NOTHING;
        away(s, what, AWAY);
    }
    dlr_words_done(&words);
}

void dlr_sup_ask_controller(struct dlr_sup *s, enum dlr_asking what, int code,
                            const char *why)
{
    struct dlr_controller *c = &s->controller;

    c->code = code;
    snprintf(c->why, sizeof(c->why), "%s", why);
    if (c->what == DLR_ASK_NOTHING) {
        c->what = what;
        start(s);
        return;
    }
    c->what = what; /* the answer that is awaited serves this, too */
    c->phase = dlr_policy_phase(s->policy);
    c->phase_ms = s->phase_ms;
}

/* Each start that is refused costs a round: they become rarer, until a task has started. */
static int64_t pause_ms(struct dlr_controller *c)
{
    unsigned doubled = c->waits < PAUSE_DOUBLED ? c->waits++ : PAUSE_DOUBLED;

    return (int64_t)ASK_EVERY_MS << doubled;
}

void dlr_sup_wait_controller(void *arg, const char *why)
{
    struct dlr_sup *s = arg;

    dlr_sup_tell_failure(s);
    dlr_sup_tell_cleared(s);
    s->phase_ms = s->controller.since_ms = dlr_sup_now();
    s->controller.again_ms = s->phase_ms + pause_ms(&s->controller);
    dlr_sup_say(s->io, "%s: waiting for it (--dlrover-set=controller-timeout)", why);
    dlr_journal_note(dlr_sup_journal(s->io), "controller_away", "s:s", "why", why);
}

void dlr_sup_controller_tick(struct dlr_sup *s, int64_t now_ms)
{
    struct dlr_controller *c = &s->controller;

    if (c->what != DLR_ASK_NOTHING) {
        if (now_ms >= c->late_ms)
            dlr_proc_kill(&c->ask, SIGKILL); /* its end is no answer */
        return;
    }
    if (dlr_policy_phase(s->policy) != DLR_PHASE_WAIT || now_ms < c->again_ms)
        return;
    c->what = DLR_ASK_AGAIN;
    start(s);
}
