/* SPDX-License-Identifier: Apache-2.0 */
/* Versions that lie on a disk when a supervisor begins: the run's own, else those of
 * the job or directory that --dlrover-restore-from names, whose file system may be
 * another one and dead. A process apart reads them. A first supervisor waits, since a
 * run that begins without them begins anew; one that takes over has leases to renew,
 * and is given them when they are there.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ckpt/manifest/manifest.h"
#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "mpi_launcher/supervisor/disk/disk_state.h"
#include "mpi_launcher/supervisor/io/state_files.h"
#include "mpi_launcher/supervisor/io/user_output.h"

/* a plan that begins anew waits for the disk; twice, then the run ends */
#define HOLD_MS 60000

struct dlr_sup_look {
    struct dlr_offload *offload; /* what reads; this is in its memory */
    char own[DLR_PLAN_WHERE], other[DLR_PLAN_WHERE]; /* other: "" none */
    int own_rc;
    struct dlr_err own_err, err;
};

int dlr_sup_persist_dir(const struct dlr_sup_disk *disk, char *buf, size_t size)
{
    return dlr_format(buf, size, "%s/persist", disk->env.info->dir);
}

int dlr_inventory_export(const struct dlr_plan_file *files, unsigned n, int *ret_fd)
{
    DLR_AUTO_CLOSE int fd = memfd_create("dlrover-files", MFD_CLOEXEC);

    if (fd < 0 || dlr_write_all(fd, files, n * sizeof(*files)) < 0)
        return -ENOMEM;
    *ret_fd = dlr_steal_fd(&fd);
    return 0;
}

static int look(void *arg, int *fd)
{
    struct dlr_sup_look *d = arg;
    DLR_AUTO_FREE struct dlr_plan_file *files = NULL;
    unsigned n = 0;
    int rc = dlr_persist_load(d->own, &files, &n, &d->own_err);

    d->own_rc = rc;
    if (rc < 0 && d->other[0])
        rc = dlr_persist_load(d->other, &files, &n, &d->err);
    return rc < 0 ? rc : dlr_inventory_export(files, n, fd);
}

/* Where another job's run of this name has its files. */
static int other_dir(const struct dlr_sup_disk *disk, char *buf, size_t size)
{
    const char *job = disk->env.info->job_dir;

    if (disk->env.conf->restore_from[0] == '/')
        return dlr_format(buf, size, "%s", disk->env.conf->restore_from);
    return dlr_format(buf, size, "%.*s/job-%s/%s/persist",
                      (int)(strrchr(job, '/') - job), job, disk->env.conf->restore_from,
                      disk->env.info->name);
}

static int start(struct dlr_sup_disk *disk, struct dlr_err *err)
{
    struct dlr_offload *offload = dlr_offload_new(sizeof(struct dlr_sup_look));
    struct dlr_sup_look *d = offload ? dlr_offload_arg(offload) : NULL;
    int rc = d ? dlr_sup_persist_dir(disk, d->own, sizeof(d->own)) : -ENOMEM;

    if (rc == 0 && disk->env.conf->restore_from[0] && !*disk->env.ended_before)
        rc = other_dir(disk, d->other, sizeof(d->other));
    if (rc == 0)
        rc = dlr_offload_start(offload, dlr_sup_fork_server(disk->env.io), look, -1);
    if (rc < 0) {
        dlr_offload_free(offload);
        return dlr_fail(err, rc, "cannot look for a written checkpoint: %s",
                        strerror(-rc));
    }
    d->offload = offload;
    disk->look = d;
    return 0;
}

void dlr_inventory_import(struct dlr_sup_disk *disk, int fd)
{
    off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    struct dlr_plan_file *files = size > 0 ? malloc((size_t)size) : NULL;

    free(disk->files);
    disk->files = NULL;
    disk->nfiles = 0;
    if (!files || pread(fd, files, (size_t)size, 0) != size) {
        free(files);
        return;
    }
    disk->files = files;
    disk->nfiles = (unsigned)((size_t)size / sizeof(*files));
}

void dlr_sup_disk_unread(struct dlr_sup_disk *disk, const char *why)
{
    if (!why[0] || disk->unread_reported)
        return;
    disk->unread_reported = true;
    dlr_user_line(disk->env.io, "%s: it stays, and so do the files of its version",
                  why);
}

/* Its rounds are behind us: ours are numbered after them, since the newest version is
 * the one of the newest round. Asked for by name, so that nothing begins anew without
 * it.
 */
