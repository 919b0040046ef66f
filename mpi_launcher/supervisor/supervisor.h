/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor's inside, shared by the files of mpi_launcher/supervisor/ and nobody else. One
 * thread, one reactor; the policy engine decides, these carry it out.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_SUPERVISOR_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_SUPERVISOR_H

#include <czmq.h>
#include <jansson.h>

#include "ckpt/commit/commit.h"
#include "ckpt/manifest/manifest.h"
#include "ckpt/slot/slot.h"
#include "common/config/job_config.h"
#include "mpi_launcher/journal/journal.h"
#include "mpi_launcher/plan/parity_sets.h"
#include "mpi_launcher/plan/plan.h"
#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/process/fork_server.h"
#include "mpi_launcher/process/process_id.h"
#include "mpi_launcher/process/work_queue.h"
#include "mpi_launcher/run/run_info.h"
#include "mpi_launcher/slurm/srun.h"
#include "mpi_launcher/step_plan/step_plan.h"
#include "mpi_launcher/supervisor/copies/copies.h"
#include "mpi_launcher/supervisor/copies/fallback_network.h"
#include "mpi_launcher/supervisor/copies/fetch.h"
#include "mpi_launcher/supervisor/copies/orders.h"
#include "mpi_launcher/supervisor/copies/preparation.h"
#include "mpi_launcher/supervisor/copies/rebuild.h"
#include "mpi_launcher/supervisor/copies/redundancy.h"
#include "mpi_launcher/supervisor/copies/reprotect.h"
#include "mpi_launcher/supervisor/copies/requests.h"
#include "mpi_launcher/supervisor/copies/scrub.h"
#include "mpi_launcher/supervisor/copies/struck_copies.h"
#include "mpi_launcher/supervisor/copies/transfers.h"
#include "mpi_launcher/supervisor/disk/disk.h"
#include "mpi_launcher/supervisor/ending/ending.h"
#include "mpi_launcher/supervisor/io/io.h"
#include "mpi_launcher/supervisor/io/outbox.h"
#include "mpi_launcher/supervisor/io/reactor.h"
#include "mpi_launcher/supervisor/io/state_files.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/failure_detector.h"
#include "mpi_launcher/supervisor/nodes/hello.h"
#include "mpi_launcher/supervisor/nodes/loss_rate.h"
#include "mpi_launcher/supervisor/nodes/lost_nodes.h"
#include "mpi_launcher/supervisor/nodes/members.h"
#include "mpi_launcher/supervisor/nodes/nodes.h"
#include "mpi_launcher/supervisor/nodes/peers.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/places.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "mpi_launcher/supervisor/planning/planning.h"
#include "mpi_launcher/supervisor/planning/resize.h"
#include "mpi_launcher/supervisor/planning/step_of_run.h"
#include "mpi_launcher/supervisor/planning/version_json.h"
#include "mpi_launcher/supervisor/rounds/rounds.h"
#include "mpi_launcher/supervisor/saved_state.h"
#include "mpi_launcher/supervisor/steps/agent_step.h"
#include "mpi_launcher/supervisor/steps/controller.h"
#include "mpi_launcher/supervisor/steps/internal_step.h"
#include "mpi_launcher/supervisor/steps/rejoin.h"
#include "mpi_launcher/supervisor/steps/slurm_command.h"
#include "mpi_launcher/supervisor/steps/srun_flush.h"
#include "mpi_launcher/supervisor/steps/steps.h"
#include "mpi_launcher/supervisor/versions/versions.h"
#include "mpi_launcher/wire/endpoint.h"

struct dlr_sup {
    /* fixed after the start */
    struct dlr_jobconf conf;
    struct dlr_runinfo info;
    struct dlr_run_id id;
    uint32_t resume_round; /* where a former supervisor or incarnation stopped */
    unsigned resume_restarts;
    bool ended_before;   /* its code was told before a requeue: nothing is to be run */
    bool took_over;      /* a supervisor of this incarnation died before us */
    unsigned generation; /* supervisors of this incarnation, this one too */
    char address[DLR_TOPO_NAME + 8]; /* where agents connect */
    int state_fd;                    /* the keeper's memory file, -1 without keeper */
    int signal_fd;

    struct dlr_sup_io *io;
    struct dlr_sup_nodes *nodes;
    const struct dlr_members *members; /* theirs */
    struct dlr_sup_steps *steps;
    struct dlr_sup_planning *planning;
    const struct dlr_stepplan *step; /* its */
    const struct dlr_plan *plan;     /* its, too: the one in force */
    struct dlr_sup_copies *copies;
    struct dlr_sup_rounds *rounds;
    struct dlr_sup_ending *ending;
    struct dlr_policy *policy;
    struct dlr_sup_versions *versions;
    struct dlr_sup_disk *disk;
};

/* resume.c: which run this is, and what was left of it */
int dlr_sup_load_state(struct dlr_sup *s, struct dlr_err *err);

#endif
