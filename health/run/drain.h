/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a node that fails its checks is drained: a pure function of its history, of
 * what Slurm says of all nodes, and of the time. No process asks another one: what all
 * of them know is the reasons of nodes that slurmctld keeps.
 *
 * Rules. A check has to be as bad as drain twice in a row, and good three times in a
 * row over ten minutes to be called good again. Of each partition of the node at most a
 * share, at least one node, is drained by us within an hour. Where that many have the
 * same fault it is taken for the site's: the oldest of them carries the word "site
 * fault?" in its comment, nobody is drained for this check while it does, and who was is
 * resumed. It takes the word away when its check was good again for as long as a resume
 * wants; so can an administrator. A node that an administrator has resumed is left alone
 * until the check was good once. One that we have drained is resumed only where that is
 * asked for, and once a day.
 *
 * Nodes that drain themselves at the same time cannot see each other before they have.
 * So it takes two looks: a node with room before it drains itself (TAKE), and looks
 * again when slurmctld's second is over, by which all who came before it are seen; who
 * came after counts on it, not it on them (KEEP, or BACK).
 */
#ifndef DLR_HEALTH_DRAIN_H
#define DLR_HEALTH_DRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "health/history.h"

#define DLR_DRAIN_MARK "dlrover:" /* how our reasons begin */
#define DLR_DRAIN_SITE_MARK "dlrover: site fault? "
#define DLR_DRAIN_DEED "(drain)" /* the check by which the history keeps our deeds */
#define DLR_DRAIN_SHARE 5        /* percent of a partition, at least one node, in */
#define DLR_DRAIN_WINDOW_S 3600
#define DLR_DRAIN_BAD 2  /* results in a row before a drain */
#define DLR_DRAIN_GOOD 3 /* results in a row, and over this time, before a resume */
#define DLR_DRAIN_GOOD_S 600
#define DLR_DRAIN_HELD_S 600      /* who was held does not ask Slurm again for this */
#define DLR_DRAIN_RESUMED_S 86400 /* a node is resumed once in this */
#define DLR_DRAIN_TEXT DLR_HISTORY_TEXT
#define DLR_DRAIN_NODES 2048 /* names with commas between, for one command */

/* One node in one partition, as sinfo says it. */
struct dlr_drain_row {
    const char *node, *partition, *state, *reason;
    int64_t since_s;     /* of the reason; 0 unknown */
    const char *comment; /* of the node; NULL: none */
};

struct dlr_drain_view {
    struct dlr_drain_row *rows;
    size_t n;
};

/* The words that make sinfo print what the next function reads; SLURM_TIME_FORMAT=%s
 * has to be in its environment.
 */
extern const char *const dlr_drain_view_argv[]; /* ends with NULL */

/* Cuts text at its separators; the view points into it. Lines that are none are passed
 * over. 0 or -ENOMEM. ret->rows is the caller's to free.
 */
int dlr_drain_view_parse(char *text, struct dlr_drain_view *ret);

/* The same for the comments of nodes, and adds them to view, which points into text, too.
 */
extern const char *const dlr_drain_comments_argv[];
void dlr_drain_comments_parse(char *text, struct dlr_drain_view *view);

enum dlr_drain_deed {
    DLR_DRAIN_NONE,
    DLR_DRAIN_LOOK,   /* ask Slurm, and decide again with a view */
    DLR_DRAIN_TAKE,   /* drain the node with text, look again, decide again */
    DLR_DRAIN_KEEP,   /* it stays drained */
    DLR_DRAIN_BACK,   /* resume it: text says why */
    DLR_DRAIN_HOLD,   /* not drained: text says why */
    DLR_DRAIN_RESUME, /* resume it: it is well */
    DLR_DRAIN_OVER,   /* somebody else has changed what we had done */
};

struct dlr_drain_case {
    const struct dlr_history *history; /* the results of now are in it */
    const struct dlr_health_result *results;
    size_t nresults;
    const struct dlr_drain_view *view; /* NULL: not looked */
    const char *node;                  /* this one, as Slurm names it */
    bool may_resume;
    int64_t now_s;
};

struct dlr_drain_decision {
    enum dlr_drain_deed deed;
    char text[DLR_DRAIN_TEXT]; /* Slurm's reason, or why not; one line */
    /* BACK, HOLD: the node whose comment becomes mark_comment, the word of a site fault,
     * and those that are resumed then; OVER: this one, and its own comment. "": none
     */
    char mark[64], mark_comment[DLR_DRAIN_TEXT], back[DLR_DRAIN_NODES];
};

void dlr_drain_decide(const struct dlr_drain_case *c, struct dlr_drain_decision *ret);

/* Notes in h what was decided, before it is done. */
void dlr_drain_note(struct dlr_history *h, const struct dlr_drain_decision *d,
                    int64_t now_s);

/* The reason of a drain: the check, its value, and its limit as the table of checks has
 * it, unless value names one. No quotes are in it.
 */
void dlr_drain_reason(const char *check, const char *value, char buf[DLR_DRAIN_TEXT]);

#endif
