/* SPDX-License-Identifier: Apache-2.0 */
#include "interpose/attach.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"

int dlr_mpi_attach(struct dlr_watch_map *map)
{
    const char *named = getenv("DLROVER_WATCH_FDS");
    DLR_AUTO_FREE char *words = named ? strdup(named) : NULL;
    char *ring = words ? strchr(words, ' ') : NULL;
    unsigned page_fd, ring_fd = 0;
    int rc;

    if (!words)
        return -ENOENT;
    if (ring)
        *ring++ = '\0';
    rc = dlr_parse_uint(words, INT_MAX, &page_fd);
    if (rc == 0 && ring)
        rc = dlr_parse_uint(ring, INT_MAX, &ring_fd);
    return rc < 0
               ? rc
               : dlr_watch_map_open(map, (int)page_fd, ring ? (int)ring_fd : -1, NULL);
}
