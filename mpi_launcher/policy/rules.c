/* SPDX-License-Identifier: Apache-2.0 */
/* The table of what the engine does, and what follows it. A new event or state is a row
 * in rules.h, its guard and action one in guards.h and rule_actions.h; docs/policy.md
 * is made of this (tests/checks/check_policy.py --write).
 */
#include "mpi_launcher/policy/rules.h"

#include <assert.h>
#include <stddef.h>

#include "mpi_launcher/policy/guards.h"
#include "mpi_launcher/policy/rule_actions.h"
#include "mpi_launcher/policy/state.h"

/* clang-format off */

enum {
    AGENTS = 1u << DLR_PHASE_AGENTS, RENDEZVOUS = 1u << DLR_PHASE_RENDEZVOUS, PREPARE = 1u << DLR_PHASE_PREPARE,
    RUN = 1u << DLR_PHASE_RUN, END = 1u << DLR_PHASE_END, PERSIST = 1u << DLR_PHASE_PERSIST,
    REQUEUE = 1u << DLR_PHASE_REQUEUE, WAIT = 1u << DLR_PHASE_WAIT, DONE = 1u << DLR_PHASE_DONE,
    AGAIN = 1u << DLR_CHOICE_AGAIN, MET = 1u << DLR_CHOICE_MET, GONE = 1u << DLR_CHOICE_GONE,
    SETBACK = 1u << DLR_CHOICE_SETBACK, FAILED = 1u << DLR_CHOICE_FAILED, LAST = 1u << DLR_CHOICE_LAST,
    WRITTEN = 1u << DLR_CHOICE_WRITTEN, NEXT = 1u << DLR_CHOICE_NEXT, FITTED = 1u << DLR_CHOICE_FITTED,
    SAME = 1u << DLR_STATE_SAME,
};

