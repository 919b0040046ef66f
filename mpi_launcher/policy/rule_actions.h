/* SPDX-License-Identifier: Apache-2.0 */
/* What the rules of the policy engine do. */
#ifndef DLR_MPI_LAUNCHER_POLICY_RULE_ACTIONS_H
#define DLR_MPI_LAUNCHER_POLICY_RULE_ACTIONS_H

#include "mpi_launcher/policy/rules.h"

#define DLR_ACTION(name)                                                               \
    void dlr_policy_do_##name(struct dlr_policy *p, const struct dlr_policy_event *e)

/* state.c */
DLR_ACTION(nothing);
/* agents.c */
DLR_ACTION(start_agents);
DLR_ACTION(start_agents_some_late);
DLR_ACTION(start_agents_again);
DLR_ACTION(start_agents_at_no_cost);
DLR_ACTION(settle);
DLR_ACTION(await_the_late);
DLR_ACTION(await_one_more);
DLR_ACTION(give_up_the_unseen);
DLR_ACTION(finish_without_agents);
DLR_ACTION(finish_agents_ended);
DLR_ACTION(end_the_former_round);
/* next_round.c */
DLR_ACTION(stop_rendezvous);
DLR_ACTION(hold);
DLR_ACTION(forget_failed_tries);
DLR_ACTION(count_failed_try);
DLR_ACTION(stop_and_count_failed_try);
DLR_ACTION(finish_no_rendezvous);
DLR_ACTION(stop_and_finish_no_rendezvous);
DLR_ACTION(finish_given_up);
DLR_ACTION(prepare);
DLR_ACTION(launch);
DLR_ACTION(count_setback);
DLR_ACTION(finish_no_copy);
DLR_ACTION(fit_places);
DLR_ACTION(rendezvous);
DLR_ACTION(count_it_no_more);
DLR_ACTION(note_it_leads_nowhere);
/* requeue.c */
DLR_ACTION(persist_to_requeue);
DLR_ACTION(persist_too_few);
DLR_ACTION(persist_for_the_job);
DLR_ACTION(persist_as_it_failed);
DLR_ACTION(persist_at_last);
DLR_ACTION(requeue);
DLR_ACTION(requeue_again);
DLR_ACTION(finish_no_requeue);
DLR_ACTION(finish_failed);
/* after_round.c */
DLR_ACTION(end_for_the_node);
DLR_ACTION(end_for_the_task);
DLR_ACTION(end_for_the_copy);
DLR_ACTION(end_for_the_hang);
DLR_ACTION(end_refused);
DLR_ACTION(end_for_the_signal);
DLR_ACTION(explain_by_the_node);
DLR_ACTION(explain_by_the_copy);
DLR_ACTION(name_the_first_task);
DLR_ACTION(name_the_signal);
DLR_ACTION(give_up_its_nodes);
DLR_ACTION(finish_well);
DLR_ACTION(finish_for_the_signal);
DLR_ACTION(stop_and_finish_for_the_signal);
DLR_ACTION(finish_refused);
DLR_ACTION(ask_the_budget);
DLR_ACTION(note_the_last_failure);
DLR_ACTION(note_it_stops);
DLR_ACTION(forget_the_failure);
/* control_loss.c */
DLR_ACTION(adopt);
DLR_ACTION(take_over_the_adopted);
DLR_ACTION(end_unwatched);
DLR_ACTION(end_for_the_job);
DLR_ACTION(explain_by_control);
DLR_ACTION(explain_by_the_job);
DLR_ACTION(explain_by_the_controller);
DLR_ACTION(end_for_the_stepd);
DLR_ACTION(explain_by_the_stepd);
DLR_ACTION(end_without_agents);
DLR_ACTION(doubt_its_end);
DLR_ACTION(end_for_the_controller);
DLR_ACTION(wait_for_the_controller);
DLR_ACTION(stop_and_wait);
DLR_ACTION(wait_after_the_round);
DLR_ACTION(wait_to_requeue);
DLR_ACTION(finish_no_controller);
/* step.c */
DLR_ACTION(note_the_start);
DLR_ACTION(note_the_start_and_finish);
DLR_ACTION(begin_its_time);
DLR_ACTION(await_the_reason);
DLR_ACTION(end_not_started);
DLR_ACTION(refuse_late_tasks);
DLR_ACTION(end_for_late_tasks);
DLR_ACTION(note_srun_failed);
DLR_ACTION(end_srun_waits);
DLR_ACTION(refuse_srun_not_started);
DLR_ACTION(refuse_srun_again);
DLR_ACTION(end_for_srun);
/* termination.c */
DLR_ACTION(keep_its_end);
DLR_ACTION(await_sigterm);
DLR_ACTION(ask_after_the_end);
DLR_ACTION(limit_the_tasks);
DLR_ACTION(await_the_other_tasks);
DLR_ACTION(ask_fate);
DLR_ACTION(want_it);
DLR_ACTION(want_it_written);
DLR_ACTION(conclude);
DLR_ACTION(end_for_sigterm);
DLR_ACTION(end_for_its_task);
DLR_ACTION(persist_last);
DLR_ACTION(stop_and_persist_last);
DLR_ACTION(persist_after_the_round);
DLR_ACTION(finish_after_sigterm);

#endif
