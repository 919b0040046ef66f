/* SPDX-License-Identifier: Apache-2.0 */
/* SIGTERM to the steps or to us: the tasks get it and go on until they, or Slurm, end them. What it
 * was sent for slurmctld is asked, in a child.
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
#include "mpi_launcher/supervisor/supervisor.h"
#include "mpi_launcher/wire/heartbeat.h"

#define SAME_MS 1000 /* what other nodes say within this time is the same signal */

/* The tasks may take so long when it came to us: srun limits it before. */
static int64_t limit_ms(void)
{
    return dlr_term_hold_ms(getenv(DLR_KILL_WAIT));
}

enum dlr_fate dlr_fate_read(const char *text)
{
    if (dlr_after(text, "ends"))
        return DLR_FATE_ENDS;
    return dlr_after(text, "preempted") ? DLR_FATE_PREEMPTED : DLR_FATE_RUNS;
}

static int answered(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_sup *s = arg;
    char text[64] = "";
    ssize_t n = read(s->term.out, text, sizeof(text) - 1);
    enum dlr_fate fate;

    text[n > 0 ? n : 0] = '\0';
    close(s->term.out);
    dlr_sup_unwatch(s->io, s->term.ask.pidfd);
    fate = dlr_proc_reap(&s->term.ask) == 0 ? dlr_fate_read(text) : DLR_FATE_RUNS;
    if (fate == DLR_FATE_ENDS && !s->wanted_signal)
        s->wanted_signal =
            SIGTERM; /* it is Slurm's, though it came to the tasks alone */
    if (s->finished)
        return dlr_sup_is_over(s) ? -1 : 0;
    dlr_policy_fate(s->policy, fate, dlr_sup_now());
    if (s->term.orphan && fate == DLR_FATE_ENDS)
        dlr_policy_told(s->policy, true, limit_ms(), dlr_sup_now());
    else if (s->term.orphan)
        dlr_policy_signal(s->policy, s->wanted_signal, dlr_sup_now());
    s->term.orphan = false;
    return dlr_sup_is_over(s) ? -1 : 0;
}

void dlr_sup_ask_fate(void *arg)
{
    struct dlr_sup *s = arg;
    struct dlr_words words = {0};
    struct dlr_err err;
    int pipes[2];

    if (s->term.ask.pid || pipe2(pipes, O_CLOEXEC) < 0)
        return; /* its answer serves this, too; else the policy's limit ends the wait */
    dlr_sup_slurm_words(s->steps, &words, "fate", true);
    if (dlr_sup_start_slurm(&words, pipes[1], &s->term.ask, &err) == 0) {
        s->term.out = dlr_steal_fd(&pipes[0]);
        dlr_sup_watch(s->io, s->term.ask.pidfd, answered, s);
    }
    close(pipes[1]);
    if (pipes[0] >= 0)
        close(pipes[0]);
    dlr_words_done(&words);
}

/* Every node has it, and says it. */
void dlr_sup_on_term(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    int64_t now = dlr_sup_now();
    bool same = s->term.last_ms && now - s->term.last_ms < SAME_MS;
    int64_t round = -1;

    dlr_msg_int(msg, "round", &round);
    if (dlr_policy_told_before(s->policy, round))
        return; /* said again, after a welcome, of tasks that are gone */
    s->term.last_ms = now;
    if (same || s->finished)
        return;
    dlr_journal_note(dlr_sup_journal(s->io), "term", "s:s,s:I", "node",
                     s->members->list[node].node.name, "round",
                     (json_int_t)dlr_policy_round(s->policy));
    dlr_policy_told(s->policy, false, limit_ms(), now);
}

bool dlr_sup_pass_term(struct dlr_sup *s)
{
    if (dlr_policy_phase(s->policy) != DLR_PHASE_RUN || !s->workers.pid ||
        !s->running_told) /* an srun without its tasks has a code of its own */
        return false;
    s->term.last_ms = dlr_sup_now();
    dlr_proc_kill(&s->workers, SIGTERM);
    dlr_policy_told(s->policy, true, limit_ms(), s->term.last_ms);
    return true;
}

/* Whoever killed it has ended the run; but so ends a script that Slurm ends, too. */
void dlr_sup_keeper_gone(struct dlr_sup *s)
{
    s->term.orphan = true;
    dlr_sup_ask_fate(s);
    if (s->term.ask.pid)
        return;
    s->term.orphan = false;
    dlr_policy_signal(s->policy, s->wanted_signal, dlr_sup_now());
}

bool dlr_sup_term_holds(const struct dlr_sup *s, int64_t now_ms)
{
    return s->term.last_ms && now_ms - s->term.last_ms < limit_ms();
}
