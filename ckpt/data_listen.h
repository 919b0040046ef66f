/* SPDX-License-Identifier: Apache-2.0 */
/* Whose connections the libraries of this process get to see: accept(2) is this module's here, and closes those of
 * others before a byte of them is read. No socket filter, which not every kernel lets a user attach.
 */
#ifndef DLR_CKPT_DATA_LISTEN_H
#define DLR_CKPT_DATA_LISTEN_H

#include <stdbool.h>
#include <sys/socket.h>

/* Whether processes of this host may connect, which are another user's as a rule: not before this is said. Of connections
 * that are made from then on.
 */
void dlr_listen_local(bool admit);

/* Whether this address is one of this host: 127.0.0.0/8, ::1 or a device's. */
bool dlr_listen_is_local(const struct sockaddr *addr);

#endif
