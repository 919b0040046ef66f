/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/client,common/config */
/* audit MB REGIONS ROUNDS: for each round the microseconds that the audit by default
 * takes of a save of so much state, in so many regions: in begin and in the fence of
 * one that is looked at | of one that is not. Between two the state is written, as a
 * step does it.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/client/audit.h"
#include "common/base/clock.h"
#include "common/config/opt.h"

#define MB 1000000u

static struct dlr_regions rs;
static unsigned char *state;
static const void **src;

/* Of a save with this number. */
static double measure(uint64_t save)
{
    const struct dlr_audit_of of = {.regions = &rs, .src = src};
    struct dlr_audit audit = {.saves = save - 1};
    int64_t began = dlr_now_ns();
    unsigned first;

    if (dlr_audit_begin(&audit, DLR_COUNT_AUTO, &of, save) < 0 ||
        dlr_audit_end(&audit, &of, &first) != 0)
        exit(1);
    began = dlr_now_ns() - began;
    dlr_audit_done(&audit);
    return (double)began / 1e3;
}

static int name_regions(uint64_t bytes, unsigned n)
{
    rs.list = calloc(n, sizeof(*rs.list));
    rs.bytes = calloc(n, sizeof(*rs.bytes));
    rs.views = calloc(n, sizeof(*rs.views));
    src = calloc(n, sizeof(*src));
    state = malloc(bytes);
    if (!rs.list || !rs.bytes || !rs.views || !src || !state)
        return 1;
    rs.n = n;
    for (unsigned i = 0; i < n; i++) {
        rs.list[i].kind = DLR_CKPT_SHARD;
        rs.list[i].addr = state + i * (bytes / n);
        rs.bytes[i] = bytes / n;
        src[i] = rs.list[i].addr;
    }
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t bytes = argc == 4 ? strtoull(argv[1], NULL, 10) * MB : 0;
    unsigned regions = argc == 4 ? (unsigned)strtoul(argv[2], NULL, 10) : 0, rounds;

    if (bytes == 0 || regions == 0) {
        fprintf(stderr, "usage: audit MB REGIONS ROUNDS\n");
        return 2;
    }
    if (name_regions(bytes, regions))
        return 1;
    rounds = (unsigned)strtoul(argv[3], NULL, 10);
    for (unsigned i = 1; i <= rounds; i++) {
        double looked, other;

        memset(state, (int)i, bytes);
        looked = measure((uint64_t)DLR_AUDIT_EVERY * i);
        other = measure((uint64_t)DLR_AUDIT_EVERY * i + 1);
        printf("%.1f %.3f\n", looked, other);
    }
    return 0;
}
