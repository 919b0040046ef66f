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
    struct {                          /* take_over.c */
        json_t *start, *state;        /* the will; NULL: there is none */
        unsigned nth;                 /* take-overs that this agent has followed */
        unsigned enough;              /* nodes that the next round needs at least */
        char address[DLR_AGENT_ADDR]; /* of the supervisor followed; "": the first */
        int fd, pidfd, timer; /* the supervisor started here: its state; or -1 */
        int64_t won_ms;       /* when this agent was elected */
        int64_t until_ms;     /* it must listen by then; 0: it has */
    } heir;
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

/* --- take_over.c */

/* Elected: starts a supervisor here and leads the others to it, once all have said that
 * they miss the former one, or soon; dlr_agent_succeed() where too few have. False:
 * there is no will.
 */
bool dlr_agent_take_over(struct dlr_agent_succession *su);
/* The supervisor is back: ours is not needed, if nobody has followed it yet. */
void dlr_agent_take_over_cancel(struct dlr_agent_succession *su);
void dlr_agent_take_over_stop(struct dlr_agent_succession *su);
/* A peer leads here. -EBADMSG. */
int dlr_agent_take_over_follow(struct dlr_agent_succession *su, const json_t *msg);
/* A peer misses a supervisor that we have not: it has missed the `follow`, too. */
void dlr_agent_take_over_lead(struct dlr_agent_succession *su, const char *node);

/* --- start_supervisor.c */

/* A supervisor of this will, state (with the key pair before it) on its descriptor 9.
 */
int dlr_agent_start_supervisor(const struct dlr_agent_succession *su,
                               const json_t *start, int state_fd, pid_t *ret_pid,
                               int *ret_pidfd, struct dlr_err *err);

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
