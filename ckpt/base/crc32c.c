/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/base/crc32c.h"

#include <isa-l/crc.h>
#include <pthread.h>

#define STEP (1u << 30) /* ISA-L takes an int */

uint32_t dlr_crc32c(uint32_t crc, const void *buf, size_t size)
{
    const unsigned char *p = buf;

    /* ISA-L neither sets the register at the start nor inverts it at the end. */
    crc = ~crc;
    while (size > 0) {
        size_t n = size < STEP ? size : STEP;

        crc = crc32_iscsi((unsigned char *)p, (int)n, crc);
        p += n;
        size -= n;
    }
    return ~crc;
}

#define POLY 0x82f63b78u /* CRC32C, lowest bit first: bit 31 is 1, bit 30 is x */
#define ONE (1u << 31)

static pthread_once_t once = PTHREAD_ONCE_INIT;
/* x^(2^i) modulo the polynomial, which is x + 1 times a primitive one of degree 31:
 * x^(2^31) is x, and they begin again.
 */
#define PERIOD 31
static uint32_t powers[PERIOD];

static uint32_t multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;

    for (uint32_t bit = ONE; a != 0; bit >>= 1) {
        if (a & bit)
            product ^= b;
        a &= ~bit;
        b = b & 1 ? b >> 1 ^ POLY : b >> 1;
    }
    return product;
}

static void make_powers(void)
{
    powers[0] = ONE >> 1;
    for (unsigned i = 1; i < PERIOD; i++)
        powers[i] = multiply(powers[i - 1], powers[i - 1]);
}

uint32_t dlr_crc32c_op(uint64_t bytes)
{
    uint32_t op = ONE;

    pthread_once(&once, make_powers);
    for (unsigned i = 3; bytes > 0; bytes >>= 1, i++)
        if (bytes & 1)
            op = multiply(powers[i % PERIOD], op);
    return op;
}

uint32_t dlr_crc32c_join(uint32_t a, uint32_t b, uint32_t op)
{
    return multiply(op, a) ^ b;
}

void dlr_crc32c_table(uint32_t table[1024])
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;

        for (unsigned k = 0; k < 8; k++)
            crc = crc & 1 ? crc >> 1 ^ POLY : crc >> 1;
        table[i] = crc;
    }
    for (uint32_t i = 256; i < 1024; i++)
        table[i] = table[table[i - 256] & 0xff] ^ table[i - 256] >> 8;
}
