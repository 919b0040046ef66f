/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a round: which node sits at which place, what is left out and why, and from
 * which version each rank starts. A pure function of node reports and of what the supervisor
 * wants: the same reports in any order give the same plan on every rank.
 *
 * A place is a seat for one training node. Its ranks are the same in every round; those of place
 * p follow those of place p-1 unless the user's distribution deals them out otherwise.
 */
#ifndef DLR_MPI_LAUNCHER_PLAN_PLAN_H
#define DLR_MPI_LAUNCHER_PLAN_PLAN_H

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
#define DLR_PLAN_PROBES                                                                \
    64u /* peers each node tries to reach: the next ones in name order */
#define DLR_PLAN_NOTES_MAX 16u
#define DLR_PLAN_NOTE 512
#define DLR_PLAN_WORLDS_MAX 4u

/* --- what a node reports ------------------------------------------------------------ */

struct dlr_plan_check {
    char check[32];
    enum dlr_health_verdict verdict;
    char reason[256];
};

struct dlr_plan_report {
    struct dlr_topo_node node;
    unsigned cpus;
    unsigned
        port; /* MASTER_PORT, if rank 0 is here: nobody listens at it. 0: not known */
    char boot[64];
    struct dlr_plan_check *checks;
    unsigned nchecks;
    char (*silent)[DLR_TOPO_NAME]; /* peers it tried and could not reach */
    unsigned nsilent;
    struct dlr_plan_copy *copies; /* whose every byte was verified just now */
    unsigned ncopies;
};

/* Reads a report as in docs/protocol.md section 5. Every field is checked; unknown fields are
 * ignored. *ret_report is filled only on success; dlr_plan_report_done() frees what is in it.
 * Foreign bytes: fuzz target plan.
 */
int dlr_plan_report_from_json(const json_t *j, struct dlr_plan_report *ret_report,
                              struct dlr_err *err);
json_t *dlr_plan_report_to_json(
    const struct dlr_plan_report *report); /* caller's; NULL: memory */
void dlr_plan_report_done(struct dlr_plan_report *report);

/* --- what the supervisor wants ------------------------------------------------------- */

#define DLR_PLAN_SEVERAL "*" /* more than one node kept the copies */

/* A place of the former round. */
struct dlr_plan_seat {
    struct dlr_topo_node
        node; /* path as in the former plan, for the choice of a successor */
    char partner[DLR_TOPO_NAME]; /* who kept its copies: "" nobody, or SEVERAL */
};

/* A copy that was tried and failed. */
struct dlr_plan_struck {
    char where[DLR_PLAN_WHERE]; /* node or path; "*" every copy */
    int32_t rank;               /* -1: every rank's */
    struct dlr_version version;
    bool lasting; /* in every incarnation of the job, not only in this one */
    bool
        later; /* and every version of this or a later step, of this or an earlier round */
};

/* A node that has no place, and why. */
struct dlr_plan_out {
    char node[DLR_TOPO_NAME];
    char reason
        [DLR_PLAN_NOTE]; /* "memory: 3 uncorrected errors", "3 of 4 nodes cannot ..." */
    bool
        last; /* of those wanted so: it has a place when there are too few without it */
};

/* Places of earlier rounds with another number of ranks: what parity they have left is of these. */
struct dlr_plan_world {
    unsigned nplaces;
    unsigned *tasks, *ranks; /* as those of struct dlr_plan_want */
};

struct dlr_plan_want {
    unsigned nplaces;      /* training nodes */
    const unsigned *tasks; /* [nplaces] tasks of each place; their sum is the world */
    const unsigned
        *ranks; /* [world] of place 0 ascending, then of place 1 ...; NULL: 0, 1 ... */
    char batch
        [DLR_TOPO_NAME]; /* node of the supervisor: kept when in doubt; "" unknown */
    const struct dlr_plan_seat *former; /* [nformer]; nformer 0: first round */
    unsigned nformer;
    const char *const *prefer; /* [nprefer] nodes that come first in the first round */
    unsigned nprefer;
    bool ordered;                      /* and take places in this order */
    const struct dlr_plan_file *files; /* persisted copies */
    unsigned nfiles;
    const struct dlr_plan_struck *struck;
    unsigned nstruck;
    const struct dlr_plan_out
        *full; /* [nfull] have no room for what they would restore */
    unsigned nfull;
    unsigned members,
        rows; /* of a set that shares parity (mpi_launcher/plan/parity_sets.h); 0 none */
    const struct dlr_plan_world
        *worlds; /* [nworlds] with parity, other than this one */
    unsigned nworlds;
    bool limited; /* nothing newer than newest may be restored */
    struct dlr_version newest;
    bool
        has_committed; /* the newest commit the supervisor knows: explains what is missing */
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
    unsigned port;           /* where the search for a MASTER_PORT begins; 0: none */
    unsigned npeers;
    const char *const *peer_nodes; /* [npeers] every candidate */
    const char *const *peer_addrs; /* [npeers] "host:port" of its agent's peer socket */
};

