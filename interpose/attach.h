/* SPDX-License-Identifier: Apache-2.0 */
/* Where this process has its rank's watch page from. */
#ifndef DLR_INTERPOSE_ATTACH_H
#define DLR_INTERPOSE_ATTACH_H

#include "watch/map.h"

/* Maps the page and the ring of the rank that this process is, which it asks its node's
 * agent for; or those behind the descriptors that DLROVER_WATCH_FDS names ("7 8", "7"
 * without a ring), as tests have them. -ENOENT: nobody watches it. Blocks for at most
 * five seconds, when the agent does not answer.
 */
int dlr_mpi_attach(struct dlr_watch_map *map);

#endif
