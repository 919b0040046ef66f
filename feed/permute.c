/* SPDX-License-Identifier: Apache-2.0 */
/* A Feistel network over rows x columns, the smallest near square that holds size (J.
 * Black, P. Rogaway: Ciphers with Arbitrary Finite Domains, CT-RSA 2002). A round adds
 * to one half a number made of the other, modulo what that half counts. What comes out
 * at size or above goes through again: less than once in sqrt(size) places.
 */
#include "feed/permute.h"

/* Of splitmix64 (G. Steele and others: Fast Splittable Pseudorandom Number Generators,
 * 2014)
 */
#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint64_t dlr_permute_mix(uint64_t a, uint64_t b)
{
    return mix(mix(a + GOLDEN) + GOLDEN * (b + 1));
}

static uint64_t square_root(uint64_t n)
{
    uint64_t low = 1, high = UINT64_C(1) << 31;

    while (low < high) { /* the least whose square is n or more */
        const uint64_t middle = (low + high) / 2;

        if (middle * middle >= n)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

void dlr_permute_init(struct dlr_permute *p, uint64_t size, uint64_t key)
{
    p->size = size;
    p->rows = square_root(size);
    p->columns = (size + p->rows - 1) / p->rows;
    for (unsigned i = 0; i < DLR_PERMUTE_ROUNDS; i++)
        p->key[i] = dlr_permute_mix(key, i);
}

/* Below range, evenly, of the other half; both have 32 bits at most. A key has 64 random
 * ones, so that two multiplications do.
 */
static uint64_t round_of(uint64_t key, uint64_t half, uint64_t range)
{
    uint64_t z = (key + half) * UINT64_C(0xbf58476d1ce4e5b9);

    z = (z ^ z >> 32) * UINT64_C(0x94d049bb133111eb);
    return (z >> 32) * range >> 32;
}

static uint64_t once(const struct dlr_permute *p, uint64_t x)
{
    uint64_t row = x / p->columns, column = x % p->columns;

    for (unsigned i = 0; i < DLR_PERMUTE_ROUNDS; i += 2) {
        row += round_of(p->key[i], column, p->rows);
        row -= row >= p->rows ? p->rows : 0;
        column += round_of(p->key[i + 1], row, p->columns);
        column -= column >= p->columns ? p->columns : 0;
    }
    return row * p->columns + column;
}

static uint64_t once_back(const struct dlr_permute *p, uint64_t x)
{
    uint64_t row = x / p->columns, column = x % p->columns;

    for (unsigned i = DLR_PERMUTE_ROUNDS; i > 0; i -= 2) {
        column += p->columns - round_of(p->key[i - 1], row, p->columns);
        column -= column >= p->columns ? p->columns : 0;
        row += p->rows - round_of(p->key[i - 2], column, p->rows);
        row -= row >= p->rows ? p->rows : 0;
    }
    return row * p->columns + column;
}

uint64_t dlr_permute_at(const struct dlr_permute *p, uint64_t place)
{
    uint64_t x = place;

    do
        x = once(p, x);
    while (x >= p->size);
    return x;
}

uint64_t dlr_permute_find(const struct dlr_permute *p, uint64_t index)
{
    uint64_t x = index;

    do
        x = once_back(p, x);
    while (x >= p->size);
    return x;
}
