/* SPDX-License-Identifier: Apache-2.0 */
/* Names that a version and a program do not share: kept for the program to ask, an
 * error unless it allowed them.
 */
#ifndef DLR_CKPT_LAYOUT_UNMATCHED_H
#define DLR_CKPT_LAYOUT_UNMATCHED_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

struct dlr_names {
    char **list; /* sorted by nobody: in the order of the version, or of the program */
    unsigned n;
};

/* Copies name. -ENOMEM. */
int dlr_names_add(struct dlr_names *names, const char *name);
void dlr_names_done(struct dlr_names *names);

struct dlr_unmatched {
    unsigned allowed;         /* of enum dlr_ckpt_unmatched */
    struct dlr_names left;    /* in the version, not named here */
    struct dlr_names missing; /* named here, not in the version */
    /* restore failed because the program asks for something else than there is: no
     * other copy of the version would do
     */
    bool differs;
    uint32_t corrupt_of; /* 1 + the rank whose copy is why restore failed; 0: none is */
};

/* -EBADMSG with the names when some are not allowed. */
int dlr_unmatched_check(const struct dlr_unmatched *u, struct dlr_err *err);
void dlr_unmatched_done(struct dlr_unmatched *u);

#endif
