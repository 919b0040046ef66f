/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers by chance that a seed makes again, the same on every machine. */
#ifndef DLR_MPI_LAUNCHER_SIMULATOR_RANDOM_H
#define DLR_MPI_LAUNCHER_SIMULATOR_RANDOM_H

#include <math.h>
#include <stdint.h>

struct dlr_random {
    uint64_t state;
};

/* SplitMix64 (Steele, Lea, Flood 2014). */
static inline uint64_t dlr_random_next(struct dlr_random *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

/* Above 0, at most 1. */
static inline double dlr_random_share(struct dlr_random *r)
{
    return ((double)(dlr_random_next(r) >> 11) + 1) * 0x1p-53;
}

static inline unsigned dlr_random_below(struct dlr_random *r, unsigned n)
{
    return (unsigned)(dlr_random_next(r) % n);
}

/* How long one waits for what comes so often in the mean. */
static inline double dlr_random_wait(struct dlr_random *r, double mean)
{
    return -mean * log(dlr_random_share(r));
}

#endif
