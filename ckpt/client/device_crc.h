/* SPDX-License-Identifier: Apache-2.0 */
/* CRC32C as a device takes it. */
#ifndef DLR_CKPT_CLIENT_DEVICE_CRC_H
#define DLR_CKPT_CLIENT_DEVICE_CRC_H

#include "device/device.h"

extern const struct dlr_device_crc dlr_device_crc32c;

#endif
