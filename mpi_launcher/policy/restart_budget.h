/* SPDX-License-Identifier: Apache-2.0 */
/* How often a program that fails is started again: so many times within a time, given
 * back by progress, and not again and again when it fails in the same way at its very
 * start. Pure.
 */
#ifndef DLR_MPI_LAUNCHER_POLICY_RESTART_BUDGET_H
#define DLR_MPI_LAUNCHER_POLICY_RESTART_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#define DLR_RESTART_WINDOW_MS (60 * 60 * 1000) /* an hour, where no time is said */
#define DLR_RESTART_QUICK_MS 10000 /* a failure sooner than this is one of the start */
#define DLR_RESTART_SAME 3 /* later ones in the same way, after about the same time */

/* Zeros, max, and window_ms if it is another than an hour. */
struct dlr_restart_budget {
    unsigned max;      /* restarts within the window */
    int64_t window_ms; /* after it they count no more; 0: DLR_RESTART_WINDOW_MS */
    unsigned spent;    /* of them, since from_ms */
    int64_t from_ms;   /* the window of those */
    char why[256];     /* of the last failure */
    int64_t ran_ms;    /* how long its round had run */
    unsigned same;     /* failures in that way in a row, without a step */
};

struct dlr_restart_budget_failure {
    const char *why; /* "rank 3 exited with code 1" */
    int64_t ran_ms;  /* from the launch of the round */
    bool stepped;    /* a rank had told a step, or the run had saved one */
    bool killed;     /* by SIGKILL or SIGTERM: from outside */
    int code;        /* of the task that failed first */
};

enum dlr_restart_budget_next {
    DLR_RESTART_AGAIN,
    DLR_RESTART_SPENT, /* no restart is left */
    DLR_RESTART_START, /* it fails at its start, in the same way as before */
    DLR_RESTART_LOOP,  /* the same later, for the last time that is allowed */
};

/* Restarts that count now; dlr_restart_budget_spent() forgets those of long ago. */
unsigned dlr_restart_budget_count(const struct dlr_restart_budget *b, int64_t now_ms);
unsigned dlr_restart_budget_spent(struct dlr_restart_budget *b, int64_t now_ms);
/* n were spent by an earlier supervisor, not longer ago than now. */
void dlr_restart_budget_resume(struct dlr_restart_budget *b, unsigned n,
                               int64_t now_ms);
/* A round has failed: AGAIN spends a restart. */
enum dlr_restart_budget_next
dlr_restart_budget_failed(struct dlr_restart_budget *b,
                          const struct dlr_restart_budget_failure *f, int64_t now_ms);
/* More was saved than ever before: all are given back. */
void dlr_restart_budget_progress(struct dlr_restart_budget *b);

/* Whether a failure is one of the program's start. */
bool dlr_restart_budget_is_start(const struct dlr_restart_budget_failure *f);

#endif
