/* SPDX-License-Identifier: Apache-2.0 */
/* A round of the user's step: launched from the plan, watched, ended. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/json/message.h"
#include "mpi_launcher/journal/journal.h"
#include "mpi_launcher/supervisor/copies/fetch.h"
#include "mpi_launcher/supervisor/io/io.h"
#include "mpi_launcher/supervisor/io/reactor.h"
#include "mpi_launcher/supervisor/io/state_files.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/members.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/step_of_run.h"
#include "mpi_launcher/supervisor/rounds/rounds_state.h"
#include "mpi_launcher/supervisor/rounds/warm.h"
#include "mpi_launcher/supervisor/steps/controller.h"
#include "mpi_launcher/supervisor/steps/slurm_command.h"
#include "mpi_launcher/supervisor/steps/srun_flush.h"
#include "mpi_launcher/supervisor/steps/steps.h"
#include "mpi_launcher/supervisor/versions/versions.h"
#include "mpi_launcher/wire/heartbeat.h"

/* --- launch ----------------------------------------------------------------------- */

/* One line per task: the node of its place (srun(1), SLURM_HOSTFILE). srun gets it as a
 * descriptor: a file server that hangs must not hold up a launch, or us.
 */
static int make_hostfile(struct dlr_sup_rounds *rounds, int *ret_fd,
                         struct dlr_err *err)
{
    DLR_AUTO_FREE char *text = NULL;
    size_t size = 0;
    DLR_AUTO_FCLOSE FILE *f = open_memstream(&text, &size);
    DLR_AUTO_FREE unsigned *place = calloc(rounds->env.step->world, sizeof(*place));
    int fd;

    for (unsigned p = 0, i = 0; place && p < rounds->env.step->nplaces; p++)
        for (unsigned t = 0; t < rounds->env.step->tasks[p]; t++, i++)
            place[rounds->env.step->ranks ? rounds->env.step->ranks[i] : i] = p;

    for (unsigned task = 0; f && place && task < rounds->env.step->world; task++)
        fprintf(f, "%s\n", rounds->env.plan->places[place[task]].node.name);
    fd = !f || !place || fflush(f) ? -ENOMEM : dlr_sup_file_memory(text);
    if (fd < 0)
        return dlr_fail(err, fd, "no memory for the list of nodes");
    *ret_fd = fd;
    return 0;
}

static void worker_words(struct dlr_sup_rounds *rounds, struct dlr_words *w)
{
    DLR_AUTO_FREE char **program = dlr_sup_names_words(rounds);
    const char *share[DLR_STEP_PLAN_SHARE + 1];

    dlr_step_plan_share(rounds->env.step, rounds->queue.may, share);
    dlr_words_add(w, "srun");
    for (unsigned i = 0; i < rounds->env.step->noptions; i++)
        dlr_words_add(w, "%s", rounds->env.step->options[i]);
    for (const char **word = share; *word; word++)
        dlr_words_add(w, "%s", *word);
    /* No --nodes, which newer sruns refuse beside an arbitrary order: SLURM_NNODES says
     * it.
     */
    dlr_words_add(w, "--ntasks=%u", rounds->env.step->world);
    dlr_words_add(w, "--distribution=arbitrary");
    if (rounds->launched || *rounds->env.took_over || rounds->env.info->incarnation)
        dlr_words_add(w,
                      "--open-mode=append"); /* later rounds go on where one stopped */
    if (dlr_sup_stay_can(rounds))
        dlr_words_add(w, "--no-kill"); /* slurmctld finds out later what we know */
    dlr_sup_stay_words(rounds, w);
    for (char **p = program ? program : rounds->env.step->program; *p; p++)
        dlr_words_add(w, "%s", *p);
}

/* A former supervisor's round has had its tasks. */
static bool is_short_of_tasks(const struct dlr_sup_rounds *rounds)
{
    return rounds->launch_deadline_ms < INT64_MAX &&
           rounds->tasks_up < rounds->env.step->world;
}

void dlr_sup_step_ended(struct dlr_sup_rounds *rounds, int status)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);

    if (code && !rounds->tasks_up && dlr_policy_phase(rounds->policy) == DLR_PHASE_RUN)
        dlr_sup_ask_controller(rounds->env.steps, DLR_QUERY_STEP, code, "",
                               rounds->launch_ms);
    else if ((rounds->ended_early = !code && is_short_of_tasks(rounds)))
        dlr_policy_step_ended_early(rounds->policy, rounds->running_round,
                                    dlr_sup_now());
    else
        dlr_policy_step_ended(rounds->policy, rounds->running_round, code,
                              dlr_sup_now());
}

