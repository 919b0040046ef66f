/* SPDX-License-Identifier: Apache-2.0 */
/* Finds memory that a program changes between begin and fence: each region is summed in
 * both, in the program's own thread. When asked for, the whole state, that of a device
 * too. By default the first two saves and each hundredth, at most 16 MiB of host
 * memory: a part of each region.
 */
#ifndef DLR_CKPT_CLIENT_AUDIT_H
#define DLR_CKPT_CLIENT_AUDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/layout/regions.h"
#include "device/device.h"

/* By default. A mistake in the order of calls is there from the first save on, or comes
 * with a phase of the program; it writes all of a region.
 */
#define DLR_AUDIT_FIRST 2u
#define DLR_AUDIT_EVERY 100u
#define DLR_AUDIT_BYTES (16u << 20)
#define DLR_AUDIT_LEAST 1024u /* of each region */

struct dlr_audit {
    uint64_t saves; /* snapshots so far */
    int64_t ns;     /* that looks took; the caller's to set back */
    uint64_t step;  /* the one looked at, while open */
    bool open;
    bool waits;     /* while open: device memory is looked at, too */
    bool own;       /* while open: by default, see dlr_audit_begin() */
    uint64_t *sums; /* one per region */
};

/* What is looked at. Nothing else uses the device while it is. */
struct dlr_audit_of {
    const struct dlr_regions *regions;
    const struct dlr_device_ops *ops; /* NULL: all is host memory */
    struct dlr_device *dev;
    const bool *on_device;  /* one per region */
    const void *const *src; /* one per region: what its copy reads */
};

/* Begin with zeros. A snapshot of step begins: sums the regions when it is an every-th
 * one, the first included (every 0: none). BLOBs are copied in begin and are left out.
 * With every DLR_COUNT_AUTO the default's saves are looked at, and nobody has to wait
 * for a device: its memory is left out, and so is what a device may write, and what
 * begin has copied, which may change. -ENOMEM, or the device's failure.
 */
int dlr_audit_begin(struct dlr_audit *audit, unsigned every,
                    const struct dlr_audit_of *of, uint64_t step);

/* Number of regions that have changed since, *ret_first is the first of them; or the
 * device's failure. Ends the look.
 */
int dlr_audit_end(struct dlr_audit *audit, const struct dlr_audit_of *of,
                  unsigned *ret_first);

/* The regions are others from now on; which save is the next to be looked at is not. */
void dlr_audit_done(struct dlr_audit *audit);

#endif
