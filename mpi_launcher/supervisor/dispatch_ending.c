/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the run: what of it is told before, and what is stopped. */
#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/supervisor/dispatch.h"
#include "mpi_launcher/supervisor/ending/ending.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "mpi_launcher/supervisor/rounds/rounds.h"
#include "mpi_launcher/supervisor/supervisor.h"

static void on_ends(void *arg)
{
    struct dlr_sup *s = arg;

    dlr_sup_tell_failure(s->rounds);
    dlr_sup_tell_cleared(s->rounds);
}

/* No tasks are left, but when there is no other way to end them. What else goes on, as
 * transfers and writes, asks by itself whether the run has ended, and ends with us.
 */
static void on_ended(void *arg)
{
    struct dlr_sup *s = arg;

    dlr_sup_let_workers_go(s->rounds);
}

static const char *last_lines(void *arg, unsigned *ret_rank, unsigned *ret_node)
{
    const struct dlr_sup *s = arg;

    return dlr_sup_last_words(s->rounds, ret_rank, ret_node);
}

static bool pass_on(void *arg, int sig)
{
    return dlr_sup_pass_signal(((struct dlr_sup *)arg)->rounds, sig);
}

static uint32_t rounds(void *arg)
{
    const struct dlr_sup *s = arg;

    return dlr_sup_has_plan(s->plan) ? dlr_policy_round(s->policy) + 1 : 0;
}

const struct dlr_sup_ending_ops dlr_sup_ending_ops = {
    .ends = on_ends,
    .ended = on_ended,
    .changed = dlr_sup_state_changed,
    .last_lines = last_lines,
    .pass = pass_on,
    .rounds = rounds,
};
