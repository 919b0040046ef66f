/* SPDX-License-Identifier: Apache-2.0 */
/* Where this process has its rank's watch page from. */
#ifndef DLR_INTERPOSE_ATTACH_H
#define DLR_INTERPOSE_ATTACH_H

#include "watch/map.h"

/* Maps the page and the ring of a rank that is watched: of the descriptors that
 * DLROVER_WATCH_FDS names ("7 8", "7" without a ring). -ENOENT: nobody watches it.
 */
int dlr_mpi_attach(struct dlr_watch_map *map);

#endif
