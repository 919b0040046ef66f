/* SPDX-License-Identifier: Apache-2.0 */
/* What the rules of the policy engine ask. Pure. */
#ifndef DLR_MPI_LAUNCHER_POLICY_GUARDS_H
#define DLR_MPI_LAUNCHER_POLICY_GUARDS_H

#include "mpi_launcher/policy/rules.h"

#define DLR_GUARD(name)                                                                \
    bool dlr_policy_if_##name(const struct dlr_policy *p,                              \
                              const struct dlr_policy_event *e)

DLR_GUARD(always);
/* agents and nodes */
DLR_GUARD(some_may_be_late);
DLR_GUARD(all_have_reported);
DLR_GUARD(enough_after_the_time);
DLR_GUARD(enough_have_reported);
DLR_GUARD(late_ones_are_needed);
DLR_GUARD(late_ones_may_come);
DLR_GUARD(nobody_is_here);
DLR_GUARD(some_may_run_a_round);
DLR_GUARD(a_round_may_be_left);
DLR_GUARD(agents_ended_too_often);
DLR_GUARD(node_of_the_round);
DLR_GUARD(node_explains_the_failure);
/* the next round */
DLR_GUARD(another_try_is_left);
DLR_GUARD(too_many_setbacks);
DLR_GUARD(the_job_is_requeued);
DLR_GUARD(too_few_and_some_may_come);
DLR_GUARD(too_few);
DLR_GUARD(it_leads_nowhere);
/* while the step runs */
DLR_GUARD(ended_well);
DLR_GUARD(no_task_has_started);
DLR_GUARD(ended_well_and_started);
DLR_GUARD(ended_well_as_a_whole);
DLR_GUARD(no_task_has_failed);
DLR_GUARD(it_may_start_later);
DLR_GUARD(srun_may_start_later);
DLR_GUARD(srun_never_starts_it);
DLR_GUARD(srun_started_nothing_twice);
DLR_GUARD(the_one_before_was_late);
DLR_GUARD(stepds_die_rarely);
DLR_GUARD(failed_tasks_are_let_be);
DLR_GUARD(failed_tasks_were_let_be);
/* its end */
DLR_GUARD(by_the_program);
DLR_GUARD(the_program_ended_well);
DLR_GUARD(as_the_round_ended);
DLR_GUARD(as_the_program_failed);
DLR_GUARD(by_a_bad_copy);
DLR_GUARD(by_a_signal);
DLR_GUARD(stepd_explains_the_failure);
DLR_GUARD(nothing_is_left);
DLR_GUARD(unseen_nodes_may_run_it);
DLR_GUARD(all_can_be_told_to_end_it);
DLR_GUARD(the_controller_is_away);
DLR_GUARD(it_cannot_be_launched);
DLR_GUARD(another_said_stop);
DLR_GUARD(the_failure_stops_the_run);
DLR_GUARD(the_loss_stops_the_run);
DLR_GUARD(the_loss_means_a_requeue);
DLR_GUARD(it_is_a_requeue);
DLR_GUARD(a_restart_is_left);
DLR_GUARD(memory_is_unwritten);
DLR_GUARD(the_failure_was_the_last);
DLR_GUARD(the_wait_was_for_a_requeue);
/* SIGTERM */
DLR_GUARD(tasks_have_sigterm);
DLR_GUARD(tasks_have_sigterm_itself);
DLR_GUARD(sigterm_is_not_explained);
DLR_GUARD(a_signal_is_asked_about);
DLR_GUARD(sigterm_explains_the_end);
DLR_GUARD(sigterm_gives_a_limit);
DLR_GUARD(a_task_ended_for_sigterm);
DLR_GUARD(fate_is_asked);
DLR_GUARD(sigterm_while_fate_is_asked);
DLR_GUARD(sigterm_was_for_us);
DLR_GUARD(sigterm);
DLR_GUARD(sigterm_once_more);
DLR_GUARD(sigterm_ended_it);
DLR_GUARD(it_was_for_sigterm);
DLR_GUARD(sigterm_ends_the_run);
DLR_GUARD(the_job_ends);

#endif
