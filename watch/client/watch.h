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

/* Groups: where a program stands that communicates otherwise than by MPI, which has its
 * own (docs/watch.md). For who looks now and then, from another thread than the one that
 * tells steps, but from one at a time. dlrover.bind() tells those of torch.distributed.
 */
struct dlr_watch_group {
    uint64_t id; /* equal on all members, and of no other group; above 1 */
    uint32_t size, my_rank;
    uint64_t entered, left; /* operations of it that were begun and that have ended */
    /* Of the last that was begun: its number (dlr_watch_call_number()), 0 not known; bytes of
     * an element where all members must name the same number of bytes, else 0; the root,
     * UINT32_MAX where there is none.
     */
    uint32_t call, item, root;
    uint32_t
        lost; /* operations of which nothing is known: of its members none is named */
    uint64_t bytes;
};

/* A thread that stands in a call. */
struct dlr_watch_wait {
    uint64_t group;
    int32_t peer, tag; /* peer: in the group's ranks, -1 any, -2 the whole group */
    uint32_t tid;      /* gettid() of it */
    uint32_t call;
    uint64_t bytes;
    uint64_t since_ns; /* CLOCK_BOOTTIME */
};
#define DLR_WATCH_WAITS 4 /* more of a process are not told */

/* The number of "all_reduce", "barrier", "send" and alike, as torch.distributed calls
 * them; 0: there is none.
 */
uint32_t dlr_watch_call_number(const char *name);

/* The rank as which the process is watched; -1: it is not. */
int dlr_watch_rank(const struct dlr_watch *w);

/* Where a group stands. -ENOSPC: there is no line for it; 0 where nobody watches. */
int dlr_watch_put_group(struct dlr_watch *w, const struct dlr_watch_group *group);

/* The group is no more. */
void dlr_watch_del_group(struct dlr_watch *w, uint64_t id);

/* All threads that stand in calls now, n of them; those told before do not any more. */
void dlr_watch_put_waits(struct dlr_watch *w, const struct dlr_watch_wait *waits,
                         unsigned n);

/* The program has no steps and no groups any more. Accepts NULL. */
void dlr_watch_close(struct dlr_watch *w);

#ifdef __cplusplus
}
#endif

#endif
