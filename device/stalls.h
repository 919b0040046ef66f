/* SPDX-License-Identifier: Apache-2.0 */
/* Times for which snapshots held a program's CUDA streams: an event on each side of the
 * wait for their copies. Calls are made in the device's context; a snapshot has a turn,
 * and two may be open.
 */
#ifndef DLR_DEVICE_STALLS_H
#define DLR_DEVICE_STALLS_H

#ifdef DLR_HAVE_CUDA

#include <stdbool.h>
#include <stdint.h>

#include "device/cuda_driver.h"

struct dlr_stalls {
    struct dlr_stall {
        CUevent from, to;
        bool open; /* not told yet */
    } of[2];       /* a third snapshot begins when the first has passed */
};

/* What was made before a failure is for dlr_stalls_done(), too. */
CUresult dlr_stalls_init(struct dlr_stalls *s);
void dlr_stalls_done(struct dlr_stalls *s);

/* Before the wait is put on stream: true when a time can be taken; then the other one
 * behind it.
 */
bool dlr_stalls_from(struct dlr_stalls *s, uint32_t turn, CUstream stream);
void dlr_stalls_to(struct dlr_stalls *s, uint32_t turn, CUstream stream);

bool dlr_stalls_open(const struct dlr_stalls *s); /* needs no context */
/* Nanoseconds of those that are over and were not told yet. */
uint64_t dlr_stalls_tell(struct dlr_stalls *s);
/* Blocks until none is open, 10 s at most: false when one still is. */
bool dlr_stalls_await(struct dlr_stalls *s);

#endif
#endif
