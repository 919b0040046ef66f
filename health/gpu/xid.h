/* SPDX-License-Identifier: Apache-2.0 */
/* Errors that NVIDIA's driver writes to the kernel's log: "NVRM: Xid (PCI:0000:1b:00):
 * 79, pid=1234, GPU has fallen off the bus." Pure. Private to health/.
 */
#ifndef DLR_HEALTH_GPU_XID_H
#define DLR_HEALTH_GPU_XID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "health/health.h"

#define DLR_XID_GPUS 64 /* GPUs of one log; more are not told apart */
/* An error counts so long; then its GPU has been reset, or has gone on without. */
#define DLR_XID_WINDOW_S (60 * 60)

/* What an Xid means, by the resolution bucket ("immediate action") of NVIDIA's Xid
 * catalog, https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html:
 * RESTART_BM and RESET_GPU are a drain, since both want an empty node; IGNORE with a
 * report to the vendor is a warning. RESTART_APP (13, 31, 45 ...) is the program's own,
 * and so is every Xid that is not listed.
 */
struct dlr_xid {
    unsigned number;
    enum dlr_health_verdict verdict;
    const char *what;
    const char *advice; /* what an administrator does */
};

extern const struct dlr_xid dlr_xids[]; /* ascending; ends with number 0 */

/* What a log says: the worst of each GPU. */
struct dlr_xid_log {
    struct dlr_xid_of {
        char bus[16]; /* "0000:1b:00" */
        enum dlr_health_verdict verdict;
        unsigned number; /* of the worst */
        unsigned n;      /* errors that count */
        const char *what;
    } of[DLR_XID_GPUS];
    unsigned n;
};

/* Takes one record of /dev/kmsg, "6,339,5140900,-;TEXT" (Documentation/ABI/testing/
 * dev-kmsg of the kernel), if it is an Xid no older than DLR_XID_WINDOW_S at now_us (of
 * the log's own clock). Xid 154 tells what the driver itself wants done about the GPU,
 * and that nothing is any more. Foreign bytes: fuzz target gpu.
 */
void dlr_xid_record(struct dlr_xid_log *log, const char *record, int64_t now_us);

/* The time of a record, negative when it has none (a line that goes on). */
int64_t dlr_xid_time_us(const char *record);

/* Whether the PCI address of a log ("0000:1b:00", "PCI:0:1b:00") and one of NVML
 * ("00000000:1B:00.0") are the same device's.
 */
bool dlr_xid_is_bus(const char *logged, const char *nvml);

#endif
