/* SPDX-License-Identifier: Apache-2.0 */
/* Versions that lie on a disk when a supervisor begins: the run's own, else those of the job or
 * directory that --dlrover-restore-from names, whose file system may be another one and dead. A
 * process apart reads them. A first supervisor waits, since a run that begins without them begins anew; one
 * that takes over has leases to renew, and is given them when they are there.
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
#include "mpi_launcher/supervisor/supervisor.h"

#define HOLD_MS                                                                        \
    60000 /* a plan that begins anew waits for the disk; twice, then the run ends */

struct dlr_sup_disk {
    struct dlr_aside *aside; /* what reads; this is in its memory */
    char own[DLR_PLAN_WHERE], other[DLR_PLAN_WHERE]; /* other: "" none */
    int own_rc;
    struct dlr_err own_err, err;
};

int dlr_sup_persist_dir(const struct dlr_sup *s, char *buf, size_t size)
{
    return dlr_format(buf, size, "%s/persist", s->info.dir);
}

int dlr_sup_disk_give(const struct dlr_plan_file *files, unsigned n, int *ret_fd)
{
    DLR_AUTO_CLOSE int fd = memfd_create("dlrover-files", MFD_CLOEXEC);

    if (fd < 0 || dlr_write_all(fd, files, n * sizeof(*files)) < 0)
        return -ENOMEM;
    *ret_fd = dlr_steal_fd(&fd);
    return 0;
}

static int look(void *arg, int *fd)
{
    struct dlr_sup_disk *d = arg;
    DLR_AUTO_FREE struct dlr_plan_file *files = NULL;
    unsigned n = 0;
    int rc = dlr_persist_load(d->own, &files, &n, &d->own_err);

    d->own_rc = rc;
    if (rc < 0 && d->other[0])
        rc = dlr_persist_load(d->other, &files, &n, &d->err);
    return rc < 0 ? rc : dlr_sup_disk_give(files, n, fd);
}

/* Where another job's run of this name has its files. */
static int other_dir(const struct dlr_sup *s, char *buf, size_t size)
{
    const char *job = s->info.job_dir;

    if (s->conf.restore_from[0] == '/')
        return dlr_format(buf, size, "%s", s->conf.restore_from);
    return dlr_format(buf, size, "%.*s/job-%s/%s/persist",
                      (int)(strrchr(job, '/') - job), job, s->conf.restore_from,
                      s->info.name);
}

static int start(struct dlr_sup *s, struct dlr_err *err)
{
    struct dlr_aside *aside = dlr_aside_new(sizeof(struct dlr_sup_disk));
    struct dlr_sup_disk *d = aside ? dlr_aside_arg(aside) : NULL;
    int rc = d ? dlr_sup_persist_dir(s, d->own, sizeof(d->own)) : -ENOMEM;

    if (rc == 0 && s->conf.restore_from[0] && !s->ended_before)
        rc = other_dir(s, d->other, sizeof(d->other));
    if (rc == 0)
        rc = dlr_aside_start(aside, dlr_sup_apart(s->io), look, -1);
    if (rc < 0) {
        dlr_aside_free(aside);
        return dlr_fail(err, rc, "cannot look for a written checkpoint: %s",
                        strerror(-rc));
    }
    d->aside = aside;
    s->disk = d;
    return 0;
}

void dlr_sup_disk_take(struct dlr_sup *s, int fd)
{
    off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    struct dlr_plan_file *files = size > 0 ? malloc((size_t)size) : NULL;

    free(s->files);
    s->files = NULL;
    s->nfiles = 0;
    if (!files || pread(fd, files, (size_t)size, 0) != size) {
        free(files);
        return;
    }
    s->files = files;
    s->nfiles = (unsigned)((size_t)size / sizeof(*files));
}

void dlr_sup_disk_unread(struct dlr_sup *s, const char *why)
{
    if (!why[0] || s->unread_told)
        return;
    s->unread_told = true;
    dlr_sup_say(s->io, "%s: it stays, and so do the files of its version", why);
}

