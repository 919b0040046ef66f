/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of a run went: every millisecond between the first line of its journal
 * and the last belongs to exactly one cause, so the parts add up to the whole. Pure:
 * lines in, sums out. Time that no line explains is unknown, and is not shared out.
 */
#ifndef DLR_MPI_LAUNCHER_ACCOUNT_ACCOUNT_H
#define DLR_MPI_LAUNCHER_ACCOUNT_ACCOUNT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

enum dlr_account_cause {
    DLR_ACCOUNT_FIRST,      /* steps that no round had done before */
    DLR_ACCOUNT_REDONE,     /* steps that an earlier round had done, too */
    DLR_ACCOUNT_SAVE,       /* what saves made steps longer */
    DLR_ACCOUNT_DETECT,     /* something had failed and nobody knew yet */
    DLR_ACCOUNT_END,        /* the processes of a round go away, survivors write */
    DLR_ACCOUNT_RENDEZVOUS, /* nodes meet, are checked and get their ranks */
    DLR_ACCOUNT_PREPARE,    /* copies of the state move into place */
    DLR_ACCOUNT_LAUNCH,     /* srun starts the tasks */
    DLR_ACCOUNT_LOAD,       /* the program starts and loads a checkpoint */
    DLR_ACCOUNT_START,      /* the program's own way to its first step */
    DLR_ACCOUNT_HEALTH,     /* agents start, report and check their nodes */
    DLR_ACCOUNT_QUEUE,      /* in Slurm's queue, suspended, or slurmctld away */
    DLR_ACCOUNT_UNKNOWN,
    DLR_ACCOUNT_CAUSES,
};

/* A stretch of the run; what saves cost is inside the steps here. */
struct dlr_account_span {
    int64_t from_ms, to_ms;       /* since the epoch */
    enum dlr_account_cause cause; /* never SAVE */
    int64_t round;                /* -1: none yet */
};

struct dlr_account;

/* NULL without memory; free accepts NULL and returns NULL. */
struct dlr_account *dlr_account_new(void);
struct dlr_account *dlr_account_free(struct dlr_account *a);

/* Takes the next line of the journal, or the next event of it. What is no event, or has
 * no time, changes nothing. A line whose time is before a former one's takes none.
 */
void dlr_account_line(struct dlr_account *a, const char *line, size_t size);
void dlr_account_event(struct dlr_account *a, const json_t *event);

/* Gives the time up to the newest line to its cause: to be called after the last line
 * so far, before the sums are read. More lines may follow.
 */
void dlr_account_settle(struct dlr_account *a);

/* Milliseconds, never negative; those of all causes add up to to_ms - from_ms. */
int64_t dlr_account_part(const struct dlr_account *a, enum dlr_account_cause cause);
int64_t dlr_account_from_ms(const struct dlr_account *a); /* 0: no line yet */
int64_t dlr_account_to_ms(const struct dlr_account *a);

/* In order, without gaps, from from_ms to to_ms; valid until the next call with a line.
 */
const struct dlr_account_span *dlr_account_spans(const struct dlr_account *a,
                                                 size_t *ret_n);

/* Words of JSON ("rendezvous") and for people ("nodes meet and are checked"). */
const char *dlr_account_cause_name(enum dlr_account_cause cause);
const char *dlr_account_cause_words(enum dlr_account_cause cause);

#endif
