/* SPDX-License-Identifier: Apache-2.0 */
/* Fills a slot from a program's regions: copy and CRC32C in one pass, in small blocks
 * so that the source can be let go at once.
 */
#ifndef DLR_CKPT_CLIENT_COPY_H
#define DLR_CKPT_CLIENT_COPY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ckpt/layout/strides.h"
#include "ckpt/slot/write.h"
#include "device/device.h"
#include "device/pin.h"

#define DLR_COPY_THREADS_MAX 64

struct dlr_copy; /* opaque: the threads */

struct dlr_copy_job {
    struct dlr_slot *slot; /* begun with plan */
    const struct dlr_slot_plan *plan;
    const void *const *src;           /* one per region */
    struct dlr_strides *const *views; /* one per region that is not contiguous, else
                                         NULL; NULL: all are */
    const struct dlr_device_ops *ops; /* NULL: all of src is host memory */
    struct dlr_device *dev;
    const bool *on_device; /* one per region, when ops is set */
    struct dlr_pin *pin;   /* NULL: the slot is not registered with it */
    unsigned *ret_spoilt;  /* set with -EBADMSG; may be NULL */
    /* For regions on a device, each may be NULL: all copies were given to it, which
     * comes to them by itself; it has come to what precedes them; they are there, and
     * no source on it is read any more. asked() and then fetched() come after a
     * failure, too.
     */
    void (*asked)(void *arg);
    void (*begun)(void *arg);
    void (*fetched)(void *arg);
    void *arg;
    const atomic_bool *stop;            /* give up: looked at before each block */
    const _Atomic int64_t *deadline_ns; /* give up after this (dlr_now_ns()); 0: none */
};

/* threads >= 1 counts the one that calls dlr_copy_run(). */
int dlr_copy_new(unsigned threads, struct dlr_copy **ret, struct dlr_err *err);
/* Where the helpers run: dlr_thread_affinity(). */
void dlr_copy_affinity(struct dlr_copy *copy, const uint64_t *cpus);
struct dlr_copy *dlr_copy_free(struct dlr_copy *copy); /* accepts NULL */

/* Blocking; all threads take part. 0 when every block is in place with its CRC;
 * -ECANCELED when stopped, -ETIMEDOUT, -EBADMSG when bytes of a region changed on their
 * way from the device, or the device's failure. No source is read after it returned.
 */
int dlr_copy_run(struct dlr_copy *copy, const struct dlr_copy_job *job);

#endif
