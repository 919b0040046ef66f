/* SPDX-License-Identifier: Apache-2.0 */
/* What the events of a journal add up to: where a run stands now. Pure: events and time
 * in.
 */
#ifndef DLR_MPI_LAUNCHER_JOURNAL_RUN_VIEW_H
#define DLR_MPI_LAUNCHER_JOURNAL_RUN_VIEW_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DLR_CLI_PARTNERS 1100 /* bytes of their names */
#define DLR_CLI_LAST 8        /* events shown by status */

enum dlr_cli_role {
    DLR_CLI_WAITING, /* its agent has not reported */
    DLR_CLI_READY,   /* it has; no plan gives it a role yet */
    DLR_CLI_TRAINING,
    DLR_CLI_SPARE,
    DLR_CLI_EXCLUDED, /* left out by the plan */
    DLR_CLI_DEAD,
    DLR_CLI_RELEASED, /* the run is over, or back in the queue */
    DLR_CLI_ROLES,
};

struct dlr_cli_node {
    char *name, *leaf;      /* leaf may be NULL */
    char *path;             /* of switches, "spine.leaf0.n1"; may be NULL */
    enum dlr_cli_role role; /* by the plan: ask dlr_cli_state_role() */
    char *reason;           /* why OUT or DEAD, else NULL */
    int64_t first;          /* rank; TRAINING only, as those below */
    int64_t tasks;
    json_t *ranks; /* list of them, NULL when they are one run */
    bool parity;   /* of the snapshots, not copies, is on: */
    char *partner; /* nodes that hold the copies, "n2" or "n2, n3", or NULL */
    bool moved;    /* has its ranks since this round */
    bool placed;   /* scratch of a plan */
};

enum dlr_cli_phase {
    DLR_CLI_NOTHING, /* no event yet */
    DLR_CLI_AGENTS,
    DLR_CLI_RENDEZVOUS,
    DLR_CLI_PREPARE,
    DLR_CLI_LAUNCH,
    DLR_CLI_LOAD, /* tasks run and load the checkpoint */
    DLR_CLI_RUN,  /* tasks run, no step is known */
    DLR_CLI_TRAIN,
    DLR_CLI_ENDING,
    DLR_CLI_CLEARED,
    DLR_CLI_PERSIST,
    DLR_CLI_REQUEUE,
    DLR_CLI_FINISHED,
};

/* The answer to 'does it go on?' */
enum dlr_run_condition {
    DLR_CLI_STARTING,
    DLR_CLI_RUNNING,
    DLR_CLI_STALLED, /* steps have stopped coming */
    DLR_CLI_RECOVERING,
    DLR_CLI_SUSPENDED, /* by Slurm: everything stands still */
    DLR_CLI_REQUEUED,
    DLR_CLI_DONE,
    DLR_CLI_FAILED,
};

struct dlr_cli_version {
    bool set;
    int64_t round, step;
};

struct dlr_cli_state {
    char *job, *run, *suite;
    int64_t incarnation, generation;
    int64_t places, world, max_restarts, restarts;
    struct dlr_cli_node *nodes;
    size_t nnodes;
    json_t *index; /* name -> place in nodes */

    enum dlr_cli_phase phase;
    bool suspended;
    int64_t phase_ms; /* all times: since the epoch */
    int64_t last_ms;  /* of the newest event */
    int64_t round;    /* -1: none yet */
    bool had_round;   /* one has ended before, in this life of the job or an earlier */
    struct dlr_cli_version restore, committed;
    int64_t commit_ms; /* 0: unknown */
    int64_t stake_ms;  /* what is computed since then is not saved; 0: unknown */
    /* since then a second loss may cost committed steps; 0: no */
    int64_t degraded_since_ms;
    char *degraded_node; /* which was lost, or NULL */
    char *survives;      /* what snapshots survive when protected, or NULL */
    int64_t step;        /* -1: none known in this round */
    int64_t step_ms;
    double rate; /* steps/s, 0 unknown */
    json_t *saving, *cadence, *every_step, *network, *persisted,
        *topology; /* newest such event, or NULL */
    int64_t commits, aborts;
    int64_t no_memory;   /* ranks for which a node had no room for snapshots, 0 none */
    char *no_memory_why; /* of this round: which node and why, or NULL */
    char *still;         /* why the round stands still, as judged last, or NULL */
    char *why;           /* of the last round's end, of a requeue or of the end */
    bool over;
    int64_t code, rounds;
    double wall_s;

    json_t *last[DLR_CLI_LAST]; /* newest at (nlast - 1) % DLR_CLI_LAST */
    uint64_t nlast;
    uint64_t bad_lines; /* no events */
    int64_t dropped_lines;
    char *progress; /* newest progress line, not parsed yet */
    size_t progress_size, progress_room;
};

void dlr_cli_state_init(struct dlr_cli_state *s);
void dlr_cli_state_done(struct dlr_cli_state *s);

/* Takes one line of the journal. Lines that are no events are counted. */
void dlr_cli_state_line(struct dlr_cli_state *s, const char *line, size_t size);

/* To be called before fields are read, after the last line so far. */
void dlr_cli_state_settle(struct dlr_cli_state *s);

enum dlr_run_condition dlr_cli_state_condition(const struct dlr_cli_state *s,
                                               int64_t now_ms);

/* What the node does now: one with ranks trains only while there is a round. */
enum dlr_cli_role dlr_cli_state_role(const struct dlr_cli_state *s,
                                     const struct dlr_cli_node *n);
unsigned dlr_cli_state_count(const struct dlr_cli_state *s, enum dlr_cli_role role);

/* Words of JSON ("train") and for people ("training"). */
const char *dlr_cli_phase_name(enum dlr_cli_phase phase);
const char *dlr_cli_phase_words(enum dlr_cli_phase phase);
const char *dlr_run_condition_name(enum dlr_run_condition condition);
const char *dlr_cli_role_name(enum dlr_cli_role role);

#endif
