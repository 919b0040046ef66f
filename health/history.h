/* SPDX-License-Identifier: Apache-2.0 */
/* What the checks of a node have said over time: a small file on the node itself, which
 * only root writes. Equal verdicts of a check that follow each other within an hour are
 * one row, so that a day or more fits and a drift is seen.
 */
#ifndef DLR_HEALTH_HISTORY_H
#define DLR_HEALTH_HISTORY_H

#include <stdint.h>

#include "health/health.h"

#define DLR_HISTORY_BYTES (64u << 10) /* of the file, at most */
#define DLR_HISTORY_ROWS 512
#define DLR_HISTORY_TEXT 256
#define DLR_HISTORY_APART_S 30   /* results closer than this count as one */
#define DLR_HISTORY_MERGE_S 3600 /* a row covers at most this */

/* One check, the same verdict count times between first_s and last_s (seconds since the
 * epoch). A check in parentheses is a deed of ours and not a result: drain.h.
 */
struct dlr_history_row {
    int64_t first_s, last_s;
    unsigned count;
    char check[32];
    enum dlr_health_verdict verdict;
    char text[DLR_HISTORY_TEXT]; /* the newest reason */
};

/* Oldest first. */
struct dlr_history {
    struct dlr_history_row rows[DLR_HISTORY_ROWS];
    unsigned n;
};

/* How a check has gone lately: results in a row that are all as bad as drain, or all
 * good (ok or warn). count 0: neither.
 */
struct dlr_history_streak {
    bool bad;
    unsigned count;
    int64_t first_s, last_s;
    const struct dlr_history_row *first; /* its oldest row; belongs to the history */
};

/* Adds a result at now_s; when the rows are full the oldest that is not the newest of
 * its check goes. SKIP is no result, and of equal ones less than DLR_HISTORY_APART_S
 * apart one counts.
 */
void dlr_history_add(struct dlr_history *h, const char *check,
                     enum dlr_health_verdict verdict, const char *text, int64_t now_s);

/* The newest row of check, NULL when there is none. Belongs to h. */
const struct dlr_history_row *dlr_history_last(const struct dlr_history *h,
                                               const char *check);

struct dlr_history_streak dlr_history_streak(const struct dlr_history *h,
                                             const char *check);

/* The directory "dlrover-health" in the first of the directories bases (ends with NULL)
 * where it is ours and can be written, made with mode 0700. What is there already must
 * be a directory, no link, of our user and writable by nobody else. *ret_fd, locked for
 * us alone, is the caller's. -EWOULDBLOCK: another process of ours has it.
 * Blocking: file system.
 */
int dlr_history_open(const char *const bases[], int *ret_fd, struct dlr_err *err);

/* Reads or replaces the history of node in that directory; one that is not there is
 * empty, lines that are none are passed over, and what does not fit into
 * DLR_HISTORY_BYTES is left out, the oldest first. 0 or -errno with text.
 */
int dlr_history_load(int dirfd, const char *node, struct dlr_history *ret,
                     struct dlr_err *err);
int dlr_history_save(int dirfd, const char *node, const struct dlr_history *h,
                     struct dlr_err *err);

#endif
