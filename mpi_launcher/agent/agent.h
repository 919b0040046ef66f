/* SPDX-License-Identifier: Apache-2.0 */
/* The agent: one process per node of the allocation. Private to mpi_launcher/agent/; one
 * thread, one zloop, and nothing that blocks: files other than /dev/shm, Slurm and UCX are for
 * child processes.
 *
 *   main.c                     options, start, the loop
 *   restarter.c                starts it again when it dies
 *   base/                      reactor, children, sockets, answers: base/base.h
 *   snapshots/directory.c      the memory directory
 *   control.c                  the supervisor's messages and ours to it
 *   lease.c                    beats out, leases in; what happens when the lease runs out
 *   suspend.c                  Slurm suspends the job: the lease is held
 *   grace.c                    Slurm sends SIGTERM: the tasks are left to it
 *   tasks/local_socket.c       connections of this node's plugin and workers
 *   tasks/tasks.c              the workers as processes: watch, kill, say when they are gone
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
#include "mpi_launcher/wire/endpoint.h"
#include "mpi_launcher/wire/identity.h"
#include "mpi_launcher/wire/peer_list.h"

#define DLR_AGENT_EXIT_MS                                                              \
    1000 /* an ended task's status, told by its slurmstepd, may take */
#define DLR_AGENT_RETRY_MS 50   /* between two rounds of SIGKILL while tasks are left */
#define DLR_AGENT_LEAVE_MS 5000 /* an agent before this one may take to end */
#define DLR_AGENT_CONNS 4096    /* local connections at once */
#define DLR_AGENT_OPEN 16       /* versions: more than a supervisor has open */
#define DLR_AGENT_ABORTS 32     /* told again to a data process that is started again */

struct dlr_agent;
struct dlr_topo;
struct dlr_agent_bring;
struct dlr_election;
struct dlr_successor;
struct dlr_agent_rebuild;

/* --- main.c ------------------------------------------------------------------------- */

struct dlr_agent_tasks { /* tasks/tasks.c */
    zlistx_t *all;       /* struct task */
    int64_t doomed;      /* every round up to it is to be killed; -1 none */
    bool spare_srun;     /* its srun has their last output to write yet */
    int retry_timer;     /* -1: off */
};

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
    int listen_fd;
    zlistx_t *conns; /* struct dlr_agent_conn */
    struct dlr_agent_tasks tasks;
    struct dlr_agent_rank **ranks;
    unsigned nranks;
    struct {
        bool asked;    /* the supervisor wants to know who is here */
        unsigned lost; /* workers that were welcomed in this turn, and have gone */
    } claims;
    struct dlr_agent_bring *brings;
    uint64_t save_step;            /* newest that was ordered in this round; 0 none */
    uint64_t open[DLR_AGENT_OPEN]; /* ordered, and not decided as far as known here */
    unsigned nopen;
    uint64_t
        aborted[DLR_AGENT_ABORTS]; /* steps of this round, the newest last; 0 none */
    bool has_committed;
    struct dlr_version committed; /* newest commit known here */
    bool has_kept;
    struct dlr_version kept; /* older, and not freed by commits */
    uint64_t unvetted;       /* round + 1 in which no room for it was told; 0 none */
    uint64_t went;           /* round + 1 in which go was heard; 0 none */
    struct {
        bool known;
        int32_t rank;
        struct dlr_version version;
    } bad; /* what a worker here has marked: told to every supervisor */
    struct {
        bool known;
        int32_t rank;
        struct dlr_version version;
        char why[256];
    } torn; /* the last that an audit here has found */
    struct dlr_agent_data *data;
    struct { /* of the data process, when they are known: */
        bool known;
        struct dlr_topo_numa numa; /* its devices are on these */
        uint32_t placed; /* the round in which its CPUs were looked for last */
    } devices;
    struct dlr_agent_rebuild *rebuilds; /* for a successor */
    struct {
        struct dlr_pace pace; /* --dlrover-set=pace=auto */
        unsigned sends;       /* of saves, on their way */
        int64_t begun_ns;     /* the first of them; and what has arrived since */
        uint64_t bytes;
    } pacing;
    struct dlr_agent_peers peers;
    struct {
        int pidfd, timer; /* -1: not watched, off */
    } keeper;
    struct dlr_topo *topo; /* this node's; NULL: not known */
    zlistx_t *surveys;     /* reports being made */
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

