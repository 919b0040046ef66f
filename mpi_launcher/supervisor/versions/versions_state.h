/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the engine, for its own sources and its tests. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_VERSIONS_VERSIONS_STATE_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_VERSIONS_VERSIONS_STATE_H

#include "mpi_launcher/policy/repeated_failure.h"
#include "mpi_launcher/supervisor/copies/redundancy.h"
#include "mpi_launcher/supervisor/copies/rejected_copies.h"
#include "mpi_launcher/supervisor/copies/transfers.h"
#include "mpi_launcher/supervisor/io/io.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/nodes.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "mpi_launcher/supervisor/versions/versions.h"

#define DLR_SUP_ABORTED 16u /* versions whose tasks may say something of them still */

struct dlr_sup_cadence;

struct dlr_sup_versions {
    struct dlr_sup_versions_env env;
    const struct dlr_sup_versions_ops *ops; /* never NULL */
    void *arg;
    const struct dlr_members *members;
    const struct dlr_policy *policy;

    struct dlr_commit *commit;
    bool saving_reported; /* of the round */
    int64_t commit_ms;    /* newest commit */
    unsigned commits, aborts;
    struct dlr_version aborted[DLR_SUP_ABORTED]; /* the last of these, in turn */
    unsigned torn; /* versions that audits of the program have found so */

    bool has_vetted, no_vetted_slot_reported;
    struct dlr_version vetted; /* vetted_version.c: beside the newest in memory */

    struct dlr_repeated_failure repeat;
    uint32_t repeat_looked;        /* the last round that was judged */
    unsigned blamed, blamed_times; /* node that failed first, rounds in a row */

    struct { /* of the nodes that have slots in this round: memory_report.c */
        unsigned node;
        uint64_t taken, least, limit; /* limit 0: none was told */
        bool told;
    } least_free_node;
    uint64_t no_slots; /* ranks for which a node had no room */

    struct dlr_sup_cadence *cadence; /* NULL: nothing is learned */
};

/* bad_versions.c: versions whose numbers are bad. Strikes every version of v's step and
 * later that was made up to v's round, everywhere.
 */
void dlr_sup_mark_bad(struct dlr_sup_versions *versions, struct dlr_version v,
                      const char *why);
void dlr_sup_on_bad(struct dlr_sup_versions *versions, unsigned node,
                    const json_t *msg);
/* A program's audit found this one to be of two moments, perhaps after its commit. */
void dlr_sup_on_torn(struct dlr_sup_versions *versions, unsigned node,
                     const json_t *msg);
json_t *dlr_bad_versions_save(const struct dlr_sup_versions *versions);
void dlr_bad_versions_load(struct dlr_sup_versions *versions, const json_t *state);

/* commit_orders.c: a program wants a version that nobody has ordered yet. */
void dlr_sup_on_wanted(struct dlr_sup_versions *versions, unsigned node,
                       const json_t *msg);

/* vetted_version.c */
void dlr_sup_on_no_vetted_slot(struct dlr_sup_versions *versions, unsigned node,
                               const json_t *msg);
void dlr_sup_vetted_commit(struct dlr_sup_versions *versions, struct dlr_version v);
void dlr_sup_vetted_round(struct dlr_sup_versions *versions);
/* Says in a "commit" which one it is. */
void dlr_sup_vetted_say(const struct dlr_sup_versions *versions, json_t *msg);
void dlr_sup_vetted_take(struct dlr_sup_versions *versions, const json_t *state);

/* memory_report.c: what snapshots take of the nodes' memory. A node's "ready" tells it,
 * the line that saves begin has the node that has least to spare (row is borrowed), and
 * so has, once, the job's output.
 */
void dlr_sup_memory_round(struct dlr_sup_versions *versions); /* slots are told anew */
void dlr_sup_memory_tell(struct dlr_sup_versions *versions, json_t *row);
void dlr_sup_on_no_slots(struct dlr_sup_versions *versions, unsigned node,
                         const json_t *msg);

/* cadence.c: what saves cost this run, and how often they are ordered for it
 * (--dlrover-save). Without one (out of memory) saves come as often as they can.
 */
void dlr_sup_cadence_start(struct dlr_sup_versions *versions);
void dlr_sup_cadence_stop(struct dlr_sup_versions *versions);
/* What a save costs stays known. */
void dlr_sup_cadence_round(struct dlr_sup_versions *versions);
/* Before dlr_sup_cadence_start(): what a former supervisor had learned. */
void dlr_sup_cadence_take(struct dlr_sup_versions *versions, const json_t *state);
/* The agents' words: what a rank's last saves cost it, and a copy that came to node. */
void dlr_sup_cadence_sealed(struct dlr_sup_versions *versions, const json_t *msg);
void dlr_sup_cadence_copied(struct dlr_sup_versions *versions, unsigned node,
                            const json_t *msg);
/* The network devices of node's copies: told once, and of each node that has others. */
void dlr_sup_cadence_uses(struct dlr_sup_versions *versions, unsigned node,
                          const json_t *msg);
/* A version is whole, so long after its first rank sealed it: the distance of the next
 * ones follows from what is known now.
 */
void dlr_sup_cadence_commit(struct dlr_sup_versions *versions, struct dlr_version v,
                            int64_t took_ms);
/* The time of the run that would be lost with a failure now; -1: no step is known. */
int64_t dlr_sup_cadence_at_stake_ms(const struct dlr_sup_versions *versions,
                                    int64_t now_ms);

#endif
