/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the engine, for its own sources and its tests. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_ROUNDS_ROUNDS_STATE_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_ROUNDS_ROUNDS_STATE_H

#include "ckpt/commit/commit.h"
#include "mpi_launcher/slurm/srun.h"
#include "mpi_launcher/supervisor/rounds/first_cause.h"
#include "mpi_launcher/supervisor/rounds/rounds.h"

struct dlr_sup_ranks;

/* A round of the former supervisor that may go on under this one. */
struct dlr_adopt {
    bool wanted;       /* it ran, and its srun and its agents are there */
    bool active;       /* its nodes are being heard */
    bool moved;        /* a data process has been started again since */
    pid_t workers_pid; /* its srun, the keeper's child; 0 none */
    int64_t begun_ms, deadline_ms, started_ms;
    unsigned char *told; /* [nnodes] 1: still has the round */
    uint64_t ordered;    /* newest step that any of them was ordered to save, 0 none */
    json_t *open;        /* steps of versions that were undecided at any of them */
    bool has_newest;
    struct dlr_version newest; /* commit that any of them knows */
    json_t *later;             /* [[node, message]]: to be judged when all are heard */
};

/* A place as the script knew it when it wrote the program's arguments. */
struct dlr_role {
    int node;  /* its index, -1: none of the job's */
    bool used; /* words that name it were changed for this round */
};

#define DLR_SUP_OPEN_MAX 64 /* versions that one agent may say are undecided */
#define DLR_STAY_SRUNS 16   /* more nodes lost one after the other: all start again */

struct dlr_sup_rounds {
    struct dlr_sup_rounds_env env;
    const struct dlr_sup_rounds_ops *ops; /* never NULL */
    void *arg;
    const struct dlr_members *members;
    struct dlr_policy *policy;
    int64_t started_ms;             /* the run, under its first supervisor */
    struct dlr_proc workers;        /* the round's srun */
    struct dlr_proc former_workers; /* a former supervisor's */
    struct dlr_adopt adopt;
    int64_t phase_ms;       /* when the present phase began */
    uint32_t running_round; /* or the last one that did */
    uint32_t turn;          /* of it */
    char token[33];         /* of the turn: whoever has it may write into copies */
    bool anywhere; /* copies of the plan's version may not be where its ranks are */
    struct dlr_sup_ranks *ranks; /* ranks.c: which of them are where */
    struct dlr_role *roles; /* node_names.c: [places], NULL before the first plan */
    int64_t stdin_at; /* where our standard input began, -1 when that is no file */
    bool launched;    /* a round of this incarnation has had stdin and output */
    int64_t launch_ms, launch_deadline_ms;
    bool ended_early; /* its srun, with 0, and a task was not known to have started */
    struct {          /* launch_limit.c: for what other steps of the job have */
        /* the round does not overlap with them: slurmctld may have it wait, */
        bool may;
        bool does; /* and does, as it has said */
        bool held; /* a round had them, and slurmctld may count them as taken yet */
    } queue;
    struct {                                   /* stay.c */
        struct dlr_proc sruns[DLR_STAY_SRUNS]; /* of rounds whose processes stay */
        unsigned n;
        unsigned *parked; /* [members] processes that do; NULL: none did */
    } stay;
    struct {                 /* warm.c */
        unsigned char *told; /* [members] of the round; NULL: nobody */
        unsigned char *able; /* [world] 1: can stay; NULL: nobody has said so */
        unsigned nable;
        bool due;  /* somebody may have to be told */
        bool used; /* processes may wait on a node that gets ranks */
    } warm;
    bool running_reported, go_reported;
    bool ending;             /* its processes are being ended, the journal has not said
                          'cleared' */
    bool end_reported;       /* the round's end is in the journal */
    unsigned char *up;       /* [world] 1: has started */
    unsigned tasks_up;       /* how many have */
    unsigned char *restored; /* [world] 1: has loaded, 2: has failed */
    unsigned nrestored;
    int64_t restore_deadline_ms; /* INT64_MAX: none runs */
    struct dlr_failure failure;
    struct dlr_failure failures[DLR_FAILURES_KEPT]; /* all of the round */
    unsigned nfailures;
    struct dlr_class_rules *rules; /* NULL: not needed yet */
    size_t nrules_of_user;         /* so many of them, the first */
    char stopped_by[600]; /* a rule of the user's ends the run; "": none does */
    char starved_by[400]; /* more memory would do; "": it was something else */
    /* [ntails], the round's world: last lines of stderr, NULL none yet */
    char **last_stderr;
    unsigned nlast_stderr;
    bool first_step_seen, first_step_reported;
    int64_t progress_ms; /* last line */
    uint64_t progress_step;
};