/* --- snapshots/directory.c ---------------------------------------------------------- */

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
/* send, from a peer that rebuilds. */
int dlr_agent_send(struct dlr_agent *a, const json_t *msg,
                   const struct dlr_agent_origin *from);
/* persist, from the supervisor or a peer. */
void dlr_agent_persist(struct dlr_agent *a, const json_t *msg,
                       const struct dlr_agent_origin *from);

/* --- lease.c ------------------------------------------------------------------------ */

int dlr_agent_lease_start(struct dlr_agent *a, struct dlr_err *err);
void dlr_agent_lease_stop(struct dlr_agent *a);
void dlr_agent_lease_pace(struct dlr_agent *a); /* every_ms has changed */
void dlr_agent_lease_take(struct dlr_agent *a, const void *data, size_t size);
void dlr_agent_lease_beat(struct dlr_agent *a); /* one now, beside those of the timer */
/* Writes the lease into a worker's page: the timer in the worker follows it. */
void dlr_agent_lease_show(const struct dlr_agent *a, struct dlr_page *page);
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

/* --- tasks/local_socket.c ----------------------------------------------------------- */

int dlr_agent_local_start(struct dlr_agent *a, struct dlr_err *err);
void dlr_agent_local_stop(struct dlr_agent *a);
void dlr_agent_local_close(struct dlr_agent *a); /* the listening socket, last of all */
/* Closes workers of rounds before this one. */
void dlr_agent_local_drop_workers(struct dlr_agent *a, uint32_t before_round);
bool dlr_agent_local_has_stepd(const struct dlr_agent *a, uint32_t round);
/* --- tasks/sweep.c ------------------------------------------------------------------- */

/* Kills every process of this run and of rounds up to this one, by the marks in its
 * environment; the srun that the supervisor started unless it is to be spared. How many there were: 0, nothing of them is left on this node. Reads /proc.
 */
unsigned dlr_agent_sweep(const struct dlr_agent *a, uint32_t round);

/* --- tasks/tasks.c ------------------------------------------------------------------ */

int dlr_agent_tasks_start(struct dlr_agent *a, struct dlr_err *err);
void dlr_agent_tasks_stop(struct dlr_agent *a);
void dlr_agent_tasks_add(struct dlr_agent *a, struct dlr_agent_conn *stepd,
                         int32_t rank, pid_t pid);
void dlr_agent_tasks_exit(struct dlr_agent *a, uint32_t round, int32_t rank,
                          int status);
/* The step of round has left the node. */
void dlr_agent_tasks_step_gone(struct dlr_agent *a, struct dlr_agent_conn *stepd);
/* Kills all tasks of rounds up to this one, now and when they appear late, until none is left. */
void dlr_agent_tasks_kill(struct dlr_agent *a, uint32_t round);
void dlr_agent_tasks_kill_all(struct dlr_agent *a);
/* Says "clean" for round when nothing of it is left; again when it was said before. */
void dlr_agent_tasks_settle(struct dlr_agent *a, uint32_t round);
unsigned dlr_agent_tasks_left(const struct dlr_agent *a);
/* Calls fn for each task that has not ended, of any round. */
void dlr_agent_tasks_each(const struct dlr_agent *a, void (*fn)(void *arg, pid_t pid),
                          void *arg);
/* Forgets ended tasks of older rounds. */
void dlr_agent_tasks_round(struct dlr_agent *a, uint32_t round);
void dlr_agent_tasks_retell(struct dlr_agent *a);
/* Whether a slurmstepd of the round is connected: its tasks may be long in coming. */
void dlr_agent_tasks_say_stepd(struct dlr_agent *a, uint32_t round);

/* --- snapshots/space.c: what slots take of the node's memory, and may --------------------- */

unsigned dlr_agent_slots_of(const struct dlr_agent *a, const struct dlr_agent_rank *r);
/* Bytes of the slots of all ranks here but one (-1: of all); of how many. */
uint64_t dlr_agent_room_taken(const struct dlr_agent *a, int32_t but, unsigned *ret_n);
/* Of all, if none had a third. */
uint64_t dlr_agent_room_least(const struct dlr_agent *a);
/* Whose slots this round has here: own ranks first, then those whose copies are kept, or parity shards. */
unsigned dlr_agent_room_slots(const struct dlr_agent *a);
int32_t dlr_agent_room_slot(const struct dlr_agent *a, unsigned i);
/* Before anything is written: is there room for the rank's slots of so many bytes, beside what all
 * others here have? One slot is of a copy that is brought. -EDQUOT with the arithmetic.
 */
