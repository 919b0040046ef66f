/* SPDX-License-Identifier: Apache-2.0 */
/* Work that a dead file server may hold up, for those who must not wait for it: a
 * process apart does it, one work after the other. Lines are put into its queue and
 * forgotten. Who needs a result calls and waits a moment, or is told later through a
 * descriptor.
 */
#ifndef DLR_MPI_LAUNCHER_PROCESS_WORK_QUEUE_H
#define DLR_MPI_LAUNCHER_PROCESS_WORK_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "mpi_launcher/process/fork_server.h"

struct dlr_offload;

/* The work: 0 or more, or -errno. arg: a struct dlr_work_line, or memory that both
 * processes see, so it holds no pointers. *fd is the descriptor that came with it or
 * -1; what it is in the end is given back, or is that of the next line.
 */
typedef int (*dlr_offload_fn)(void *arg, int *fd);

struct dlr_work_line {
    struct dlr_err err; /* for the work to say why it has failed */
    const char *path;
    const char *text; /* of size bytes, the last is a newline; a NUL follows */
    size_t size;
};

/* One process, which is started again when somebody kills it: what it had taken and not
 * done is lost then.
 */
struct dlr_work_queue {
    /* Its owner's, who fills them. */
    struct dlr_fork_server *fork_server; /* starts the process; lives as long */
    const char *name;                    /* of the process, 15 letters */
    bool outlives;       /* when we are gone it does what it had been given */
    unsigned room;       /* for lines that the process does not take yet */
    unsigned max_starts; /* 0: any number */
    /* The first line's work has ended, or a later one's has failed. May be NULL. */
    void (*told)(void *arg, bool first, const struct dlr_err *err);
    void (*lost)(void *arg); /* it does not start again. May be NULL */
    void *arg;
    int fd; /* -1, else to the process; readable when it tells something */

    /* The queue's, all zero at first. */
    bool busy; /* with a call, which may be late */
    bool begun;
    int first_fd;
    struct dlr_work_item *first, *head, *last;
    size_t sent; /* bytes of the head */
    unsigned waiting, starts;
    struct dlr_err answer; /* so many bytes of it have come */
    size_t heard;
};

/* Starts the process. Whenever it starts it does fn with path first (NULL: nothing) and
 * fd (still the caller's, for as long), which the lines' works have then. Waits
 * limit_ms at most: fn's result, or 0 when it is not known yet.
 */
int dlr_work_queue_open(struct dlr_work_queue *q, dlr_offload_fn fn, const char *path,
                        int fd, int64_t limit_ms);
/* text and a newline, for fn. Does not block: -ENOBUFS when there is no room. -EPIPE:
 * there is no process any more.
 */
int dlr_work_queue_put(struct dlr_work_queue *q, dlr_offload_fn fn, const char *path,
                       const char *text);
/* Gives what had no room, hears what the process tells. To be called now and then. */
void dlr_work_queue_tick(struct dlr_work_queue *q);
/* Waits at most timeout_ms for all lines to be done. */
void dlr_work_queue_close(struct dlr_work_queue *q, int64_t timeout_ms);

/* Does fn in a queue without lines and waits limit_ms at most: fn's result (-EIO: the
 * process died), and *ret_fd, -1 none, is the caller's. -ETIMEDOUT when it takes
 * longer: *a is gone, and NULL. -EBUSY at once while one of an earlier call goes on. fd
 * is taken over in any case.
 */
int dlr_work_queue_call(struct dlr_work_queue *q, struct dlr_offload **a,
                        dlr_offload_fn fn, int fd, int64_t limit_ms, int *ret_fd);

/* What a call needs and gives: an arg of size zeros. NULL when out of memory. */
struct dlr_offload *dlr_offload_new(size_t size);
void *dlr_offload_arg(struct dlr_offload *a); /* lives as long as a */
/* One that goes on is left alone. Accepts NULL, returns NULL. */
struct dlr_offload *dlr_offload_free(struct dlr_offload *a);

/* Starts fn in a process of its own. fd is taken over in any case. 0 or -errno. */
int dlr_offload_start(struct dlr_offload *a, struct dlr_fork_server *fork_server,
                      dlr_offload_fn fn, int fd);
/* Readable when it is done; closed by dlr_offload_end(). */
int dlr_offload_fd(const struct dlr_offload *a);
/* 0 with fn's result and descriptor as above. a may start again. -EAGAIN: not yet. */
int dlr_offload_end(struct dlr_offload *a, int *ret_rc, int *ret_fd);

#endif
