/* SPDX-License-Identifier: Apache-2.0 */
/* What the policy asks for: which engine does it, and what goes before. */
#include "mpi_launcher/policy/actions.h"
#include "mpi_launcher/supervisor/copies/preparation.h"
#include "mpi_launcher/supervisor/copies/reprotect.h"
#include "mpi_launcher/supervisor/disk/disk.h"
#include "mpi_launcher/supervisor/dispatch.h"
#include "mpi_launcher/supervisor/ending/ending.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "mpi_launcher/supervisor/planning/planning.h"
#include "mpi_launcher/supervisor/planning/resize.h"
#include "mpi_launcher/supervisor/rounds/rounds.h"
#include "mpi_launcher/supervisor/saved_state.h"
#include "mpi_launcher/supervisor/steps/agent_step.h"
#include "mpi_launcher/supervisor/steps/controller.h"
#include "mpi_launcher/supervisor/succession.h"
#include "mpi_launcher/supervisor/supervisor.h"
#include "mpi_launcher/supervisor/versions/versions.h"

static void say_late(void *arg, unsigned n)
{
    struct dlr_sup *s = arg;

    dlr_user_line(
        s->io,
        "%u of %u nodes have not reported yet: waiting for them while they are "
        "being started, by a prolog perhaps (--dlrover-set=start-timeout)",
        n, s->members->n);
}

static void start_agents(void *arg)
{
    struct dlr_sup *s = arg;

    if (dlr_sup_is_deposed(s))
        return;
    dlr_sup_agents_begin(s->planning);
    dlr_sup_save_takeover_state(s); /* agents obey no supervisor that has another key */
    if (dlr_sup_agents_start(s->steps))
        dlr_sup_save_state(s);
}

static void wait_controller(void *arg, const char *why)
{
    struct dlr_sup *s = arg;

    dlr_sup_tell_failure(s->rounds);
    dlr_sup_tell_cleared(s->rounds);
    dlr_sup_controller_wait(s->steps, why, dlr_sup_phase_begins(s->rounds));
}

static int resize(void *arg, unsigned nplaces)
{
    return dlr_sup_resize(((struct dlr_sup *)arg)->planning, nplaces);
}

static void rendezvous(void *arg, bool with_mpi)
{
    struct dlr_sup *s = arg;

    if (dlr_sup_is_deposed(s))
        return;
    dlr_sup_tell_failure(s->rounds);
    dlr_sup_tell_cleared(s->rounds);
    if (dlr_sup_has_restored(s->rounds))
        dlr_sup_repeated_failure_look(s->versions);
    dlr_sup_phase_begins(s->rounds);
    dlr_sup_rendezvous(s->planning, with_mpi);
}

static void stop_rendezvous(void *arg)
{
    dlr_sup_rendezvous_stop(((struct dlr_sup *)arg)->planning);
}

static void persist(void *arg)
{
    struct dlr_sup *s = arg;

    dlr_sup_periodic_stop(s->disk);
    if (dlr_sup_is_deposed(s))
        return;
    dlr_reprotect_stop(s->copies);
    dlr_sup_tell_failure(s->rounds);
    dlr_sup_tell_cleared(s->rounds);
    dlr_sup_phase_begins(s->rounds);
    dlr_sup_persist(s->disk);
}

static bool is_unwritten(void *arg)
{
    return dlr_sup_unwritten(((struct dlr_sup *)arg)->disk);
}

static void requeue(void *arg, const char *why)
{
    struct dlr_sup *s = arg;

    if (!dlr_sup_is_deposed(s))
        dlr_sup_requeue(s->ending, why);
}

/* The script would end with us, and with it the job: but for Slurm's own signal. */
static void finish(void *arg, int code, const char *why)
{
    struct dlr_sup *s = arg;

    if (!dlr_sup_is_deposed(s) || dlr_sup_ending_wanted(s->ending))
        dlr_sup_finish(s->ending, code, why);
}

static void ask_fate(void *arg)
{
    dlr_sup_ask_fate(((struct dlr_sup *)arg)->ending);
}

static void launch(void *arg, uint32_t round)
{
    struct dlr_sup *s = arg;

    if (!dlr_sup_is_deposed(s))
        dlr_sup_launch(s->rounds, round);
}

static void end_round(void *arg, uint32_t round, enum dlr_cause cause, const char *why)
{
    dlr_sup_end_round(((struct dlr_sup *)arg)->rounds, round, cause, why);
}

static void explain(void *arg, uint32_t round, enum dlr_cause cause, const char *why)
{
    dlr_sup_explain_end(((struct dlr_sup *)arg)->rounds, round, cause, why);
}

static void prepare(void *arg, uint32_t round)
{
    struct dlr_sup *s = arg;

    dlr_sup_tell_plan(s->planning);
    dlr_sup_persist_drop(s->disk);
    dlr_sup_prepare_begin(s->copies, dlr_sup_phase_begins(s->rounds));
    dlr_sup_ranks_round(s->rounds);
    if (dlr_sup_new_token(s->rounds) < 0)
        return; /* which the preparation's end tells */
    dlr_sup_tell_round(s->rounds, round);
    dlr_sup_prepare_move(s->copies);
    dlr_sup_versions_round(s->versions, round);
    dlr_sup_keep_plan(s->planning);
}

const struct dlr_policy_ops dlr_sup_policy_ops = {
    .start_agents = start_agents,
    .late = say_late,
    .resize = resize,
    .rendezvous = rendezvous,
    .stop_rendezvous = stop_rendezvous,
    .prepare = prepare,
    .launch = launch,
    .end_round = end_round,
    .explain = explain,
    .persist = persist,
    .requeue = requeue,
    .finish = finish,
    .wait_controller = wait_controller,
    .ask_fate = ask_fate,
    .unwritten = is_unwritten,
};
