/* SPDX-License-Identifier: Apache-2.0 */
/* libzmq asks one place per process whether a CURVE client may connect (RFC 27, ZAP).
 * This one lets every key in and writes the key to the connection as its User-Id, so
 * that each message tells who sent it; who that is, credentials decide. (CZMQ's zauth
 * leaves the User-Id empty: seen with 4.2.1.)
 */
#ifndef DLR_MPI_LAUNCHER_WIRE_CURVE_AUTH_H
#define DLR_MPI_LAUNCHER_WIRE_CURVE_AUTH_H

#include "common/base/err.h"

/* Starts the answering thread; the first call does, and exit(3) ends it. It is never
 * started twice: libzmq frees the address behind the back of who closed it.
 */
int dlr_curve_auth_start(struct dlr_err *err);

#endif
