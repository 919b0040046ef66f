/* SPDX-License-Identifier: Apache-2.0 */
/* Which commits go to the disk (--dlrover-persist). A count of steps and a time are the
 * user's word. auto, the default, follows what ckpt/commit/cadence.h makes of the run;
 * it looks for the directory when the first version is due, and where that is no place
 * for files it is left at one line.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_DISK_PERSIST_SCHEDULE_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_DISK_PERSIST_SCHEDULE_H

#include "ckpt/commit/cadence.h"
#include "mpi_launcher/supervisor/disk/disk_state.h"

/* All 0 but what dlr_persist_schedule_start() sets. */
struct dlr_persist_schedule {
    struct dlr_version last; /* that was due */
    int64_t last_ms;         /* when */
    double write_s;          /* of the last one that was written; 0: none was */
    /* when what was not written is due again, 0: not before its time */
    int64_t again_ms;
    bool second; /* the write under way is such a one */
    /* of auto: */
    bool is_place;   /* the directory will do */
    bool off;        /* it will not: nothing is due any more */
    unsigned failed; /* writes, while none went well */
};

void dlr_persist_schedule_start(const struct dlr_sup_disk *disk,
                                struct dlr_persist_schedule *d);

/* Whether v is due; busy: an older one is being written still. */
bool dlr_persist_schedule(struct dlr_sup_disk *disk,
                          const struct dlr_persist_schedule *d, struct dlr_version v,
                          bool busy);

/* Whether it can be written, asked when it is due: 0, -EAGAIN while the file system
 * hangs, else never, which was told, and ret_why has it too.
 */
int dlr_persist_schedule_place(struct dlr_sup_disk *disk,
                               struct dlr_persist_schedule *d, char *ret_why,
                               size_t size);

/* Nobody has asked for what did not go well: one line is for the second time, when it
 * is over.
 */
bool dlr_persist_schedule_quiet(const struct dlr_sup_disk *disk,
                                const struct dlr_persist_schedule *d);
void dlr_persist_schedule_failed(struct dlr_sup_disk *disk,
                                 struct dlr_persist_schedule *d, const char *why);

/* v is written now, or cannot be now. */
void dlr_persist_schedule_take(struct dlr_persist_schedule *d, struct dlr_version v);
/* It was not: one more is due soon, not an interval later. */
void dlr_persist_schedule_again(struct dlr_persist_schedule *d);

/* What --dlrover-persist=auto comes to now, and from what; false where the user has
 * said how often, and only the inputs are set.
 */
bool dlr_persist_schedule_next(const struct dlr_sup_disk *disk,
                               const struct dlr_persist_schedule *d,
                               struct dlr_cadence_risk *ret_risk,
                               struct dlr_cadence_persist *ret);

#endif
