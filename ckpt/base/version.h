/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of a snapshot's moment: which run of which step. A step alone is not
 * one.
 */
#ifndef DLR_CKPT_BASE_VERSION_H
#define DLR_CKPT_BASE_VERSION_H

#include <stdbool.h>
#include <stdint.h>

struct dlr_version {
    uint32_t round;
    uint64_t step;
};

/* Orders by round, then step: <0, 0, >0. A later round starts from a state that was
 * restored, so its versions are newer than any of an earlier round.
 */
static inline int dlr_version_cmp(struct dlr_version a, struct dlr_version b)
{
    if (a.round != b.round)
        return a.round < b.round ? -1 : 1;
    return a.step < b.step ? -1 : a.step > b.step;
}

static inline bool dlr_version_eq(struct dlr_version a, struct dlr_version b)
{
    return dlr_version_cmp(a, b) == 0;
}

#endif
