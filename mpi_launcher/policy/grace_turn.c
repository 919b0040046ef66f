/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/policy/grace_turn.h"

#define LOWER_DEADS 2 /* dead-times in which a lower one would have been heard */

bool dlr_grace_is_turn(unsigned lower, int64_t led_ms, int64_t silent_ms,
                       int64_t dead_ms)
{
    int64_t lowers_ms = LOWER_DEADS * dead_ms * lower;

    if (led_ms >= 0) /* the one that wrote is dead, too, when it is silent */
        return led_ms > LOWER_DEADS * dead_ms + lowers_ms;
    return silent_ms > dead_ms + lowers_ms;
}
