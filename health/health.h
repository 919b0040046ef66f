/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of a node: one table of checks, a verdict with its reason for each. */
#ifndef DLR_HEALTH_HEALTH_H
#define DLR_HEALTH_HEALTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

enum dlr_health_verdict {
    DLR_HEALTH_OK,
    DLR_HEALTH_SKIP, /* cannot be judged here; reason says why */
    DLR_HEALTH_WARN, /* worth telling, not worth losing the node */
    DLR_HEALTH_FAIL, /* leave the node out; this and what is worse: >= DLR_HEALTH_FAIL */
    DLR_HEALTH_DRAIN, /* leave it out, and no job should come here before it is repaired */
};

/* In the reasons of verdicts that compare nodes. */
#define DLR_STRAGGLER "a straggler: "
#define DLR_WRONG_BYTES "wrong bytes" /* more than slow */

enum dlr_health_level {
    DLR_HEALTH_QUICK, /* all of them under 1 s, cheap enough for every restart */
    DLR_HEALTH_FULL,  /* before the first round, or on demand */
};

#define DLR_HEALTH_CHECKS_MAX 64 /* rows of the table: room for every result */

#define DLR_HEALTH_DOMAIN 64

struct dlr_health_gpus;

/* What checks look at and are measured against. Tests point root at a recorded tree. */
struct dlr_health_env {
    const char *root; /* "" on a node; prefix of /proc and /sys paths */
    /* directories whose file system must have space: job state */
    const char *disk_path;
    const char *shm_path;    /* where snapshots go: /dev/shm */
    uint64_t shm_need_bytes; /* snapshot memory still to be reserved here, 0 unknown */
    /* what Slurm counts on here, each 0 unknown */
    unsigned slurm_cpus, slurm_gpus;
    uint64_t slurm_memory_bytes;
    int64_t ref_wall_ns;  /* the batch host's clock, 0 unknown */
    int64_t ref_taken_ns; /* local CLOCK_BOOTTIME when ref_wall_ns was received */
    int64_t ref_error_ns; /* half of the round trip: how far off ref may be */
    /* "host:port" of each candidate's agent, NULL-terminated; NULL unknown. A
     * connection that opens or is refused shows the node; silence does not
     */
    const char *const *peers;
    const char *const *peer_names; /* how reasons call them; NULL: by host */
    int64_t peer_timeout_ms;
    /* NULL, or one byte per peer, set to 1 for each that was silent */
    unsigned char *silent;
    const char *inject; /* faults that the user injects here (inject.h), or NULL, and */
    const char *node;   /* which node this is */
    /* NULL, or room for DLR_HEALTH_DOMAIN bytes: check gpu writes which NVLink domain
     * of several nodes this one is in, "" none, as a name of letters, digits and '-'
     */
    char *domain;
    bool on_demand; /* no run waits: what takes longer, or is for administrators only */
    const char *gpu_helper; /* path of dlrover-gpu; NULL: beside us, or as installed */
    struct dlr_health_gpus *gpus; /* dlr_health_run()'s own: what a driver has said */
};

struct dlr_health_result {
    const char *check; /* row's name; static */
    enum dlr_health_verdict verdict;
    char reason[256]; /* one line; what was measured also when OK */
    double speed;     /* what equal nodes are compared by, more is better; 0: nothing */
    const char *kind; /* of speed, as only equal ones are compared; static, NULL: one */
};

struct dlr_health_check {
    const char *name;
    enum dlr_health_level level;
    const char *help;   /* what it looks at, a few words */
    const char *reads;  /* files, commands, or what it runs */
    const char *unit;   /* of the limit; "" where it is a yes or no */
    const char *limit;  /* "warn above 1, fail above 60" */
    const char *advice; /* what an administrator does about it, one sentence */
    void (*run)(const struct dlr_health_env *env, struct dlr_health_result *ret);
};

extern const struct dlr_health_check dlr_health_checks[]; /* ends with a NULL name */

/* An env for this node with everything optional unknown. */
void dlr_health_env_init(struct dlr_health_env *env);

/* slurm_... as a step's environment has them (SLURM_CPUS_ON_NODE, _MEM_PER_NODE,
 * _GPUS_ON_NODE).
 */
void dlr_health_env_slurm(struct dlr_health_env *env);

/* Runs the checks of list, in table order. Words with commas between, each adds: a
 * check's name, "quick" (those of that level), "full" or "all" (every one), "none";
 * "-clock" takes one away, of all when it comes first. Number of results, at most max;
 * -EINVAL for an unknown word (err lists the known ones). Blocking: quick ones for at
 * most peer_timeout_ms and the limits in docs/limits.md.
 */
int dlr_health_run(const struct dlr_health_env *env, const char *list,
                   struct dlr_health_result *ret, size_t max, struct dlr_err *err);

/* The worst of n verdicts; SKIP counts as OK. */
enum dlr_health_verdict dlr_health_worst(const struct dlr_health_result *r, size_t n);

const char *dlr_health_level_name(enum dlr_health_level level); /* "quick" "full" */
const char *dlr_health_verdict_name(enum dlr_health_verdict v); /* "ok" "skip" ... */
/* Foreign bytes: fuzz target plan. */
int dlr_health_verdict_parse(const char *name); /* the verdict, or -EINVAL */

#endif
