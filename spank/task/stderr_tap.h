/* SPDX-License-Identifier: Apache-2.0 */
/* Puts dlrover-stderr between a task and its stderr, so that a failing rank's last
 * words are known to the agent. Every byte still goes where it went.
 *
 * In slurmstepd: dlr_stderr_tap_open() before the tasks are forked,
 * dlr_stderr_tap_forked() after, dlr_stderr_tap_wait() when a task has ended: Slurm
 * kills what is left of a step at its end, and a dlrover-stderr that still holds bytes
 * must not be among that. In the task: dlr_stderr_tap_insert().
 */
#ifndef DLR_SPANK_TASK_STDERR_TAP_H
#define DLR_SPANK_TASK_STDERR_TAP_H

#include <stdint.h>

#include "common/base/err.h"

/* dlrover-stderr to be started, else the task does without */
#define DLR_STDERR_TAP_START_MS 5000
/* to be done before the task's end is told to the agent */
#define DLR_STDERR_TAP_SOON_MS 100
#define DLR_STDERR_TAP_FLUSH_MS 1000 /* all waits of a step for it together */
/* where dlrover-stderr finds the writing end of done */
#define DLR_STDERR_TAP_DONE_FD 3
/* kept, and read without a look at the clock: what a pipe holds */
#define DLR_STDERR_TAP_RANKS_MAX 16384

struct dlr_stderr_tap {
    int done[2]; /* each dlrover-stderr writes its rank (uint32_t) when it is done */
    int64_t budget_ms; /* what is left of DLR_STDERR_TAP_FLUSH_MS */
    unsigned count;    /* ranks read from done that nobody has waited for */
    uint32_t *ranks;
};

#define DLR_STDERR_TAP_NONE                                                            \
    {                                                                                  \
        .done = { -1, -1 }                                                             \
    }

/* 0 or -errno; without it nothing is waited for. */
int dlr_stderr_tap_open(struct dlr_stderr_tap *tap);

/* Every task is forked: the writing end is theirs alone. */
void dlr_stderr_tap_forked(struct dlr_stderr_tap *tap);

/* Waits at most limit_ms, and within the step's budget, for the rank's dlrover-stderr
 * to have passed everything on. It can be late when a process in the background still
 * holds the task's stderr.
 */
void dlr_stderr_tap_wait(struct dlr_stderr_tap *tap, uint32_t rank, int64_t limit_ms);

/* In the task: starts <libexec>/dlrover-stderr on the task's stderr and puts a pipe to
 * it in place of descriptor 2. It is no child of the task. Does nothing where stderr is
 * a terminal. 0 or -errno with text; stderr is as it was then.
 */
int dlr_stderr_tap_insert(const struct dlr_stderr_tap *tap, const char *libexec,
                          const char *socket, uint32_t round, uint32_t rank,
                          struct dlr_err *err);

#endif
