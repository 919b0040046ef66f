/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/client/audit_device.h"

#include <errno.h>
#include <xxhash.h>

#define WINDOW 0 /* one is enough: nothing else is done meanwhile */

struct look {
    const struct dlr_device_ops *ops;
    struct dlr_device *dev;
    const char *addr;
    const struct dlr_strides *view;
    uint64_t sum;
};

static int fetch_rows(void *arg, const struct dlr_strides_rows *r)
{
    const struct look *l = arg;

    return l->ops->fetch_rows(l->dev, WINDOW, r->packed, l->addr + r->from, r->size,
                              r->rows, r->pitch);
}

/* Bytes [at, at + bytes) are fetched to the host, or summed on the device: *ret_there.
 */
static int start(struct look *l, uint64_t at, size_t bytes, bool *ret_there)
{
    *ret_there = !l->view && l->ops->sum(l->dev, WINDOW, 0, l->addr + at, bytes);
    if (*ret_there)
        return 0;
    if (l->view)
        return dlr_strides_walk(l->view, at, bytes, fetch_rows, l);
    return l->ops->fetch(l->dev, WINDOW, 0, l->addr + at, bytes);
}

static int add_sums(struct look *l, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += DLR_DEVICE_CUT) {
        size_t n = bytes - at < DLR_DEVICE_CUT ? bytes - at : DLR_DEVICE_CUT;
        uint32_t crc;

        if (!l->ops->expect(l->dev, WINDOW, at, n, &crc))
            return -EIO;
        l->sum = XXH64(&crc, sizeof(crc), l->sum);
    }
    return 0;
}

static int add(struct look *l, uint64_t at, size_t bytes)
{
    const void *host = NULL;
    bool there = false;
    int rc, flushed, waited;

    l->ops->clear(l->dev, WINDOW, NULL);
    rc = start(l, at, bytes, &there);
    flushed = l->ops->flush(l->dev, WINDOW);
    waited = l->ops->wait(l->dev, WINDOW, &host); /* for what has failed, too */
    rc = rc < 0 ? rc : flushed < 0 ? flushed : waited;
    if (rc == 0 && there)
        rc = add_sums(l, bytes);
    else if (rc == 0)
        l->sum = XXH64(host, bytes, l->sum);
    return rc;
}

int dlr_audit_device_crc(const struct dlr_device_ops *ops, struct dlr_device *dev,
                         const void *addr, const struct dlr_strides *view,
                         uint64_t bytes, uint64_t *ret_sum)
{
    struct look look = {ops, dev, addr, view, 0};
    int rc = ops->enter(dev);

    if (rc < 0)
        return rc;
    for (uint64_t at = 0; rc == 0 && at < bytes; at += DLR_DEVICE_HALF)
        rc =
            add(&look, at, bytes - at < DLR_DEVICE_HALF ? bytes - at : DLR_DEVICE_HALF);
    ops->leave(dev);
    *ret_sum = look.sum;
    return rc;
}