static int workers_ended(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_sup_rounds *rounds = arg;
    int status;

    dlr_sup_unwatch(rounds->env.io, rounds->workers.pidfd);
    status = dlr_proc_reap(&rounds->workers);
    dlr_sup_stay_end(rounds); /* who stood for those that stayed has ended with them */
    dlr_sup_step_ended(rounds, status);
    return dlr_sup_rounds_go_on(rounds);
}

static void reset_round(struct dlr_sup_rounds *rounds, uint32_t round)
{
    dlr_sup_failure_reset(rounds, rounds->env.step->world);
    free(rounds->restored);
    rounds->restored = calloc(rounds->env.plan->world, 1);
    free(rounds->up);
    rounds->up = calloc(rounds->env.step->world, 1);
    dlr_sup_fetch_round(rounds->env.copies);
    rounds->nrestored = rounds->tasks_up = 0;
    rounds->first_step_seen = rounds->first_step_reported = rounds->end_reported =
        false;
    rounds->running_reported = rounds->go_reported = rounds->ended_early = false;
    rounds->queue.does = false;
    dlr_sup_warm_reset(rounds);
    rounds->adopt.workers_pid = 0;
    rounds->restore_deadline_ms = INT64_MAX;
    rounds->running_round = round;
    rounds->launch_ms = dlr_sup_now();
}

void dlr_sup_launch(struct dlr_sup_rounds *rounds, uint32_t round)
{
    DLR_AUTO_CLOSE int input = dlr_sup_stdin(rounds);
    DLR_AUTO_CLOSE int hosts = -1;
    struct dlr_words words = {0};
    struct dlr_env env = {0};
    struct dlr_err err = {0};

    /* It was waited for: two would write to one file. */
    dlr_srun_flush_end(rounds->env.steps);
    reset_round(rounds, round);
    if (dlr_sup_stay_parked(rounds) == 0)
        dlr_sup_stay_end(rounds);
    rounds->queue.may = dlr_sup_may_queue(rounds);
    worker_words(rounds, &words);
    dlr_journal_note(dlr_sup_journal(rounds->env.io), "launch", "s:I,s:i,s:i", "round",
                     (json_int_t)round, "world", rounds->env.step->world, "nodes",
                     rounds->env.plan->nplaces);
    if (make_hostfile(rounds, &hosts, &err) < 0 ||
        dlr_sup_worker_env(rounds, round, &env, &err) < 0 ||
        dlr_proc_start_with(words.list, env.list, input, 1, 2, hosts, &rounds->workers,
                            &err) < 0)
        dlr_user_line(rounds->env.io, "cannot start the workers: %s",
                      err.text); /* launch limit runs */
    else
        dlr_sup_watch(rounds->env.io, rounds->workers.pidfd, workers_ended, rounds);
    dlr_sup_names_tell(rounds);
    rounds->launched = true;
    rounds->launch_deadline_ms =
        rounds->launch_ms + rounds->env.conf->launch_timeout_ms;
    dlr_words_done(&words);
    dlr_env_done(&env);
    rounds->ops->changed(rounds->arg, true);
}

int64_t dlr_sup_launched_ms(const struct dlr_sup_rounds *rounds)
{
    return rounds->launch_ms;
}

/* --- watch ------------------------------------------------------------------------ */

static void tell_running(struct dlr_sup_rounds *rounds)
{
    if (rounds->running_reported)
        return; /* by the former supervisor */
    rounds->running_reported = rounds->warm.due = true;
    dlr_sup_rounds_changed(rounds);
    dlr_journal_note(dlr_sup_journal(rounds->env.io), "running", "s:I,s:I", "round",
                     (json_int_t)rounds->running_round, "took_ms",
                     (json_int_t)(dlr_sup_now() - rounds->launch_ms));
}

void dlr_sup_on_task(struct dlr_sup_rounds *rounds, unsigned node, const json_t *msg)
{
    unsigned rank;

    if (!dlr_sup_of_round(rounds, msg, rounds->env.step->world, &rank) || !rounds->up ||
        rounds->up[rank])
        return; /* an agent that reconnects says it again */
    rounds->up[rank] = 1;
    rounds->queue.held = true;
    dlr_policy_started(rounds->policy, rounds->running_round);
    dlr_sup_controller_started(rounds->env.steps);
    if (++rounds->tasks_up < rounds->env.step->world)
        return;
    rounds->launch_deadline_ms = INT64_MAX;
    if (rounds->env.plan->restore && !rounds->go_reported &&
        !rounds->first_step_reported)
        /* a start that hangs before its first restore ends, too */
        rounds->restore_deadline_ms =
            dlr_sup_now() + rounds->env.conf->restore_timeout_ms;
    tell_running(rounds);
    if (rounds->ended_early)
        dlr_policy_step_ended(rounds->policy, rounds->running_round, 0, dlr_sup_now());
}

