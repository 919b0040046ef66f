/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/policy/repeated_failure.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/base/str.h"

enum dlr_repeated_failure_next dlr_repeated_failure_add(struct dlr_repeated_failure *r,
                                                        struct dlr_version from,
                                                        const char *why)
{
    bool same = r->known && dlr_streq(r->why, why);

    if (!same)
        r->back = 0;
    r->times = same && dlr_version_eq(r->from, from) ? r->times + 1 : 1;
    r->known = true;
    r->from = from;
    snprintf(r->why, sizeof(r->why), "%s", why);
    if (r->times < DLR_REPEATED_TIMES && !r->back)
        return DLR_REPEATED_ON;
    r->back++;
    return DLR_REPEATED_BACK;
}

bool dlr_repeated_failure_is_over(const struct dlr_repeated_failure *r, char *buf,
                                  size_t size)
{
    if (!r->back)
        return false;
    snprintf(buf, size,
             "%s whatever it is restored from, the oldest of round %u step %" PRIu64
             "; there is no older version, and beginning anew would not be a repair",
             r->why, r->from.round, r->from.step);
    return true;
}
