/* SPDX-License-Identifier: Apache-2.0 */
/* Tells hosts that connect over TCP apart, so that one which floods a port loses its
 * own connections and nobody else's.
 */
#ifndef DLR_COMMON_BASE_CALLER_H
#define DLR_COMMON_BASE_CALLER_H

#define DLR_CALLERS 256

/* The group, below DLR_CALLERS, of the host that made this connection: always the same
 * for one address, and one for all of the loopback's. Hosts may share a group. 0 where
 * it cannot be told.
 */
unsigned dlr_caller_group(int fd);

#endif
