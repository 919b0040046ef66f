/* SPDX-License-Identifier: Apache-2.0 */
/* How many stay under each switch when some are held back. Private. */
#ifndef DLR_HWLOC_TOPO_SPARES_H
#define DLR_HWLOC_TOPO_SPARES_H

#include <stddef.h>

/* Switches of one level, in dlr_topo_order(). */
struct dlr_topo_row {
    size_t n;
    const unsigned *shared; /* [n] levels shared with the one before; shared[0] is 0 */
    unsigned *units;        /* [n] what each has, and then what stays there */
    unsigned depth;         /* the level, 1 and up; 0: one row of one switch */
};

/* Takes spares units away, of all that there are at least as many: first from as many
 * whole switches as can be, at this level, then at the one above, and so on; then, one
 * by one, from the one that has most left, the last of equals. 0 or -ENOMEM.
 */
int dlr_topo_hold_back(const struct dlr_topo_row *row, size_t spares);

#endif
