/* SPDX-License-Identifier: Apache-2.0 */
/* The engines: what each one is given. */
#include <unistd.h>

#include "mpi_launcher/supervisor/copies/copies.h"
#include "mpi_launcher/supervisor/disk/disk.h"
#include "mpi_launcher/supervisor/dispatch.h"
#include "mpi_launcher/supervisor/ending/ending.h"
#include "mpi_launcher/supervisor/io/io.h"
#include "mpi_launcher/supervisor/nodes/nodes.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "mpi_launcher/supervisor/planning/planning.h"
#include "mpi_launcher/supervisor/planning/step_of_run.h"
#include "mpi_launcher/supervisor/rounds/rounds.h"
#include "mpi_launcher/supervisor/steps/steps.h"
#include "mpi_launcher/supervisor/supervisor.h"
#include "mpi_launcher/supervisor/versions/versions.h"
#include "mpi_launcher/supervisor/watch/stacks.h"
#include "mpi_launcher/supervisor/watch/watch.h"

/* Each knows those before it, and tells what happens: dispatch.h. */
static bool make_lower(struct dlr_sup *s)
{
    s->io = dlr_sup_io_new(&dlr_sup_io_ops, s);
    s->nodes = dlr_sup_nodes_new(&(struct dlr_sup_nodes_env){.io = s->io,
                                                             .conf = &s->conf,
                                                             .info = &s->info,
                                                             .id = &s->id,
                                                             .keeper = getppid()},
                                 &dlr_sup_nodes_ops, s);
    if (!s->io || !s->nodes)
        return false;
    s->members = dlr_sup_members(s->nodes);
    s->steps = dlr_sup_steps_new(&(struct dlr_sup_steps_env){.io = s->io,
                                                             .nodes = s->nodes,
                                                             .conf = &s->conf,
                                                             .info = &s->info,
                                                             .id = &s->id,
                                                             .address = s->address},
                                 &dlr_sup_steps_ops, s);
    s->planning = dlr_sup_planning_new(&(struct dlr_sup_planning_env){.io = s->io,
                                                                      .nodes = s->nodes,
                                                                      .steps = s->steps,
                                                                      .conf = &s->conf,
                                                                      .info = &s->info},
                                       &dlr_sup_planning_ops, s);
    if (!s->steps || !s->planning)
        return false;
    s->step = dlr_sup_step(s->planning);
    s->plan = dlr_sup_plan(s->planning);
    return true;
}

/* What becomes of snapshots. */
static bool make_middle(struct dlr_sup *s)
{
    s->copies =
        dlr_sup_copies_new(&(struct dlr_sup_copies_env){.io = s->io,
                                                        .nodes = s->nodes,
                                                        .steps = s->steps,
                                                        .planning = s->planning,
                                                        .conf = &s->conf,
                                                        .info = &s->info,
                                                        .generation = &s->generation,
                                                        .took_over = &s->took_over},
                           &dlr_sup_copies_ops, s);
    if (!s->copies)
        return false;
    s->versions = dlr_sup_versions_new(
        &(struct dlr_sup_versions_env){.io = s->io,
                                       .nodes = s->nodes,
                                       .planning = s->planning,
                                       .copies = s->copies,
                                       .conf = &s->conf,
                                       .plan = s->plan,
                                       .resume_round = &s->resume_round,
                                       .took_over = &s->took_over},
        &dlr_sup_versions_ops, s);
    s->disk =
        dlr_sup_disk_new(&(struct dlr_sup_disk_env){.io = s->io,
                                                    .nodes = s->nodes,
                                                    .planning = s->planning,
                                                    .copies = s->copies,
                                                    .versions = s->versions,
                                                    .conf = &s->conf,
                                                    .info = &s->info,
                                                    .plan = s->plan,
                                                    .ended_before = &s->ended_before,
                                                    .took_over = &s->took_over},
                         &dlr_sup_disk_ops, s);
    return s->versions && s->disk;
}

bool dlr_sup_engines_new(struct dlr_sup *s)
{
    if (!make_lower(s) || !make_middle(s))
        return false;
    s->rounds = dlr_sup_rounds_new(
        &(struct dlr_sup_rounds_env){.io = s->io,
                                     .nodes = s->nodes,
                                     .steps = s->steps,
                                     .planning = s->planning,
                                     .copies = s->copies,
                                     .versions = s->versions,
                                     .disk = s->disk,
                                     .conf = &s->conf,
                                     .info = &s->info,
                                     .step = s->step,
                                     .plan = s->plan,
                                     .resume_round = &s->resume_round,
                                     .took_over = &s->took_over,
                                     .state_fd = &s->state_fd},
        &dlr_sup_rounds_ops, s);
    if (!s->rounds)
        return false;
    s->ending = dlr_sup_ending_new(
        &(struct dlr_sup_ending_env){.io = s->io,
                                     .nodes = s->nodes,
                                     .steps = s->steps,
                                     .planning = s->planning,
                                     .conf = &s->conf,
                                     .info = &s->info,
                                     .step = s->step,
                                     .took_over = &s->took_over,
                                     .started_ms = dlr_sup_started_ms(s->rounds),
                                     .keeper = getppid(),
                                     .has_keeper = s->state_fd >= 0},
        &dlr_sup_ending_ops, s);
    s->watch = dlr_sup_watch_new(
        &(struct dlr_sup_watch_env){.plan = s->plan,
                                    .hang_limit_ms = &s->conf.hang_limit_ms},
        &dlr_sup_watch_ops, s);
    s->stacks = dlr_sup_stacks_new(&dlr_sup_stacks_ops, s);
    return s->ending && s->watch && s->stacks;
}

int dlr_sup_engines_open(struct dlr_sup *s, struct dlr_err *err)
{
    int rc;

    dlr_sup_rounds_open(s->rounds, s->policy);
    dlr_sup_ending_open(s->ending, s->policy);
    rc = dlr_sup_versions_open(s->versions, s->policy, err);
    dlr_sup_copies_open(s->copies, s->policy, dlr_sup_commit(s->versions));
    dlr_sup_disk_open(s->disk, s->policy);
    return rc < 0 ? rc : dlr_sup_steps_open(s->steps, s->policy, err);
}

/* The journal and what the user is told still go their way. */
void dlr_sup_engines_free(struct dlr_sup *s)
{
    s->stacks = dlr_sup_stacks_free(s->stacks);
    s->watch = dlr_sup_watch_free(s->watch);
    s->ending = dlr_sup_ending_free(s->ending);
    s->rounds = dlr_sup_rounds_free(s->rounds);
    s->disk = dlr_sup_disk_free(s->disk);
    s->versions = dlr_sup_versions_free(s->versions);
    s->copies = dlr_sup_copies_free(s->copies);
    s->planning = dlr_sup_planning_free(s->planning);
    s->steps = dlr_sup_steps_free(s->steps);
    s->nodes = dlr_sup_nodes_free(s->nodes);
}
