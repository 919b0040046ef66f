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
#include "common/base/hostlist.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/run/master_port.h"
#include "mpi_launcher/supervisor/supervisor.h"
#include "mpi_launcher/wire/heartbeat.h"

#define PROGRESS_EVERY_MS 2000

/* --- launch ------------------------------------------------------------------------------ */

/* One line per task: the node of its place (srun(1), SLURM_HOSTFILE). srun gets it as a
 * descriptor: a file server that hangs must not hold up a launch, or us.
 */
static int make_hostfile(struct dlr_sup *s, int *ret_fd, struct dlr_err *err)
{
    DLR_AUTO_FREE char *text = NULL;
    size_t size = 0;
    DLR_AUTO_FCLOSE FILE *f = open_memstream(&text, &size);
    DLR_AUTO_FREE unsigned *place = calloc(s->step->world, sizeof(*place));
    int fd;

    for (unsigned p = 0, i = 0; place && p < s->step->nplaces; p++)
        for (unsigned t = 0; t < s->step->tasks[p]; t++, i++)
            place[s->step->ranks ? s->step->ranks[i] : i] = p;

    for (unsigned task = 0; f && place && task < s->step->world; task++)
        fprintf(f, "%s\n", s->plan->places[place[task]].node.name);
    fd = !f || !place || fflush(f) ? -ENOMEM : dlr_sup_file_memory(text);
    if (fd < 0)
        return dlr_fail(err, fd, "no memory for the list of nodes");
    *ret_fd = fd;
    return 0;
}

/* "n3,n1" and "1,1" in rank order; the caller frees both. */
static int lists(const struct dlr_sup *s, char **ret_nodes, char **ret_tasks,
                 struct dlr_err *err)
{
    DLR_AUTO_FREE const char **names = calloc(s->plan->nplaces + 1, sizeof(*names));
    size_t size = (size_t)s->plan->nplaces * 12 + 1, t = 0;
    int rc;

    *ret_tasks = malloc(size);
    if (!names || !*ret_tasks)
        return -ENOMEM;
    for (unsigned p = 0; p < s->plan->nplaces; p++) {
        names[p] = s->plan->places[p].node.name;
        t +=
            snprintf(*ret_tasks + t, size - t, "%s%u", p ? "," : "", s->step->tasks[p]);
    }
    rc = dlr_hostlist_join(names, s->plan->nplaces, ret_nodes);
    return rc == 0 ? 0
                   : dlr_fail(err, rc, "cannot list %u nodes in %u bytes: %s",
                              s->plan->nplaces, DLR_HOSTLIST_MAX, strerror(-rc));
}

/* Whether the user asked for tasks per node: some programs refuse to run without the variable. */
static bool asked_per_node(const struct dlr_sup *s)
{
    if (getenv("SLURM_NTASKS_PER_NODE"))
        return true;
    for (char *const *word = dlr_sup_srun_words(s->planning);
         *word && word < s->step->program; word++)
        if (dlr_after(*word, "--ntasks-per-n"))
            return true;
    return false;
}

static bool in_order(const struct dlr_stepplan *step)
{
    for (unsigned i = 0; step->ranks && i < step->world; i++)
        if (step->ranks[i] != i)
            return false;
    return true;
}

static int worker_env(struct dlr_sup *s, uint32_t round, struct dlr_env *env,
                      struct dlr_err *err)
{
    DLR_AUTO_FREE char *nodes = NULL, *tasks = NULL;
    /* As its node has chosen it; 0 of a plan that nobody was asked for. */
    unsigned told = s->plan->places[0].port;
    unsigned port =
        told ? told
             : dlr_port_choose(dlr_sup_job_number(s->planning), s->info.name, round);
    int rc = lists(s, &nodes, &tasks, err);

