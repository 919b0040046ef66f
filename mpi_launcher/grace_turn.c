/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/grace_turn.h"

#define LOWER_DEADS 2 /* dead-times in which a lower one would have been heard */

bool dlr_grace_is_turn(unsigned lower, bool led, int64_t silent_ms, int64_t dead_ms)
{
    return !led && silent_ms > dead_ms * (1 + LOWER_DEADS * (int64_t)lower);
}
