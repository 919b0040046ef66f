/* SPDX-License-Identifier: Apache-2.0 */
/* One rank's copy of a version, and the file that holds it: what manifests list and
 * plans choose from.
 */
#ifndef DLR_CKPT_MANIFEST_PLAN_FILE_H
#define DLR_CKPT_MANIFEST_PLAN_FILE_H

#include <stdint.h>

#include "ckpt/base/file_slice.h"
#include "ckpt/base/version.h"

/* Limits on what is taken from outside. */
#define DLR_PLAN_RANKS_MAX 1048576u
#define DLR_PLAN_WHERE 4096 /* a node's name or a file's path */

struct dlr_plan_copy {
    int32_t rank;
    uint32_t world;
    struct dlr_version version;
    uint64_t bytes; /* of the slot file: what a receiver has to reserve */
    uint64_t layout;
};

struct dlr_plan_file {
    struct dlr_plan_copy copy;
    char path[DLR_PLAN_WHERE];
    struct dlr_slice slice; /* which part of it */
};

#endif