#define R(state, event, guard, action, next)                                                                           \
    {state, DLR_EVENT_##event, dlr_policy_if_##guard, dlr_policy_do_##action, __builtin_ctz(next), #guard, #action}

const struct dlr_policy_rule dlr_policy_rules[] = {
    /* the agents start and report */
    R(AGENTS, START, some_may_be_late, start_agents_some_late, AGENTS),
    R(AGENTS, START, always, start_agents, AGENTS),
    R(AGENTS, ADOPT, always, adopt, RUN),
    R(AGENTS, NODE_UP, all_have_reported, nothing, MET),
    R(AGENTS, NODE_UP, enough_after_the_time, nothing, MET),
    R(AGENTS, NODE_UP, enough_have_reported, settle, SAME),
    R(AGENTS, NODE_DEAD, all_have_reported, nothing, MET),
    R(AGENTS, AGENTS_GONE, always, nothing, AGAIN),
    R(AGENTS, SIGNAL, always, finish_for_the_signal, DONE),
    R(AGENTS, SIGTERM, always, ask_fate, SAME),
    R(AGENTS, FATE, the_job_ends, persist_last, PERSIST),
    R(AGENTS, CONTROLLER_AWAY, always, wait_for_the_controller, WAIT),
    R(AGENTS, LIMIT, late_ones_are_needed, await_the_late, AGENTS),
    R(AGENTS, LIMIT, always, give_up_the_unseen, MET),
    R(AGAIN, AT_ONCE, agents_ended_too_often, finish_agents_ended, DONE),
    R(AGAIN, AT_ONCE, always, start_agents_again, AGENTS),
    R(MET, AT_ONCE, nobody_is_here, finish_without_agents, DONE),
    R(MET, AT_ONCE, a_round_may_be_left, end_the_former_round, END),
    R(MET, AT_ONCE, always, nothing, NEXT),

    /* candidates meet */
    R(RENDEZVOUS, HOLD, always, hold, RENDEZVOUS),
    R(RENDEZVOUS, REPLAN, always, forget_failed_tries, NEXT),
    R(RENDEZVOUS, PLANNED, always, prepare, PREPARE),
    R(RENDEZVOUS, TOO_FEW, late_ones_may_come, await_one_more, AGENTS),
    R(RENDEZVOUS, TOO_FEW, always, persist_to_requeue, PERSIST),
    R(RENDEZVOUS, STARVES, always, persist_to_requeue, PERSIST),
    R(RENDEZVOUS, NOT_MET, another_try_is_left, count_failed_try, NEXT),
    R(RENDEZVOUS, NOT_MET, always, finish_no_rendezvous, DONE),
    R(RENDEZVOUS, GIVE_UP, always, finish_given_up, DONE),
    R(RENDEZVOUS, NODE_DEAD, always, stop_rendezvous, NEXT),
    R(RENDEZVOUS, AGENTS_GONE, always, stop_rendezvous, AGAIN),
    R(RENDEZVOUS, SIGNAL, always, stop_and_finish_for_the_signal, DONE),
    R(RENDEZVOUS, SIGTERM, always, ask_fate, SAME),
    R(RENDEZVOUS, FATE, the_job_ends, stop_and_persist_last, PERSIST),
    R(RENDEZVOUS, REQUEUE_WITH_JOB, always, stop_rendezvous, NEXT),
    R(RENDEZVOUS, CONTROLLER_AWAY, always, stop_and_wait, WAIT),
    R(RENDEZVOUS, LIMIT, another_try_is_left, stop_and_count_failed_try, NEXT),
    R(RENDEZVOUS, LIMIT, always, stop_and_finish_no_rendezvous, DONE),

    /* copies move to where the ranks will be */
    R(PREPARE, PREPARED, always, launch, RUN),
    R(PREPARE, COPIES_FAILED, always, count_setback, SETBACK),
    R(PREPARE, NODE_DEAD, node_of_the_round, nothing, NEXT),
    R(PREPARE, AGENTS_GONE, always, nothing, AGAIN),
    R(PREPARE, SIGNAL, always, finish_for_the_signal, DONE),
    R(PREPARE, SIGTERM, always, ask_fate, SAME),
    R(PREPARE, FATE, the_job_ends, persist_last, PERSIST),
    R(PREPARE, REQUEUE_WITH_JOB, always, nothing, NEXT),
    R(PREPARE, LIMIT, always, count_setback, SETBACK),

    /* the user's step */
    R(RUN, ADOPT_FAILED, all_have_reported, take_over_the_adopted, MET),
    R(RUN, ADOPT_FAILED, always, take_over_the_adopted, AGENTS),
    R(RUN, STARTED, ended_well_as_a_whole, note_the_start_and_finish, DONE),
    R(RUN, STARTED, always, note_the_start, SAME),
    R(RUN, QUEUED, no_task_has_started, begin_its_time, SAME),
    R(RUN, LAUNCH_LATE, it_may_start_later, end_not_started, END),
    R(RUN, LAUNCH_LATE, the_one_before_was_late, refuse_late_tasks, END),
    R(RUN, LAUNCH_LATE, always, end_for_late_tasks, END),
    R(RUN, TASK_FAILED, tasks_have_sigterm, keep_its_end, SAME),
    R(RUN, TASK_FAILED, sigterm_is_not_explained, await_sigterm, SAME),
    R(RUN, TASK_FAILED, always, end_for_the_task, END),
    R(RUN, RESTORE_FAILED, always, end_for_the_copy, END),
    R(RUN, RESTORE_REFUSED, always, end_refused, END),
    R(RUN, NODE_DEAD, node_of_the_round, end_for_the_node, END),
    R(RUN, LEASE_EXPIRED, always, end_unwatched, END),
    R(RUN, WATCH_LOST, always, end_unwatched, END),
    R(RUN, STEPD_LOST, stepds_die_rarely, end_for_the_stepd, END),
    R(RUN, AGENTS_GONE, always, end_without_agents, AGAIN),
    R(RUN, HANG, tasks_have_sigterm_itself, nothing, SAME),
    R(RUN, HANG, always, end_for_the_hang, END),
    R(RUN, STEP_ENDED, tasks_have_sigterm, ask_after_the_end, SAME),
    R(RUN, STEP_ENDED, a_signal_is_asked_about, await_the_reason, SAME),
    R(RUN, STEP_ENDED, ended_well_and_started, finish_well, DONE),
    R(RUN, STEP_ENDED, always, await_the_reason, SAME),
    R(RUN, SIGNAL, sigterm_while_fate_is_asked, want_it, SAME),
    R(RUN, SIGNAL, always, end_for_the_signal, END),
    R(RUN, SIGTERM, sigterm_explains_the_end, ask_after_the_end, SAME),
    R(RUN, SIGTERM, fate_is_asked, nothing, SAME),
    R(RUN, SIGTERM, sigterm_gives_a_limit, limit_the_tasks, SAME),
    R(RUN, SIGTERM, a_task_ended_for_sigterm, await_the_other_tasks, SAME),
    R(RUN, FATE, fate_is_asked, conclude, END),
    R(RUN, REQUEUE_WITH_JOB, always, end_for_the_job, END),
    R(RUN, CONTROLLER_AWAY, always, end_for_the_controller, END),
    R(RUN, LIMIT, fate_is_asked, conclude, END),
    R(RUN, LIMIT, sigterm_was_for_us, end_for_sigterm, END),
    R(RUN, LIMIT, a_task_ended_for_sigterm, end_for_its_task, END),
    R(RUN, LIMIT, failed_tasks_were_let_be, note_srun_failed, LAST),
    R(RUN, LIMIT, failed_tasks_are_let_be, finish_well, DONE),
    R(RUN, LIMIT, no_task_has_failed, finish_well, DONE),
    R(RUN, LIMIT, srun_may_start_later, end_srun_waits, END),
    R(RUN, LIMIT, srun_never_starts_it, refuse_srun_not_started, END),
    R(RUN, LIMIT, srun_started_nothing_twice, refuse_srun_again, END),
    R(RUN, LIMIT, always, end_for_srun, END),

    /* the round's processes go away */
    R(END, AT_ONCE, all_can_be_told_to_end_it, doubt_its_end, MET),
    R(END, AT_ONCE, unseen_nodes_may_run_it, doubt_its_end, AGENTS),
    R(END, AT_ONCE, nothing_is_left, nothing, GONE),
    R(END, CLEAN, always, nothing, SAME),
    R(END, NODE_DEAD, node_explains_the_failure, explain_by_the_node, SAME),
    R(END, LEASE_EXPIRED, by_the_program, explain_by_control, SAME),
    R(END, STEPD_LOST, stepd_explains_the_failure, explain_by_the_stepd, SAME),
    R(END, RESTORE_FAILED, as_the_program_failed, explain_by_the_copy, SAME),
    R(END, WATCH_LOST, as_the_program_failed, explain_by_control, SAME),
    R(END, REQUEUE_WITH_JOB, as_the_program_failed, explain_by_the_job, SAME),
    R(END, CONTROLLER_AWAY, as_the_round_ended, explain_by_the_controller, SAME),
    R(END, TASK_FAILED, another_said_stop, nothing, SAME),
    R(END, TASK_FAILED, by_the_program, name_the_first_task, SAME),
    R(END, STARTED, ended_well, note_the_start, SAME),
    R(END, AGENTS_GONE, by_a_signal, finish_for_the_signal, DONE),
    R(END, AGENTS_GONE, always, doubt_its_end, AGAIN),
    R(END, SIGNAL, sigterm_once_more, nothing, SAME),
    R(END, SIGNAL, always, name_the_signal, SAME),
    R(END, LIMIT, always, give_up_its_nodes, SAME),
    R(GONE, AT_ONCE, sigterm_ended_it, persist_after_the_round, PERSIST),
    R(GONE, AT_ONCE, the_program_ended_well, finish_well, DONE),
    R(GONE, AT_ONCE, the_controller_is_away, wait_after_the_round, WAIT),
    R(GONE, AT_ONCE, by_a_bad_copy, count_setback, SETBACK),
    R(GONE, AT_ONCE, by_a_signal, finish_for_the_signal, DONE),
    R(GONE, AT_ONCE, it_cannot_be_launched, finish_refused, DONE),
    R(GONE, AT_ONCE, the_failure_stops_the_run, note_it_stops, LAST),
    R(GONE, AT_ONCE, the_loss_stops_the_run, note_it_stops, LAST),
    R(GONE, AT_ONCE, the_loss_means_a_requeue, persist_as_it_failed, PERSIST),
    R(GONE, AT_ONCE, by_the_program, ask_the_budget, FAILED),
    R(GONE, AT_ONCE, always, forget_the_failure, NEXT),
    R(SETBACK, AT_ONCE, too_many_setbacks, finish_no_copy, DONE),
    R(SETBACK, AT_ONCE, always, nothing, NEXT),
    R(FAILED, AT_ONCE, it_is_a_requeue, persist_as_it_failed, PERSIST),
    R(FAILED, AT_ONCE, a_restart_is_left, count_it_no_more, NEXT),
    R(FAILED, AT_ONCE, always, note_the_last_failure, LAST),
    R(NEXT, AT_ONCE, the_job_is_requeued, persist_for_the_job, PERSIST),
    R(NEXT, AT_ONCE, always, fit_places, FITTED),
    R(FITTED, AT_ONCE, too_few_and_some_may_come, await_one_more, AGENTS),
    R(FITTED, AT_ONCE, too_few, persist_too_few, PERSIST),
    R(FITTED, AT_ONCE, it_leads_nowhere, note_it_leads_nowhere, LAST),
    R(FITTED, AT_ONCE, always, rendezvous, RENDEZVOUS),
    R(LAST, AT_ONCE, memory_is_unwritten, persist_at_last, PERSIST),
    R(LAST, AT_ONCE, always, finish_failed, DONE),

    /* the state is written, the job goes back into the queue */
    R(PERSIST, PERSISTED, always, nothing, WRITTEN),
    R(PERSIST, AGENTS_GONE, always, nothing, WRITTEN),
    R(PERSIST, SIGNAL, sigterm, want_it_written, SAME),
    R(PERSIST, SIGNAL, always, finish_for_the_signal, DONE),
    R(PERSIST, LIMIT, always, nothing, WRITTEN),
    R(WRITTEN, AT_ONCE, sigterm_ends_the_run, finish_after_sigterm, DONE),
    R(WRITTEN, AT_ONCE, the_failure_was_the_last, finish_failed, DONE),
    R(WRITTEN, AT_ONCE, always, requeue, REQUEUE),
    R(REQUEUE, REQUEUE_FAILED, always, finish_no_requeue, DONE),
    R(REQUEUE, REQUEUE_CANCEL, it_was_for_sigterm, nothing, SAME),
    R(REQUEUE, REQUEUE_CANCEL, some_may_run_a_round, nothing, AGENTS),
    R(REQUEUE, REQUEUE_CANCEL, a_round_may_be_left, end_the_former_round, END),
    R(REQUEUE, REQUEUE_CANCEL, always, nothing, NEXT),
    R(REQUEUE, SIGNAL, always, finish_for_the_signal, DONE),
    R(REQUEUE, CONTROLLER_AWAY, always, wait_to_requeue, WAIT),
    R(REQUEUE, LIMIT, always, finish_no_requeue, DONE),

    /* slurmctld is away */
    R(WAIT, CONTROLLER_BACK, it_leads_nowhere, note_it_leads_nowhere, LAST),
    R(WAIT, CONTROLLER_BACK, the_wait_was_for_a_requeue, requeue_again, REQUEUE),
    R(WAIT, CONTROLLER_BACK, nobody_is_here, start_agents_at_no_cost, AGENTS),
    R(WAIT, CONTROLLER_BACK, some_may_run_a_round, nothing, AGENTS),
    R(WAIT, CONTROLLER_BACK, always, nothing, MET),
    R(WAIT, AGENTS_GONE, always, nothing, AGAIN),
    R(WAIT, SIGNAL, always, finish_for_the_signal, DONE),
    R(WAIT, SIGTERM, always, ask_fate, SAME),
    R(WAIT, FATE, the_job_ends, persist_last, PERSIST),
    R(WAIT, LIMIT, always, finish_no_controller, DONE),
};

/* clang-format on */

const unsigned dlr_policy_nrules =
    sizeof(dlr_policy_rules) / sizeof(dlr_policy_rules[0]);

/* Of a phase, from its begin; < 0: none of ours, the step ends when it ends. */
static int64_t limit_ms(const struct dlr_policy *p, enum dlr_phase phase)
{
    switch (phase) {
    case DLR_PHASE_AGENTS:
        return p->conf.agent_timeout_ms;
    case DLR_PHASE_RENDEZVOUS:
        return p->conf.rendezvous_timeout_ms;
    case DLR_PHASE_PREPARE:
        return p->conf.transfer_timeout_ms;
    case DLR_PHASE_END:
        return p->conf.end_timeout_ms;
    case DLR_PHASE_PERSIST:
        return p->conf.persist_timeout_ms;
    case DLR_PHASE_REQUEUE:
        return p->conf.requeue_timeout_ms;
    case DLR_PHASE_WAIT:
        return p->conf.controller_timeout_ms;
    default:
        return -1;
    }
}

/* Rules of a state stand together: who looks for one does not see the others. */
static void index_rules(struct dlr_policy *p)
{
    for (unsigned i = 0; i < dlr_policy_nrules; i++)
        for (unsigned state = 0; state < DLR_POLICY_STATES; state++) {
            if (!(dlr_policy_rules[i].states >> state & 1))
                continue;
            if (!p->rules[state].to)
                p->rules[state].from = i;
            p->rules[state].to = i + 1;
        }
}

static const struct dlr_policy_rule *find(const struct dlr_policy *p, unsigned state,
                                          enum dlr_policy_what what,
                                          const struct dlr_policy_event *e)
{
    for (unsigned i = p->rules[state].from; i < p->rules[state].to; i++) {
        const struct dlr_policy_rule *r = &dlr_policy_rules[i];

        if ((r->states >> state & 1) && r->what == what && r->guard(p, e))
            return r;
    }
    return NULL;
}

/* Returns the state that it leads to. */
static unsigned follow(struct dlr_policy *p, const struct dlr_policy_rule *r,
                       const struct dlr_policy_event *e)
{
    if (r->next <= DLR_PHASE_DONE)
        dlr_policy_enter(p, r->next, e->now_ms, limit_ms(p, r->next));
    r->action(p, e);
    return r->next == DLR_STATE_SAME ? p->phase : r->next;
}

bool dlr_policy_happens(struct dlr_policy *p, const struct dlr_policy_event *e)
{
    const struct dlr_policy_rule *r;
    unsigned state = p->phase;
    bool found;

    if (!p->rules[DLR_PHASE_AGENTS].to)
        index_rules(p);
    r = find(p, state, e->what, e);
    found = r;
    if (r)
        state = follow(p, r, e);
    while ((r = find(p, state, DLR_EVENT_AT_ONCE, e)))
        state = follow(p, r, e);
    assert(state <=
           DLR_PHASE_DONE); /* each choice ends with a rule that always holds */
    return found;
}
