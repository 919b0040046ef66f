/* SPDX-License-Identifier: Apache-2.0 */
/* What was found at the ranks of a node (watch/look.h), as rows of a message. */
#ifndef DLR_MPI_LAUNCHER_WIRE_LOOKS_H
#define DLR_MPI_LAUNCHER_WIRE_LOOKS_H

#include <jansson.h>

#include "watch/look.h"

#define DLR_LOOKS_ROWS 512 /* of a node; the agent has no more pages */

/* Ranks one after the other that differ in nothing but their number share a row; those
 * that find no row are left out. The caller's; NULL: out of memory.
 */
json_t *dlr_looks_pack(const struct dlr_look *looks, unsigned n);

/* Calls fn for each rank of the rows, all of which are below world and of that round.
 * -EBADMSG, and then fn was called for none.
 * Foreign bytes: fuzz target msg_supervisor.
 */
int dlr_looks_unpack(const json_t *rows, uint32_t round, unsigned world,
                     void (*fn)(void *arg, const struct dlr_look *look), void *arg);

#endif
