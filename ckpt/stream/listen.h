/* SPDX-License-Identifier: Apache-2.0 */
/* Whose connections the libraries of this process get to see: accept(2) is this
 * module's here, and keeps those of others to itself, before a byte of them is read;
 * and connect(2), to know this process's own. No socket filter, which not every kernel
 * lets a user attach.
 */
#ifndef DLR_CKPT_STREAM_LISTEN_H
#define DLR_CKPT_STREAM_LISTEN_H

#include <netinet/in.h>
#include <stdbool.h>

/* connections that nobody sees yet; then the oldest is closed */
#define DLR_LISTEN_PARKED 64

/* An address as text, of IPv4 as IPv6 has it; false: it is none. */
bool dlr_listen_number(const char *text, struct in6_addr *ret);

/* Who may connect from now on, nobody before: this process itself; with local all
 * processes of this host, which are another user's as a rule; and the hosts whose
 * addresses these are (n of them, taken over), NULL: every other one. Who has tried
 * before is let in now. By the thread that calls back end and library.
 */
void dlr_listen_admit(bool local, struct in6_addr *hosts, unsigned n);

#endif
