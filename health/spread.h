/* SPDX-License-Identifier: Apache-2.0 */
/* What is usual among values, and how far they lie from it: median and median absolute
 * deviation, which half of the values may be wrong without moving much.
 */
#ifndef DLR_HEALTH_SPREAD_H
#define DLR_HEALTH_SPREAD_H

#include <stddef.h>

struct dlr_spread {
    double usual, spread; /* median, MAD */
};

/* Six standard deviations of normal noise, in MADs: one is 1.4826 of them. */
#define DLR_SPREAD_FAR 8.9

/* Of an even number of values the lower of the two in the middle counts. values are lost.
 * n is 1 at least.
 */
struct dlr_spread dlr_spread_of(double *values, size_t n);

#endif
