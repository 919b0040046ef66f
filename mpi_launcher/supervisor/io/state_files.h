/* SPDX-License-Identifier: Apache-2.0 */
/* The state directory from inside the loop: its file server may be gone, and leases
 * must go on.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_IO_STATE_FILES_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_IO_STATE_FILES_H

#include <sys/types.h>

#include "mpi_launcher/process/work_queue.h"
#include "mpi_launcher/run/run_info.h"
#include "mpi_launcher/supervisor/io/io.h"

#define DLR_SUP_FILE_MAX 65536 /* of a file that is read: its end */

struct dlr_sup_file {
    struct dlr_offload *offload; /* what does the operations; this is in its memory */
    char path[DLR_RUN_PATH + 64], other[DLR_RUN_PATH + 64];
    char text[DLR_SUP_FILE_MAX + 1]; /* what is to be written, or was read */
    int flags;                       /* of open(2) */
    off_t at; /* read from here; of a file that was opened its end */
    int fd;   /* -1 none; a work's to use or to give */
};

/* text: to be written, copied, or NULL. NULL when out of memory. */
struct dlr_sup_file *dlr_sup_file_new(const char *path, const char *text);
void dlr_sup_file_done(struct dlr_sup_file **f);
/* Has a work done by a process apart and waits a moment for it: what it returns, or
 * -ETIMEDOUT or -EBUSY when the file system hangs; *f may be NULL then, or before:
 * -ENOMEM.
 */
int dlr_sup_file_call(struct dlr_sup_io *io, dlr_offload_fn fn,
                      struct dlr_sup_file **f);
int dlr_sup_file_do(struct dlr_sup_io *io, dlr_offload_fn fn, const char *path,
                    const char *text);
/* The works. All but the last return 0 or -errno. */
int dlr_sup_file_open(void *arg, int *fd);    /* by flags: fd, at */
int dlr_sup_file_record(void *arg, int *fd);  /* made if need be, locked: fd, text */
int dlr_sup_file_rewrite(void *arg, int *fd); /* text is all that fd holds; closes it */
int dlr_sup_file_pipe(void *arg, int *fd);    /* a new one for fd */
int dlr_sup_file_order(void *arg, int *fd);   /* text into a pipe that is read from */
int dlr_sup_file_load(void *arg, int *fd);    /* text */
int dlr_sup_file_claim(void *arg, int *fd); /* text to other, which is linked to path */
int dlr_sup_file_exists(void *arg, int *fd);
int dlr_sup_file_remove(void *arg, int *fd);
int dlr_sup_file_mkdirs(void *arg, int *fd);
int dlr_sup_file_watch(void *arg, int *fd); /* path by the inotify descriptor fd */
bool dlr_sup_file_hangs(const struct dlr_sup_io *io); /* one of these goes on */
/* The end of a file, from there on; NULL when it cannot be read. free(). */
char *dlr_sup_file_text(struct dlr_sup_io *io, const char *path, off_t from);
/* A descriptor to read text from that asks no file system; the caller's. */
int dlr_sup_file_memory(const char *text);

#endif
