/* SPDX-License-Identifier: Apache-2.0 */
/* Finds memory that a program changes between begin and fence: each region is summed in both.
 * Reads the whole state twice in the program's own thread, that of a device too.
 */
#ifndef DLR_CKPT_AUDIT_H
#define DLR_CKPT_AUDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/device.h"
#include "ckpt/regions.h"

struct dlr_audit {
    uint64_t saves; /* snapshots so far */
    uint64_t step;  /* the one looked at, while open */
    bool open;
    uint64_t *sums; /* one per region */
};

/* What is looked at. Nothing else uses the device while it is. */
struct dlr_audit_of {
    const struct dlr_regions *regions;
    const struct dlr_device_ops *ops; /* NULL: all is host memory */
    struct dlr_device *dev;
    const bool *on_device; /* one per region */
};

/* Begin with zeros. A snapshot of step begins: sums the regions when it is an every-th one, the
 * first included (every 0: none). BLOBs are copied in begin and are left out. -ENOMEM, or the
 * device's failure.
 */
int dlr_audit_begin(struct dlr_audit *audit, unsigned every,
                    const struct dlr_audit_of *of, uint64_t step);

/* Number of regions that have changed since, *ret_first is the first of them; or the device's
 * failure. Ends the look.
 */
int dlr_audit_end(struct dlr_audit *audit, const struct dlr_audit_of *of,
                  unsigned *ret_first);

void dlr_audit_done(struct dlr_audit *audit);

#endif
