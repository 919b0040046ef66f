/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/client/region_layout.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/client/device_crc.h"
#include "ckpt/client/early_copy.h"
#include "ckpt/client/fork.h"
#include "ckpt/slot/meta.h"
#include "common/base/log.h"
#include "common/base/str.h"

/* one sums 12 to 20 GB/s, a link of 16 lanes of PCIe 5 brings 63 */
#define DEVICE_THREADS 4

/* Saving goes on without it. */
static void prepare_pins(struct dlr_ckpt *ck)
{
    struct dlr_err err;

    if (ck->conf.device_pin && dlr_pin_new(ck->ops, ck->dev, &ck->pin, &err) < 0)
        dlr_warn("copies from the device take a staging buffer: %s", err.text);
}

/* Region i is on the device of the handle, which is that of its first region there:
 * copies from another one would neither wait for its streams nor hold them.
 */
static int find_device(struct dlr_ckpt *ck, unsigned i,
                       const struct dlr_device_ops *ops)
{
    unsigned kernels = (ck->conf.device_sum ? DLR_DEVICE_SUM : 0) |
                       (ck->conf.device_gather ? DLR_DEVICE_GATHER : 0);
    const struct dlr_ckpt_region *r = &ck->regions.list[i];
    int ordinal = ops->ordinal(r->addr), rc;

    if (ck->dev && ordinal == ck->ordinal)
        return 0;
    if (ck->dev)
        return dlr_fail(&ck->err, -ENOTSUP,
                        "region '%s' is on %s device %d and region '%s' on %d: one "
                        "process saves the memory of one device",
                        r->name, ops->name, ordinal, ck->first_on_device, ck->ordinal);
    rc = ops->open(r->addr, kernels, &dlr_device_crc32c, &ck->dev, &ck->err);
    if (rc < 0)
        return rc;
    ck->ops = ops;
    ck->ordinal = ordinal;
    dlr_format(ck->first_on_device, sizeof(ck->first_on_device), "%s", r->name);
    prepare_pins(ck);
    return 0;
}

/* Finds the regions, if any, that are on a device. */
static int find_devices(struct dlr_ckpt *ck)
{
    const struct dlr_regions *rs = &ck->regions;

    for (unsigned i = 0; i < rs->n; i++) {
        const struct dlr_device_ops *ops =
            rs->bytes[i] > 0 ? dlr_device_of(rs->list[i].addr) : NULL;
        int rc;

        if (!ops)
            continue;
        if (rs->list[i].kind == DLR_CKPT_BLOB)
            return dlr_fail(&ck->err, -ENOTSUP, "blob '%s' must be in host memory",
                            rs->list[i].name);
        ck->on_device[i] = true;
        rc = find_device(ck, i, ops);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int find_sources(struct dlr_ckpt *ck)
{
    int rc;

    ck->on_device = calloc(ck->regions.n + 1u, sizeof(*ck->on_device));
    if (!ck->on_device)
        return dlr_fail(&ck->err, -ENOMEM, "no memory for %u regions", ck->regions.n);
    rc = find_devices(ck);
    if (rc < 0)
        return rc;
    rc = dlr_early_copy_make(ck);
    return rc < 0 ? dlr_fail(&ck->err, rc, "no memory for %u regions", ck->regions.n)
                  : 0;
}

/* Without a job there is no node to share with: each file is whole by itself. */
static struct dlr_share share_of(const struct dlr_ckpt *ck)
{
    const struct dlr_page *page = ck->page;

    for (uint32_t i = 0; i < page->nmates && page->nmates <= DLR_PAGE_MATES; i++)
        if (page->mates[i] == ck->conf.rank)
            return (struct dlr_share){i, page->nmates};
    return (struct dlr_share){0};
}

int dlr_layout_close(struct dlr_ckpt *ck)
{
    const struct dlr_slot_owner owner = {ck->key, ck->conf.rank,
                                         (uint32_t)ck->conf.world, share_of(ck)};
    int rc;

    if (ck->closed_list)
        return ck->plan ? 0 : -EINVAL;
    ck->closed_list = true;
    rc = find_sources(ck);
    return rc < 0 ? rc
                  : dlr_slot_plan_new(ck->regions.list, ck->regions.n, &owner,
                                      &ck->plan, &ck->err);
}

void dlr_layout_done(struct dlr_ckpt *ck)
{
    ck->plan = dlr_slot_plan_free(ck->plan);
    dlr_audit_done(&ck->audit);
    dlr_early_copy_done(ck);
    free(ck->on_device);
    ck->on_device = NULL;
}

int dlr_layout_open(struct dlr_ckpt *ck)
{
    int rc = dlr_fork_check(ck);

    if (rc < 0 || !ck->closed_list)
        return rc;
    if (ck->snapshot_thread && dlr_snapshot_thread_busy(ck->snapshot_thread) &&
        dlr_snapshot_thread_wait(ck->snapshot_thread, ck->conf.fence_ms,
                                 DLR_SNAPSHOT_WHOLE) < 0)
        return dlr_fail(&ck->err, -EBUSY,
                        "the last snapshot was not finished within %u ms",
                        ck->conf.fence_ms);
    dlr_layout_done(ck);
    ck->closed_list = false;
    return 0;
}

void dlr_layout_pin(struct dlr_ckpt *ck, struct dlr_slot *slot)
{
    uint64_t bytes = dlr_align_up(dlr_slot_plan_data(ck->plan), DLR_SLOT_PAGE);

    if (ck->pin)
        dlr_pin_want(ck->pin, dlr_slot_data(slot, ck->plan, 0), bytes);
}

struct dlr_slot *dlr_layout_unmap(struct dlr_ckpt *ck, struct dlr_slot *slot)
{
    if (slot && ck->pin)
        dlr_pin_drop(ck->pin, dlr_slot_base(slot), dlr_slot_bytes(slot));
    return dlr_slot_unmap(slot);
}

unsigned dlr_layout_threads(const struct dlr_ckpt *ck)
{
    cpu_set_t cpus;
    int n;

    if (ck->conf.threads > 0 || !ck->dev)
        return ck->conf.threads > 0 ? ck->conf.threads : 1;
    n = sched_getaffinity(0, sizeof(cpus), &cpus) < 0 ? 1 : CPU_COUNT(&cpus);
    return n < DEVICE_THREADS ? (unsigned)n : DEVICE_THREADS;
}

int dlr_layout_given_up(const struct dlr_ckpt *ck, uint64_t step, int rc,
                        struct dlr_err *err)
{
    if (rc == -EBADMSG)
        return dlr_fail(err, rc,
                        "the snapshot of step %" PRIu64 " was given up: region '%s' "
                        "changed on its way from the device",
                        step, ck->regions.list[ck->spoilt].name);
    return dlr_fail(err, rc, "the snapshot of step %" PRIu64 " was given up: %s", step,
                    rc == -ECANCELED || rc == -ETIMEDOUT
                        ? "the fence could not wait longer"
                        : strerror(-rc));
}
