/* SPDX-License-Identifier: Apache-2.0 */
/* A permutation of 0 to size - 1 that is computed, not stored: any index at once, and
 * where an index stands.
 */
#ifndef DLR_FEED_PERMUTE_H
#define DLR_FEED_PERMUTE_H

#include <stdint.h>

#define DLR_PERMUTE_ROUNDS 8
#define DLR_PERMUTE_MAX (UINT64_C(1) << 62) /* of size */

/* Plain data: may be copied, and is only read by the calls below. */
struct dlr_permute {
    uint64_t size, rows, columns;
    uint64_t key[DLR_PERMUTE_ROUNDS];
};

/* A number made of several: the same of the same, unrelated of any others. For keys and
 * random numbers, no protection from who wants to guess them.
 */
uint64_t dlr_permute_mix(uint64_t a, uint64_t b);

/* size: 1 to DLR_PERMUTE_MAX. */
void dlr_permute_init(struct dlr_permute *p, uint64_t size, uint64_t key);

/* What stands at this place, and where an index stands: the inverse. Both below size.
 */
uint64_t dlr_permute_at(const struct dlr_permute *p, uint64_t place);
uint64_t dlr_permute_find(const struct dlr_permute *p, uint64_t index);

#endif
