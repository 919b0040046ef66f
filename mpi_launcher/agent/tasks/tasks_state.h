/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the engine, and what its sources call of each other. */
#ifndef DLR_MPI_LAUNCHER_AGENT_TASKS_TASKS_STATE_H
#define DLR_MPI_LAUNCHER_AGENT_TASKS_TASKS_STATE_H

#include <czmq.h>

#include "mpi_launcher/agent/base/conn.h"
#include "mpi_launcher/agent/base/memory_group.h"
#include "mpi_launcher/agent/tasks/stacks.h"
#include "mpi_launcher/agent/tasks/tasks.h"
#include "mpi_launcher/agent/tasks/watch.h"

/* A task as a process. */
struct dlr_agent_task {
    struct dlr_agent_tasks *of;
    const struct dlr_agent_conn *stepd; /* NULL: has left */
    uint32_t round;
    int32_t rank;
    pid_t pid;
    int pidfd; /* -1: it was gone before it could be watched, or is now */
    bool killed;
    bool told; /* its end, with status */
    int status;
    int64_t gone_ms; /* wall clock: who ended first is told from it */
    struct dlr_memory_kills kills;
    bool starved; /* it, or a child of it, was killed for want of memory */
    /* tasks/stay.c: */
    uint32_t serves; /* the round that it is of, at first the one that started it */
    bool stays;      /* it is parked, or is to be */
    bool relay;      /* it stands for a process that stayed */
    bool own;        /* our child: it was warm (tasks/warm.c), its status is for us */
    int timer;       /* until an end without a status is told; -1 off */
    unsigned kept;   /* its pidfd: base/kept.h */
};

/* A process that runs ahead, without a rank. */
struct dlr_agent_warm_process {
    struct dlr_agent_tasks *of;
    pid_t pid; /* it leads its group; 0: none */
    int pidfd;
    struct dlr_agent_conn *waits; /* it is as far as it can come; NULL: not yet */
};

struct dlr_agent_warm { /* all 0: none is wanted */
    json_t *order;      /* as the supervisor gave it */
    struct dlr_agent_warm_process *list;
    unsigned n;
    uint32_t round; /* the mark in their environment */
    unsigned failed;
    int timer; /* until the next start; -1: off */
    int64_t begun_ms;
    bool ran;      /* the command has ended well: that was all */
    char why[128]; /* no more are started, "" they are */
};

struct dlr_agent_tasks {
    struct dlr_agent_base *base;
    const struct dlr_agent_self *self;
    const struct dlr_agent_round *round;
    struct dlr_agent_snapshots *snapshots;
    struct dlr_agent_watch *watch;
    void (*before_end)(void *arg); /* or NULL */
    void *before_end_arg;
    int listen_fd;            /* -1: not */
    unsigned listen_kept;     /* base/kept.h */
    zlistx_t *conns;          /* struct dlr_agent_conn */
    zlistx_t *all;            /* struct dlr_agent_task */
    int64_t kill_up_to_round; /* every round up to it is to be killed; -1 none */
    bool spare_srun;          /* its srun has their last output to write yet */
    int retry_timer;          /* -1: off */
    int park_timer;           /* -1: off */
    struct dlr_agent_warm warm;
    struct dlr_agent_stacks stacks;
    bool asked;    /* the supervisor wants to know which ranks are here */
    unsigned lost; /* workers that were welcomed in this turn, and have gone */
};

/* --- processes.c */
void dlr_agent_tasks_add(struct dlr_agent_tasks *tasks, struct dlr_agent_conn *stepd,
                         int32_t rank, pid_t pid);
/* A child of ours that waits for this rank, as if it had stayed; round: its mark. pidfd,
 * watched so far, is the engine's. False: out of memory.
 */
bool dlr_agent_tasks_add_own(struct dlr_agent_tasks *tasks, uint32_t round,
                             int32_t rank, pid_t pid, int pidfd);
void dlr_agent_tasks_exit(struct dlr_agent_tasks *tasks, uint32_t round, int32_t rank,
                          int status);
/* The step of round has left the node. */
void dlr_agent_tasks_step_gone(struct dlr_agent_tasks *tasks,
                               const struct dlr_agent_conn *stepd);
/* Says "clean" for round when nothing of it is left; again when it was said before. */
void dlr_agent_tasks_settle(struct dlr_agent_tasks *tasks, uint32_t round);
/* Whether a slurmstepd of the round is connected: its tasks may be long in coming. */
void dlr_agent_tasks_send_stepd(struct dlr_agent_tasks *tasks, uint32_t round);
/* Forgets ended tasks of rounds before this one. */
void dlr_agent_tasks_forget(struct dlr_agent_tasks *tasks, uint32_t round);
void dlr_agent_tasks_drop(struct dlr_agent_tasks *tasks); /* all */
/* Its pidfd is watched; one that has none, and whose end is not told, is awaited no
 * longer than DLR_AGENT_EXIT_MS.
 */
