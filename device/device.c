/* SPDX-License-Identifier: Apache-2.0 */
#include "device/device.h"

const struct dlr_device_ops *dlr_device_of(const void *addr)
{
    const struct dlr_device_ops *cuda = dlr_device_cuda();

    return cuda && cuda->owns(addr) ? cuda : NULL;
}

bool dlr_device_writes(const void *addr)
{
    const struct dlr_device_ops *cuda = dlr_device_cuda();

    return cuda && cuda->writes(addr);
}