    if (rc < 0 || (rc = dlr_env_copy(env, false)) < 0 ||
        (rc = dlr_sup_names_env(s, env)) < 0)
        return rc;
    rc |= dlr_env_set(env, "DLROVER_SUPERVISED", "%s.%u.%s", s->info.job,
                      s->info.incarnation, s->info.name);
    rc |= dlr_env_set(env, "SLURM_HOSTFILE", "%s", DLR_STEPS_PASS_PATH);
    rc |= dlr_env_set(env, "SLURM_JOB_NODELIST", "%s", nodes);
    rc |= dlr_env_set(env, "SLURM_JOB_NUM_NODES", "%u", s->plan->nplaces);
    rc |= dlr_env_set(env, "SLURM_NNODES", "%u", s->plan->nplaces);
    rc |= dlr_env_set(env, "DLROVER_ROUND", "%u", round);
    rc |= dlr_env_set(env, "DLROVER_RUN", "%s", s->info.name);
    rc |= dlr_env_set(env, "DLROVER_KEY", "%s", s->info.key);
    rc |= dlr_env_set(env, "DLROVER_ROUND_NODES", "%s", nodes);
    rc |= dlr_env_set(env, "DLROVER_TASKS", "%s", tasks);
    if (!in_order(s->step))
        rc |= dlr_env_set(env, "DLROVER_DEALT", "1");
    if (asked_per_node(s))
        rc |= dlr_env_set(env, "DLROVER_PER_NODE", "1");
    rc |= dlr_env_set(env, "DLROVER_MASTER_PORT", "%u", port);
    rc |= dlr_env_set(env, "DLROVER_AGENT_SOCKET", "%s/agent.sock", s->info.memory);
    rc |= dlr_sup_shape_env(s->planning, env);
    rc |= dlr_steps_pmix_env(env);
    return rc ? -ENOMEM : 0;
}

static void worker_words(struct dlr_sup *s, struct dlr_words *w)
{
    DLR_AUTO_FREE char **program = dlr_sup_names_words(s);
    const char *share[DLR_STEPPLAN_SHARE + 1];

    dlr_stepplan_share(s->step, s->queue.may, share);
    dlr_words_add(w, "srun");
    for (unsigned i = 0; i < s->step->noptions; i++)
        dlr_words_add(w, "%s", s->step->options[i]);
    for (const char **word = share; *word; word++)
        dlr_words_add(w, "%s", *word);
    /* No --nodes, which newer sruns refuse beside an arbitrary order: SLURM_NNODES says it. */
    dlr_words_add(w, "--ntasks=%u", s->step->world);
    dlr_words_add(w, "--distribution=arbitrary");
    if (s->launched || s->took_over || s->info.incarnation)
        dlr_words_add(w,
                      "--open-mode=append"); /* later rounds go on where one stopped */
    for (char **p = program ? program : s->step->program; *p; p++)
        dlr_words_add(w, "%s", *p);
}

void dlr_sup_step_ended(struct dlr_sup *s, int status)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);

    if (code && !s->tasks_up && dlr_policy_phase(s->policy) == DLR_PHASE_RUN)
        dlr_sup_ask_controller(s->steps, DLR_ASK_STEP, code, "", s->launch_ms);
    else
        dlr_policy_step_ended(s->policy, s->running_round, code, dlr_sup_now());
}

static int workers_ended(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_sup *s = arg;
    int status;

    dlr_sup_unwatch(s->io, s->workers.pidfd);
    status = dlr_proc_reap(&s->workers);
    dlr_sup_step_ended(s, status);
    return dlr_sup_is_over(s) ? -1 : 0;
}

static void reset_round(struct dlr_sup *s, uint32_t round)
{
    for (unsigned i = 0; s->tails && i < s->ntails; i++)
        free(s->tails[i]);
    free(s->tails);
    s->tails = calloc(s->step->world, sizeof(*s->tails));
    s->ntails = s->step->world;
    free(s->restored);
    s->restored = calloc(s->plan->world, 1);
    free(s->up);
    s->up = calloc(s->step->world, 1);
    dlr_sup_bring_round(s);
    s->nrestored = s->tasks_up = 0;
    s->first_step_seen = s->first_step_told = s->end_told = false;
    s->running_told = s->go_told = false;
    s->queue.does = false;
    s->adopt.workers_pid = 0;
    s->restore_deadline_ms = INT64_MAX;
    memset(&s->failure, 0, sizeof(s->failure));
    s->running_round = round;
    s->launch_ms = dlr_sup_now();
}

void dlr_sup_launch(void *arg, uint32_t round)
{
    struct dlr_sup *s = arg;
    DLR_AUTO_CLOSE int input = dlr_sup_stdin(s);
    DLR_AUTO_CLOSE int hosts = -1;
    struct dlr_words words = {0};
    struct dlr_env env = {0};
    struct dlr_err err = {0};

    dlr_sup_drain_end(s->steps); /* was waited for: two would write to one file */
    reset_round(s, round);
    s->queue.may = dlr_sup_may_queue(s);
    worker_words(s, &words);
    dlr_journal_note(dlr_sup_journal(s->io), "launch", "s:I,s:i,s:i", "round",
                     (json_int_t)round, "world", s->step->world, "nodes",
                     s->plan->nplaces);
    if (make_hostfile(s, &hosts, &err) < 0 || worker_env(s, round, &env, &err) < 0 ||
        dlr_proc_start_with(words.list, env.list, input, 1, 2, hosts, &s->workers,
                            &err) < 0)
        dlr_sup_say(s->io, "cannot start the workers: %s",
                    err.text); /* launch limit runs */
    else
        dlr_sup_watch(s->io, s->workers.pidfd, workers_ended, s);
    dlr_sup_names_tell(s);
    s->launched = true;
    s->launch_deadline_ms = s->launch_ms + s->conf.launch_timeout_ms;
    dlr_words_done(&words);
    dlr_env_done(&env);
    dlr_sup_save_state(s);
}

