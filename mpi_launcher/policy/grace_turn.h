/* SPDX-License-Identifier: Apache-2.0 */
/* Which agent has the newest version written when SIGTERM has come and the supervisor
 * is gone.
 */
#ifndef DLR_MPI_LAUNCHER_POLICY_GRACE_TURN_H
#define DLR_MPI_LAUNCHER_POLICY_GRACE_TURN_H

#include <stdbool.h>
#include <stdint.h>

/* Whether it is this one, below which so many others stand in the order of names.
 * led_ms: since another was heard that writes, -1: none has begun. silent_ms: since the
 * supervisor was.
 */
bool dlr_grace_is_turn(unsigned lower, int64_t led_ms, int64_t silent_ms,
                       int64_t dead_ms);

#endif
