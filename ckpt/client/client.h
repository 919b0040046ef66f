/* SPDX-License-Identifier: Apache-2.0 */
/* What is behind struct dlr_ckpt, and what the two ways of keeping snapshots (under a
 * job, alone) do differently.
 */
#ifndef DLR_CKPT_CLIENT_CLIENT_H
#define DLR_CKPT_CLIENT_CLIENT_H

#include <stdbool.h>

#include "ckpt/base/page.h"
#include "ckpt/client/audit.h"
#include "ckpt/client/conf.h"
#include "ckpt/client/save_cost.h"
#include "ckpt/client/snapshot_thread.h"
#include "ckpt/layout/regions.h"
#include "ckpt/layout/unmatched.h"
#include "ckpt/slot/write.h"
#include "common/base/err.h"
#include "device/device.h"
#include "device/pin.h"

struct dlr_ckpt;

struct dlr_backend {
    /* On success ck->page and ck->key are set. */
    int (*open)(struct dlr_ckpt *ck);
    int (*list)(struct dlr_ckpt *ck, struct dlr_ckpt_version *ret, unsigned max);
    /* 1 with the number of ranks that made the version which restore takes, from now on
     * that one; 0 nothing there.
     */
    int (*offer)(struct dlr_ckpt *ck, uint32_t *ret_world);
    /* 1 with *ret_step, 0 nothing there. */
    int (*restore)(struct dlr_ckpt *ck, uint64_t *ret_step);
    /* What is saved goes on from the version of step, which the program has read. NULL:
     * all ranks restore.
     */
    int (*go_on)(struct dlr_ckpt *ck, uint64_t step);
    /* Maps the slot of a rank of the version that restore took, or of the one on offer,
     * its head checked; -ENOENT. The text is in ck->err.
     */
    int (*peek)(struct dlr_ckpt *ck, int rank, struct dlr_slot **ret_slot);
    /* No version of step or later, made up to now, is to be restored. */
    int (*mark_bad)(struct dlr_ckpt *ck, uint64_t step);
    /* The regions are final and ck->plan is made: prepares slots, starts ck->saver. */
    int (*start)(struct dlr_ckpt *ck);
    /* The regions have changed, and ck->plan with them; no snapshot is under way. What
     * is saved stays until a version of the new layout takes its place.
     */
    int (*resize)(struct dlr_ckpt *ck);
    /* The page orders step. 1: fill *ret_slot, OPEN already, with *ret_version; 0: not
     * due, or skipped since the last one is not over; -errno: due and impossible.
     */
    int (*due)(struct dlr_ckpt *ck, uint64_t step, struct dlr_slot **ret_slot,
               struct dlr_version *ret_version);
    /* A due step was not saved: whoever waits for it must know. */
    void (*missed)(struct dlr_ckpt *ck, uint64_t step, const char *why);
    /* An audit has found what was saved to be of two moments; it may be decided by now.
     */
    void (*torn)(struct dlr_ckpt *ck, uint64_t step, const char *why);
    void (*close)(struct dlr_ckpt *ck); /* the saver is gone already */
    /* Whether begin would save step; NULL: the page orders it. due() is asked in each
     * step then.
     */
    bool (*plans)(const struct dlr_ckpt *ck, uint64_t step);
    /* Takes a failure of a snapshot whose fence is over: its code with ck->err, 0:
     * none. NULL: never.
     */
    int (*late)(struct dlr_ckpt *ck);
    /* 1 while a version of step or a later one may become safe without another begin,
     * 0: none can; negative, with ck->err: none will any more.
     */
    int (*comes)(struct dlr_ckpt *ck, uint64_t step);
    /* Waits until what was copied is durable; as late(). NULL: nobody waits for that.
     */
    int (*flush)(struct dlr_ckpt *ck);
    /* Flush has waited long enough: the process does not wait again when it ends. Where
     * there is a flush.
     */
    void (*leave)(struct dlr_ckpt *ck);
};

/* What dlr_ckpt_open() does, with the back end that it has chosen. */
int dlr_client_open(const struct dlr_ckpt_conf *conf, const struct dlr_backend *backend,
                    struct dlr_ckpt **ret_ck);

struct dlr_ckpt {
    struct dlr_client_conf conf;
    const struct dlr_backend *backend;
    void *mode; /* the back end's own */
    struct dlr_page *page;
    struct dlr_regions regions;
    uint64_t key; /* of the slots */
    struct dlr_unmatched unmatched;
    uint32_t from_world; /* of the version that was restored; 0 none */
    uint64_t from_step;  /* with from_world */
    uint64_t load_ns;    /* of its load, without waiting for other ranks */
    char peeked[DLR_CKPT_NAME_MAX + DLR_CKPT_DTYPE_MAX + 2]; /* name and dtype */
    char *told; /* the texts that dlr_ckpt_regions() has handed out */

    /* made by dlr_layout_close() at the first restore or begin, and after each change
     */
    bool closed_list, started, off;
    char off_why[256]; /* for whoever orders a save */
    struct dlr_slot_plan *plan;
    const void **src; /* per region: the program's memory, or our copy in shadow */
    struct dlr_strides **views; /* per region: NULL where src is contiguous */
    bool *on_device;
    unsigned char *early_copy;
    unsigned spoilt; /* the region that -EBADMSG of a copy is about */
    bool host_waits; /* some host memory is read after begin */
    const struct dlr_device_ops *ops;
    struct dlr_device *dev;
    int ordinal; /* of the device that holds regions, the first of which is called so */
    char first_on_device[DLR_CKPT_NAME_MAX + 1];
    struct dlr_pin *pin; /* NULL: slots are not registered with the device */
    struct dlr_snapshot_thread *snapshot_thread;
    struct dlr_audit audit;

    uint64_t last_step;  /* DLR_PAGE_NEVER before the first */
    bool saving_step;    /* something is saved or copied in it */
    uint64_t saved_step; /* the newest that was saved; DLR_PAGE_NEVER: none */
    bool overlaps;       /* it was undecided when the step began */
    struct dlr_save_cost cost;
    uint64_t blocked_ns; /* of the page, when it began */
    unsigned forks;      /* fork.h */
    struct dlr_err err;
    struct dlr_ckpt *left; /* the one that was left behind before this */
};

#endif
