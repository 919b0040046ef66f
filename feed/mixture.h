/* SPDX-License-Identifier: Apache-2.0 */
/* From which of several sources each sample comes: of 65,536 samples in a row each
 * source has exactly its part.
 */
#ifndef DLR_FEED_MIXTURE_H
#define DLR_FEED_MIXTURE_H

#include <stdint.h>

#include "common/base/err.h"

#define DLR_MIXTURE_SOURCES 64
#define DLR_MIXTURE_PARTS 65536

struct dlr_mixture; /* opaque; only read once it is made */

/* weights: n numbers, 0 or more, in any unit. Their parts add up to DLR_MIXTURE_PARTS;
 * what has a weight has a part. -EINVAL: err names the weight.
 */
int dlr_mixture_parts(const double *weights, unsigned n, uint32_t *ret_parts,
                      struct dlr_err *err);

/* parts: n numbers that add up to DLR_MIXTURE_PARTS. *ret: dlr_mixture_free(). -ENOMEM.
 */
int dlr_mixture_new(const uint32_t *parts, unsigned n, uint64_t key,
                    struct dlr_mixture **ret);
struct dlr_mixture *dlr_mixture_free(struct dlr_mixture *m);

/* The source of the sample at this position, and how many of the same source come
 * before it.
 */
unsigned dlr_mixture_at(const struct dlr_mixture *m, uint64_t position,
                        uint64_t *ret_before);

/* How many samples of a source come before this position. */
uint64_t dlr_mixture_before(const struct dlr_mixture *m, uint64_t position,
                            unsigned source);

#endif
