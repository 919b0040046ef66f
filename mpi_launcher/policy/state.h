/* SPDX-License-Identifier: Apache-2.0 */
/* The policy engine's inside, shared by its files and nobody else. */
#ifndef DLR_MPI_LAUNCHER_POLICY_STATE_H
#define DLR_MPI_LAUNCHER_POLICY_STATE_H

#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/policy/restart_budget.h"
#include "mpi_launcher/policy/rules.h"

enum node_state { NODE_UNSEEN, NODE_UP, NODE_DEAD };

struct node {
    enum node_state state;
    bool member;         /* has a place in the plan in force */
    bool processes_left; /* has not yet said that the ended round is gone */
    bool unheard;        /* was not there to be told that it ends */
};

struct dlr_policy {
    struct dlr_policy_conf conf;
    struct dlr_policy_ops ops;
    void *arg;
    struct node *nodes;
    struct { /* a state's are from from on, before to */
        unsigned from, to;
    } rules[DLR_POLICY_STATES];

    unsigned places; /* of the rounds to come: conf.nplaces, or fewer */
    enum dlr_phase phase;
    int64_t deadline_ms; /* of the phase; INT64_MAX: none */
    uint32_t round, next_round;
    struct dlr_restart_budget restarts;
    int64_t launch_ms, failed_ms; /* of the round: it was launched, began to end */
    bool stepped;                 /* a rank has told a step in it */
    bool killed;                  /* what ended it: a task by SIGKILL or SIGTERM */
    bool said_stop;               /* or by a code that stops the run */
    bool has_best;
    uint64_t best;              /* newest step that was ever committed */
    unsigned failed_rendezvous; /* in a row, with no node lost */
    unsigned failed_restores;   /* in a row: copies that could not be moved or loaded */

    enum dlr_cause cause; /* why the round ends, while it does */
    char why[256];
    char place[256];    /* of a hang: equal when it is the same one again */
    int exit_code;      /* what the run returns when it has to end */
    bool started;       /* a task of the round has */
    bool ended_early;   /* its srun, with 0, when not all were known to have */
    unsigned unstarted; /* rounds in a row whose srun ended and had started no task */
    bool ran;           /* a task of the run has started */
    /* since then slurmctld starts none of its steps; 0: it does */
    int64_t unstarted_ms;
    uint32_t late_next;  /* the round after one whose tasks did not all start in time */
    bool launch_refused; /* and no further one is to be tried */
    bool ended;          /* srun of the round has returned */
    bool exit_unexplained; /* it has, and nobody has said why */
    bool controller_down;  /* slurmctld: the round ends because it could not be begun */
    bool requeue_wait;     /* the wait for it was for a requeue */
    char fit_why[128];     /* why there can be no round; "" when there can */
    enum dlr_restart_budget_next verdict; /* of the last failure */

    bool failed; /* for the last time: memory is being written, then the run ends, */
    char failed_why[512];   /* with exit_code and this */
    bool requeues_with_job; /* the allocation is given back for another run */
    /* nobody has made sure that the round's processes are gone */
    bool cleanup_unconfirmed;
    struct dlr_restart_budget agent_starts; /* how often agents were started */
    /* of the first start: nodes not seen may come until then; 0: none may */
    int64_t late_ms;
    unsigned enough; /* nodes with which it does without the others */
    bool begun;      /* a plan was made since */
    bool awaits;     /* its time for all to come is over */
    /* rounds that ended because a slurmstepd died */
    struct dlr_restart_budget steps_lost;
    struct dlr_restart_budget fruitless; /* what was begun since there was progress */

    struct {              /* SIGTERM, or another signal near the job's end */
        int warning;      /* which; 0: SIGTERM */
        bool asked;       /* slurmctld, whether such a one was for the end */
        bool wanted;      /* came to us */
        bool limit;       /* the step has had its time: Slurm sends it */
        int64_t until_ms; /* the tasks end for it until then; 0: none came */
        uint32_t next;    /* the round after the one whose tasks have it; 0: none has */
        int code;         /* of the first task that did not end with 0 */
        char why[128];
        bool settling, over; /* the step has ended: what for is asked, is known */
        bool back;           /* the job goes back into the queue, by us */
        bool taken;          /* or is ended by Slurm */
    } sigterm;
};

/* From enough agents to the round without the others: those that are as quick come
 * along.
 */
#define DLR_POLICY_SETTLE_MS 5000

/* state.c. How many nodes are in that state. */
unsigned dlr_policy_count(const struct dlr_policy *p, enum node_state state);
/* limit_ms < 0: none */
void dlr_policy_enter(struct dlr_policy *p, enum dlr_phase phase, int64_t now_ms,
                      int64_t limit_ms);
void dlr_policy_finish(struct dlr_policy *p, int code, const char *why);
/* srun did. Whether the program was run is another matter: one that waited for its
 * tasks in vain may end so, too.
 */
bool dlr_policy_ended_well(const struct dlr_policy *p);

/* Whether the user wants the run to stop at that code of the program. */
bool dlr_policy_stops_at(const struct dlr_policy *p, int code);

/* Something is begun at no cost. */
void dlr_policy_count_fruitless(struct dlr_policy *p, int64_t now_ms);

/* termination.c. Whether what ends now may end for SIGTERM; the tasks of this round. */
bool dlr_policy_heeds(const struct dlr_policy *p, int64_t now_ms);
bool dlr_policy_tasks_heed(const struct dlr_policy *p, int64_t now_ms);

/* The round ends by what the program did, or never will. */
static inline bool dlr_policy_is_programs(const struct dlr_policy *p)
{
    return p->cause == DLR_CAUSE_PROGRAM || p->cause == DLR_CAUSE_HANG;
}

/* after_round.c. The first reason ends the round. */
void dlr_policy_end_round(struct dlr_policy *p, enum dlr_cause cause, const char *why,
                          int64_t now_ms);
/* A loss that is found while the round ends explains the failures that it caused: it
 * takes the place of a failure of the program.
 */
void dlr_policy_explain(struct dlr_policy *p, enum dlr_cause cause, const char *why);

#endif
