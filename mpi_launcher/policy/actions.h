/* SPDX-License-Identifier: Apache-2.0 */
/* What the policy engine is given and asks for, and its words: phases of a run, causes
 * of a round's end, fates of a job.
 */
#ifndef DLR_MPI_LAUNCHER_POLICY_ACTIONS_H
#define DLR_MPI_LAUNCHER_POLICY_ACTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum dlr_phase {
    DLR_PHASE_AGENTS,     /* agents start and report */
    DLR_PHASE_RENDEZVOUS, /* candidates meet, a plan is made */
    DLR_PHASE_PREPARE,    /* copies move to where the ranks will be */
    DLR_PHASE_RUN,        /* the user's step */
    DLR_PHASE_END,        /* the round's processes go away */
    DLR_PHASE_PERSIST,    /* survivors write their state */
    DLR_PHASE_REQUEUE,    /* slurmctld was asked; the end comes from outside */
    DLR_PHASE_WAIT,       /* slurmctld is away: nothing can be started */
    DLR_PHASE_DONE,
};

enum dlr_cause { /* of the end of a round */
                 DLR_CAUSE_NONE,
                 DLR_CAUSE_NODE,    /* a node of the round died; costs no restart */
                 DLR_CAUSE_PROGRAM, /* the program failed; costs one */
                 /* a copy turned out bad; costs none, the copy is struck off */
                 DLR_CAUSE_RESTORE,
                 DLR_CAUSE_SIGNAL, /* somebody wants the end */
                 /* supervisor or agents were lost: nobody watched; costs none */
                 DLR_CAUSE_CONTROL,
                 DLR_CAUSE_HANG, /* it will never go on by itself; costs a restart */
};

/* What becomes of the job, as slurmctld has it. */
enum dlr_fate {
    DLR_FATE_RUNS,
    DLR_FATE_PREEMPTED, /* it runs, in the grace of its preemption */
    DLR_FATE_ENDS,      /* Slurm ends it, or takes it back */
};

const char *dlr_cause_name(enum dlr_cause cause);

/* What the user wants done about a failure. */
enum dlr_policy_on {
    DLR_ON_RESTART, /* a new round, or what there is instead */
    DLR_ON_REQUEUE,
    DLR_ON_STOP, /* the run ends, with the program's code */
};

struct dlr_policy_conf {
    unsigned nnodes;       /* of the allocation, numbered from 0 */
    unsigned nplaces;      /* nodes that a round has */
    unsigned group;        /* rounds have a multiple of so many, 0 and 1: any number */
    unsigned min_places;   /* that it may do with when no more are left, 0: nplaces */
    unsigned max_restarts; /* within restarts_ms: restart_budget.h */
    int64_t restarts_ms;   /* 0: DLR_RESTART_WINDOW_MS */
    unsigned rendezvous_tries; /* with MPI and no node lost, before doing without */
    /* a task that fails ends nothing, the step's end is the run's (-K0) */
    bool tolerant;
    bool batch; /* we are on one of the nodes, where the job has begun */
    unsigned char on_exit[256]; /* an enum dlr_policy_on for each code of the program */
    enum dlr_policy_on on_node; /* of the round that is lost */
    int64_t agent_timeout_ms, rendezvous_timeout_ms, transfer_timeout_ms,
        end_timeout_ms, persist_timeout_ms, requeue_timeout_ms, controller_timeout_ms;
    /* Slurm ends a step that has run so long (srun --time); 0: none */
    int64_t limit_ms;
    int64_t start_timeout_ms; /* first start: for nodes that are late, 0: none may be */
    /* an unexplained end of the step waits this long for its reason */
    int64_t suspect_ms;
};

/* Each is called from inside an event function and must not call one itself. */
struct dlr_policy_ops {
    void (*start_agents)(void *arg);
    /* Rounds have so many places from now on; only with min_places. -errno: they
     * cannot.
     */
    int (*resize)(void *arg, unsigned nplaces);
    void (*rendezvous)(void *arg, bool with_mpi);
    void (*stop_rendezvous)(void *arg);
    void (*prepare)(void *arg, uint32_t round);
    void (*launch)(void *arg, uint32_t round);
    void (*end_round)(void *arg, uint32_t round, enum dlr_cause cause, const char *why);
    /* What ended it was the work of this loss, which was found later. */
    void (*explain)(void *arg, uint32_t round, enum dlr_cause cause, const char *why);
    void (*persist)(void *arg);
    void (*requeue)(void *arg, const char *why);
    void (*late)(void *arg, unsigned n); /* so many nodes are late and waited for */
    void (*finish)(void *arg, int code, const char *why); /* why NULL: it just ended */
    void (*wait_controller)(void *arg, const char *why);  /* begins */
    void (*ask_fate)(void *arg); /* dlr_policy_fate() is the answer, RUNS without one */
    /* Whether memory has what the disk lacks and should have; NULL: never. */
    bool (*unwritten)(void *arg);
};

#endif