void dlr_agent_tasks_watch(struct dlr_agent_task *t);
/* Kills all tasks that serve rounds up to this one, those that stay, too. */
void dlr_agent_tasks_doom(struct dlr_agent_tasks *tasks, uint32_t round);
/* Those that are ordered and do not stay; says "clean" when none is left. */
void dlr_agent_tasks_kill_ordered(struct dlr_agent_tasks *tasks);

/* --- rank_claims.c */
void dlr_agent_claims_hello(struct dlr_agent_tasks *tasks, struct dlr_agent_conn *c);
void dlr_agent_claims_gone(struct dlr_agent_tasks *tasks,
                           struct dlr_agent_conn *c); /* it closes */

/* --- stay.c */
/* The connection of a process that can stay has said that it is parked; it closes. */
void dlr_agent_stay_parked(struct dlr_agent_conn *c);
void dlr_agent_stay_gone(struct dlr_agent_tasks *tasks, const struct dlr_agent_conn *c);
/* A task of the round that runs stands for a process that is parked, or hears that there
 * is none. fds are the caller's. 0 or -errno.
 */
int dlr_agent_stay_relay(struct dlr_agent_conn *c, const struct dlr_local_msg *m,
                         const int *fds, unsigned nfds);
/* Another round begins: who is not of it here does not stay. */
void dlr_agent_stay_round(struct dlr_agent_tasks *tasks);

/* --- warm.c */
/* The first message of a process that runs ahead: 0 or -errno. It closes. */
int dlr_agent_warm_waits(struct dlr_agent_conn *c);
void dlr_agent_warm_gone(struct dlr_agent_tasks *tasks, const struct dlr_agent_conn *c);
void dlr_agent_warm_end(struct dlr_agent_tasks *tasks); /* all; none is wanted */
void dlr_agent_warm_resend(const struct dlr_agent_tasks *tasks);
/* The newest round up to this one whose mark none of them has; -1: none. */
int64_t dlr_agent_warm_below(const struct dlr_agent_tasks *tasks, int64_t round);

/* --- warm_ranks.c */
/* Another round begins: where this node has ranks of it, processes that wait get them,
 * as if they had stayed; all others are ended.
 */
void dlr_agent_warm_round(struct dlr_agent_tasks *tasks);

/* --- parked.c */
/* The connection of this kind and rank, NULL: there is none. */
struct dlr_agent_conn *dlr_agent_stay_find(const struct dlr_agent_tasks *tasks,
                                           enum dlr_agent_conn_kind kind, int32_t rank);
/* A slurmstepd of the round is connected. */
bool dlr_agent_conn_has_stepd(const struct dlr_agent_tasks *tasks, uint32_t round);
/* The supervisor hears that a process of the round can stay; all of them. */
void dlr_agent_stay_say(const struct dlr_agent_tasks *tasks, int32_t rank);
void dlr_agent_stay_resend(const struct dlr_agent_tasks *tasks);
/* A message of its round and rank. */
void dlr_agent_stay_tell(const struct dlr_agent_conn *c, enum dlr_local_type type,
                         uint64_t arg);
/* A task of the round stands for a process that stayed. */
bool dlr_agent_stay_relays(const struct dlr_agent_tasks *tasks, uint32_t round,
                           int32_t rank);
/* A process that stayed has ended so: whoever stands for it hears it. */
void dlr_agent_stay_ended(struct dlr_agent_tasks *tasks, int32_t rank, int status);
/* Any is not parked yet that is to be; how many are. */
bool dlr_agent_stay_waits(const struct dlr_agent_tasks *tasks);
unsigned dlr_agent_stay_count(const struct dlr_agent_tasks *tasks);

/* --- local_socket.c */
/* A connection is ours from now on, with its descriptor; kept: 0, or its id in
 * base/kept.h. NULL: out of memory, or too many, and fd is the caller's.
 */
struct dlr_agent_conn *dlr_agent_conn_add(struct dlr_agent_tasks *tasks, int fd,
                                          int pid, unsigned kept);

/* --- sweep.c */
/* Kills every process of the run and of rounds up to this one, by the marks in its
 * environment; the srun that the supervisor started unless it is to be left alone. How
 * many there were: 0, nothing of them is left on this node. Reads /proc.
 */
unsigned dlr_agent_sweep(const struct dlr_run_id *run, uint32_t round, bool spare_srun);

#endif
