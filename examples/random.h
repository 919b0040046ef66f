/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers without a state to save: the n-th number of a seed. */
#ifndef DLR_EXAMPLES_RANDOM_H
#define DLR_EXAMPLES_RANDOM_H

#include <stdint.h>

/* The n-th output of splitmix64 (Steele, Lea and Flood 2014) from seed. */
static inline uint64_t random_at(uint64_t seed, uint64_t n)
{
    uint64_t x = seed + (n + 1) * 0x9e3779b97f4a7c15u;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

#endif
