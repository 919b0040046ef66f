/* SPDX-License-Identifier: Apache-2.0 */
/* The policy engine's rules as a table: in this state, at this event, if this holds, do
 * that, and be there. docs/policy.md is made of it.
 */
#ifndef DLR_MPI_LAUNCHER_POLICY_RULES_H
#define DLR_MPI_LAUNCHER_POLICY_RULES_H

#include "mpi_launcher/policy/policy.h"

/* Phases, and behind them choices: left at once, by the first rule that holds. A choice
 * leads to a later one or to a phase, so that there is no ring.
 */
enum dlr_policy_state {
    DLR_CHOICE_AGAIN = DLR_PHASE_DONE + 1, /* the agents ended */
    DLR_CHOICE_MET,                        /* the agents are there, or late */
    DLR_CHOICE_GONE,                       /* the round is over everywhere */
    DLR_CHOICE_SETBACK,                    /* a copy could not be used */
    DLR_CHOICE_FAILED,  /* the program failed: is it the last time? */
    DLR_CHOICE_NEXT,    /* another round */
    DLR_CHOICE_FITTED,  /* its size is known, or there is none */
    DLR_CHOICE_LAST,    /* the run has failed for the last time */
    DLR_CHOICE_WRITTEN, /* what was in memory is on the disk */
    DLR_POLICY_STATES,
    DLR_STATE_SAME = DLR_POLICY_STATES, /* no other, and its limit goes on */
};

/* What happens. Those of a round are dropped when it is not the one in force. */
enum dlr_policy_what {
    DLR_EVENT_AT_ONCE, /* nothing: tried after every rule */
    DLR_EVENT_LIMIT,   /* the limit of the state is over */
    DLR_EVENT_START,
    DLR_EVENT_ADOPT,
    DLR_EVENT_ADOPT_FAILED,
    DLR_EVENT_NODE_UP,
    DLR_EVENT_NODE_DEAD,
    DLR_EVENT_AGENTS_GONE,
    DLR_EVENT_HOLD,
    DLR_EVENT_REPLAN,
    DLR_EVENT_PLANNED,
    DLR_EVENT_TOO_FEW,
    DLR_EVENT_STARVES,
    DLR_EVENT_NOT_MET,
    DLR_EVENT_GIVE_UP,
    DLR_EVENT_PREPARED,
    DLR_EVENT_COPIES_FAILED,
    DLR_EVENT_STARTED,
    DLR_EVENT_QUEUED,
    DLR_EVENT_LAUNCH_LATE,
    DLR_EVENT_TASK_FAILED,
    DLR_EVENT_RESTORE_FAILED,
    DLR_EVENT_RESTORE_REFUSED,
    DLR_EVENT_LEASE_EXPIRED,
    DLR_EVENT_WATCH_LOST,
    DLR_EVENT_STEPD_LOST,
    DLR_EVENT_HANG,
    DLR_EVENT_STEP_ENDED,
    DLR_EVENT_CLEAN,
    DLR_EVENT_SIGNAL,
    DLR_EVENT_SIGTERM,
    DLR_EVENT_FATE,
    DLR_EVENT_PERSISTED,
    DLR_EVENT_REQUEUE_WITH_JOB,
    DLR_EVENT_REQUEUE_CANCEL,
    DLR_EVENT_REQUEUE_FAILED,
    DLR_EVENT_CONTROLLER_AWAY,
    DLR_EVENT_CONTROLLER_BACK,
    DLR_POLICY_EVENTS,
};

struct dlr_policy_event {
    enum dlr_policy_what what;
    int64_t now_ms;
    unsigned node;
    int code;                /* a task's, srun's, of a signal */
    bool stops;              /* it is the task's word that the run is to stop */
    const char *why, *place; /* of a hang: equal when it is the same one again */
    const unsigned char *member;
    enum dlr_fate fate;
    bool wanted;       /* SIGTERM came to us */
    int64_t limit_ms;  /* of what is begun now */
    int64_t launch_ms; /* of the round that is adopted */
};

typedef bool (*dlr_policy_guard_fn)(const struct dlr_policy *p,
                                    const struct dlr_policy_event *e);
typedef void (*dlr_policy_action_fn)(struct dlr_policy *p,
                                     const struct dlr_policy_event *e);

struct dlr_policy_rule {
    uint32_t states; /* a bit for each */
    enum dlr_policy_what what;
    dlr_policy_guard_fn guard;
    dlr_policy_action_fn action;
    unsigned next; /* a phase is entered anew, with its limit, before the action */
    const char *guard_name, *action_name;
};

/* The first one that holds is taken, one without any changes nothing. */
extern const struct dlr_policy_rule dlr_policy_rules[];
extern const unsigned dlr_policy_nrules;

const char *dlr_policy_state_name(unsigned state);
const char *dlr_policy_event_name(enum dlr_policy_what what);

/* Finds the rule and follows it. False: there is none. */
bool dlr_policy_happens(struct dlr_policy *p, const struct dlr_policy_event *e);

#endif
