/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/client/device_crc.h"

#include "ckpt/base/crc32c.h"

const struct dlr_device_crc dlr_device_crc32c = {dlr_crc32c_table, dlr_crc32c_op,
                                                 dlr_crc32c_join};
