/* SPDX-License-Identifier: Apache-2.0 */
/* A program says how far it is: its step, what it does for long, that it waits on
 * purpose. Under a job of DLRover a rank that does not go on is named by that
 * (docs/watch.md); without one all of this does nothing. A program that saves with
 * dlrover/ckpt.h tells its steps by that. Link with -ldlrover.
 *
 *         dlr_watch_open(&w);
 *         dlr_watch_total(w, steps);
 *         for (step = 0; step < steps; step++) {
 *             dlr_watch_step(w, step);
 *             ...
 *             dlr_watch_phase(w, "eval", 1200);  // may take 20 minutes
 *             ...
 *             dlr_watch_phase(w, NULL, 0);
 *         }
 *         dlr_watch_close(w);
 *
 * No call fails but open, none waits but open, none allocates. A handle is for one
 * thread at a time, and of the process that has opened it: in a forked child its calls
 * do nothing.
 */
#ifndef DLROVER_WATCH_H
#define DLROVER_WATCH_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dlr_watch; /* opaque */

/* 0 and *ret_w, the caller's: 0 also without a job, where the job is not watched, and
 * where the agent does not answer within 5 s; dlr_watch_active() tells. -ENOMEM;
 * -EINVAL: the environment names a rank that cannot be.
 */
int dlr_watch_open(struct dlr_watch **ret_w);

/* 1: what is told is seen. 0: it is not. */
int dlr_watch_active(const struct dlr_watch *w);

/* A step begins. */
void dlr_watch_step(struct dlr_watch *w, uint64_t step);

/* How many steps there will be; 0: unknown. */
void dlr_watch_total(struct dlr_watch *w, uint64_t total);

/* What the program does from now on in place of steps, and for how many seconds that may
 * take, 0: not known. At most 39 bytes of name are kept. NULL: it goes on with steps.
 */
void dlr_watch_phase(struct dlr_watch *w, const char *name, unsigned limit_s);

/* It waits on purpose, for as long as it takes: nobody calls that a hang. */
void dlr_watch_pause(struct dlr_watch *w);
void dlr_watch_resume(struct dlr_watch *w);

/* The program has no steps any more. Accepts NULL. */
void dlr_watch_close(struct dlr_watch *w);

#ifdef __cplusplus
}
#endif

#endif
