/* SPDX-License-Identifier: Apache-2.0 */
/* The helper thread of a handle: copies snapshots beside the program and, under a job, is the
 * only one that uses the agent's socket from then on.
 */
#ifndef DLR_CKPT_CLIENT_SNAPSHOT_THREAD_H
#define DLR_CKPT_CLIENT_SNAPSHOT_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/client/copy.h"
#include "common/base/err.h"

struct dlr_saver; /* opaque */

/* Called in the helper thread. */
struct dlr_saver_ops {
    /* The copy ended with rc and no source is read any more. Seals or kills the slot; returns
     * rc or its own failure, with text.
     */
    int (*finish)(void *arg, int rc, struct dlr_err *err);
    /* The next snapshot may begin: tells who must know of the last one. */
    void (*finished)(void *arg);
    void (*posted)(void *arg); /* dlr_saver_post() was called */
    int (*receive)(
        void *arg); /* the socket is readable; < 0: do not look at it again */
};

/* sock: -1 for none; it stays the caller's. */
int dlr_saver_new(unsigned threads, const struct dlr_saver_ops *ops, void *arg,
                  int sock, struct dlr_saver **ret, struct dlr_err *err);

/* Where its threads run: dlr_place(). */
void dlr_saver_place(struct dlr_saver *saver, const uint64_t *cpus);

/* Gives up what is being copied, waits for the thread, frees. Accepts NULL. */
struct dlr_saver *dlr_saver_free(struct dlr_saver *saver);

/* Starts a snapshot; asked, begun, fetched, arg, stop and deadline_ns of job are the saver's own.
 * host_read: some source that is host memory is read until the end. -EBUSY.
 */
int dlr_saver_begin(struct dlr_saver *saver, const struct dlr_copy_job *job,
                    bool host_read);

/* Calls ops->posted() soon. Does not block. */
void dlr_saver_post(struct dlr_saver *saver);

/* True while sources are read, while the last snapshot is unfinished, while a failure was
 * not taken: a load each.
 */
bool dlr_saver_reading(const struct dlr_saver *saver);
bool dlr_saver_busy(const struct dlr_saver *saver);
bool dlr_saver_failed(const struct dlr_saver *saver);

enum dlr_saver_until {
    DLR_SAVER_FREE,  /* sources are free */
    DLR_SAVER_WHOLE, /* the snapshot is finished */
    DLR_SAVER_ASKED, /* a device needs nothing more of the host to free them */
};

/* Waits for that, at most timeout_ms; then gives the snapshot up, makes sure that sources are
 * free, and returns -ETIMEDOUT.
 */
int dlr_saver_wait(struct dlr_saver *saver, int64_t timeout_ms,
                   enum dlr_saver_until until);

/* The snapshot under way is given up after this long, without anybody waiting: from now, or from when
 * the device has come to where it begins. Until then it is the program's work that takes its time.
 */
void dlr_saver_limit(struct dlr_saver *saver, int64_t timeout_ms);

/* Takes the first failure since the last call: its code with text, 0 when there is none. */
int dlr_saver_result(struct dlr_saver *saver, struct dlr_err *err);

#endif
