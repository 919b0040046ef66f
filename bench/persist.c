/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/slot needs=dlrover-data */
/* persist DIR MIB ROUNDS [RANKS]: writes snapshots of so many MiB in all from a node's
 * memory to one file of DIR, as a job with so many ranks on the node (1) does, and
 * prints "BYTES NANOSECONDS" for each round: from the order to the data process's word
 * that it is durable. Every byte is read and check-summed on the way.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/str.h"
#include "tests/support/data_rig.h"

#define ROUND 1
#define RANKS_MAX 64u

static int write_once(struct rig_data *p, const char *dir, uint64_t id,
                      struct dlr_version v, unsigned ranks, uint64_t bytes)
{
    int64_t began = dlr_now_ns();
    char path[4096], why[256];
    int rc = 0;

    if (dlr_format(path, sizeof(path), "%s/n0-1-%llu.safetensors", dir,
                   (unsigned long long)id) < 0)
        return ENAMETOOLONG;
    for (unsigned r = 0; r < ranks; r++)
        rig_save(p, ROUND, (int32_t)r, v, id + r, path, ranks - 1 - r);
    for (unsigned r = 0; r < ranks && rc == 0; r++)
        rc = rig_done(p, id + r, why, sizeof(why));
    if (rc == 0) {
        printf("%" PRIu64 " %" PRId64 "\n", bytes, dlr_now_ns() - began);
        fflush(stdout);
    } else {
        fprintf(stderr, "persist: %s\n", why);
    }
    unlink(path);
    return rc;
}

static int make_rank(struct rig_data *p, int32_t rank, struct dlr_version v,
                     uint64_t bytes)
{
    int rc = rig_reserve(p, rank, rig_slot_bytes(bytes));

    if (rc == 0)
        rig_snapshot(rig_slot(p, rank, 0), rank, v, bytes);
    else
        fprintf(stderr, "persist: reserve: %s\n", strerror(rc));
    return rc;
}

static uint64_t number(int argc, char **argv, int i)
{
    return i < argc ? strtoull(argv[i], NULL, 10) : i == 4;
}

int main(int argc, char **argv)
{
    const struct dlr_version v = {ROUND, 1};
    uint64_t bytes = number(argc, argv, 2) << 20, rounds = number(argc, argv, 3);
    uint64_t ranks = number(argc, argv, 4);
    struct rig_data p;
    int rc = 0;

    if (bytes == 0 || rounds == 0 || ranks == 0 || ranks > RANKS_MAX || argc > 5) {
        fprintf(stderr, "usage: persist DIR MIB ROUNDS [RANKS]\n");
        return 2;
    }
    rig_start(&p, NULL, NULL);
    rig_config(&p, ROUND, RIG_TOKEN, "[]");
    for (unsigned r = 0; r < ranks && rc == 0; r++)
        rc = make_rank(&p, (int32_t)r, v, bytes / ranks);
    for (uint64_t i = 0; rc == 0 && i < rounds; i++)
        rc = write_once(&p, argv[1], 1 + i * ranks, v, (unsigned)ranks, bytes);
    rig_end(&p);
    rig_remove(&p);
    return rc != 0;
}
