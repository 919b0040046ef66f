/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the engine, for its own sources and its tests. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_COPIES_COPIES_STATE_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_COPIES_COPIES_STATE_H

#include "mpi_launcher/plan/parity_sets.h"
#include "mpi_launcher/supervisor/copies/bad_copies.h"
#include "mpi_launcher/supervisor/copies/copies.h"
#include "mpi_launcher/supervisor/copies/requests.h"
#include "mpi_launcher/supervisor/copies/transfers.h"
#include "mpi_launcher/supervisor/io/io.h"
#include "mpi_launcher/supervisor/nodes/members.h"
#include "mpi_launcher/supervisor/nodes/nodes.h"

/* Consecutive ids, and who is told their ends. */
struct dlr_sup_request {
    uint64_t first;
    unsigned n;
    dlr_sup_done_fn done;
    void *arg;
};

/* A copy that the network failed, and in which round: it has its second chance in the
 * next.
 */
struct dlr_retried_copy {
    struct dlr_plan_rejected copy;
    uint32_t round;
};

/* Copies and parity of the version that a round began with, made while it runs. */
struct dlr_reprotect {
    bool wanted;               /* others are to keep this version */
    struct dlr_transfer *list; /* what is lacking, then how far it is */
    unsigned n, out;           /* out: not there yet; 0: nothing is under way */
    bool failed;         /* something of it will be lacking until the next commit */
    int64_t deadline_ms; /* nothing is saved until then, or until out is 0 */
};

struct dlr_sup_copies {
    struct dlr_sup_copies_env env;
    const struct dlr_sup_copies_ops *ops; /* never NULL */
    void *arg;
    const struct dlr_members *members;
    const struct dlr_step_plan *step;
    const struct dlr_plan *plan; /* in force */
    const struct dlr_policy *policy;
    struct dlr_commit *commit;

    uint32_t last_id;
    struct dlr_sup_request *requests; /* ascending */
    unsigned nrequests, room;

    /* redundancy.c */
    unsigned *holders; /* [places][copies] of the plan in force */
    /* of ranks that share parity; rows 0: there are none */
    struct dlr_parity_sets sets;
    uint64_t *slot_bytes; /* [world] what each rank has reserved in this round */
    /* since then a part of a version is not where it should be, or 0 */
    int64_t degraded_since_ms;
    /* nodes of the last round that was prepared; NULL: none */
    int *holders_of_last_round;
    unsigned nkept;
    char survives[DLR_TOPO_SURVIVAL_TEXT]; /* as told last */
    bool last_round_whole;                 /* and they have all of the newest version */

    struct dlr_sup_transfers transfers;
    bool preparing;
    int64_t prepare_ms; /* since then */
    struct dlr_reprotect reprotect;
    struct dlr_plan_rejected *rejected;
    unsigned nrejected;
    struct dlr_retried_copy *retried;
    unsigned nretried;

    struct dlr_sup_fetch *fetches; /* fetch.c */
    unsigned fetched;              /* in this round */
    bool fetch_failed; /* a copy could not be: a version is not bad for that */

    unsigned copies_bad; /* that went bad in memory, as nodes have found */
    struct dlr_bad_copies bad_copies;
    bool fallback_network; /* copies go over the control plane's network */
};

#endif