int dlr_agent_room_check(struct dlr_agent *a, int32_t rank, unsigned slots,
                         uint64_t bytes, struct dlr_err *err);
/* The same of one that is made here before a round, beside all that is here and beside the slots that
 * the round will ask for, as large as this one.
 */
int dlr_agent_room_beside(struct dlr_agent *a, int32_t rank, uint64_t bytes,
                          struct dlr_err *err);

/* --- snapshots/ranks.c -------------------------------------------------------------- */

/* --- snapshots/pace.c */
void dlr_agent_pace_start(struct dlr_agent *a); /* the data process is there */
void dlr_agent_pace_look(struct dlr_agent *a);  /* with every beat */
void dlr_agent_pace_begin(struct dlr_agent *a); /* a save's copy is sent off */
void dlr_agent_pace_end(struct dlr_agent *a, int rc, uint64_t bytes);

struct dlr_agent_rank {
    int32_t rank;
    struct dlr_agent_conn *worker; /* NULL: not here, or gone */
    struct dlr_page *page;         /* of the worker; NULL before its hello */
    int page_fd;
    struct dlr_slot
        *slots[DLR_STORE_SLOTS_MAX]; /* mapped when this node owns the rank */
    int slot_fds[DLR_STORE_SLOTS_MAX];
    unsigned
        reading[DLR_STORE_SLOTS_MAX];  /* requests of the data process that read it */
    bool corrupt[DLR_STORE_SLOTS_MAX]; /* it is DEAD when they have ended */
    bool spare_slot; /* it has a third, for the version that is kept */
    bool write_slot; /* or for that which is being written to the disk */
    bool own;        /* runs here in this round */
    bool opened;     /* a worker was welcomed in this turn */
    int left; /* the process that closed it and had neither restored nor begun; 0: none */
    bool reserving, asked; /* by the data process; by the worker */
    uint64_t bytes;        /* reserved; 0: not */
    bool restored;         /* said, with: */
    int restored_rc;
    bool differs;                 /* because the program asks for something else */
    unsigned corrupt_of;          /* 1 + the rank whose copy is corrupt, 0: none is */
    int64_t page_ns;              /* when it was made */
    bool page_bad;                /* it held what cannot be: told */
    struct dlr_page_cost cost;    /* of the page, as the supervisor knows it */
    struct dlr_topo_cpus helpers; /* as the page says them */
    struct {
        bool known;
        uint64_t step, hash;
    } shared[DLR_PAGE_RING]; /* of the steps it sealed: DLR_LOCAL_SEALED's hash */
};

/* The rank's entry; with make, a new one when there is none (NULL: out of memory). */
struct dlr_agent_rank *dlr_agent_rank(struct dlr_agent *a, int32_t rank, bool make);
void dlr_agent_ranks_round(struct dlr_agent *a); /* a new round was entered */
/* A new turn: ranks whose workers are there and stay here are kept, and told again. */
void dlr_agent_ranks_turn(struct dlr_agent *a);
/* Whether c is the worker of its rank. */
bool dlr_agent_ranks_serves(const struct dlr_agent *a, const struct dlr_agent_conn *c);
void dlr_agent_ranks_gone(struct dlr_agent *a, struct dlr_agent_conn *c);

/* --- tasks/rank_claims.c ------------------------------------------------------------ */

void dlr_agent_claims_hello(struct dlr_agent *a, struct dlr_agent_conn *c);
void dlr_agent_claims_gone(struct dlr_agent *a,
                           struct dlr_agent_conn *c); /* it closes */
void dlr_agent_claims_retell(struct dlr_agent *a);
/* A turn has begun: those that wait are welcomed, or go on waiting. */
void dlr_agent_claims_turn(struct dlr_agent *a);
int dlr_agent_claims_ask(struct dlr_agent *a, const json_t *msg);    /* ask_ranks */
int dlr_agent_claims_refuse(struct dlr_agent *a, const json_t *msg); /* refuse */

