/* SPDX-License-Identifier: Apache-2.0 */
/* A verdict in words, and as a row of the journal. Pure. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_WATCH_WORDS_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_WATCH_WORDS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "mpi_launcher/plan/plan.h"
#include "watch/judge/judge.h"

#define DLR_VERDICT_WORDS 512

struct dlr_verdict_of {
    const struct dlr_verdict *verdict;
    const uint8_t *parts; /* of dlr_judge() */
    const struct dlr_judge_rank *ranks;
    const struct dlr_plan *plan; /* has as many ranks */
    int64_t wall_ms;             /* now, since the epoch */
};

/* "rank 5 (n3) has not come to MPI_Allreduce 812 of world (4 MB); 15 ranks wait since
 * 14:02:11"
 */
void dlr_verdict_words(const struct dlr_verdict_of *of, char *buf, size_t size);
/* The same without what differs when it happens again: the node, the number of the
 * operation and its size, who waits since when. "hang: rank 5 has not come to
 * MPI_Allreduce of world"
 */
void dlr_verdict_place(const struct dlr_verdict_of *of, char *buf, size_t size);
/* docs/journal.md: still. The caller's; NULL: out of memory. */
json_t *dlr_verdict_row(const struct dlr_verdict_of *of, uint32_t round,
                        const char *words);

#endif
