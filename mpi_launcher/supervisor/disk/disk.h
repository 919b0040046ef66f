/* SPDX-License-Identifier: Apache-2.0 */
/* Versions that are written to the run's directory and found there: what a supervisor
 * finds when it begins, what is written while steps go on (--dlrover-persist), and what
 * the nodes that are left write before a requeue. It knows the copies and the versions
 * and no engine above them, and says by its events what has happened. One thread.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_DISK_DISK_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_DISK_DISK_H

#include <jansson.h>

#include "common/config/job_config.h"
#include "mpi_launcher/plan/plan.h"
#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/run/run_info.h"

struct dlr_sup_disk; /* opaque */
struct dlr_sup_io;
struct dlr_sup_nodes;
struct dlr_sup_copies;
struct dlr_sup_planning;
struct dlr_sup_versions;
struct dlr_transfer;

/* What it uses, and what it only reads; all of it must live as long, and may be filled
 * later.
 */
struct dlr_sup_disk_env {
    struct dlr_sup_io *io;
    struct dlr_sup_nodes *nodes;
    struct dlr_sup_planning *planning;
    struct dlr_sup_copies *copies;
    struct dlr_sup_versions *versions;
    const struct dlr_job_config *conf;
    const struct dlr_runinfo *info;
    const struct dlr_plan *plan; /* in force */
    const bool *ended_before;    /* the run ended before the job was requeued */
    const bool *took_over;       /* a supervisor of this incarnation died */
};

/* What happened, and what others are asked; arg is dlr_sup_disk_new()'s. */
struct dlr_sup_disk_ops {
    /* What lies there is known now, so a plan that began anew without it is to be made
     * again. Or that is waited for, limit_ms at most.
     */
    void (*known)(void *arg);
    void (*awaited)(void *arg, int64_t limit_ms);
    /* dlr_sup_persist() has ended, well or not, which was told. */
    void (*persisted)(void *arg);
    /* Asked: is the run over, and nothing left of it that is waited for? */
    bool (*over)(void *arg);
};

/* ops may be NULL where nothing of it is reached; ops and arg must live as long. NULL
 * when out of memory.
 */
struct dlr_sup_disk *dlr_sup_disk_new(const struct dlr_sup_disk_env *env,
                                      const struct dlr_sup_disk_ops *ops, void *arg);
/* Ends nothing that is being read or written. Accepts NULL, returns NULL. */
struct dlr_sup_disk *dlr_sup_disk_free(struct dlr_sup_disk *disk);
/* The policy, which is only read and must live as long. */
void dlr_sup_disk_open(struct dlr_sup_disk *disk, const struct dlr_policy *policy);
void dlr_sup_disk_tick(struct dlr_sup_disk *disk);

/* --- inventory.c: versions that are there when a supervisor begins ---------------- */

/* Takes what it finds within limit_ms. -ETIMEDOUT for a first supervisor; one that took
 * over gets it from a later tick. *round rises above another job's version.
 */
int dlr_sup_disk_load(struct dlr_sup_disk *disk, int64_t limit_ms, uint32_t *round,
                      struct dlr_err *err);
/* The newest version that is there, as far as known; false: none is. */
bool dlr_sup_disk_newest(const struct dlr_sup_disk *disk, struct dlr_version *ret);
/* A plan is asked for: with the files that are known now. Borrowed. */
void dlr_sup_disk_want(struct dlr_sup_disk *disk, struct dlr_plan_want *want);
/* Is the plan that was made of it of no use, since it begins anew and the disk had not
 * been read then? "known" or "awaited" is told.
 */
bool dlr_sup_disk_wants(struct dlr_sup_disk *disk, const struct dlr_plan *plan);

/* --- persist_periodic.c: committed versions, while steps go on -------------------- */

/* Once the state was read. One at a time: each rank's node writes its slot, a process
 * apart the manifest. What fails or comes too late is told and counted, nothing waits
 * for it. auto, the default, looks for the directory when the first one is due, and
 * leaves it at one line where that is no place for them.
 */
void dlr_sup_periodic_start(struct dlr_sup_disk *disk);
/* A node's `ready`: whether its ranks have a slot for what is being written. */
void dlr_sup_periodic_ready(struct dlr_sup_disk *disk, unsigned node,
                            const json_t *msg);
void dlr_sup_periodic_commit(struct dlr_sup_disk *disk, struct dlr_version v);
/* Slots are being read: the version is the older one that is kept meanwhile. */
bool dlr_sup_periodic_writes(const struct dlr_sup_disk *disk);
/* What is being written is given up: before the ranks change their places, and when
 * who was asked for a part of it has gone.
 */
void dlr_sup_periodic_cut(struct dlr_sup_disk *disk, const char *why);
/* Before survivors write their state. */
void dlr_sup_periodic_stop(struct dlr_sup_disk *disk);

/* --- persist_on_failure.c: state becomes files ------------------------------------ */

/* Do the nodes that are left hold something newer than the disk, which may be written?
 */
bool dlr_sup_unwritten(const struct dlr_sup_disk *disk);
/* They write it, and what only parity has is made first: "persisted" is told when a
 * manifest names the files, or it is not to be.
 */
void dlr_sup_persist(struct dlr_sup_disk *disk);
/* They have told what they hold. */
void dlr_sup_persist_reports(struct dlr_sup_disk *disk,
                             const struct dlr_plan_report *reports, unsigned n);
/* Now and then: have all writes ended? True when there was nothing to write, which was
 * told.
 */
bool dlr_sup_persist_check(struct dlr_sup_disk *disk);

/* The transfers are writes: nodes are asked for those. */
bool dlr_sup_is_persisting(const struct dlr_sup_disk *disk);
/* A round is prepared, which has transfers of its own: what is open of the writes ends
 * untold, since nobody waits for it.
 */
void dlr_sup_persist_drop(struct dlr_sup_disk *disk);
/* That was made just now: into one file with what its node has made beside. */
void dlr_sup_write_rebuilt(struct dlr_sup_disk *disk, const struct dlr_transfer *made);
/* A write has ended with rc and what the node says of it: 0, -errno, or -EINPROGRESS
 * when another one was asked for instead, since all of the node's were too much for one
 * file.
 */
int dlr_sup_written(struct dlr_sup_disk *disk, struct dlr_transfer *t, int rc,
                    const char *said);

#endif
