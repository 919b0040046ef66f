/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the host does not read directly: how a snapshot gets at it. One back end
 * per kind of device; host memory needs none.
 *
 * A snapshot is fetched in windows, which are numbered from 0. after(stream) in begin;
 * in the copy thread enter(), then clear(), fetch(), flush() of each window in turn,
 * asked(), and wait(), expect() of each; leave(). In fence, after asked():
 * hold(stream). A window comes to one half of a staging buffer, or to what pin() took.
 */
#ifndef DLR_DEVICE_DEVICE_H
#define DLR_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define DLR_DEVICE_CUT (64u << 10) /* what is summed does not cross a multiple of it */
/* of each half of the staging buffer; a window has no more */
#define DLR_DEVICE_HALF (8u << 20)

/* What a device is to do with kernels of ours. */
#define DLR_DEVICE_SUM 1u    /* sum what is fetched where it lies, for expect() */
#define DLR_DEVICE_GATHER 2u /* fetch small pieces together */

/* CRC32C, as who wants sums of a device has it: the table by which each byte is summed,
 * and the sum of A and B one after the other from that of each, op being op(bytes of
 * B).
 */
struct dlr_device_crc {
    void (*table)(uint32_t table[1024]);
    uint32_t (*op)(uint64_t bytes);
    uint32_t (*join)(uint32_t a, uint32_t b, uint32_t op);
};

struct dlr_device; /* one per handle; opaque */

struct dlr_device_ops {
    const char *name;
    bool (*owns)(const void *addr);
    /* Host memory that work on a stream may write: pinned, or registered. */
    bool (*writes)(const void *addr);
    /* Which device holds addr, counted from 0; negative: it cannot be told. */
    int (*ordinal)(const void *addr);
    /* For the device that holds addr; all regions of a handle must be on one. kernels:
     * a sum of the above; what cannot be had is done without. crc outlives the device;
     * NULL where kernels is 0.
     */
    int (*open)(const void *addr, unsigned kernels, const struct dlr_device_crc *crc,
                struct dlr_device **ret, struct dlr_err *err);
    void (*close)(struct dlr_device *dev);

    /* 0 when work can be put on stream; -EINPROGRESS: it is captured into a graph,
     * which would keep what it is given.
     */
    int (*usable)(struct dlr_device *dev, void *stream);
    /* The copies of the next snapshot wait for all that is on stream now. */
    int (*after)(struct dlr_device *dev, void *stream);
    /* Blocks until that is done. In the copy thread, after enter(). */
    int (*reach)(struct dlr_device *dev);
    /* All that the snapshot fetches was asked for. */
    int (*asked)(struct dlr_device *dev);
    /* After it: what is put on stream from now on waits until all of that has come, and
     * for nothing that the host is still to do. The host does not wait.
     */
    int (*hold)(struct dlr_device *dev, void *stream);
    /* Blocks until no stream is held any more, 10 s at most: false when one still is,
     * and then close() and unpin() might not return.
     */
    bool (*over)(struct dlr_device *dev);
    /* Nanoseconds for which streams were held, of those times that are over and were
     * not told yet. Does not block.
     */
    uint64_t (*held)(struct dlr_device *dev);

    int (*enter)(struct dlr_device *dev); /* for the calling thread; not nested */
    void (*leave)(struct dlr_device *dev);
    /* There may be so many windows; what was reserved before stays. */
    int (*reserve)(struct dlr_device *dev, unsigned windows);
    /* Whether a window that goes to this memory (NULL: the staging buffer) may be
     * filled while all others are in use. False: not before the last but one is done
     * with.
     */
    bool (*ahead)(struct dlr_device *dev, void *to);
    /* A window is to be filled; with to (NULL: none) memory there, which lies within
     * what one pin() took, if the device reaches it, else a half of the staging buffer.
     */
    void (*clear)(struct dlr_device *dev, unsigned window, void *to);
    /* Copies to byte 'at' of a window, ascending; starts with flush() at the latest. */
    int (*fetch)(struct dlr_device *dev, unsigned window, size_t at, const void *src,
                 size_t bytes);
    /* The same for rows of size bytes, pitch bytes apart, which follow each other
     * there.
     */
    int (*fetch_rows)(struct dlr_device *dev, unsigned window, size_t at,
                      const void *src, size_t size, size_t rows, ptrdiff_t pitch);
    /* As fetch(), for who wants no more than what expect() tells of it: nothing comes.
     * False: it is not summed there.
     */
    bool (*sum)(struct dlr_device *dev, unsigned window, size_t at, const void *src,
                size_t bytes);
    /* All that goes into the window was asked for, or one has failed. */
    int (*flush)(struct dlr_device *dev, unsigned window);
    /* Blocks until what was fetched into a window is there; *ret_host says where. */
    int (*wait)(struct dlr_device *dev, unsigned window, const void **ret_host);
    /* After it, from any thread, for what crosses no DLR_DEVICE_CUT: the CRC32C that
     * these bytes had on the device. False: it was not made.
     */
    bool (*expect)(struct dlr_device *dev, unsigned window, size_t at, size_t bytes,
                   uint32_t *ret_crc);

    /* Host memory is made known to the device, so that copies go straight into it;
     * taken back as it was given. Blocking, from any thread.
     */
    int (*pin)(struct dlr_device *dev, void *host, size_t bytes);
    void (*unpin)(struct dlr_device *dev, void *host);

    /* Blocking, from host memory: contiguous; rows that lie pitch bytes apart there. */
    int (*store)(struct dlr_device *dev, void *dst, const void *src, size_t bytes);
    int (*store_rows)(struct dlr_device *dev, void *dst, const void *src, size_t size,
                      size_t rows, ptrdiff_t pitch);
};

/* The back end that owns addr, NULL for host memory. */
const struct dlr_device_ops *dlr_device_of(const void *addr);

/* Whether some back end's streams may write this host memory. */
bool dlr_device_writes(const void *addr);

/* CUDA by the driver's own interface; NULL when it was not built. */
const struct dlr_device_ops *dlr_device_cuda(void);

#endif
