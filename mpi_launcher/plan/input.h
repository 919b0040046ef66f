/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan (plan.h) is made of: what each node reports, what the supervisor wants,
 * and how both travel as JSON.
 */
#ifndef DLR_MPI_LAUNCHER_PLAN_INPUT_H
#define DLR_MPI_LAUNCHER_PLAN_INPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "ckpt/base/version.h"
#include "ckpt/manifest/plan_file.h"
#include "common/base/err.h"
#include "health/health.h"
#include "hwloc_topo/topo.h"

/* Limits on what is taken from outside. */
#define DLR_PLAN_NODES_MAX 131072u
/* peers each node tries to reach: the next ones in name order */
#define DLR_PLAN_PROBES 64u
#define DLR_PLAN_NOTES_MAX 16u
#define DLR_PLAN_NOTE 512
#define DLR_PLAN_WORLDS_MAX 4u
#define DLR_PLAN_SPEEDS_MAX 4u

/* --- what a node reports ---------------------------------------------------------- */

struct dlr_plan_check {
    char check[32];
    enum dlr_health_verdict verdict;
    char reason[256];
};

/* Compared with other nodes' of the same name (stragglers.h), more is better. */
struct dlr_plan_speed {
    char check[32]; /* "CHECK" or "CHECK/KIND" */
    double value;
};

struct dlr_plan_report {
    struct dlr_topo_node node;
    unsigned cpus;
    /* MASTER_PORT, if rank 0 is here: nobody listens at it. 0: not known */
    unsigned port;
    char boot[64];
    struct dlr_plan_check *checks;
    unsigned nchecks;
    struct dlr_plan_speed speeds[DLR_PLAN_SPEEDS_MAX];
    unsigned nspeeds;
    char (*silent)[DLR_TOPO_NAME]; /* peers it tried and could not reach */
    unsigned nsilent;
    struct dlr_plan_copy *copies; /* whose every byte was verified just now */
    unsigned ncopies;
};

/* Reads a report as in docs/protocol.md section 5. Every field is checked; unknown
 * fields are ignored. *ret_report is filled only on success; dlr_plan_report_done()
 * frees what is in it. Foreign bytes: fuzz target plan.
 */
int dlr_plan_report_from_json(const json_t *j, struct dlr_plan_report *ret_report,
                              struct dlr_err *err);
json_t *dlr_plan_report_to_json(
    const struct dlr_plan_report *report); /* caller's; NULL: memory */
void dlr_plan_report_done(struct dlr_plan_report *report);

/* --- what the supervisor wants ---------------------------------------------------- */

#define DLR_PLAN_SEVERAL "*" /* more than one node kept the copies */

/* A place of the former round. */
struct dlr_plan_former_place {
    /* path as in the former plan, for the choice of a successor */
    struct dlr_topo_node node;
    char partner[DLR_TOPO_NAME]; /* who kept its copies: "" nobody, or SEVERAL */
};

/* A copy that was tried and failed. */
struct dlr_plan_rejected {
    char where[DLR_PLAN_WHERE]; /* node or path; "*" every copy */
    int32_t rank;               /* -1: every rank's */
    struct dlr_version version;
    bool lasting; /* in every incarnation of the job, not only in this one */
    /* and every version of this or a later step, of this or an earlier round */
    bool later;
};

/* A node that has no place, and why. */
struct dlr_plan_out {
    char node[DLR_TOPO_NAME];
    char reason
        [DLR_PLAN_NOTE]; /* "memory: 3 uncorrected errors", "3 of 4 nodes cannot ..." */
    /* of those wanted so: it has a place when there are too few without it */
    bool last;
};

/* Places of earlier rounds with another number of ranks: what parity they have left is
 * of these.
 */
struct dlr_plan_world {
    unsigned nplaces;
    unsigned *tasks, *ranks; /* as those of struct dlr_plan_want */
};

struct dlr_plan_want {
    unsigned nplaces;      /* training nodes */
    const unsigned *tasks; /* [nplaces] tasks of each place; their sum is the world */
    /* [world] of place 0 ascending, then of place 1 ...; NULL: 0, 1 ... */
    const unsigned *ranks;
    char batch
        [DLR_TOPO_NAME]; /* node of the supervisor: kept when in doubt; "" unknown */
    const struct dlr_plan_former_place *former; /* [nformer]; nformer 0: first round */
    unsigned nformer;
    const char *const *prefer; /* [nprefer] nodes that come first in the first round */
    unsigned nprefer;
    bool ordered;   /* and take places in this order */
    unsigned group; /* places that belong together one after the other; 0, 1: none do */
    bool reorder, weigh; /* ranks may move after a swap; where that gains: reorder.h */
    double steps, fetch_ms;            /* to weigh; 0 not known: dlr_sup_expected() */
    const struct dlr_plan_file *files; /* persisted copies */
    unsigned nfiles;
    const struct dlr_plan_rejected *rejected;
    unsigned nrejected;
    /* [nfull] have no room for what they would restore */
    const struct dlr_plan_out *full;
    unsigned nfull;
    unsigned members,
        /* of a set that shares parity (mpi_launcher/plan/parity_sets.h); 0 none */
        rows;
    /* [nworlds] with parity, other than this one */
    const struct dlr_plan_world *worlds;
    unsigned nworlds;
    bool limited; /* nothing newer than newest may be restored */
    struct dlr_version newest;
    /* the newest commit the supervisor knows: explains what is missing */
    bool has_committed;
    struct dlr_version committed;
};

/* How each node makes its report; see dlr_plan_input_to_json(). */
struct dlr_plan_survey {
    const char *checks;      /* "all", "none", "memory,clock" */
    const char *disk_path;   /* state directory */
    const char *shm_path;    /* "/dev/shm" */
    const char *store_dir;   /* memory directory of the run, "" none */
    const char *key;         /* "cluster.job.run" */
    uint64_t shm_need_bytes; /* 0 unknown */
    int64_t peer_timeout_ms; /* of the reachability check */
    int64_t network_ms;      /* for the tournament's rounds to begin; 0: none */
    bool no_stragglers;      /* slow but correct nodes fail their checks */
    unsigned port;           /* where the search for a MASTER_PORT begins; 0: none */
    unsigned npeers;
    const char *const *peer_nodes; /* [npeers] every candidate */
    const char *const *peer_addrs; /* [npeers] "host:port" of its agent's peer socket */
    /* [npeers] in the job's switch tree; NULL, or one of them: as the node itself says */
    const char *const *peer_paths;
};

/* The one object dlrover-rendezvous reads: {"want": ..., "survey": ...}. survey may be
 * NULL. The caller's; NULL: out of memory. Write it with dlr_msg_text() and
 * dlr_file_replace().
 */
json_t *dlr_plan_input_to_json(const struct dlr_plan_want *want,
                               const struct dlr_plan_survey *survey);

/* The same read back; fields that are absent are empty. Owns what want and survey point
 * to, json included. dlr_plan_input_done(), also after a failure.
 */
struct dlr_plan_input {
    struct dlr_plan_want want; /* nplaces 0 when there was none */
    struct dlr_plan_survey survey;
    json_t *json;
};
/* Foreign bytes: fuzz target plan. */
int dlr_plan_input_from_json(json_t *j, struct dlr_plan_input *ret_input,
                             struct dlr_err *err);
void dlr_plan_input_done(struct dlr_plan_input *input);

#endif
