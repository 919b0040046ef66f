/* SPDX-License-Identifier: Apache-2.0 */
/* How long a program may stand where it is before it is called still: learned from its
 * own steps, and from the gaps after which it went on by itself. Pure: no clock, no I/O.
 * Nanoseconds everywhere.
 */
#ifndef DLR_WATCH_JUDGE_LEARN_H
#define DLR_WATCH_JUDGE_LEARN_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "watch/look.h"

#define DLR_LEARN_STEPS 64
#define DLR_LEARN_PLACES 32

/* A place where the program has stood for longer than its steps say. */
struct dlr_learn_place {
    uint64_t key; /* of the phase, else of the last operation; 0: free */
    uint64_t longest_ns;
    uint64_t times;
    uint64_t step;   /* of the last time */
    uint64_t period; /* it comes every so many steps; 0: not known yet, at any step */
};

/* Plain data, words only; begin with zeros. */
struct dlr_learn {
    uint64_t nsteps; /* ever */
    uint64_t steps_ns[DLR_LEARN_STEPS];
    struct dlr_learn_place places[DLR_LEARN_PLACES];
};

#define DLR_LEARN_BYTES (sizeof(struct dlr_learn) + 16)
static_assert(DLR_LEARN_BYTES <= 4096, "it is part of what a successor gets");

/* A step of the slowest rank took so long. */
void dlr_learn_step(struct dlr_learn *l, uint64_t took_ns);

/* A rank that had stood where `stood` found it went on by itself, after so long. Gaps
 * that steps explain are left out.
 */
void dlr_learn_gap(struct dlr_learn *l, const struct dlr_look *stood, uint64_t gap_ns);

/* How long the rank may stand where it is; UINT64_MAX: as long as it likes. For its
 * first step in this round, and for a phase without a limit, first_step_ns.
 */
uint64_t dlr_learn_limit_ns(const struct dlr_learn *l, const struct dlr_look *look,
                            uint64_t first_step_ns);

/* Of the last 64 steps; 0 without any. */
uint64_t dlr_learn_median_ns(const struct dlr_learn *l);
uint64_t dlr_learn_mad_ns(const struct dlr_learn *l);

/* As bytes, little endian, with a checksum at the end. */
void dlr_learn_pack(const struct dlr_learn *l, unsigned char bytes[DLR_LEARN_BYTES]);
/* -EINVAL for what that has not made. Foreign bytes: fuzz target judge. */
int dlr_learn_unpack(const void *bytes, size_t size, struct dlr_learn *ret);

#endif
