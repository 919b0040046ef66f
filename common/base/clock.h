/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks. Deadlines use CLOCK_BOOTTIME, which a suspended machine does not stop. */
#ifndef DLR_COMMON_BASE_CLOCK_H
#define DLR_COMMON_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

int64_t dlr_now_ns(void); /* CLOCK_BOOTTIME */
int64_t dlr_now_ms(void);
int64_t dlr_thread_ns(void); /* CPU time of the calling thread */
int64_t dlr_wall_ns(void);   /* CLOCK_REALTIME since the epoch */

/* CLOCK_MONOTONIC so many nanoseconds from now, which pthread_cond_clockwait() knows
 * and BOOTTIME it does not.
 */
struct timespec dlr_monotonic_in(int64_t ns);

/* Writes "2026-11-21T03:04:05.678Z" (UTC) for a time since the epoch; buf >= 25 bytes.
 */
void dlr_wall_text(int64_t wall_ns, char *buf, size_t size);

#endif
