/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the engine, and what its sources call of each other. */
#ifndef DLR_MPI_LAUNCHER_AGENT_SUCCESSION_SUCCESSION_STATE_H
#define DLR_MPI_LAUNCHER_AGENT_SUCCESSION_SUCCESSION_STATE_H

#include "mpi_launcher/agent/succession/succession.h"
#include "mpi_launcher/policy/election.h"

struct dlr_agent_succession {
    struct dlr_agent_base *base;
    const struct dlr_agent_self *self;
    const struct dlr_agent_round *round;
    struct dlr_agent_snapshots *snapshots;
    struct dlr_agent_tasks *tasks;
    const struct dlr_agent_succession_ops *ops;
    void *arg;
    char batch[DLR_AGENT_NODE];    /* the supervisor's node */
    unsigned min_nodes, max_nodes; /* a requeued job may start with; 0 unknown */
    unsigned world;                /* ranks; 0 unknown */
    struct dlr_election *election; /* NULL: we have no vote */
    int timer;                     /* the election's; -1: off */
    int probe_fd;                  /* connecting to the supervisor's host; -1: not */
    int probe_timer;
    int witness_pidfd;    /* asking slurmctld; -1: not */
    bool given;           /* the supervisor has the job requeued, all is written */
    struct {              /* grace.c */
        int64_t until_ns; /* 0: no SIGTERM yet */
        int timer;        /* -1: off */
        int64_t round;    /* whose tasks got it; -1: there were none */
        bool over;        /* with the supervisor gone: what can be written is */
        int64_t led_ns;   /* another agent was heard that writes it; 0: none */
        int64_t said_ns;  /* this one has said that it does */
    } grace;
    struct {
        int pidfd, timer; /* -1: not watched, off */
    } keeper;
    struct dlr_successor *successor;
};

static inline int64_t dlr_agent_dead_ms(const struct dlr_agent_succession *su)
{
    return su->ops->dead_ms(su->arg);
}

/* --- host_watch.c */
void dlr_agent_watchdog_peers(struct dlr_agent_succession *su); /* they have changed */
void dlr_agent_watchdog_stop(struct dlr_agent_succession *su);

/* --- keeper_watch.c, grace.c */
void dlr_agent_keeper_stop(struct dlr_agent_succession *su);
void dlr_agent_grace_over(
    struct dlr_agent_succession *su); /* nothing more will be written */
void dlr_agent_grace_stop(struct dlr_agent_succession *su);

/* --- successor.c */
void dlr_agent_succeed(struct dlr_agent_succession *su);
/* Slurm ends the job: the same without a requeue; over is told when it is done. */
void dlr_agent_succeed_write_only(struct dlr_agent_succession *su,
                                  void (*over)(struct dlr_agent_succession *su));
/* Starts a child that writes into the journal that the run is over with its supervisor.
 */
void dlr_agent_succeed_over(struct dlr_agent_succession *su);
void dlr_agent_succeed_stop(struct dlr_agent_succession *su);
/* An order of the successor's has ended: here, or at a peer. */
void dlr_agent_succeed_done(struct dlr_agent_succession *su, uint64_t id, int rc,
                            const char *why);

#endif
