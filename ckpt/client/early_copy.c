/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/client/early_copy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of host memory, BLOBs aside, that are copied in begin: all of it or none.
 * Beside a device the fence would wait for everything on the stream and for the
 * device's copies; without one for a thread to wake up and copy as much.
 */
#define BESIDE_DEVICE (16u << 20)
#define HOST_ONLY (64u << 10)

static bool is_host(const struct dlr_ckpt *ck, unsigned i)
{
    const struct dlr_regions *rs = &ck->regions;

    return rs->list[i].kind != DLR_CKPT_BLOB && rs->bytes[i] > 0 && !ck->on_device[i];
}

/* Whether host regions are copied in begin; *ret_bytes of them. Not those that work on
 * a stream may write: they are only what they should be when the stream has come to
 * begin.
 */
static bool is_small(const struct dlr_ckpt *ck, uint64_t *ret_bytes)
{
    const struct dlr_regions *rs = &ck->regions;
    bool device = false, written = false;

    *ret_bytes = 0;
    for (unsigned i = 0; i < rs->n; i++) {
        device = device || ck->on_device[i];
        if (!is_host(ck, i))
            continue;
        *ret_bytes += rs->bytes[i];
        written = written || dlr_device_writes(rs->list[i].addr);
    }
    return !written && *ret_bytes <= (device ? BESIDE_DEVICE : HOST_ONLY);
}

int dlr_early_copy_make(struct dlr_ckpt *ck)
{
    const struct dlr_regions *rs = &ck->regions;
    uint64_t room = 0, host = 0, at = 0;
    bool small = is_small(ck, &host);

    for (unsigned i = 0; i < rs->n; i++)
        room += rs->list[i].kind == DLR_CKPT_BLOB ? rs->bytes[i] : 0;
    if (small)
        room += host;
    ck->host_waits = host > 0 && !small;
    ck->early_copy = calloc(1, room + 1);
    ck->src = calloc(rs->n + 1u, sizeof(*ck->src));
    ck->views = calloc(rs->n + 1u, sizeof(*ck->views));
    if (!ck->early_copy || !ck->src || !ck->views)
        return -ENOMEM;
    for (unsigned i = 0; i < rs->n; i++) {
        ck->src[i] = rs->list[i].addr;
        ck->views[i] = rs->views[i];
        if (rs->list[i].kind != DLR_CKPT_BLOB && !(small && is_host(ck, i)))
            continue;
        ck->src[i] = ck->early_copy + at;
        ck->views[i] = NULL; /* the copy is packed */
        at += rs->bytes[i];
    }
    return 0;
}

void dlr_early_copy_take(struct dlr_ckpt *ck)
{
    const struct dlr_regions *rs = &ck->regions;

    for (unsigned i = 0; i < rs->n; i++) {
        unsigned char *to = (unsigned char *)ck->src[i];

        if (to == rs->list[i].addr)
            continue;
        if (rs->views[i])
            dlr_strides_gather(rs->views[i], rs->list[i].addr, 0, to, rs->bytes[i]);
        else if (rs->used[i] > 0)
            memcpy(to, rs->list[i].addr, rs->used[i]);
        memset(to + rs->used[i], 0, rs->bytes[i] - rs->used[i]);
    }
}

void dlr_early_copy_done(struct dlr_ckpt *ck)
{
    free(ck->src);
    free(ck->views);
    free(ck->early_copy);
    ck->src = NULL;
    ck->views = NULL;
    ck->early_copy = NULL;
    ck->host_waits = false;
}
