/* SPDX-License-Identifier: Apache-2.0 */
/* The audit's look at memory of a device. */
#ifndef DLR_CKPT_CLIENT_AUDIT_DEVICE_H
#define DLR_CKPT_CLIENT_AUDIT_DEVICE_H

#include <stdint.h>

#include "ckpt/layout/strides.h"
#include "device/device.h"

/* A sum of bytes at addr, or of a view there (NULL: they follow each other), as they
 * are after what the last after() waits for. Made on the device where it sums what
 * leaves it, else of what comes through the staging buffer: each time the same way.
 * Blocking; the device's failure.
 */
int dlr_audit_device_crc(const struct dlr_device_ops *ops, struct dlr_device *dev,
                         const void *addr, const struct dlr_strides *view,
                         uint64_t bytes, uint64_t *ret_sum);

#endif
