/* SPDX-License-Identifier: Apache-2.0 */
/* What an ending was: rules that look at a process's code, signal, counters and last
 * lines, and say its class, what may be done and what a person can do. Of many endings
 * the first cause. Pure.
 */
#ifndef DLR_WATCH_CLASSIFY_H
#define DLR_WATCH_CLASSIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/err.h"

#define DLR_CLASSIFY_TEXT 4096       /* bytes at the end of stderr that are looked at */
#define DLR_CLASS_RULES_FILE 1048576 /* bytes of a file of rules */
#define DLR_CLASS_RULES_MAX 1024     /* rules of it */
#define DLR_CLASS_ORIGIN_MS 2000     /* as late may the cause of an ending be heard */

/* The more original first: what may cause those behind it, and is not caused by them.
 */
enum dlr_class {
    DLR_CLASS_HARDWARE, /* the node's devices */
    DLR_CLASS_MEMORY,   /* there was not enough */
    DLR_CLASS_STORAGE,  /* full, over quota, gone, or in error */
    DLR_CLASS_SETUP,    /* what the program needs is not there: it fails again */
    DLR_CLASS_PROGRAM,  /* its own exception, signal or error */
    DLR_CLASS_SLURM,    /* Slurm or a person ended it */
    DLR_CLASS_UNKNOWN,  /* no rule knows it */
    DLR_CLASS_NETWORK,  /* a connection, or its device; or the other end went */
    DLR_CLASS_PEER,     /* another rank went first */
    DLR_CLASS_TIMEOUT,  /* a collective that another rank did not come to */
    DLR_CLASS_KILLED,   /* by a signal from outside, which says nothing of why */
    DLR_CLASSES,
};

/* What a class leads to where the job's options do not say otherwise. */
enum dlr_class_action {
    DLR_CLASS_RESTART,
    DLR_CLASS_ELSEWHERE, /* the same, and the node sits out */
    DLR_CLASS_REQUEUE,
    DLR_CLASS_MORE_MEMORY, /* the same with more memory would do */
    DLR_CLASS_STOP,        /* it would fail again */
    DLR_CLASS_ACTIONS,
};

/* How a process ended, as far as it is known. */
struct dlr_ending {
    int code;          /* -1: it was killed, or nobody knows */
    int signal;        /* 0: none */
    bool oom;          /* the kernel killed a process of its cgroup for memory */
    unsigned xid;      /* of its GPUs since it began, 0: none */
    const char *state; /* Slurm's, such as "TIMEOUT"; NULL: not known */
    const char *text;  /* last lines of stderr; NULL: none */
    size_t len;
};

/* Of a rule; all that is borrowed lives as long as the rules. */
struct dlr_class_said {
    const char *rule; /* its name */
    size_t at;        /* of all rules, from 0 */
    enum dlr_class class;
    enum dlr_class_action action;
    const char *advice;
    const char *line; /* of the ending's text, NULL: the rule looks at none */
    size_t len;       /* of the line */
};

struct dlr_class_rules; /* opaque */

/* None. NULL when out of memory. */
struct dlr_class_rules *dlr_class_rules_new(void);
/* Accepts NULL, returns NULL. */
struct dlr_class_rules *dlr_class_rules_free(struct dlr_class_rules *r);

/* Adds the rules of text behind those that are there. -EINVAL with the line and the
 * reason, and r is as before: also for an example that its own rule does not know, or
 * that a rule before it in the same text takes. Foreign bytes: fuzz target rules.
 */
int dlr_class_rules_parse(struct dlr_class_rules *r, const char *text,
                          struct dlr_err *err);
/* Adds those of this suite (etc/failures.conf). */
int dlr_class_rules_add_own(struct dlr_class_rules *r, struct dlr_err *err);
size_t dlr_class_rules_count(const struct dlr_class_rules *r);

/* The first rule that knows the ending. False: none does, and *ret is of class unknown.
 * At most DLR_CLASSIFY_TEXT bytes of text are looked at, the last.
 */
bool dlr_classify(const struct dlr_class_rules *r, const struct dlr_ending *e,
                  struct dlr_class_said *ret);

/* Which of two endings is rather the cause: the more original if they are not further
 * apart than DLR_CLASS_ORIGIN_MS, else the earlier.
 */
bool dlr_class_before(enum dlr_class a, int64_t a_ms, enum dlr_class b, int64_t b_ms);

/* "memory", "stop"; NULL for another number. */
const char *dlr_class_name(enum dlr_class c);
const char *dlr_class_action_name(enum dlr_class_action a);

/* Of "KILL" or "SIGKILL"; 0: none that a rule can name. */
unsigned dlr_class_signal(const char *name);

/* A row for each rule: name, class and action, what it looks at, advice; a table of
 * Markdown.
 */
void dlr_class_rules_list(const struct dlr_class_rules *r, FILE *out);

#endif
