/* SPDX-License-Identifier: Apache-2.0 */
/* The agent: one process per node of the allocation. Private to mpi_launcher/agent/; one
 * thread, one zloop, and nothing that blocks: files other than /dev/shm, Slurm and UCX are for
 * child processes.
 *
 *   main.c                     options, start, the loop
 *   restarter.c                starts it again when it dies
 *   base/                      reactor, children, sockets, answers: base/base.h
 *   directory.c                the memory directory
 *   control.c                  the supervisor's messages and ours to it
 *   lease.c                    beats out, leases in; what happens when the lease runs out
 *   suspend.c                  Slurm suspends the job: the lease is held
 *   grace.c                    Slurm sends SIGTERM: the tasks are left to it
 *   tasks/local_socket.c       connections of this node's plugin and workers
 *   tasks/processes.c          the workers as processes: watch, kill, say when they are gone
 *   tasks/sweep.c              what tasks forked and left behind
 *   snapshots/ranks.c          the workers as ranks: pages, slots, restore
 *   tasks/rank_claims.c        who is welcomed, who waits until all ranks are known
 *   snapshots/space.c          what slots take of the memory, and may
 *   snapshots/peek.c           other ranks' slots of the version to restore
 *   snapshots/fetch.c          those that other nodes have
 *   snapshots/cpu_advice.c     where the workers' helper threads and the data process may run
 *   snapshots/save.c           save_at, commit, abort
 *   data/data_process.c        the data process; what is asked of it: data/requests.c
 *   snapshots/slot_requests.c  the same by those who keep slots
 *   report.c                   a node report by a child
 *   succession/peers.c         the other agents
 *   succession/host_watch.c    is the supervisor's host gone? the election's hands
 *   succession/keeper_watch.c  the script's srun is gone, on its host
 *   succession/successor.c     what the elected one does (the blocking part: succession/blocking.c)
 */
#ifndef DLR_MPI_LAUNCHER_AGENT_AGENT_H
#define DLR_MPI_LAUNCHER_AGENT_AGENT_H

#include <czmq.h>
#include <jansson.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ckpt/base/pace.h"
#include "ckpt/base/page.h"
#include "ckpt/base/page_cost.h"
#include "ckpt/base/version.h"
#include "ckpt/slot/slot.h"
#include "ckpt/slot/store.h"
#include "common/base/err.h"
#include "common/config/job_config.h"
#include "common/local/message.h"
#include "hwloc_topo/topo.h"
#include "mpi_launcher/agent/base/answers.h"
#include "mpi_launcher/agent/base/auth_failures.h"
#include "mpi_launcher/agent/base/base.h"
#include "mpi_launcher/agent/base/conn.h"
#include "mpi_launcher/agent/base/peers.h"
#include "mpi_launcher/agent/base/reactor.h"
#include "mpi_launcher/agent/base/round.h"
#include "mpi_launcher/agent/base/self.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/data/data_process.h"
#include "mpi_launcher/agent/data/requests.h"
#include "mpi_launcher/agent/snapshots/fetch.h"
#include "mpi_launcher/agent/snapshots/orders.h"
#include "mpi_launcher/agent/snapshots/ranks.h"
#include "mpi_launcher/agent/snapshots/save.h"
#include "mpi_launcher/agent/snapshots/snapshots.h"
#include "mpi_launcher/agent/tasks/tasks.h"
#include "mpi_launcher/wire/endpoint.h"
#include "mpi_launcher/wire/identity.h"
#include "mpi_launcher/wire/peer_list.h"

#define DLR_AGENT_LEAVE_MS 5000 /* an agent before this one may take to end */

struct dlr_agent;
struct dlr_election;
struct dlr_successor;

/* --- main.c ------------------------------------------------------------------------- */

struct dlr_agent_peers { /* succession/peers.c */
    char batch[DLR_AGENT_NODE];
    unsigned min_nodes, max_nodes; /* a requeued job may start with; 0 unknown */
    unsigned world;                /* ranks; 0 unknown */
    struct dlr_election *election;
    int timer;    /* -1: off */
    int probe_fd; /* connecting to the supervisor's host; -1: not */
    int probe_timer;
    int witness_pidfd; /* asking slurmctld; -1: not */
};

