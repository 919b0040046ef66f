/* SPDX-License-Identifier: Apache-2.0 */
/* persist DIR MIB ROUNDS: writes a snapshot of so many MiB from a node's memory to a file of DIR, as a job
 * does, and prints "BYTES NANOSECONDS" for each round: from the order to the data process's word that it is
 * durable. Every byte is read and check-summed on the way.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/str.h"
#include "tests/data_rig.h"

#define ROUND 1
#define RANK 0

static int write_once(struct rig_data *p, const char *dir, uint64_t id,
                      struct dlr_version v, uint64_t bytes)
{
    int64_t began = dlr_now_ns();
    char path[4096], why[256];
    int rc;

    if (dlr_format(path, sizeof(path), "%s/r0-1-%llu.safetensors", dir,
                   (unsigned long long)id) < 0)
        return ENAMETOOLONG;
    rig_order(p, DLR_LOCAL_D_SAVE, ROUND, RANK, v, id, path);
    rc = rig_done(p, id, why, sizeof(why));
    if (rc == 0) {
        printf("%" PRIu64 " %" PRId64 "\n", bytes, dlr_now_ns() - began);
        fflush(stdout);
    } else {
        fprintf(stderr, "persist: %s\n", why);
    }
    unlink(path);
    return rc;
}

int main(int argc, char **argv)
{
    const struct dlr_version v = {ROUND, 1};
    uint64_t mib = argc == 4 ? strtoull(argv[2], NULL, 10) : 0;
    unsigned rounds = argc == 4 ? (unsigned)strtoul(argv[3], NULL, 10) : 0;
    struct rig_data p;
    int rc;

    if (mib == 0 || rounds == 0) {
        fprintf(stderr, "usage: persist DIR MIB ROUNDS\n");
        return 2;
    }
    rig_start(&p, NULL, NULL);
    rig_config(&p, ROUND, RIG_TOKEN, "[]");
    rc = rig_reserve(&p, RANK, rig_slot_bytes(mib << 20));
    if (rc == 0)
        rig_snapshot(rig_slot(&p, RANK, 0), RANK, v, mib << 20);
    else
        fprintf(stderr, "persist: reserve: %s\n", strerror(rc));
    for (unsigned i = 0; rc == 0 && i < rounds; i++)
        rc = write_once(&p, argv[1], i + 1, v, mib << 20);
    rig_end(&p);
    rig_remove(&p);
    return rc != 0;
}
