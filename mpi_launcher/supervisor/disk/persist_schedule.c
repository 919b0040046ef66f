/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/supervisor/disk/persist_schedule.h"
#include "mpi_launcher/supervisor/copies/redundancy.h"

#include <errno.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "mpi_launcher/supervisor/io/state_files.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/loss_rate.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"

#define AGAIN_S 60  /* from what was not written to the next try, and at least */
#define AGAIN_OF 10 /* times what a write takes */
#define TRIES 2     /* of auto, before a directory is taken for no place */
#define GB 1e9

static bool is_auto(const struct dlr_sup_disk *disk)
{
    return disk->env.conf->persist_every.ms == DLR_EVERY_AUTO;
}

void dlr_persist_schedule_start(const struct dlr_sup_disk *disk,
                                struct dlr_persist_schedule *d)
{
    d->last_ms = dlr_sup_now();
    if (disk->nfiles)
        d->last = disk->files[0].copy.version;
}

/* Nodes that lose or keep a snapshot together. */
static unsigned set_size(const struct dlr_sup_disk *disk, unsigned covered)
{
    const struct dlr_parity_sets *sets = dlr_sup_sets(disk->env.copies);
    unsigned ranks[DLR_PARITY_DATA_MAX], most = 1;

    for (unsigned r = 0; sets->rows > 0 && r < sets->world; r++) {
        unsigned n = dlr_parity_sets_group(sets, r, ranks);

        most = n > most ? n : most;
    }
    return most + covered;
}

bool dlr_persist_schedule_next(const struct dlr_sup_disk *disk,
                               const struct dlr_persist_schedule *d,
                               struct dlr_cadence_risk *ret_risk,
                               struct dlr_cadence_persist *ret)
{
    unsigned covered = dlr_sup_copies(disk->env.copies);

    *ret_risk =
        (struct dlr_cadence_risk){.nodes = disk->env.plan->nplaces,
                                  .covered = covered,
                                  .set = set_size(disk, covered),
                                  .write_s = d->write_s,
                                  .lost = dlr_sup_losses_nodes(disk->env.nodes),
                                  .node_hours = dlr_sup_losses_hours(disk->env.nodes)};
    if (is_auto(disk))
        dlr_cadence_persist(ret_risk, ret);
    return is_auto(disk);
}

static bool has_passed(const struct dlr_sup_disk *disk,
                       const struct dlr_persist_schedule *d, int64_t since_ms)
{
    struct dlr_cadence_persist next;
    struct dlr_cadence_risk risk;

    dlr_persist_schedule_next(disk, d, &risk, &next);
    return (double)since_ms >= 1e3 * next.every_s;
}

void dlr_persist_schedule_take(struct dlr_persist_schedule *d, struct dlr_version v)
{
    d->last = v;
    d->last_ms = dlr_sup_now();
    d->second = d->again_ms != 0;
    d->again_ms = 0;
}

void dlr_persist_schedule_again(struct dlr_persist_schedule *d)
{
    double wait_s = AGAIN_OF * d->write_s;

    d->again_ms =
        dlr_sup_now() + (int64_t)(1e3 * (wait_s > AGAIN_S ? wait_s : AGAIN_S));
}

bool dlr_persist_schedule(struct dlr_sup_disk *disk,
                          const struct dlr_persist_schedule *d, struct dlr_version v,
                          bool busy)
{
    const struct dlr_every_conf *every = &disk->env.conf->persist_every;
    int64_t since_ms = dlr_sup_now() - d->last_ms;

    if (d->again_ms && dlr_sup_now() >= d->again_ms)
        return !d->off && !busy;
    if (is_auto(disk))
        return !d->off && !busy && has_passed(disk, d, since_ms);
    if (every->ms)
        return since_ms >= (int64_t)every->ms;
    return v.step / every->steps != d->last.step / every->steps;
}

/* --- a default that cannot be had ------------------------------------------------- */

static void leave_it(struct dlr_sup_disk *disk, struct dlr_persist_schedule *d,
                     const char *why)
{
    d->off = true;
    dlr_user_line(
        disk->env.io,
        "no checkpoint is written to the disk (--dlrover-persist=auto): "
        "%s; it takes a --dlrover-state-dir that all nodes share, off ends this "
        "line",
        why);
}

bool dlr_persist_schedule_quiet(const struct dlr_sup_disk *disk,
                                const struct dlr_persist_schedule *d)
{
    return is_auto(disk) && d->write_s == 0;
}

void dlr_persist_schedule_failed(struct dlr_sup_disk *disk,
                                 struct dlr_persist_schedule *d, const char *why)
{
    if (dlr_persist_schedule_quiet(disk, d) && ++d->failed >= TRIES)
        leave_it(disk, d, why);
}

/* Makes the directory path; at: bytes that will lie there. A file system in memory
 * would take from the program, and no other node sees it. In a process apart.
 */
static int look(void *arg, int *none)
{
    struct dlr_sup_file *f = arg;
    struct statfs fs;
    int rc = dlr_sup_file_mkdirs(f, none);

    if (rc < 0)
        return rc;
    if (access(f->path, W_OK | X_OK) < 0 || statfs(f->path, &fs) < 0)
        return -errno;
    if (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC)
        return -ENOTBLK;
    return (double)fs.f_bavail * (double)fs.f_bsize < (double)f->at ? -ENOSPC : 0;
}

static int ask(struct dlr_sup_disk *disk, const char *dir, double bytes)
{
    DLR_CLEANUP(dlr_sup_file_done)
    struct dlr_sup_file *f = dlr_sup_file_new(dir, NULL);

    if (f)
        f->at = bytes < (double)INT64_MAX ? (off_t)bytes : INT64_MAX;
    return dlr_sup_file_call(disk->env.io, look, &f);
}

int dlr_persist_schedule_place(struct dlr_sup_disk *disk,
                               struct dlr_persist_schedule *d, char *ret_why,
                               size_t size)
{
    unsigned versions =
        1 + (disk->env.conf->persist_count ? disk->env.conf->persist_count : 1);
    char dir[DLR_RUN_PATH + 32];
    double bytes = 0;
    int rc;

    if (!is_auto(disk) || d->is_place)
        return 0;
    for (unsigned r = 0; r < disk->env.plan->world; r++)
        bytes += (double)dlr_sup_slot_bytes(disk->env.copies, r) * versions;
    dlr_sup_persist_dir(disk, dir, sizeof(dir));
    rc = ask(disk, dir, bytes);
    d->is_place = rc == 0;
    if (rc == -ETIMEDOUT || rc == -EBUSY || rc == -ENOMEM)
        return -EAGAIN;
    if (rc == -ENOTBLK)
        dlr_format(ret_why, size, "'%.300s' is memory, not a disk", dir);
    else if (rc == -ENOSPC)
        dlr_format(ret_why, size,
                   "'%.300s' has not the %.3g GB free that %u versions take", dir,
                   bytes / GB, versions);
    else if (rc < 0)
        dlr_format(ret_why, size, "cannot write into '%.300s': %s", dir, strerror(-rc));
    if (rc < 0)
        leave_it(disk, d, ret_why);
    return rc;
}
