/* SPDX-License-Identifier: Apache-2.0 */
/* Faults that a user has a job's nodes report, to see what becomes of them: the words of
 * DLROVER_INJECT, "NODE:KEY=VALUE[,NODE:KEY=VALUE]...". NODE is a node's name or *. KEY
 * is a check and VALUE a verdict, by which that check's own is replaced; or KEY is one
 * of dlr_inject_keys and VALUE a number, which the check takes for what it has read: the
 * verdict is its own. What comes of it says "injected". What root runs never looks at it.
 */
#ifndef DLR_HEALTH_INJECT_H
#define DLR_HEALTH_INJECT_H

#include <stdbool.h>
#include <stddef.h>

#include "health/health.h"

#define DLR_INJECTED "injected; " /* how such a reason begins */

enum dlr_inject_kind {
    DLR_INJECT_NUMBER, /* "10", "0.5" */
    DLR_INJECT_TIME,   /* "250ms" */
    DLR_INJECT_SIZE,   /* "4g" */
};

struct dlr_inject_key {
    const char *key;  /* "ib.rate": of check ib; "clock" */
    const char *help; /* what the number is, with its unit */
    enum dlr_inject_kind kind;
};

extern const struct dlr_inject_key dlr_inject_keys[]; /* ends with a NULL key */

/* 0 when text (NULL or "": nothing is injected) can be obeyed, -EINVAL with text. checks:
 * dlr_health_checks.
 */
int dlr_inject_check(const char *text, const struct dlr_health_check *checks,
                     struct dlr_err *err);

const char *
dlr_inject_kind_name(enum dlr_inject_kind kind); /* "number" "time" "size" */

/* The number that text has node take for key, in ms where it is a time, in bytes where it
 * is a size, and never below 0; false: none. The last word counts.
 */
bool dlr_inject_number(const char *text, const char *node, const char *key,
                       double *ret_value);

/* Whether node takes any number for this check. */
bool dlr_inject_touches(const char *text, const char *node, const char *check);

/* Replaces verdicts of these results of node, and marks those that come of a number: the
 * reason begins with DLR_INJECTED and goes on with what was measured.
 */
void dlr_inject_apply(const char *text, const char *node,
                      struct dlr_health_result *results, size_t n);

#endif