/* --- watch --------------------------------------------------------------------------------- */

bool dlr_sup_of_round(const struct dlr_sup *s, const json_t *msg, unsigned of,
                      unsigned *ret_rank)
{
    uint64_t round, rank;

    if (!dlr_sup_has_plan(s->plan) ||
        dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        dlr_msg_uint(msg, "rank", of - 1, &rank) < 0 || round != s->running_round)
        return false;
    *ret_rank = rank;
    return true;
}

void dlr_sup_on_task(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    unsigned rank;

    if (!dlr_sup_of_round(s, msg, s->step->world, &rank) || !s->up || s->up[rank])
        return; /* an agent that reconnects says it again */
    s->up[rank] = 1;
    s->queue.held = true;
    dlr_policy_started(s->policy, s->running_round);
    dlr_sup_controller_started(s->steps);
    if (++s->tasks_up < s->step->world)
        return;
    s->launch_deadline_ms = INT64_MAX;
    if (s->plan->restore && !s->go_told && !s->first_step_told)
        /* a start that hangs before its first restore ends, too */
        s->restore_deadline_ms = dlr_sup_now() + s->conf.restore_timeout_ms;
    if (s->running_told)
        return; /* by the former supervisor */
    s->running_told = true;
    dlr_sup_keep(s);
    dlr_journal_note(dlr_sup_journal(s->io), "running", "s:I,s:I", "round",
                     (json_int_t)s->running_round, "took_ms",
                     (json_int_t)(dlr_sup_now() - s->launch_ms));
}

void dlr_sup_tell_failure(struct dlr_sup *s)
{
    struct dlr_failure *f = &s->failure;
    json_t *row;

    if (!f->set || f->told)
        return;
    f->told = true;
    row = json_pack("{s:I,s:i,s:s,s:s}", "round", (json_int_t)s->running_round, "rank",
                    f->rank, "node", s->members->list[f->node].node.name, "stderr",
                    s->tails && s->tails[f->rank] ? s->tails[f->rank] : "");
    if (row && WIFSIGNALED(f->status))
        json_object_set_new(row, "signal", json_integer(WTERMSIG(f->status)));
    else if (row)
        json_object_set_new(row, "code", json_integer(WEXITSTATUS(f->status)));
    dlr_journal_event(dlr_sup_journal(s->io), "worker_exit", row);
    dlr_sup_blame_node(s->versions, f->node);
}

/* A failure breaks its peers' connections, and they fail too: the one that ended first, by
 * its node's clock, is the reason. Tasks that we killed are none.
 */
