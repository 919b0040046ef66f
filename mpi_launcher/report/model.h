/* SPDX-License-Identifier: Apache-2.0 */
/* What a report knows of a run. Private to the folder. */
#ifndef DLR_MPI_LAUNCHER_REPORT_MODEL_H
#define DLR_MPI_LAUNCHER_REPORT_MODEL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mpi_launcher/account/account.h"
#include "mpi_launcher/journal/run_view.h"
#include "mpi_launcher/report/report.h"

#define DLR_REPORT_LINES 12      /* of an incident */
#define DLR_REPORT_INCIDENTS 400 /* the newest; older ones are counted */
#define DLR_REPORT_ADVICE 1024   /* bytes */
#define DLR_REPORT_ROUNDS 2000   /* the same */
#define DLR_REPORT_ROWS 512      /* of nodes; with more of them a row is a leaf */
#define DLR_REPORT_NAMED                                                               \
    64 /* nodes that do not train, by name, where rows are leaves */

/* Something that went wrong, or stopped the run. */
struct dlr_report_incident {
    int64_t ms, round;
    char
        *cause; /* node, program, restore, signal, control, requeue, end, health, ... */
    char *node; /* which, or NULL */
    char *why;
    char *advice;      /* of the task's ending, or NULL: what the cause says */
    int64_t redone;    /* steps to do again, -1: unknown */
    int64_t outage_ms; /* until the next step, -1: none came */
    char *lines[DLR_REPORT_LINES]; /* of the journal, with their times; oldest first */
    unsigned nlines;
};

struct dlr_report_round {
    int64_t round, from_ms, to_ms; /* to: its end, or the last line */
    int64_t first, last;           /* steps, -1: none */
    struct dlr_cli_version restore;
    char *cause, *why; /* of its end, NULL: it goes on, or the run ended with it */
};

/* What a progress line says, for a trace. */
struct dlr_report_sample {
    int64_t ms, step, committed; /* -1: unknown */
};

/* An event that is no progress, for a trace. */
struct dlr_report_mark {
    int64_t ms, took_ms; /* 0: it took no time */
    char *name, *text;
};

/* A node has this role from then on. */
struct dlr_report_turn {
    int64_t ms;
    enum dlr_cli_role role;
};

struct dlr_report_node {
    char *name, *leaf; /* leaf may be NULL */
    struct dlr_report_turn *turns;
    size_t nturns;
};

struct dlr_report {
    struct dlr_account *account;
    struct dlr_cli_state state;
    int64_t ms; /* of the newest event */

    struct dlr_report_incident *incidents; /* oldest first */
    size_t nincidents, incidents_before;   /* before: dropped */
    bool open;                             /* lines go to the newest */
    char *recent[DLR_REPORT_LINES];        /* lines that may belong to the next one */
    int64_t recent_ms[DLR_REPORT_LINES];
    unsigned nrecent;
    char *lost_node; /* of these lines, or NULL */
    char *said;      /* the advice of these lines, or NULL */

    struct dlr_report_round *rounds;
    size_t nrounds, rounds_before;
    bool in_round;

    struct dlr_report_node *nodes;
    size_t nnodes;
    json_t *index; /* name -> place in nodes */

    bool traced; /* samples and marks are kept */
    struct dlr_report_sample *samples;
    struct dlr_report_mark *marks;
    size_t nsamples, nmarks;

    json_t *persisted, *links; /* newest such event, or NULL */
    json_t *networks;          /* node -> newest such event */
    int64_t npersisted, persisted_bytes, save_failures, restores;
};

/* incidents.c: e is the event of the line, ms its time. */
void dlr_report_incidents_take(struct dlr_report *r, const json_t *e);
void dlr_report_incidents_done(struct dlr_report *r);

/* Words for its cause, and what an administrator or a user can do about it. */
const char *dlr_report_words(const struct dlr_report_incident *i);
const char *dlr_report_advice(const struct dlr_report_incident *i);

/* histories.c: after the state has taken the event. */
void dlr_report_histories_take(struct dlr_report *r, const json_t *e);
void dlr_report_histories_done(struct dlr_report *r);

/* trace.c: of a run that is traced. */
void dlr_report_trace_take(struct dlr_report *r, const json_t *e);
void dlr_report_trace_done(struct dlr_report *r);

/* The role of a node at ms. */
enum dlr_cli_role dlr_report_role_at(const struct dlr_report_node *n, int64_t ms);

/* rows.c: a row is a node, or a leaf of nodes where there are many. */
struct dlr_report_row {
    const char *name;
    size_t *nodes; /* places in the report's nodes */
    size_t n;
};
struct dlr_report_rows {
    struct dlr_report_row *list;
    size_t n;
    bool leaves;
};

/* In the order of ranks. The caller's: done. */
void dlr_report_rows_init(const struct dlr_report *r, struct dlr_report_rows *ret);
void dlr_report_rows_done(struct dlr_report_rows *rows);

/* The node's place in the view of the run as it is now, NULL: it has none. */
const struct dlr_cli_node *dlr_report_seat(const struct dlr_report *r,
                                           const char *name);

/* timeline.c: pictures with their legends. */
void dlr_report_draw_causes(const struct dlr_report *r, FILE *out);
void dlr_report_draw_nodes(const struct dlr_report *r,
                           const struct dlr_report_rows *rows, FILE *out);

/* The style sheet of the page. */
extern const char dlr_report_style[];

/* One sentence: how it stands. */
void dlr_report_headline(const struct dlr_report *r,
                         const struct dlr_report_about *about, char *buf, size_t size);

/* Of a cause, in percent of the run. */
double dlr_report_share(const struct dlr_report *r, int64_t ms);

#endif
