/* SPDX-License-Identifier: Apache-2.0 */
/* One table per module is the only list of its settings. Everything walks it: --help,
 * plugstack.conf words, environment, the command line, completion and the manual's
 * check.
 */
#ifndef DLR_COMMON_CONFIG_OPT_H
#define DLR_COMMON_CONFIG_OPT_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/err.h"
#include "common/config/choices.h"

enum dlr_opt_type {
    DLR_OPT_SWITCH,   /* bool: on|off (yes, no, true, false, 1, 0 are taken too) */
    DLR_OPT_UINT,     /* unsigned */
    DLR_OPT_DURATION, /* int64_t, milliseconds: 200ms, 30s, 2m, 1h */
    DLR_OPT_SPAN,     /* the same, or off, which is 0 */
    DLR_OPT_SIZE,     /* uint64_t, bytes: 64k, 2m, 4g */
    DLR_OPT_PATH,     /* char[DLR_OPT_TEXT]: an absolute path, or empty */
    DLR_OPT_WORD,     /* char[DLR_OPT_TEXT]: printable, no blanks, no quotes */
    DLR_OPT_NAME,     /* char[DLR_OPT_TEXT]: a file's name, at most DLR_OPT_NAME_MAX */
    DLR_OPT_SHARE,    /* char[DLR_OPT_TEXT]: a size above 0, or 1% to 100% */
    DLR_OPT_BEAT,     /* struct dlr_heartbeat_conf: TIME[:MISSED] */
    DLR_OPT_EVERY,    /* struct dlr_every_conf: off, auto, STEPS or TIME */
    DLR_OPT_RATE,     /* uint64_t, bytes per second: off (0), auto or a size */
    DLR_OPT_COUNT,    /* unsigned: a number, or auto, which is DLR_COUNT_AUTO */
    DLR_OPT_PPM,      /* unsigned, millionths: a percentage, or off, which is 0 */
    DLR_OPT_SAVE,     /* the same, but always is 0 */
    DLR_OPT_COPIES, /* struct dlr_redundancy_conf: none, partner[:K], xor:N or rs:N+M */
    DLR_OPT_NODES,  /* struct dlr_nodes_conf: MIN[:MAX] */
    DLR_OPT_RATIO,  /* struct dlr_ratio_conf: N[/TIME] */
    DLR_OPT_TRANSPORT, /* enum dlr_transport: auto, stream or ucx */
    DLR_OPT_BIND,      /* enum dlr_bind: off, numa or cores */
    DLR_OPT_WATCH,     /* enum dlr_watch_calls: auto, all or off */
    DLR_OPT_ROUNDS,    /* enum dlr_rounds: off, first or always */
    DLR_OPT_REORDER,   /* enum dlr_reorder: never, always or auto */
    DLR_OPT_HANG,      /* enum dlr_hang: act, name or off */
    DLR_OPT_FAILURES,  /* struct dlr_failure_rules: CLASS:ACTION[,...], or empty */
};

#define DLR_OPT_TEXT 1024
#define DLR_OPT_NAME_MAX 32

struct dlr_heartbeat_conf {
    unsigned every_ms;
    unsigned missed; /* beats of silence after which a node counts as dead */
};

/* How often something is done; both 0: never. */
struct dlr_every_conf {
    unsigned steps;
    unsigned ms; /* DLR_EVERY_AUTO: as often as is worth it */
};

/* How many nodes train. */
struct dlr_nodes_conf {
    unsigned min; /* 0: as many as at the start */
    unsigned max; /* 0: no limit */
};

/* So many in a time. */
struct dlr_ratio_conf {
    unsigned count;
    unsigned per_ms;
};

#define DLR_RATIO_MS (60 * 60 * 1000) /* where no time is said */

#define DLR_EVERY_AUTO UINT_MAX
#define DLR_RATE_AUTO UINT64_MAX
#define DLR_COUNT_AUTO UINT_MAX

/* Where a snapshot is beside its own node. */
enum dlr_redundancy {
    DLR_REDUNDANCY_NONE,
    DLR_REDUNDANCY_PARTNER, /* whole */
    DLR_REDUNDANCY_XOR,     /* one parity shard for each set of nodes */
    DLR_REDUNDANCY_RS,      /* several, Reed-Solomon */
};

#define DLR_MEMBERS_MAX 32 /* nodes of a set that share parity */
#define DLR_COPIES_MAX 4   /* holders of one snapshot beside its own node */

struct dlr_redundancy_conf {
    enum dlr_redundancy kind;
    unsigned copies;  /* other nodes that keep something of it; so many may be lost */
    unsigned members; /* nodes of a set; 0: copies are whole */
};

struct dlr_opt {
    const char *name; /* "max-restarts"; NULL ends the table */
    enum dlr_opt_type type;
    size_t offset;     /* of the field in the configuration struct */
    const char *value; /* the default, as text */
    const char *arg;   /* how help names the argument: "N", "TIME", "DIR" */
    const char *help;  /* one sentence, lower case, no full stop */
};

#define DLR_OPT_END                                                                    \
    {                                                                                  \
        NULL, DLR_OPT_UINT, 0, NULL, NULL, NULL                                        \
    }

/* Sets every field of conf to its default. A bad default is our bug: -EINVAL. */
int dlr_opt_defaults(const struct dlr_opt *table, void *conf, struct dlr_err *err);

/* Sets one field from text. -ENOENT for an unknown name, -EINVAL for a bad value; the
 * text names option, value and what would be right. conf is unchanged on failure.
 */
int dlr_opt_set(const struct dlr_opt *table, const char *name, const char *value,
                void *conf, struct dlr_err *err);

/* Same for one word "name=value". Foreign bytes: fuzz target opt. */
int dlr_opt_set_word(const struct dlr_opt *table, const char *word, void *conf,
                     struct dlr_err *err);

/* The field's value as text that dlr_opt_set() would take. */
int dlr_opt_show(const struct dlr_opt *opt, const void *conf, char *buf, size_t size);

/* A field that has an order, as a number: counts, milliseconds, bytes, of a heartbeat
 * the time between beats, of N/TIME what it comes to in an hour. -EINVAL for the other
 * types.
 */
int dlr_opt_number(const struct dlr_opt *opt, const void *conf, uint64_t *ret_number);

/* Sets such a field to what dlr_opt_number() has said of another struct. */
void dlr_opt_put_number(const struct dlr_opt *opt, void *conf, uint64_t number);

/* Prints "  --<prefix><name>=ARG   help (default)" for each row, aligned. */
void dlr_opt_help(const struct dlr_opt *table, const char *prefix, FILE *out);

/* Prints a line for each row, aligned: name, default, what its value is, meaning. */
void dlr_opt_table(const struct dlr_opt *table, FILE *out);

/* What a DLR_OPT_SHARE is of whole bytes, a size as it is; UINT64_MAX for a share of 0,
 * which is not known.
 */
uint64_t dlr_opt_share(const char *share, uint64_t whole);

/* The row called name, or NULL. */
const struct dlr_opt *dlr_opt_find(const struct dlr_opt *table, const char *name);

#endif
