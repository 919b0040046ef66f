/* SPDX-License-Identifier: Apache-2.0 */
/* A run that fails in the same way whenever it is restored from one version: further
 * back, or no more. Pure: failures in, what to do out.
 */
#ifndef DLR_MPI_LAUNCHER_POLICY_REPEATED_FAILURE_H
#define DLR_MPI_LAUNCHER_POLICY_REPEATED_FAILURE_H

#include <stdbool.h>
#include <stddef.h>

#include "ckpt/base/version.h"

/* as often after one version, and it is not tried again; once we went back, each
 * further time is one too many
 */
#define DLR_REPEATED_TIMES 2

/* Begin with zeros. */
struct dlr_repeated_failure {
    bool known;
    struct dlr_version from; /* the last failure followed a restore from it */
    char why[256];
    unsigned times; /* in a row */
    unsigned back;  /* versions that were given up for it */
};

enum dlr_repeated_failure_next {
    DLR_REPEATED_ON,   /* as always */
    DLR_REPEATED_BACK, /* and not from this version again, nor a later one */
};

/* A round that was restored from a version ended because of the program; why says how
 * ("rank 3 exited with code 1").
 */
enum dlr_repeated_failure_next dlr_repeated_failure_add(struct dlr_repeated_failure *r,
                                                        struct dlr_version from,
                                                        const char *why);

/* The next plan has nothing to restore. Whether the run must stop instead of beginning
 * from nothing: it went back because of these failures, and they are the evidence, in
 * buf.
 */
bool dlr_repeated_failure_is_over(const struct dlr_repeated_failure *r, char *buf,
                                  size_t size);

#endif