static bool is_reason(const struct dlr_sup *s, int status, int64_t at_ms)
{
    enum dlr_phase phase = dlr_policy_phase(s->policy);

    if (status == 0)
        return false;
    if (phase == DLR_PHASE_RUN)
        return !s->failure.set;
    return phase == DLR_PHASE_END && s->failure.set && at_ms < s->failure.at_ms &&
           !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

void dlr_sup_on_exit(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    int64_t status, at_ms = 0;
    unsigned rank;

    if (!dlr_sup_of_round(s, msg, s->step->world, &rank) ||
        dlr_msg_int(msg, "status", &status) < 0 || dlr_sup_adopt_later(s, node, msg))
        return;
    dlr_policy_started(s->policy, s->running_round);
    if (status == 0)
        dlr_sup_ranks_ended(s);
    dlr_msg_int(msg, "at_ms", &at_ms);
    if (!is_reason(s, status, at_ms))
        return;
    s->failure = (struct dlr_failure){
        .set = true, .rank = rank, .node = node, .status = status, .at_ms = at_ms};
    dlr_policy_worker_exit(s->policy, s->running_round, rank, status, dlr_sup_now());
}

void dlr_sup_on_orphaned(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    uint64_t round;
    char why[300];

    if (dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0)
        return;
    snprintf(why, sizeof(why), "slurmstepd of the round died on node %.200s",
             s->members->list[node].node.name);
    dlr_policy_step_lost(s->policy, round, why, dlr_sup_now());
}

void dlr_sup_on_stderr(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    const char *text;
    unsigned rank;

    if (!dlr_sup_of_round(s, msg, s->step->world, &rank) ||
        dlr_msg_str(msg, "text", &text) < 0 || !s->tails)
        return;
    free(s->tails[rank]);
    s->tails[rank] = strdup(text);
}

/* --- progress ------------------------------------------------------------------------------ */

static json_t *progress_row(struct dlr_sup *s, uint64_t step, double rate,
                            int64_t now_ms)
{
    json_t *row = json_pack("{s:I,s:I,s:f}", "round", (json_int_t)s->running_round,
                            "step", (json_int_t)step, "rate", rate);

    if (row)
        dlr_sup_saves_put(s->versions, now_ms, row);
    return row;
}

void dlr_sup_progress(struct dlr_sup *s, int64_t now_ms)
{
    uint64_t step;
    double rate;

    if (dlr_policy_phase(s->policy) != DLR_PHASE_RUN || s->adopt.active)
        return;
    if (dlr_sup_launch_late(s, now_ms))
        return;
    step = dlr_members_step(s->members, s->running_round);
    if (step == DLR_BEAT_NO_STEP)
        return;
    dlr_policy_stepped(s->policy, s->running_round);
    dlr_sup_versions_watch(s->versions, step, now_ms);
    if (!s->first_step_seen) {
        s->first_step_seen = true;
        if (!s->nrestored) /* it runs and does not want what there is */
            s->restore_deadline_ms = INT64_MAX;
        s->progress_ms = now_ms;
        s->progress_step = step;
        if (s->first_step_told)
            return; /* by the former supervisor */
        s->first_step_told = true;
        dlr_sup_keep(s);
        dlr_journal_note(dlr_sup_journal(s->io), "first_step", "s:I,s:I", "round",
                         (json_int_t)s->running_round, "step", (json_int_t)step);
        return;
    }
    if (now_ms - s->progress_ms < PROGRESS_EVERY_MS || step == s->progress_step)
        return;
    rate = (double)(step - s->progress_step) * 1000.0 / (now_ms - s->progress_ms);
    s->progress_ms = now_ms;
    s->progress_step = step;
    dlr_journal_event(dlr_sup_journal(s->io), "progress",
                      progress_row(s, step, rate, now_ms));
}

/* --- the end of a round ---------------------------------------------------------------------- */

static void tell_end(struct dlr_sup *s, uint32_t round, enum dlr_cause cause,
                     const char *why)
{
    uint64_t step = dlr_members_step(s->members, round);
    json_t *row = json_pack("{s:I,s:s,s:s}", "round", (json_int_t)round, "cause",
                            dlr_cause_name(cause), "why", why);

    if (row) {
        dlr_sup_newest_put(s->versions, row);
        json_object_set_new(row, "restarts",
                            json_integer(dlr_policy_restarts(s->policy)));
    }
    if (row && step != DLR_BEAT_NO_STEP)
        json_object_set_new(row, "step", json_integer(step));
    dlr_journal_event(dlr_sup_journal(s->io), "round_end", row);
}

void dlr_sup_end_round(void *arg, uint32_t round, enum dlr_cause cause, const char *why)
{
    struct dlr_sup *s = arg;
    bool drain = cause == DLR_CAUSE_PROGRAM || cause == DLR_CAUSE_RESTORE;
    json_t *msg = dlr_msg_new("kill");

    s->phase_ms = dlr_sup_now();
    s->launch_deadline_ms = s->restore_deadline_ms = INT64_MAX;
    json_object_set_new(msg, "round", json_integer(round));
    json_object_set_new(msg, "drain", json_boolean(drain));
    dlr_sup_send_all(s->nodes, msg);
    if (!s->end_told) { /* else once more, for agents that were started again */
        if (cause != DLR_CAUSE_SIGNAL)
            dlr_sup_say(s->io, "round %u ends: %s", round, why);
        tell_end(s, round, cause, why);
    }
    s->end_told = s->ending = true;
    dlr_sup_versions_stop(s->versions, why);
    if (drain)
        dlr_sup_drain(s->steps, &s->workers);
    else
        dlr_sup_let_go(s->steps, &s->workers);
    dlr_sup_keep(s);
}

void dlr_sup_tell_cleared(struct dlr_sup *s)
{
    if (!s->ending)
        return;
    s->ending = false;
    dlr_journal_note(dlr_sup_journal(s->io), "cleared", "s:I,s:I", "round",
                     (json_int_t)dlr_policy_round(s->policy), "took_ms",
                     (json_int_t)(dlr_sup_now() - s->phase_ms));
}