struct dlr_agent {
    struct dlr_agent_self self;
    char boot[64];
    struct dlr_agent_base *base;
    struct dlr_identity *id;
    char *cred; /* made once: an old one proves as much */
    int signal_fd;
    bool stays;           /* what is in memory, for the requeued job */
    bool given;           /* the supervisor has the job requeued, all is written */
    struct {              /* grace.c */
        int64_t until_ns; /* 0: no SIGTERM yet */
        int timer;        /* -1: off */
        int64_t round;    /* whose tasks got it; -1: there were none */
        bool over;        /* with the supervisor gone: what can be written is */
        int64_t led_ns;   /* another agent was heard that writes it; 0: none */
        int64_t said_ns;  /* this one has said that it does */
    } grace;

    char taken[DLR_OPT_TEXT]; /* usual name of the memory, when somebody else has it */

    unsigned every_ms;
    int64_t dead_ms;
    int lease_fd, beat_timer;
    uint32_t seq, answered_seq; /* of the last beat that went, of the newest lease */
    uint32_t held_beats;        /* that were due since and did not go */
    int64_t beat_ns;            /* when the last beat was due */
    int64_t answered_ns; /* when the last lease came, own lag added; 0: none yet */
    int64_t heard_ns;    /* the same, nothing added */
    int64_t leased_ns;   /* when the beat was sent that the newest lease answers */
    int64_t lease_until_ns;
    int64_t awake_ns;  /* a hold that was asked for before does not count any more */
    bool suspended;    /* SIGTSTP came: SIGSTOP follows */
    int suspend_timer; /* -1: off */

    struct dlr_agent_round round;
    struct dlr_agent_data *data;
    struct dlr_agent_snapshots *snapshots;
    struct dlr_agent_tasks *tasks;
    struct dlr_agent_peers peers;
    struct {
        int pidfd, timer; /* -1: not watched, off */
    } keeper;
    zlistx_t *surveys; /* reports being made */
    struct dlr_successor *successor;
};

/* --- restarter.c -------------------------------------------------------------------- */

/* Returns 0 in the process that is to be the agent, a child of the caller; 1 in the caller
 * itself, with the exit code, when no agent is to be started any more; -errno.
 */
int dlr_agent_nanny(const char *node, int *ret_code);

/* --- config.c ----------------------------------------------------------------------- */

/* Reads argv; 1: help or version was printed. -EINVAL with text. */
int dlr_agent_conf_parse(int argc, char **argv, struct dlr_agent *a,
                         struct dlr_err *err);

/* --- directory.c ---------------------------------------------------------- */

/* Waits for an agent that still keeps path to end. Blocking, for the start. -EBUSY. */
/* Chooses the name of the job's memory on this node: conf.memory becomes another when somebody
 * else has the usual one, (dlr_agent.taken).
 */
int dlr_agent_memory_place(struct dlr_agent *a, struct dlr_err *err);
int dlr_agent_memory_wait(const char *path, int64_t timeout_ms, struct dlr_err *err);
/* Makes path and its parent, both ours and 0700, never through a link. *ret_fd: caller's. */
int dlr_agent_memory_open(const char *path, int *ret_fd, struct dlr_err *err);
/* Removes what dlr_agent_memory_open() made; with contents also when it is not empty. */
void dlr_agent_memory_remove(const char *path, bool contents);

/* --- control.c ---------------------------------------------------------------------- */

int dlr_agent_control_start(struct dlr_agent *a, const char *key, struct dlr_err *err);
void dlr_agent_control_stop(struct dlr_agent *a);
void dlr_agent_hello(struct dlr_agent *a);
/* The supervisor sent this. */
void dlr_agent_on_supervisor(struct dlr_agent *a, const struct dlr_packet *packet);
/* --- lease.c ------------------------------------------------------------------------ */

