/* SPDX-License-Identifier: Apache-2.0 */
/* When a node that was lost is looked at: is it alive again? Pure; one of these for
 * each node.
 */
#ifndef DLR_MPI_LAUNCHER_POLICY_REJOIN_H
#define DLR_MPI_LAUNCHER_POLICY_REJOIN_H

#include <stdbool.h>
#include <stdint.h>

#define DLR_REJOIN_FIRST_MS 2000 /* from a loss to the first look; doubled each time */
#define DLR_REJOIN_MAX_MS 60000  /* at most from one look to the next */

struct dlr_rejoin {
    bool missing;
    unsigned looks;
    int64_t look_ms;
};

/* Is it to be looked at now? missing: it is not here and could be; first_ms after that
 * began, then more and more rarely. Of one that is here nothing is kept.
 */
bool dlr_rejoin_due(struct dlr_rejoin *r, bool missing, int64_t first_ms,
                    int64_t now_ms);
/* It has left the job: not to be looked at any more. */
void dlr_rejoin_gone(struct dlr_rejoin *r);

#endif