/* --- snapshots/ranks.c, once more ----------------------------------------------------- */

void dlr_agent_ranks_stop(struct dlr_agent *a);
void dlr_agent_ranks_hello(struct dlr_agent *a, struct dlr_agent_conn *c);
void dlr_agent_ranks_reserve(struct dlr_agent *a, int32_t rank, uint64_t bytes,
                             bool worker);
/* Those that are being reserved are asked of a new data process. */
void dlr_agent_ranks_reserve_again(struct dlr_agent *a);
void dlr_agent_ranks_reserved(struct dlr_agent *a, int32_t rank, int rc,
                              const char *why);
/* snapshots/extra_slots.c: whether rank gets one more slot of bytes here beside the two, and what for: spare_slot,
 * write_slot or both. Where auto finds no room for the older version the supervisor is told.
 */
void dlr_agent_more_slots(struct dlr_agent *a, struct dlr_agent_rank *r,
                          uint64_t bytes);
/* The slots could not be had: true when auto does without it, to be asked again. */
bool dlr_agent_fewer_slots(struct dlr_agent *a, struct dlr_agent_rank *r, int rc,
                           const char *why);
/* A rank that runs here has no slot to spare while one is written to the disk. */
bool dlr_agent_is_tight(const struct dlr_agent *a, const struct dlr_agent_rank *r);
/* The older version's alone, as above. */
bool dlr_agent_vetted_slot(struct dlr_agent *a, int32_t rank, uint64_t bytes);
void dlr_agent_ranks_restored(struct dlr_agent *a, const struct dlr_local_msg *msg);
void dlr_agent_ranks_go(struct dlr_agent *a);
/* Tells the supervisor, and each that comes after it, that step and later ones are bad. */
void dlr_agent_bad(struct dlr_agent *a, struct dlr_agent_conn *c, uint64_t step);
void dlr_agent_bad_retell(struct dlr_agent *a);
/* Answers a worker that wants another rank's slot, now or when it is here. */
void dlr_agent_peek(struct dlr_agent *a, struct dlr_agent_conn *c, uint64_t rank);
/* rc < 0: text is why; else the path of a file, or "": it is in this node's memory. */
void dlr_agent_peek_answer(struct dlr_agent *a, struct dlr_agent_conn *c, int32_t rank,
                           int rc, const char *text);
/* A worker found the copy corrupt that it got here, its own or one of these: the slot is dead, or will be
 * when nobody reads it. Where it lay a good one may come: one that is whole by its head is not sent there.
 */
void dlr_agent_peek_bury(struct dlr_agent *a, int32_t rank);

/* --- snapshots/fetch.c -------------------------------------------------------------- */

/* Has the copy brought here; c is answered in the end. */
void dlr_agent_bring(struct dlr_agent *a, struct dlr_agent_conn *c, int32_t rank);
void dlr_agent_bring_gone(struct dlr_agent *a, const struct dlr_agent_conn *c);
void dlr_agent_bring_retell(struct dlr_agent *a);
/* Ranks whose copies may come; the caller's. */
json_t *dlr_agent_bring_ranks(const struct dlr_agent *a);
/* Bytes of slots here that no rank of this round uses: of former ranks, and brought. */
uint64_t dlr_agent_bring_others(const struct dlr_agent *a, int32_t but);
/* Nobody reads them any more, and the data process gives them up. */
void dlr_agent_bring_end(struct dlr_agent *a, const char *why);
/* The same of those that other nodes can send once more. */
void dlr_agent_bring_go(struct dlr_agent *a, const char *why);
/* Slots of this round failed with rc, why: what was made here goes, if that is for want of room and go was
 * heard. True: it may be tried again.
 */
bool dlr_agent_bring_yield(struct dlr_agent *a, int rc, const char *why);
/* "reserve" with "bring", and with make: it will be made here, for whoever wants it; D_RESERVED of such a
 * slot, "brought".
 */
void dlr_agent_bring_reserve(struct dlr_agent *a, int32_t rank, uint64_t bytes,
                             bool make);
/* The data process has gone: room that was asked of it will not be made. */
void dlr_agent_bring_fail(struct dlr_agent *a, const char *why);
void dlr_agent_bring_reserved(struct dlr_agent *a, int32_t rank, int rc,
                              const char *why);
