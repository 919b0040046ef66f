/* SPDX-License-Identifier: Apache-2.0 */
/* The agent: one process per node of the allocation; one thread, one zloop, and nothing
 * that blocks: files other than /dev/shm, Slurm and UCX are for child processes. Seen
 * by main.c and control.c alone, which know all engines:
 *
 *   base/          reactor, sockets, answers, peers, what a round is; under everything
 *   data/          the data process and requests to it
 *   snapshots/     ranks and their slots, saves, copies that are fetched or made anew
 *   tasks/         the node's own socket, tasks as processes, who has which rank
 *   succession/    what agents do without a supervisor
 *   lease.c        beats out, leases in; group.c: by the collector of a group, in large
 *                  jobs; suspend.c: Slurm suspends the job
 *   report.c       node reports by children
 *   adopt.c        the round of an agent that died, in the next one
 *
 * main.c has who hears of what happens; control.c the supervisor's messages. Before all
 * of them: config.c (the command line), startup.c, restarter.c (starts the agent again
 * when it dies), directory.c (the memory directory).
 */
#ifndef DLR_MPI_LAUNCHER_AGENT_AGENT_H
#define DLR_MPI_LAUNCHER_AGENT_AGENT_H

#include "mpi_launcher/agent/data/data_process.h"
#include "mpi_launcher/agent/group.h"
#include "mpi_launcher/agent/lease.h"
#include "mpi_launcher/agent/report.h"
#include "mpi_launcher/agent/snapshots/snapshots.h"
#include "mpi_launcher/agent/succession/succession.h"
#include "mpi_launcher/agent/suspend.h"
#include "mpi_launcher/agent/tasks/tasks.h"

struct dlr_agent {
    /* Makes *round (taken over) the current one: main.c has who hears of it. */
    void (*enter)(struct dlr_agent *a, struct dlr_agent_round *round);
    struct dlr_agent_self self;
    struct dlr_agent_round round; /* the current one */
    struct dlr_agent_base *base;
    struct dlr_agent_data *data;
    struct dlr_agent_snapshots *snapshots;
    struct dlr_agent_tasks *tasks;
    struct dlr_agent_succession *succession;
    struct dlr_agent_lease *lease;
    struct dlr_agent_group *group;
    struct dlr_agent_suspend *suspend;
    struct dlr_agent_reports *reports;
    struct dlr_identity *id;
    char key[DLR_KEY_TEXT]; /* of the supervisor, and of those that follow it */
    char *cred;             /* made once: an old one proves as much */
    char boot[64];
    char foreign_memory_name
        [DLR_OPT_TEXT];    /* usual name of the memory, when somebody else has it */
    struct dlr_kept *kept; /* by our parent; NULL: nothing is */
    /* of the agent whose round we have taken: until when its lease was, 0: there was none;
     * and since when it is dead, 0: there is no such agent, or the supervisor knows
     */
    int64_t former_lease_ns, former_died_ns;
    int signal_fd;
    bool keep_memory; /* what is in memory, for the requeued job */
};

/* --- control.c --- */

int dlr_agent_control_start(struct dlr_agent *a, const char *key, struct dlr_err *err);
void dlr_agent_control_stop(struct dlr_agent *a);
/* The supervisor is another one now; of dlr_agent_succession_ops. */
bool dlr_agent_control_follow(void *arg, const char *address);
void dlr_agent_hello(struct dlr_agent *a);
/* The supervisor sent this. */
void dlr_agent_on_supervisor(struct dlr_agent *a, const struct dlr_packet *packet);

/* --- from_peers.c: of dlr_agent_base_ops and dlr_agent_lease_ops --- */

void dlr_agent_from_peer(void *arg, const struct dlr_packet *packet);
void dlr_agent_from_answer(void *arg, const char *node,
                           const struct dlr_packet *packet);
bool dlr_agent_by_group(void *arg, const struct dlr_heartbeat *beat);

#endif
