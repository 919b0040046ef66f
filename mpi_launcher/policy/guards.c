/* SPDX-License-Identifier: Apache-2.0 */
/* What the rules ask: each answers from the state and the event, and changes neither. */
#include "mpi_launcher/policy/guards.h"

#include <signal.h>

#include "mpi_launcher/policy/state.h"

#define MAX_SETBACKS 16    /* see next_round.c */
#define MAX_STEPS_LOST 5   /* slurmstepds of one supervisor's rounds, at no cost */
#define MAX_AGENT_STARTS 5 /* of one supervisor: agents that always end are no help */
#define MAX_UNSTARTED 2    /* sruns in a row that end and have started nothing */
/* begun at no cost within an hour, and no version newer than any before: a loop */
#define MAX_FRUITLESS 100

DLR_GUARD(always)
{
    return true;
}

/* --- agents and nodes ------------------------------------------------------------- */

DLR_GUARD(some_may_be_late)
{
    return !p->cleanup_unconfirmed && p->conf.start_timeout_ms;
}

DLR_GUARD(all_have_reported)
{
    return dlr_policy_count(p, NODE_UNSEEN) == 0;
}

static bool enough(const struct dlr_policy *p, int64_t now_ms)
{
    return now_ms < p->late_ms && dlr_policy_count(p, NODE_UP) >= p->enough;
}

DLR_GUARD(enough_after_the_time)
{
    return enough(p, e->now_ms) && p->awaits;
}

DLR_GUARD(enough_have_reported)
{
    return enough(p, e->now_ms) && p->deadline_ms > e->now_ms + DLR_POLICY_SETTLE_MS;
}

DLR_GUARD(late_ones_may_come)
{
    return e->now_ms < p->late_ms && dlr_policy_count(p, NODE_UNSEEN);
}

/* On the host of the batch script the prolog is over: no agent there either is another
 * trouble.
 */
DLR_GUARD(late_ones_are_needed)
{
    unsigned up = dlr_policy_count(p, NODE_UP);

    return dlr_policy_if_late_ones_may_come(p, e) && up < p->enough &&
           (up || !p->conf.batch);
}

DLR_GUARD(nobody_is_here)
{
    return !dlr_policy_count(p, NODE_UP);
}

DLR_GUARD(some_may_run_a_round)
{
    return p->cleanup_unconfirmed && dlr_policy_count(p, NODE_UNSEEN);
}

DLR_GUARD(a_round_may_be_left)
{
    return p->cleanup_unconfirmed;
}

DLR_GUARD(agents_ended_too_often)
{
    return dlr_restart_budget_count(&p->agent_starts, e->now_ms) >= MAX_AGENT_STARTS;
}

DLR_GUARD(node_of_the_round)
{
    return p->nodes[e->node].member;
}

DLR_GUARD(node_explains_the_failure)
{
    return p->nodes[e->node].member && dlr_policy_is_programs(p);
}

/* --- the next round --------------------------------------------------------------- */

DLR_GUARD(another_try_is_left)
{
    return p->failed_rendezvous < p->conf.rendezvous_tries;
}

DLR_GUARD(too_many_setbacks)
{
    return p->failed_restores > MAX_SETBACKS;
}

DLR_GUARD(the_job_is_requeued)
{
    return p->requeues_with_job;
}

DLR_GUARD(too_few)
{
    return p->fit_why[0];
}

DLR_GUARD(too_few_and_some_may_come)
{
    return dlr_policy_if_too_few(p, e) && dlr_policy_if_late_ones_may_come(p, e);
}

DLR_GUARD(it_leads_nowhere)
{
    return dlr_restart_budget_count(&p->fruitless, e->now_ms) >= MAX_FRUITLESS;
}

/* --- while the step runs ---------------------------------------------------------- */

DLR_GUARD(ended_well)
{
    return dlr_policy_ended_well(p);
}

DLR_GUARD(ended_well_as_a_whole)
{
    return dlr_policy_ended_well(p) && !p->ended_early;
}

DLR_GUARD(no_task_has_started)
{
    return !p->started;
}

DLR_GUARD(ended_well_and_started)
{
    return dlr_policy_if_ended_well_as_a_whole(p, e) && p->started;
}

DLR_GUARD(no_task_has_failed)
{
    return dlr_policy_ended_well(p) && p->started;
}

/* The step was started before: what it lacks now the former round still holds, as
 * slurmctld has it. That is waited for, within a limit. False: it is over, or what the
 * user asks for was never to be had.
 */
DLR_GUARD(it_may_start_later)
{
    int64_t waited_ms = p->unstarted_ms ? e->now_ms - p->unstarted_ms : 0;

    return p->ran && !p->started && waited_ms < p->conf.controller_timeout_ms;
}

DLR_GUARD(srun_may_start_later)
{
    return p->exit_code && dlr_policy_if_it_may_start_later(p, e);
}

DLR_GUARD(srun_never_starts_it)
{
    return p->exit_code && p->ran && !p->started;
}

DLR_GUARD(srun_started_nothing_twice)
{
    return !p->started && p->unstarted + 1 >= MAX_UNSTARTED;
}

DLR_GUARD(the_one_before_was_late)
{
    return p->late_next && p->late_next == p->round;
}

DLR_GUARD(stepds_die_rarely)
{
    return dlr_restart_budget_count(&p->steps_lost, e->now_ms) < MAX_STEPS_LOST;
}

DLR_GUARD(failed_tasks_are_let_be)
{
    return p->conf.tolerant && p->started;
}

DLR_GUARD(failed_tasks_were_let_be)
{
    return p->conf.tolerant && p->started && p->exit_code;
}

/* --- its end ---------------------------------------------------------------------- */

DLR_GUARD(by_the_program)
{
    return dlr_policy_is_programs(p);
}

