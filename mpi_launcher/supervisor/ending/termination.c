/* SPDX-License-Identifier: Apache-2.0 */
/* SIGTERM to the steps or to us: the tasks get it and go on until they, or Slurm, end
 * them. What it was sent for slurmctld is asked, in a child.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/ending/ending_state.h"
#include "mpi_launcher/supervisor/io/reactor.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/steps/slurm_command.h"
#include "mpi_launcher/wire/heartbeat.h"

#define SAME_MS 1000 /* what other nodes say within this time is the same signal */
#define NEAR_S 3600  /* before the job's time is over a signal may announce that */

/* The tasks may take so long when it came to us: srun limits it before. */
static int64_t limit_ms(void)
{
    return dlr_term_hold_ms(getenv(DLR_KILL_WAIT));
}

static enum dlr_fate read_fate(const char *text)
{
    if (dlr_after(text, "ends"))
        return DLR_FATE_ENDS;
    return dlr_after(text, "preempted") ? DLR_FATE_PREEMPTED : DLR_FATE_RUNS;
}

/* Does the job end soon, so that the signal may have been sent for it? */
static bool is_near(const char *text, enum dlr_fate fate)
{
    long long left_s;

    return fate != DLR_FATE_RUNS ||
           (sscanf(text, "runs %lld", &left_s) == 1 && left_s <= NEAR_S);
}

static void tell_warning(struct dlr_sup_ending *ending, int sig)
{
    enum dlr_phase phase = dlr_policy_phase(ending->policy);

    if ((phase != DLR_PHASE_RUN && phase != DLR_PHASE_END) ||
        ending->term.warned_round != dlr_policy_round(ending->policy)) {
        dlr_policy_warned(ending->policy, 0, dlr_sup_now());
        return;
    }
    dlr_journal_event(dlr_sup_journal(ending->env.io), "warned",
                      json_pack("{s:i,s:I}", "signal", sig, "round",
                                (json_int_t)dlr_policy_round(ending->policy)));
    dlr_policy_warned(ending->policy, sig, dlr_sup_now());
}

void dlr_sup_fate_told(struct dlr_sup_ending *ending, const char *text)
{
    enum dlr_fate fate = text ? read_fate(text) : DLR_FATE_RUNS;
    int warning = ending->term.warning;

    ending->term.warning = 0;
    if (fate == DLR_FATE_ENDS && !ending->wanted_signal)
        ending->wanted_signal =
            SIGTERM; /* it is Slurm's, though it came to the tasks alone */
    if (ending->finished)
        return;
    if (warning && text && is_near(text, fate))
        tell_warning(ending, warning);
    else if (warning)
        dlr_policy_warned(ending->policy, 0, dlr_sup_now());
    dlr_policy_fate(ending->policy, fate, dlr_sup_now());
    if (ending->term.orphan && fate == DLR_FATE_ENDS)
        dlr_policy_sigterm(ending->policy, true, limit_ms(), dlr_sup_now());
    else if (ending->term.orphan)
        dlr_policy_signal(ending->policy, ending->wanted_signal, dlr_sup_now());
    ending->term.orphan = false;
}

static int answered(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_sup_ending *ending = arg;
    char text[64] = "";
    ssize_t n = read(ending->term.out, text, sizeof(text) - 1);

    text[n > 0 ? n : 0] = '\0';
    close(ending->term.out);
    dlr_sup_unwatch(ending->env.io, ending->term.ask.pidfd);
    dlr_sup_fate_told(ending, dlr_proc_reap(&ending->term.ask) == 0 ? text : NULL);
    return dlr_sup_ending_go_on(ending);
}

