/* SPDX-License-Identifier: Apache-2.0 */
/* A helper process that dies again and again: when to start the next one, and how the
 * last one ended. Deaths that are long ago count no more. Pure.
 */
#ifndef DLR_MPI_LAUNCHER_PROCESS_RESTART_DELAY_H
#define DLR_MPI_LAUNCHER_PROCESS_RESTART_DELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DLR_RESTART_DELAY_MAX 5                      /* so many within ... */
#define DLR_RESTART_DELAY_WINDOW_MS (10 * 60 * 1000) /* ... this time, and it rests */
#define DLR_RESTART_DELAY_PAUSE_MS 100 /* before the next start, doubled with each */

struct dlr_restart_delay {                /* zeros */
    int64_t at_ms[DLR_RESTART_DELAY_MAX]; /* the newest ones, a ring */
    uint64_t n;
};

/* One has died: milliseconds until the next start. *ret_rests: it is a long time, until
 * the first of as many as are allowed counts no more.
 */
int64_t dlr_restart_delay_pause_ms(struct dlr_restart_delay *d, int64_t now_ms,
                                   bool *ret_rests);

/* "was killed by signal 11 (Segmentation fault)", "exited with code 1"; status: as of
 * waitpid(2), -1 unknown.
 */
void dlr_restart_delay_describe(int status, char *buf, size_t size);

#endif