void dlr_sup_on_orphaned(struct dlr_sup_rounds *rounds, unsigned node,
                         const json_t *msg)
{
    uint64_t round;
    char why[300];

    if (dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0)
        return;
    snprintf(why, sizeof(why), "slurmstepd of the round died on node %.200s",
             rounds->members->list[node].node.name);
    dlr_policy_step_lost(rounds->policy, round, why, dlr_sup_now());
}

bool dlr_sup_signal_tasks(struct dlr_sup_rounds *rounds, int sig)
{
    if (!rounds->tasks_up) /* its srun listens by then, and passes it on to the tasks */
        return false;
    dlr_proc_kill(&rounds->workers, sig);
    return true;
}

bool dlr_sup_pass_signal(struct dlr_sup_rounds *rounds, int sig)
{
    if (!rounds->workers.pid || !rounds->running_reported)
        return false; /* an srun without its tasks has a code of its own */
    dlr_proc_kill(&rounds->workers, sig);
    return true;
}

void dlr_sup_let_workers_go(struct dlr_sup_rounds *rounds)
{
    dlr_sup_stay_end(rounds);
    dlr_srun_abandon(rounds->env.steps, &rounds->workers);
}

/* --- the end of a round ----------------------------------------------------------- */

static void tell_end(struct dlr_sup_rounds *rounds, uint32_t round,
                     enum dlr_cause cause, const char *why)
{
    uint64_t step = dlr_members_step(rounds->members, round);
    json_t *row = json_pack("{s:I,s:s,s:s}", "round", (json_int_t)round, "cause",
                            dlr_cause_name(cause), "why", why);

    if (row) {
        dlr_sup_newest_put(rounds->env.versions, row);
        json_object_set_new(row, "restarts",
                            json_integer(dlr_policy_restarts(rounds->policy)));
    }
    if (row && step != DLR_HEARTBEAT_NO_STEP)
        json_object_set_new(row, "step", json_integer(step));
    dlr_journal_event(dlr_sup_journal(rounds->env.io), "round_end", row);
}

void dlr_sup_end_round(struct dlr_sup_rounds *rounds, uint32_t round,
                       enum dlr_cause cause, const char *why)
{
    bool flush = cause == DLR_CAUSE_PROGRAM || cause == DLR_CAUSE_RESTORE ||
                 cause == DLR_CAUSE_HANG;
    int64_t park_ms = dlr_sup_stay_ms(rounds, cause);
    json_t *msg = dlr_msg_new("kill");

    rounds->phase_ms = dlr_sup_now();
    rounds->launch_deadline_ms = rounds->restore_deadline_ms = INT64_MAX;
    json_object_set_new(msg, "round", json_integer(round));
    json_object_set_new(msg, "flush", json_boolean(flush));
    if (park_ms > 0)
        json_object_set_new(msg, "park_ms", json_integer(park_ms));
    dlr_sup_send_all(rounds->env.nodes, msg);
    if (!rounds
             ->end_reported) { /* else once more, for agents that were started again */
        if (cause != DLR_CAUSE_SIGNAL)
            dlr_user_line(rounds->env.io, "round %u ends: %s", round, why);
        tell_end(rounds, round, cause, why);
    }
    rounds->end_reported = rounds->ending = true;
    dlr_sup_versions_stop(rounds->env.versions, why);
    if (park_ms > 0)
        dlr_sup_stay_keep(rounds);
    else
        dlr_sup_stay_end(rounds);
    if (flush)
        dlr_srun_flush(rounds->env.steps, &rounds->workers);
    else if (park_ms == 0)
        dlr_srun_abandon(rounds->env.steps, &rounds->workers);
    dlr_sup_rounds_changed(rounds);
}

void dlr_sup_explain_end(struct dlr_sup_rounds *rounds, uint32_t round,
                         enum dlr_cause cause, const char *why)
{
    dlr_user_line(rounds->env.io, "round %u ended, as is known now: %s", round, why);
    dlr_journal_note(dlr_sup_journal(rounds->env.io), "explained", "s:I,s:s,s:s,s:I",
                     "round", (json_int_t)round, "cause", dlr_cause_name(cause), "why",
                     why, "restarts", (json_int_t)dlr_policy_restarts(rounds->policy));
}

void dlr_sup_tell_cleared(struct dlr_sup_rounds *rounds)
{
    json_t *row;

    if (!rounds->ending)
        return;
    rounds->ending = false;
    row = json_pack("{s:I,s:I}", "round", (json_int_t)dlr_policy_round(rounds->policy),
                    "took_ms", (json_int_t)(dlr_sup_now() - rounds->phase_ms));
    if (row && dlr_sup_stay_parked(rounds) > 0)
        json_object_set_new(row, "parked", json_integer(dlr_sup_stay_parked(rounds)));
    dlr_journal_event(dlr_sup_journal(rounds->env.io), "cleared", row);
}
