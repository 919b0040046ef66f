/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover-stacks on the nodes of a job: one step beside those of the job, a task on
 * each, whose answers are merged as they come.
 */
#ifndef DLR_MPI_LAUNCHER_CLI_STACKS_ASK_NODES_H
#define DLR_MPI_LAUNCHER_CLI_STACKS_ASK_NODES_H

#include "mpi_launcher/stacks/stack_rows.h"

#define DLR_STACKS_ASK_MS 30000 /* all nodes; who has not answered then is named */

struct dlr_stacks_question {
    const char *job;
    const char *ranks;        /* "0-4,6", or NULL: all */
    const char *const *nodes; /* to ask */
    size_t n;
    const char *srun; /* NULL: the one of PATH */
    const char *tool; /* the path of dlrover-stacks */
    int64_t limit_ms;
};

struct dlr_stacks_answer {
    struct dlr_stack_tree *tree;      /* of all */
    struct dlr_stack_reader *readers; /* of each task of the step */
    size_t n;
    char said[256]; /* srun's first line of its own, or "" */
    int status;     /* of srun, -1: killed when the time was over */
};

/* Asks and waits. -errno with text when srun cannot be started. *ret is the caller's in
 * any case: dlr_stacks_answer_done().
 */
int dlr_stacks_ask(const struct dlr_stacks_question *q, struct dlr_stacks_answer *ret,
                   struct dlr_err *err);
void dlr_stacks_answer_done(struct dlr_stacks_answer *answer);

/* Takes one line of srun --label: "3: {...}". 0 or -ENOMEM.
 * Foreign bytes: fuzz target stacks.
 */
int dlr_stacks_answer_read(struct dlr_stacks_answer *answer, char *line);

#endif