void dlr_sup_ask_fate(struct dlr_sup_ending *ending)
{
    struct dlr_words words = {0};
    struct dlr_err err;
    int pipes[2];

    if (ending->term.ask.pid || pipe2(pipes, O_CLOEXEC) < 0)
        return; /* its answer serves this, too; else the policy's limit ends the wait */
    dlr_sup_slurm_words(ending->env.steps, &words, "fate", true);
    if (dlr_sup_start_slurm(&words, pipes[1], &ending->term.ask, &err) == 0) {
        ending->term.out = dlr_steal_fd(&pipes[0]);
        dlr_sup_watch(ending->env.io, ending->term.ask.pidfd, answered, ending);
    }
    close(pipes[1]);
    if (pipes[0] >= 0)
        close(pipes[0]);
    dlr_words_done(&words);
}

void dlr_sup_on_term(struct dlr_sup_ending *ending, unsigned node, const json_t *msg)
{
    int64_t now = dlr_sup_now();
    bool same = ending->term.last_ms && now - ending->term.last_ms < SAME_MS;
    int64_t round = -1;

    dlr_msg_int(msg, "round", &round);
    if (dlr_policy_sigterm_before(ending->policy, round))
        return; /* said again, after a welcome, of tasks that are gone */
    ending->term.last_ms = now;
    if (same || ending->finished)
        return;
    dlr_journal_note(dlr_sup_journal(ending->env.io), "term", "s:s,s:I", "node",
                     ending->members->list[node].node.name, "round",
                     (json_int_t)dlr_policy_round(ending->policy));
    dlr_policy_sigterm(ending->policy, false, limit_ms(), now);
}

void dlr_sup_warned(struct dlr_sup_ending *ending, int sig)
{
    int64_t now = dlr_sup_now();

    if (ending->finished || dlr_policy_phase(ending->policy) != DLR_PHASE_RUN ||
        (ending->term.warned_ms && now - ending->term.warned_ms < SAME_MS))
        return;
    ending->term.warned_ms = now;
    dlr_sup_ask_fate(ending);
    if (!ending->term.ask.pid)
        return;
    ending->term.warning = sig;
    ending->term.warned_round = dlr_policy_round(ending->policy);
    dlr_policy_warning_asked(ending->policy);
}

void dlr_sup_on_warned(struct dlr_sup_ending *ending, const json_t *msg)
{
    uint64_t round, sig;

    if (dlr_msg_uint(msg, "round", UINT32_MAX, &round) == 0 &&
        dlr_msg_uint(msg, "signal", NSIG - 1, &sig) == 0 && sig > 0 &&
        round == dlr_policy_round(ending->policy))
        dlr_sup_warned(ending, (int)sig);
}

static bool pass_term(struct dlr_sup_ending *ending)
{
    if (dlr_policy_phase(ending->policy) != DLR_PHASE_RUN ||
        !ending->ops->pass(ending->arg, SIGTERM))
        return false;
    ending->term.last_ms = dlr_sup_now();
    dlr_policy_sigterm(ending->policy, true, limit_ms(), ending->term.last_ms);
    return true;
}

/* Whoever killed it has ended the run; but so ends a script that Slurm ends, too. */
static void keeper_gone(struct dlr_sup_ending *ending)
{
    ending->term.orphan = true;
    dlr_sup_ask_fate(ending);
    if (ending->term.ask.pid)
        return;
    ending->term.orphan = false;
    dlr_policy_signal(ending->policy, ending->wanted_signal, dlr_sup_now());
}

/* The keeper is this srun for the script: whoever killed it has ended the run. */
static int meant(const struct dlr_sup_ending *ending, int sig)
{
    return sig == SIGTERM && getppid() != ending->env.keeper ? SIGKILL : sig;
}

void dlr_sup_ending_signal(struct dlr_sup_ending *ending, int sig)
{
    ending->wanted_signal = meant(ending, sig);
    if (ending->wanted_signal == SIGKILL)
        keeper_gone(ending);
    else if (ending->wanted_signal != SIGTERM || !pass_term(ending))
        dlr_policy_signal(ending->policy, ending->wanted_signal, dlr_sup_now());
}

bool dlr_sup_term_holds(const struct dlr_sup_ending *ending, int64_t now_ms)
{
    return ending->term.last_ms && now_ms - ending->term.last_ms < limit_ms();
}