/* Is a message about one of so many of the round that runs? Which. */
bool dlr_sup_of_round(const struct dlr_sup_rounds *rounds, const json_t *msg,
                      unsigned of, unsigned *ret_rank);

static inline void dlr_sup_rounds_changed(const struct dlr_sup_rounds *rounds)
{
    rounds->ops->changed(rounds->arg, false);
}

/* What a callback of the loop returns. */
static inline int dlr_sup_rounds_go_on(const struct dlr_sup_rounds *rounds)
{
    return rounds->ops->over(rounds->arg) ? -1 : 0;
}

/* launch.c: its srun has ended so. */
void dlr_sup_step_ended(struct dlr_sup_rounds *rounds, int status);

/* failure.c: a round of so many tasks begins, or is taken over; -ENOMEM. */
int dlr_sup_failure_reset(struct dlr_sup_rounds *rounds, unsigned ntasks);

/* launch_limit.c. Tasks are missing and their time is over: true, the round is being
 * ended.
 */
bool dlr_sup_launch_late(struct dlr_sup_rounds *rounds, int64_t now_ms);
bool dlr_sup_may_queue(const struct dlr_sup_rounds *rounds);

/* stay.c: processes may stay over the loss of a node; they have so long to park when a
 * round ends for that cause, 0: they are killed.
 */
bool dlr_sup_stay_can(const struct dlr_sup_rounds *rounds);
int64_t dlr_sup_stay_ms(const struct dlr_sup_rounds *rounds, enum dlr_cause cause);
/* The round's srun is left alone while any does; all such sruns are let go. */
void dlr_sup_stay_keep(struct dlr_sup_rounds *rounds);
void dlr_sup_stay_end(struct dlr_sup_rounds *rounds);
/* Processes that stay, on nodes that are there; what stands before the program then. */
unsigned dlr_sup_stay_parked(const struct dlr_sup_rounds *rounds);
void dlr_sup_stay_words(const struct dlr_sup_rounds *rounds, struct dlr_words *words);
/* The sruns for the next supervisor, and from the former one. */
json_t *dlr_sup_stay_state(const struct dlr_sup_rounds *rounds);
void dlr_sup_stay_take(struct dlr_sup_rounds *rounds, const json_t *pids);

/* worker_env.c: what the round's srun has. -ENOMEM, or of the list of nodes. */
int dlr_sup_worker_env(struct dlr_sup_rounds *rounds, uint32_t round,
                       struct dlr_env *env, struct dlr_err *err);

/* stdin.c: the descriptor a round's srun reads from; the caller's, -1 for none. */
int dlr_sup_stdin(struct dlr_sup_rounds *rounds);

/* ranks.c */
void dlr_sup_ranks_ended(struct dlr_sup_rounds *rounds); /* a task has, with 0 */
void dlr_sup_ranks_stop(struct dlr_sup_rounds *rounds);
/* A round goes on, with the plan's places; one of its nodes has told where it stands;
 * all have: those that do not know the turn hear of it, and ranks that wait are looked
 * at.
 */
int dlr_sup_ranks_adopt(struct dlr_sup_rounds *rounds);
void dlr_sup_ranks_round_state(struct dlr_sup_rounds *rounds, unsigned node,
                               const json_t *told);
void dlr_sup_ranks_adopted(struct dlr_sup_rounds *rounds);

/* messages.c: true when msg is kept until it is known whether the round goes on. */
bool dlr_sup_adopt_later(struct dlr_sup_rounds *rounds, unsigned node,
                         const json_t *msg);

/* node_names.c. The program's arguments for the plan in force: free(). NULL when out of
 * memory.
 */
char **dlr_sup_names_words(struct dlr_sup_rounds *rounds);
int dlr_sup_names_env(struct dlr_sup_rounds *rounds, struct dlr_env *env);
void dlr_sup_names_tell(struct dlr_sup_rounds *rounds); /* what was changed by these */

/* adopt.c: the round that runs. */
int dlr_sup_load_round(struct dlr_sup_rounds *rounds, const json_t *state);
bool dlr_sup_adopt_start(struct dlr_sup_rounds *rounds, int bell_fd);

#endif