int dlr_agent_brought(struct dlr_agent *a, const json_t *msg);

void dlr_agent_ranks_retell(struct dlr_agent *a);
void dlr_agent_ranks_steps(const struct dlr_agent *a, uint64_t *ret_min,
                           uint64_t *ret_max);
/* The slot of rank that holds version whole, or -1. */
int dlr_agent_rank_holding(const struct dlr_agent_rank *r, struct dlr_version version);

/* --- snapshots/cpu_advice.c --------------------------------------------------------- */

/* Looks at the node's CPUs once. Without them, or when it fails, there is no advice. */
void dlr_agent_helpers_start(struct dlr_agent *a);
void dlr_agent_helpers_stop(struct dlr_agent *a);
/* Writes into r and its page, which the worker pid will have, which of our CPUs no task here is bound to;
 * none when the tasks are not bound, or take all.
 */
struct dlr_agent_rank;
void dlr_agent_helpers_advise(const struct dlr_agent *a, pid_t pid,
                              struct dlr_agent_rank *r);
/* The data process has said which devices it uses (D_USES), and goes to CPUs beside them that no task
 * here is bound to, as dlr_topo_beside() has it; where there are none it may use all of ours. msg gets
 * their list as "cpus", "" for all.
 */
void dlr_agent_helpers_uses(struct dlr_agent *a, json_t *msg);
/* The data process has gone, and its devices are not known any more. */
void dlr_agent_helpers_gone(struct dlr_agent *a);
/* A copy is about to be sent: the same once more in a round with other tasks. */
void dlr_agent_helpers_round(struct dlr_agent *a);

/* --- snapshots/save.c --------------------------------------------------------------- */

void dlr_agent_save_at(struct dlr_agent *a, uint64_t step);
void dlr_agent_save_commit(struct dlr_agent *a, uint64_t step);
/* Of a commit's message: which older version stays. */
void dlr_agent_save_keep(struct dlr_agent *a, const json_t *msg);
void dlr_agent_save_abort(struct dlr_agent *a, uint64_t step);
/* A data process was started again: it may have missed what was decided meanwhile. */
void dlr_agent_save_retell(struct dlr_agent *a);
/* Nothing reads a slot of r any more that did: what was decided of it meanwhile is marked. */
void dlr_agent_save_settle(struct dlr_agent *a, struct dlr_agent_rank *r);
void dlr_agent_save_sealed(struct dlr_agent *a, const struct dlr_local_msg *msg);
/* What it sealed is not of one moment, as its audit has found. */
void dlr_agent_save_torn(struct dlr_agent *a, int32_t rank, uint64_t step,
                         const char *why);
/* Of this round, for a supervisor that may not have heard it. */
void dlr_agent_save_torn_retell(struct dlr_agent *a);
void dlr_agent_save_missed(struct dlr_agent *a, int32_t rank, uint64_t step,
                           const char *why);
/* The same of any version, when it is of this round. */
void dlr_agent_save_lost(struct dlr_agent *a, int32_t rank, struct dlr_version version,
                         const char *why);

/* --- snapshots/scrub.c: D_BAD. */
void dlr_agent_scrub_bad(struct dlr_agent *a, const struct dlr_local_msg *m);
/* D_COPIED: a rank's own slot may be whole again, and is marked like others. */
void dlr_agent_scrub_copied(struct dlr_agent *a, int32_t rank);

/* --- report.c ----------------------------------------------------------------------- */

/* Starts a child that makes a report; "report" goes to from when it is there. */
void dlr_agent_report(struct dlr_agent *a, const struct dlr_agent_origin *from);
void dlr_agent_report_stop(struct dlr_agent *a);

/* --- snapshots/rebuild.c ------------------------------------------------------------ */

/* rebuild, from a successor: the rank is made of its set's parts. -EBADMSG, -ENOMEM. */
int dlr_agent_rebuild(struct dlr_agent *a, const json_t *msg,
                      const struct dlr_agent_origin *from);
void dlr_agent_rebuild_reserved(struct dlr_agent *a, int32_t rank, int rc,
                                const char *why);
/* True when request id was a rebuilding's. */
bool dlr_agent_rebuild_done(struct dlr_agent *a, uint64_t id, int rc, const char *why);
void dlr_agent_rebuild_stop(struct dlr_agent *a);

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