/* Its rounds are behind us: ours are numbered after them, since the newest version is the one of
 * the newest round. Asked for by name, so that nothing begins anew without it.
 */
static int take_other(struct dlr_sup *s, const struct dlr_sup_disk *d, int rc,
                      struct dlr_err *err)
{
    if (s->took_over)
        return 0; /* the run has begun, from there or from something newer */
    if (rc < 0)
        return dlr_fail(err, rc,
                        "cannot restore from '%s': %s (--dlrover-restore-from takes a "
                        "job that ran under the same --dlrover-name, or a directory)",
                        s->conf.restore_from, d->err.text);
    if (s->nfiles && s->files[0].copy.version.round >= s->resume_round)
        s->resume_round = s->files[0].copy.version.round + 1;
    return 0;
}

/* -EAGAIN: it is not done. */
static int end(struct dlr_sup *s, struct dlr_err *err)
{
    struct dlr_sup_disk *d = s->disk;
    DLR_AUTO_CLOSE int fd = -1;
    int rc;

    if (dlr_aside_end(d->aside, &rc, &fd) < 0)
        return -EAGAIN;
    s->disk = NULL;
    if (d->own_rc != -ENOENT && d->own_err.text[0])
        dlr_sup_say(s->io, "ignoring the written checkpoint: %s", d->own_err.text);
    if (fd >= 0 && !s->nfiles) /* else this supervisor has written by now */
        dlr_sup_disk_take(s, fd);
    if (d->own_rc < 0 && d->other[0])
        rc = take_other(s, d, rc, err);
    else if (rc == -ENOENT || d->own_rc < 0)
        rc = 0; /* nothing is there, or nothing that can be read, which was said */
    else if (rc < 0)
        dlr_fail(err, rc, "cannot look for a written checkpoint: %s", strerror(-rc));
    dlr_aside_free(d->aside);
    return rc;
}

static void say_where(const struct dlr_sup_disk *d, char *buf, size_t size)
{
    if (d->other[0])
        snprintf(buf, size, "'%s' or '%s'", d->own, d->other);
    else
        snprintf(buf, size, "'%s'", d->own);
}

int dlr_sup_disk_load(struct dlr_sup *s, int64_t limit_ms, struct dlr_err *err)
{
    struct pollfd done = {.events = POLLIN};
    char where[2 * DLR_PLAN_WHERE + 16];
    int rc = start(s, err);

    if (rc < 0)
        return rc;
    done.fd = dlr_aside_fd(s->disk->aside);
    poll(&done, 1, (int)limit_ms);
    rc = end(s, err);
    if (rc != -EAGAIN)
        return rc;
    say_where(s->disk, where, sizeof(where));
    if (!s->took_over)
        return dlr_fail(err, -ETIMEDOUT,
                        "a file system hangs: no answer within %lld s whether %s has a "
                        "checkpoint",
                        (long long)limit_ms / 1000, where);
    dlr_sup_say(
        s->io, "%s does not answer: going on, and looking for checkpoints when it does",
        where);
    return 0;
}

void dlr_sup_disk_files(struct dlr_sup *s, struct dlr_plan_want *want)
{
    s->blind = s->disk != NULL;
    s->awaits_disk = false;
    want->files = s->files;
    want->nfiles = s->nfiles;
}

bool dlr_sup_disk_wants(struct dlr_sup *s, const struct dlr_plan *plan)
{
    if (!s->blind || plan->restore || (!s->disk && !s->nfiles))
        return false;
    s->awaits_disk = s->disk != NULL;
    if (!s->awaits_disk) {
        dlr_policy_replan(s->policy, dlr_sup_now());
        return true;
    }
    dlr_sup_say(
        s->io,
        "memory has no whole version: waiting for the directory of written ones");
    dlr_policy_hold(s->policy, dlr_sup_now(), HOLD_MS);
    return true;
}

void dlr_sup_disk_tick(struct dlr_sup *s)
{
    struct dlr_err err;

    if (!s->disk || end(s, &err) == -EAGAIN || !s->awaits_disk)
        return;
    s->awaits_disk = false;
    dlr_policy_replan(s->policy, dlr_sup_now());
}