int dlr_agent_lease_start(struct dlr_agent *a, struct dlr_err *err);
void dlr_agent_lease_stop(struct dlr_agent *a);
void dlr_agent_lease_pace(struct dlr_agent *a); /* every_ms has changed */
void dlr_agent_lease_take(struct dlr_agent *a, const void *data, size_t size);
void dlr_agent_lease_beat(struct dlr_agent *a); /* one now, beside those of the timer */
/* Writes the lease into a worker's page: the timer in the worker follows it. */
void dlr_agent_lease_show(void *a, struct dlr_page *page);
/* Whatever the supervisor says, not before until_ns. */
void dlr_agent_lease_extend(struct dlr_agent *a, int64_t until_ns);
/* A held lease ends, after grace_ms unless the supervisor says otherwise before. */
void dlr_agent_lease_unhold(struct dlr_agent *a, int64_t grace_ms);

/* --- suspend.c ---------------------------------------------------------------------- */

void dlr_agent_suspend(struct dlr_agent *a); /* SIGTSTP */
void dlr_agent_suspend_awake(
    struct dlr_agent *a); /* SIGCONT; without a SIGTSTP nothing */

/* --- grace.c ------------------------------------------------------------------------ */

void dlr_agent_grace(struct dlr_agent *a); /* SIGTERM */
void dlr_agent_grace_retell(struct dlr_agent *a);
void dlr_agent_grace_over(struct dlr_agent *a); /* nothing more will be written */
void dlr_agent_grace_stop(struct dlr_agent *a);
bool dlr_agent_in_grace(const struct dlr_agent *a);

/* --- report.c ----------------------------------------------------------------------- */

/* Starts a child that makes a report; "report" goes to from when it is there. */
void dlr_agent_report(struct dlr_agent *a, const struct dlr_agent_origin *from);
void dlr_agent_report_stop(struct dlr_agent *a);

/* --- succession/peers.c ------------------------------------------------------------- */

/* A peer sent this, or answers. */
void dlr_agent_on_peer(struct dlr_agent *a, const struct dlr_packet *packet);
void dlr_agent_on_peer_answer(struct dlr_agent *a, const char *node,
                              const struct dlr_packet *packet);
void dlr_agent_peers_set(struct dlr_agent *a, const json_t *msg);
/* --- succession/host_watch.c -------------------------------------------------------- */

void dlr_agent_watchdog_peers(struct dlr_agent *a); /* they have changed */
/* No lease for a dead-time; called with each beat while it lasts. */
void dlr_agent_watchdog_silence(struct dlr_agent *a);
void dlr_agent_watchdog_answered(struct dlr_agent *a); /* the supervisor spoke */
void dlr_agent_watchdog_stop(struct dlr_agent *a);

/* --- succession/keeper_watch.c ------------------------------------------------------ */

/* text: a process of some host (mpi_launcher/process/process_id.h). When it is one of ours its end is the run's, unless the
 * supervisor is heard after it.
 */
void dlr_agent_keeper_watch(struct dlr_agent *a, const char *text);
void dlr_agent_keeper_stop(struct dlr_agent *a);

/* --- succession/successor.c --------------------------------------------------------- */

void dlr_agent_succeed(struct dlr_agent *a);
/* Slurm ends the job: the same without a requeue; dlr_agent_grace_over() when it is done. */
void dlr_agent_succeed_write_only(struct dlr_agent *a);
/* Starts a child that writes into the journal that the run is over with its supervisor. */
void dlr_agent_succeed_over(struct dlr_agent *a);
void dlr_agent_succeed_stop(struct dlr_agent *a);
/* True when a requeue runs that must end before we do; dlr_agent_end() comes from there. */
bool dlr_agent_succeed_holds(struct dlr_agent *a);
void dlr_agent_succeed_report(struct dlr_agent *a, const char *node,
                              const json_t *report);
/* The same for an order of its own: arg is the agent. */
void dlr_agent_succeed_told(void *arg, uint64_t id, int rc, const char *why);
void dlr_agent_succeed_done(struct dlr_agent *a, uint64_t id, int rc, const char *why);
/* The blocking part: reads what to do from fd, does it, returns an exit status. */
int dlr_agent_succeed_main(int fd);

#endif
