/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the engine, for its own sources and its tests. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_DISK_DISK_STATE_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_DISK_DISK_STATE_H

#include <stdatomic.h>

#include "ckpt/manifest/manifest.h"
#include "mpi_launcher/process/work_queue.h"
#include "mpi_launcher/supervisor/disk/disk.h"
#include "mpi_launcher/supervisor/io/io.h"
#include "mpi_launcher/supervisor/nodes/nodes.h"

struct dlr_sup_periodic;
struct dlr_sup_look;

/* Before a requeue. */
struct dlr_sup_persist {
    bool writes, none; /* none: there is nothing to write */
    int64_t begun_ms;
    struct dlr_plan plan;
    struct dlr_persist_write write; /* what its files are called */
    struct dlr_offload *manifest;   /* what writes it */
};

struct dlr_sup_disk {
    struct dlr_sup_disk_env env;
    const struct dlr_sup_disk_ops *ops; /* never NULL */
    void *arg;
    const struct dlr_policy *policy;
    const struct dlr_members *members;
    struct dlr_sup_look *look; /* inventory.c: it is still being read; NULL: not */
    bool plan_without_storage; /* the plan is asked for without what the disk has */
    bool awaited;              /* "known" is told when that is known */
    struct dlr_plan_file *files;
    unsigned nfiles;
    bool unread_reported;              /* a manifest among them could not be read */
    struct dlr_sup_periodic *periodic; /* NULL: nothing is written */
    struct dlr_sup_persist persist;
};

/* --- inventory.c ------------------------------------------------------------------ */

/* Where the run's written versions are. */
int dlr_sup_persist_dir(const struct dlr_sup_disk *disk, char *buf, size_t size);
/* A process apart gives a list of files as a memory file, the caller's, which becomes
 * disk->files (-1: none).
 */
int dlr_inventory_export(const struct dlr_plan_file *files, unsigned n, int *ret_fd);
void dlr_inventory_import(struct dlr_sup_disk *disk, int fd);
/* After a write: what dlr_persist_save() says of a manifest there, "" nothing. Told
 * once.
 */
void dlr_sup_disk_unread(struct dlr_sup_disk *disk, const char *why);
void dlr_sup_inventory_free(struct dlr_sup_disk *disk);
void dlr_sup_inventory_tick(struct dlr_sup_disk *disk);

/* --- manifest.c: what makes files a checkpoint, in the memory of a process apart -- */

struct dlr_sup_manifest {
    char dir[DLR_RUN_PATH + 32];
    unsigned world, keep;
    struct dlr_persist_write write;
    bool give_up; /* remove what was written of the version */
    struct dlr_err err;
    unsigned count;               /* of the files, once that is known, */
    uint64_t bytes;               /* and their bytes */
    atomic_bool stop;             /* the survivors write now */
    struct dlr_plan_file files[]; /* [world] where each rank's bytes are */
};

/* For so many ranks; dlr_offload_arg() is one. NULL when out of memory. */
struct dlr_offload *dlr_sup_manifest_new(const struct dlr_sup_disk *disk,
                                         unsigned world);
/* In the process apart; it takes as long as it takes. The second one is such a work: it
 * also gives every version that is there now, if that can be told, or gives up.
 */
int dlr_sup_manifest_save(struct dlr_sup_manifest *m);
int dlr_sup_manifest_write(void *arg, int *fd);
/* A rank's bytes are there. */
void dlr_sup_manifest_set(struct dlr_sup_manifest *m, unsigned rank,
                          struct dlr_version v, const struct dlr_slice *slice);

/* --- persist_on_failure.c --------------------------------------------------------- */

/* Has a rank's copy written to dir, where it is not in a file yet: with others of the
 * node that holds it, whom dlr_sup_write_nodes() asks; of parity it is made first.
 */
void dlr_sup_write_rank(struct dlr_sup_disk *disk, const struct dlr_plan *plan,
                        const char *dir, unsigned rank);
void dlr_sup_write_nodes(struct dlr_sup_disk *disk);
/* Nodes are asked for all that is made of parity, once it is. */
void dlr_sup_write_made(struct dlr_sup_disk *disk);

/* --- persist_periodic.c ----------------------------------------------------------- */

void dlr_sup_periodic_free(struct dlr_sup_disk *disk);
void dlr_sup_periodic_tick(struct dlr_sup_disk *disk);

#endif