static int take_other(struct dlr_sup_disk *disk, const struct dlr_sup_look *d, int rc,
                      uint32_t *round, struct dlr_err *err)
{
    if (*disk->env.took_over)
        return 0; /* the run has begun, from there or from something newer */
    if (rc < 0)
        return dlr_fail(err, rc,
                        "cannot restore from '%s': %s (--dlrover-restore-from takes a "
                        "job that ran under the same --dlrover-name, or a directory)",
                        disk->env.conf->restore_from, d->err.text);
    if (disk->nfiles && disk->files[0].copy.version.round >= *round)
        *round = disk->files[0].copy.version.round + 1;
    return 0;
}

/* -EAGAIN: it is not done. */
static int end(struct dlr_sup_disk *disk, uint32_t *round, struct dlr_err *err)
{
    struct dlr_sup_look *d = disk->look;
    DLR_AUTO_CLOSE int fd = -1;
    int rc;

    if (dlr_offload_end(d->offload, &rc, &fd) < 0)
        return -EAGAIN;
    disk->look = NULL;
    if (d->own_rc != -ENOENT && d->own_err.text[0])
        dlr_user_line(disk->env.io, "ignoring the written checkpoint: %s",
                      d->own_err.text);
    if (fd >= 0 && !disk->nfiles) /* else this supervisor has written by now */
        dlr_inventory_import(disk, fd);
    if (d->own_rc < 0 && d->other[0])
        rc = take_other(disk, d, rc, round, err);
    else if (rc == -ENOENT || d->own_rc < 0)
        rc = 0; /* nothing is there, or nothing that can be read, which was said */
    else if (rc < 0)
        dlr_fail(err, rc, "cannot look for a written checkpoint: %s", strerror(-rc));
    dlr_offload_free(d->offload);
    return rc;
}

static void say_where(const struct dlr_sup_look *d, char *buf, size_t size)
{
    if (d->other[0])
        snprintf(buf, size, "'%s' or '%s'", d->own, d->other);
    else
        snprintf(buf, size, "'%s'", d->own);
}

int dlr_sup_disk_load(struct dlr_sup_disk *disk, int64_t limit_ms, uint32_t *round,
                      struct dlr_err *err)
{
    struct pollfd done = {.events = POLLIN};
    char where[2 * DLR_PLAN_WHERE + 16];
    int rc = start(disk, err);

    if (rc < 0)
        return rc;
    done.fd = dlr_offload_fd(disk->look->offload);
    poll(&done, 1, (int)limit_ms);
    rc = end(disk, round, err);
    if (rc != -EAGAIN)
        return rc;
    say_where(disk->look, where, sizeof(where));
    if (!*disk->env.took_over)
        return dlr_fail(err, -ETIMEDOUT,
                        "a file system hangs: no answer within %lld s whether %s has a "
                        "checkpoint",
                        (long long)limit_ms / 1000, where);
    dlr_user_line(
        disk->env.io,
        "%s does not answer: going on, and looking for checkpoints when it does",
        where);
    return 0;
}

bool dlr_sup_disk_newest(const struct dlr_sup_disk *disk, struct dlr_version *ret)
{
    if (disk->nfiles)
        *ret = disk->files[0].copy.version;
    return disk->nfiles > 0;
}

void dlr_sup_disk_want(struct dlr_sup_disk *disk, struct dlr_plan_want *want)
{
    disk->plan_without_storage = disk->look != NULL;
    disk->awaited = false;
    want->files = disk->files;
    want->nfiles = disk->nfiles;
}

bool dlr_sup_disk_wants(struct dlr_sup_disk *disk, const struct dlr_plan *plan)
{
    if (!disk->plan_without_storage || plan->restore || (!disk->look && !disk->nfiles))
        return false;
    disk->awaited = disk->look != NULL;
    if (!disk->awaited) {
        disk->ops->known(disk->arg);
        return true;
    }
    dlr_user_line(
        disk->env.io,
        "memory has no whole version: waiting for the directory of written ones");
    disk->ops->awaited(disk->arg, HOLD_MS);
    return true;
}

void dlr_sup_inventory_tick(struct dlr_sup_disk *disk)
{
    uint32_t begun = UINT32_MAX; /* the rounds have their numbers */
    struct dlr_err err;

    if (!disk->look || end(disk, &begun, &err) == -EAGAIN || !disk->awaited)
        return;
    disk->awaited = false;
    disk->ops->known(disk->arg);
}

void dlr_sup_inventory_free(struct dlr_sup_disk *disk)
{
    if (disk->look)
        dlr_offload_free(disk->look->offload);
    disk->look = NULL;
}
