/* SPDX-License-Identifier: Apache-2.0 */
/* Which network devices copies go over: what was asked for, and what they are. */
#ifndef DLR_CKPT_TRANSPORT_NIC_H
#define DLR_CKPT_TRANSPORT_NIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

/* Before UCX starts, through its environment. devices: "" leaves the choice to it;
 * class: 0 the network's default. -ENODEV names a device that is not here and those
 * that are.
 */
int dlr_nic_setup(const char *devices, unsigned class, struct dlr_err *err);

/* Devices that a peer can be reached over, as UCX names them: those of InfiniBand, and
 * those with an address that are up and not the loopback; "" when there is none, or no
 * room for all. root: of sysfs.
 */
void dlr_nic_outward(const char *root, char *ret, size_t size);

/* The devices in ucp_ep_print_info()'s text, each once: "eth0", "mlx5_0:1,mlx5_1:1". */
void dlr_nic_parse(const char *info, char *ret_devices, size_t size);

/* Whether the network device is one of a list, by its name or as that of an RDMA device
 * in it.
 */
bool dlr_nic_named(const char *list, const char *device);

/* Whether an RDMA device is here whose port is up, of those in the list; "" and "all":
 * of any.
 */
bool dlr_nic_rdma(const char *root, const char *list);

/* Megabits per second by sysfs, 0 unknown. root: "" or where a test keeps its sysfs. */
uint64_t dlr_nic_mbps(const char *root, const char *device);

/* {"uses": devices, "mbps": of the fastest of them, "faster": a device that is up, is
 * faster and is not used, or "", "numa": [NUMA nodes that the devices are on, where the
 * kernel says so]}, as text.
 */
void dlr_nic_report(const char *root, const char *devices, char *ret, size_t size);

#endif
