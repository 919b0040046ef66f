/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/policy/rejoin.h"

bool dlr_rejoin_due(struct dlr_rejoin *r, bool missing, int64_t first_ms,
                    int64_t now_ms)
{
    int64_t pause_ms = DLR_REJOIN_FIRST_MS;

    if (!missing)
        *r = (struct dlr_rejoin){0};
    else if (!r->missing)
        *r = (struct dlr_rejoin){.missing = true, .look_ms = now_ms + first_ms};
    if (!missing || now_ms < r->look_ms)
        return false;
    r->looks++;
    for (unsigned i = 0; i < r->looks && pause_ms < DLR_REJOIN_MAX_MS; i++)
        pause_ms *= 2;
    r->look_ms = now_ms + (pause_ms < DLR_REJOIN_MAX_MS ? pause_ms : DLR_REJOIN_MAX_MS);
    return true;
}

void dlr_rejoin_gone(struct dlr_rejoin *r)
{
    r->look_ms = INT64_MAX;
}
