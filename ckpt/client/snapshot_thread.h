/* SPDX-License-Identifier: Apache-2.0 */
/* The helper thread of a handle: copies snapshots beside the program and, under a job,
 * is the only one that uses the agent's socket from then on.
 */
#ifndef DLR_CKPT_CLIENT_SNAPSHOT_THREAD_H
#define DLR_CKPT_CLIENT_SNAPSHOT_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/client/copy.h"
#include "common/base/err.h"

struct dlr_snapshot_thread; /* opaque */

/* Called in the helper thread. */
struct dlr_snapshot_thread_ops {
    /* The copy ended with rc and no source is read any more. Seals or kills the slot;
     * returns rc or its own failure, with text.
     */
    int (*finish)(void *arg, int rc, struct dlr_err *err);
    /* The next snapshot may begin: tells who must know of the last one. */
    void (*finished)(void *arg);
    void (*posted)(void *arg); /* dlr_snapshot_thread_post() was called */
    int (*receive)(
        void *arg); /* the socket is readable; < 0: do not look at it again */
};

/* sock: -1 for none; it stays the caller's. */
int dlr_snapshot_thread_new(unsigned threads, const struct dlr_snapshot_thread_ops *ops,
                            void *arg, int sock, struct dlr_snapshot_thread **ret,
                            struct dlr_err *err);

/* Where its threads run: dlr_thread_affinity(). */
void dlr_snapshot_thread_affinity(struct dlr_snapshot_thread *snapshot_thread,
                                  const uint64_t *cpus);

/* Gives up what is being copied, waits for the thread, frees. Accepts NULL. */
struct dlr_snapshot_thread *
dlr_snapshot_thread_free(struct dlr_snapshot_thread *snapshot_thread);

/* Starts a snapshot; asked, begun, fetched, arg, stop and deadline_ns of job are the
 * saver's own. host_read: some source that is host memory is read until the end.
 * -EBUSY.
 */
int dlr_snapshot_thread_begin(struct dlr_snapshot_thread *snapshot_thread,
                              const struct dlr_copy_job *job, bool host_read);

/* Calls ops->posted() soon. Does not block. */
void dlr_snapshot_thread_post(struct dlr_snapshot_thread *snapshot_thread);

/* True while sources are read, while the last snapshot is unfinished, while a failure
 * was not taken: a load each.
 */
bool dlr_snapshot_thread_reading(const struct dlr_snapshot_thread *snapshot_thread);
bool dlr_snapshot_thread_busy(const struct dlr_snapshot_thread *snapshot_thread);
bool dlr_snapshot_thread_failed(const struct dlr_snapshot_thread *snapshot_thread);

enum dlr_snapshot_thread_until {
    DLR_SNAPSHOT_FREE,  /* sources are free */
    DLR_SNAPSHOT_WHOLE, /* the snapshot is finished */
    DLR_SNAPSHOT_ASKED, /* a device needs nothing more of the host to free them */
};

/* Waits for that, at most timeout_ms; then gives the snapshot up, makes sure that
 * sources are free, and returns -ETIMEDOUT.
 */
int dlr_snapshot_thread_wait(struct dlr_snapshot_thread *snapshot_thread,
                             int64_t timeout_ms, enum dlr_snapshot_thread_until until);

/* The snapshot under way is given up after this long, without anybody waiting: from
 * now, or from when the device has come to where it begins. Until then it is the
 * program's work that takes its time.
 */
void dlr_snapshot_thread_limit(struct dlr_snapshot_thread *snapshot_thread,
                               int64_t timeout_ms);

/* Takes the first failure since the last call: its code with text, 0 when there is
 * none.
 */
int dlr_snapshot_thread_result(struct dlr_snapshot_thread *snapshot_thread,
                               struct dlr_err *err);

#endif
