/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/redundancy */
/* gf MB ROUNDS: for each round the GB/s, on one thread, at which blocks of 1 MiB are
 *   added with 1 (XOR) | multiplied and added | check-summed, then multiplied and added
 * to a parity shard, as a holder does with what comes in; and, of MB in four shards,
 * the state at
 *   which both shards of rs:4+2 are made | a lost one is made of three and one of
 *   those.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/base/crc32c.h"
#include "ckpt/redundancy/parity.h"
#include "common/base/clock.h"
#include "common/base/str.h"

#define MB 1000000u
#define BLOCK (1u << 20)
#define DATA 4u
#define ROWS 2u

static _Atomic uint32_t sink; /* else a sum could be left out */

static double measure(unsigned char *sum, unsigned char *from, size_t bytes,
                      unsigned char coef, int check)
{
    int64_t began = dlr_now_ns();

    for (size_t at = 0; at < bytes; at += BLOCK) {
        size_t n = bytes - at < BLOCK ? bytes - at : BLOCK;

        if (check)
            sink = dlr_crc32c(0, from + at, n);
        dlr_parity_add(coef, from + at, sum + at, n);
    }
    return (double)bytes / (double)(dlr_now_ns() - began);
}

/* Of DATA shards in from: shard number lost, or both of parity when it is DATA. */
static double measure_set(unsigned char *sum, unsigned char *from, size_t bytes,
                          unsigned lost)
{
    unsigned have[DATA], made = lost == DATA ? ROWS : 1;
    unsigned char coef[DATA];
    size_t shard = bytes / DATA;
    int64_t began = dlr_now_ns();

    for (unsigned i = 0; i < DATA; i++)
        have[i] = i == lost ? DATA : i;
    for (unsigned m = 0; m < made; m++) {
        if (lost == DATA)
            dlr_parity_row(DATA, ROWS, DATA + m, coef);
        else
            dlr_parity_rebuild(DATA, ROWS, lost, have, coef);
        memset(sum, 0, shard);
        for (unsigned i = 0; i < DATA; i++)
            for (size_t at = 0; at < shard; at += BLOCK)
                dlr_parity_add(coef[i], from + i * shard + at, sum + at,
                               shard - at < BLOCK ? shard - at : BLOCK);
    }
    return (double)(lost == DATA ? bytes : shard) / (double)(dlr_now_ns() - began);
}

int main(int argc, char **argv)
{
    unsigned mb, rounds;
    unsigned char *sum, *from;
    size_t bytes;

    if (argc != 3 || dlr_parse_uint(argv[1], 100000, &mb) < 0 || mb == 0 ||
        dlr_parse_uint(argv[2], 1000, &rounds) < 0) {
        fprintf(stderr, "usage: gf MB ROUNDS\n");
        return 2;
    }
    bytes = (size_t)mb * MB;
    sum = malloc(bytes);
    from = malloc(bytes);
    if (!sum || !from)
        return 1;
    memset(sum, 1, bytes);
    memset(from, 7, bytes);
    for (unsigned r = 0; r < rounds; r++)
        printf("%.3f %.3f %.3f %.3f %.3f\n", measure(sum, from, bytes, 1, 0),
               measure(sum, from, bytes, 0x8e, 0), measure(sum, from, bytes, 0x8e, 1),
               measure_set(sum, from, bytes, DATA), measure_set(sum, from, bytes, 1));
    free(sum);
    free(from);
    return 0;
}
