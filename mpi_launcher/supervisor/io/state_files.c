/* SPDX-License-Identifier: Apache-2.0 */
/* The state directory from inside the loop: its file server may be gone, and leases
 * must go on. Each of these waits a moment at most; while one hangs, the others fail at
 * once.
 */
#include "mpi_launcher/supervisor/io/state_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "mpi_launcher/process/process_id.h"
#include "mpi_launcher/supervisor/io/io_state.h"

#define FILE_MS 250 /* less than any node may be without a lease */

/* --- operations, in a process apart: they use nothing but their job --------------- */

int dlr_sup_file_open(void *arg, int *fd)
{
    struct dlr_sup_file *f = arg;

    *fd = open(f->path, f->flags | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (*fd < 0)
        return -errno;
    f->at = lseek(*fd, 0, SEEK_END);
    return 0;
}

int dlr_sup_file_record(void *arg, int *fd)
{
    struct dlr_sup_file *f = arg;

    *fd = open(f->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (*fd < 0 || flock(*fd, LOCK_EX | LOCK_NB) < 0)
        return -errno;
    return pread(*fd, f->text, DLR_PROCID_TEXT - 1, 0) < 0 ? -EIO : 0;
}

int dlr_sup_file_rewrite(void *arg, int *fd)
{
    struct dlr_sup_file *f = arg;
    size_t size = strlen(f->text);

    if (ftruncate(*fd, 0) < 0 || pwrite(*fd, f->text, size, 0) != (ssize_t)size)
        return -EIO;
    close(dlr_steal_fd(fd)); /* and the lock is free */
    return 0;
}

int dlr_sup_file_pipe(void *arg, int *fd)
{
    struct dlr_sup_file *f = arg;

    unlink(f->path);
    if (mkfifo(f->path, 0600) < 0)
        return -errno;
    *fd = open(f->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    return *fd < 0 ? -errno : 0;
}

int dlr_sup_file_order(void *arg, int *none)
{
    struct dlr_sup_file *f = arg;
    DLR_AUTO_CLOSE int fd = -1;
    size_t size = strlen(f->text);
    struct stat st;

    fd = open(f->path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISFIFO(st.st_mode))
        return -ENXIO; /* nobody reads it */
    return write(fd, f->text, size) == (ssize_t)size ? 0 : -EAGAIN;
}

int dlr_sup_file_load(void *arg, int *none)
{
    struct dlr_sup_file *f = arg;
    DLR_AUTO_CLOSE int fd = -1;
    off_t end;

    fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    end = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    if (end < 0 ||
        pread(fd, f->text, DLR_SUP_FILE_MAX,
              end - f->at > DLR_SUP_FILE_MAX ? end - DLR_SUP_FILE_MAX : f->at) < 0)
        return -errno;
    return 0;
}

/* Of several that give their file this name at once one gets it. */
int dlr_sup_file_claim(void *arg, int *none)
{
    struct dlr_sup_file *f = arg;
    DLR_AUTO_CLOSE int fd = -1;

    fd = open(f->other, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || dlr_write_all(fd, f->text, strlen(f->text)) < 0)
        return -EIO;
    return link(f->other, f->path) < 0 ? -errno : 0;
}

int dlr_sup_file_exists(void *arg, int *none)
{
    struct dlr_sup_file *f = arg;

    return access(f->path, F_OK) < 0 ? -errno : 0;
}

int dlr_sup_file_remove(void *arg, int *none)
{
    struct dlr_sup_file *f = arg;

    return unlink(f->path) < 0 ? -errno : 0;
}

int dlr_sup_file_mkdirs(void *arg, int *none)
{
    struct dlr_sup_file *f = arg;
    struct dlr_err err;

    return dlr_mkdirs(f->path, 0700, &err);
}

int dlr_sup_file_watch(void *arg, int *fd)
{
    struct dlr_sup_file *f = arg;

    return inotify_add_watch(*fd, f->path, IN_CREATE) < 0 ? -errno : 0;
}

/* --- waiting for them ------------------------------------------------------------- */

void dlr_sup_file_done(struct dlr_sup_file **f)
{
    if (!*f)
        return;
    if ((*f)->fd >= 0)
        close((*f)->fd);
    dlr_offload_free((*f)->offload); /* and *f, which is in it */
}

struct dlr_sup_file *dlr_sup_file_new(const char *path, const char *text)
{
    struct dlr_offload *offload = dlr_offload_new(sizeof(struct dlr_sup_file));
    struct dlr_sup_file *f = offload ? dlr_offload_arg(offload) : NULL;

    if (!f)
        return NULL;
    f->offload = offload;
    f->fd = -1;
    if (dlr_format(f->path, sizeof(f->path), "%s", path) == 0 &&
        dlr_format(f->text, sizeof(f->text), "%s", text ? text : "") == 0)
        return f;
    dlr_offload_free(offload);
    return NULL;
}

int dlr_sup_file_call(struct dlr_sup_io *io, dlr_offload_fn fn, struct dlr_sup_file **f)
{
    struct dlr_offload *offload = *f ? (*f)->offload : NULL;
    int rc, fd;

    if (!offload)
        return -ENOMEM;
    fd = dlr_steal_fd(&(*f)->fd);
    rc = dlr_work_queue_call(&io->files, &offload, fn, fd, FILE_MS, &fd);
    if (offload)
        (*f)->fd = fd;
    else
        *f = NULL; /* it went with it */
    if (rc == -ETIMEDOUT && !io->files_late_reported) {
        io->files_late_reported = true;
        if (io->ops->late)
            io->ops->late(io->arg);
    }
    return rc;
}

int dlr_sup_file_do(struct dlr_sup_io *io, dlr_offload_fn fn, const char *path,
                    const char *text)
{
    DLR_CLEANUP(dlr_sup_file_done)
    struct dlr_sup_file *f = dlr_sup_file_new(path, text);

    return dlr_sup_file_call(io, fn, &f);
}

char *dlr_sup_file_text(struct dlr_sup_io *io, const char *path, off_t from)
{
    DLR_CLEANUP(dlr_sup_file_done)
    struct dlr_sup_file *f = dlr_sup_file_new(path, NULL);

    if (f)
        f->at = from;
    return dlr_sup_file_call(io, dlr_sup_file_load, &f) < 0 ? NULL : strdup(f->text);
}

bool dlr_sup_file_hangs(const struct dlr_sup_io *io)
{
    return io->files.busy;
}

int dlr_sup_file_memory(const char *text)
{
    DLR_AUTO_CLOSE int fd = memfd_create("dlrover", MFD_CLOEXEC);

    if (fd < 0 || dlr_write_all(fd, text, strlen(text)) < 0 ||
        lseek(fd, 0, SEEK_SET) < 0)
        return -EIO;
    return dlr_steal_fd(&fd);
}