/* The one object dlrover-rendezvous reads: {"want": ..., "survey": ...}. survey may be NULL.
 * The caller's; NULL: out of memory. Write it with dlr_msg_text() and dlr_file_replace().
 */
json_t *dlr_plan_input_to_json(const struct dlr_plan_want *want,
                               const struct dlr_plan_survey *survey);

/* The same read back; fields that are absent are empty. Owns what want and survey point to,
 * json included. dlr_plan_input_done(), also after a failure.
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

/* --- the plan ------------------------------------------------------------------------ */

struct dlr_plan_place {
    struct dlr_topo_node node;
    unsigned cpus;
    unsigned port; /* as it has reported */
    unsigned from,
        tasks; /* its ranks: ranks[from] to ranks[from + tasks - 1] of the plan */
    unsigned partner; /* place that keeps its copies; itself: there is nobody */
    bool moved;       /* another node had this place in the former round */
};

/* A verdict other than OK, for the journal. */
struct dlr_plan_verdict {
    char node[DLR_TOPO_NAME];
    struct dlr_plan_check check;
};

enum dlr_plan_from {
    DLR_PLAN_LOCAL,  /* on the node where the rank will run */
    DLR_PLAN_NODE,   /* where: the node that sends it */
    DLR_PLAN_FILE,   /* where: the path to load it from */
    DLR_PLAN_PARITY, /* where: "SLOT@NODE ..", what it is made of */
};

struct dlr_plan_source {
    enum dlr_plan_from from;
    char *where;    /* NULL for LOCAL */
    uint64_t bytes; /* of the slot file */
};

struct dlr_plan {
    unsigned nplaces, world;
    struct dlr_plan_place *places; /* [nplaces] */
    unsigned *ranks;    /* [world] of place 0 ascending, then of place 1 ... */
    unsigned *place_of; /* [world] place of each rank */
    struct dlr_topo_node *spares; /* usable and without a place, in topology order */
    unsigned nspares;
    struct dlr_plan_out *out; /* reported, but left out of this round */
    unsigned nout;
    struct dlr_plan_verdict *verdicts; /* of all reports, in name order */
    unsigned nverdicts;
    bool restore;                    /* false: ranks start from nothing */
    struct dlr_version version;      /* the newest every rank can load */
    uint32_t made_by;                /* ranks that made it: world, or another number */
    struct dlr_plan_source *sources; /* [made_by] when restore; never LOCAL when that is
                                        not world: nobody knows yet who needs them */
    char (*notes)[DLR_PLAN_NOTE];    /* why something newer is not restorable */
    unsigned nnotes;
};

/* Computes the plan.
 *   First round: healthy nodes in topology order; spares come off the leaf that has most
 *   nodes left, its last node first (ties: the last leaf), so each leaf is likely to keep one.
 *   Nodes that are preferred have places before all others.
 *   Later: only places of nodes that are gone or left out move (dlr_topo_replace).
 *   A node that comes last has a place only when there are too few without it.
 *   A node with a FAIL verdict never takes part. A node that most others cannot reach is left
 *   out while there are enough without it; one that is full never takes part, but what it
 *   holds counts. WARN and SKIP are told and change nothing.
 *   Restored is the newest version of which every rank that made it has a verified copy
 *   that was not struck; made_by says how many they were.
 * 0; -ENOSPC with the counts in err when too few nodes are usable (*ret_plan then holds only
 * out and verdicts); -EINVAL, -EEXIST (two reports of one node), -ENOMEM. *ret_plan is the
 * caller's in every case: dlr_plan_done().
 */
int dlr_plan_make(const struct dlr_plan_report *reports, unsigned nreports,
                  const struct dlr_plan_want *want, struct dlr_plan *ret_plan,
                  struct dlr_err *err);
void dlr_plan_done(struct dlr_plan *plan);

/* Whether the ranks of each place follow those of the place before it. */
bool dlr_plan_in_order(const struct dlr_plan *plan);
/* The ranks of a place as a list, the caller's; NULL: they are one run from its first on. */
json_t *dlr_plan_place_ranks(const struct dlr_plan *plan, unsigned place);

/* The rule for restore alone, for who has no new placement (the successor before a requeue):
 * sources are never LOCAL. Fills world, made_by, restore, version, sources and notes of *ret_plan.
 */
int dlr_plan_restorable(const struct dlr_plan_report *reports, unsigned nreports,
                        const struct dlr_plan_want *want, struct dlr_plan *ret_plan,
                        struct dlr_err *err);

/* JSON of a plan: docs/protocol.md section 5. A plan that could not be made travels as its
 * error (err not NULL and err->code < 0) and comes back from dlr_plan_from_json() as that
 * code and text, with out and verdicts filled. Every field is checked; -EBADMSG.
 */
json_t *dlr_plan_to_json(const struct dlr_plan *plan, const struct dlr_err *err);
/* Foreign bytes: fuzz target plan. */
int dlr_plan_from_json(const json_t *j, struct dlr_plan *ret_plan, struct dlr_err *err);

#endif