/* Of what has one time stamp, which was heard first is chance. */
DLR_GUARD(as_the_round_ended)
{
    return e->now_ms == p->failed_ms;
}

DLR_GUARD(as_the_program_failed)
{
    return e->now_ms == p->failed_ms && dlr_policy_is_programs(p);
}

DLR_GUARD(by_a_bad_copy)
{
    return p->cause == DLR_CAUSE_RESTORE;
}

DLR_GUARD(by_a_signal)
{
    return p->cause == DLR_CAUSE_SIGNAL;
}

DLR_GUARD(stepd_explains_the_failure)
{
    return dlr_policy_is_programs(p) && dlr_policy_if_stepds_die_rarely(p, e);
}

DLR_GUARD(nothing_is_left)
{
    for (unsigned i = 0; i < p->conf.nnodes; i++)
        if (p->nodes[i].state == NODE_UP && p->nodes[i].processes_left)
            return false;
    return true;
}

/* Of an adopted round: an agent was not there to hear its end, and the tasks go on. */
DLR_GUARD(unseen_nodes_may_run_it)
{
    if (p->cause == DLR_CAUSE_SIGNAL || !dlr_policy_if_nothing_is_left(p, e))
        return false;
    for (unsigned i = 0; i < p->conf.nnodes; i++)
        if (p->nodes[i].unheard && p->nodes[i].state != NODE_DEAD)
            return true;
    return false;
}

DLR_GUARD(all_can_be_told_to_end_it)
{
    return dlr_policy_if_unseen_nodes_may_run_it(p, e) &&
           dlr_policy_if_all_have_reported(p, e);
}

DLR_GUARD(the_program_ended_well)
{
    return dlr_policy_is_programs(p) && dlr_policy_ended_well(p) && p->started;
}

DLR_GUARD(the_controller_is_away)
{
    return p->controller_down && p->cause != DLR_CAUSE_SIGNAL;
}

DLR_GUARD(it_cannot_be_launched)
{
    return dlr_policy_is_programs(p) && p->launch_refused;
}

static bool does(const struct dlr_policy *p, enum dlr_policy_on action)
{
    return p->conf.on_exit[p->exit_code & 255] == action;
}

DLR_GUARD(the_failure_stops_the_run)
{
    return dlr_policy_is_programs(p) && does(p, DLR_ON_STOP);
}

/* A failure breaks the peers, and they fail in ways of their own. */
DLR_GUARD(another_said_stop)
{
    return dlr_policy_is_programs(p) && p->said_stop && !e->stops;
}

DLR_GUARD(the_loss_stops_the_run)
{
    return p->cause == DLR_CAUSE_NODE && p->conf.on_node == DLR_ON_STOP;
}

DLR_GUARD(the_loss_means_a_requeue)
{
    return p->cause == DLR_CAUSE_NODE && p->conf.on_node == DLR_ON_REQUEUE;
}

DLR_GUARD(it_is_a_requeue)
{
    return p->verdict == DLR_RESTART_AGAIN && does(p, DLR_ON_REQUEUE);
}

DLR_GUARD(a_restart_is_left)
{
    return p->verdict == DLR_RESTART_AGAIN;
}

DLR_GUARD(memory_is_unwritten)
{
    return p->ops.unwritten && p->ops.unwritten(p->arg);
}

DLR_GUARD(the_failure_was_the_last)
{
    return p->failed;
}

DLR_GUARD(the_wait_was_for_a_requeue)
{
    return p->requeue_wait;
}

/* --- SIGTERM ---------------------------------------------------------------------- */

DLR_GUARD(tasks_have_sigterm)
{
    return dlr_policy_tasks_heed(p, e->now_ms);
}

/* And not another signal, which was to warn them: they may go on. */
DLR_GUARD(tasks_have_sigterm_itself)
{
    return dlr_policy_tasks_heed(p, e->now_ms) && !p->sigterm.warning;
}

/* The agents' word that it came may be on its way. */
DLR_GUARD(sigterm_is_not_explained)
{
    return (e->code == 128 + SIGTERM || p->sigterm.asked) && !p->sigterm.code;
}

/* Or slurmctld's, whether another one was for the end. */
DLR_GUARD(a_signal_is_asked_about)
{
    return p->sigterm.asked;
}

DLR_GUARD(sigterm_explains_the_end)
{
    return p->exit_unexplained && p->ended;
}

DLR_GUARD(sigterm_gives_a_limit)
{
    return e->wanted;
}

DLR_GUARD(a_task_ended_for_sigterm)
{
    return p->sigterm.code;
}

DLR_GUARD(fate_is_asked)
{
    return p->sigterm.settling;
}

DLR_GUARD(sigterm_was_for_us)
{
    return p->sigterm.wanted;
}

DLR_GUARD(sigterm)
{
    return e->code == SIGTERM;
}

DLR_GUARD(sigterm_while_fate_is_asked)
{
    return e->code == SIGTERM && p->sigterm.settling;
}

DLR_GUARD(sigterm_once_more)
{
    return e->code == SIGTERM && p->sigterm.over;
}

/* The word may have come while the round was being ended. */
DLR_GUARD(sigterm_ended_it)
{
    return p->sigterm.over || p->sigterm.wanted ||
           (dlr_policy_is_programs(p) && dlr_policy_tasks_heed(p, e->now_ms));
}

DLR_GUARD(it_was_for_sigterm)
{
    return p->sigterm.over;
}

DLR_GUARD(sigterm_ends_the_run)
{
    return p->sigterm.over && (!p->sigterm.back || does(p, DLR_ON_STOP) ||
                               dlr_policy_stops_at(p, p->sigterm.code));
}

DLR_GUARD(the_job_ends)
{
    return e->fate != DLR_FATE_RUNS;
}
