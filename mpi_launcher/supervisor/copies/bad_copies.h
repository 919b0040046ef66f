/* SPDX-License-Identifier: Apache-2.0 */
/* The last copies of snapshots that went bad in a node's memory and are not made again
 * yet.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_COPIES_BAD_COPIES_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_COPIES_BAD_COPIES_H

#include <stdbool.h>

#include "ckpt/base/version.h"

#define DLR_BAD_COPIES 64

struct dlr_bad_copy {
    struct dlr_version version;
    unsigned rank, node,
        round; /* the one in which it was found: the next makes them anew */
};

struct dlr_bad_copies {
    struct dlr_bad_copy list[DLR_BAD_COPIES];
    unsigned n; /* were ever added: the oldest makes way */
};

void dlr_bad_copies_add(struct dlr_bad_copies *b, const struct dlr_bad_copy *copy);
bool dlr_bad_copies_has(const struct dlr_bad_copies *b,
                        const struct dlr_bad_copy *copy);
/* It is good again; whether it was among them. */
bool dlr_bad_copies_del(struct dlr_bad_copies *b, const struct dlr_bad_copy *copy);

#endif
