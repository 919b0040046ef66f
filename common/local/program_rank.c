/* SPDX-License-Identifier: Apache-2.0 */
#include "common/local/program_rank.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "common/base/str.h"

/* clang-format off */
/* mpirun in a batch script leaves Slurm's variables of the script in place. */
static const struct {
    const char *rank, *world;
} sources[] = {
    {"RANK",                 "WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK",             "PMI_SIZE"},
    {"SLURM_PROCID",         "SLURM_NTASKS"},
};
/* clang-format on */

static bool same(const char *name, const char *value)
{
    const char *other = getenv(name);

    return other && dlr_streq(value, other);
}

/* The plugin gives each task RANK and WORLD_SIZE; a launcher below the task may have
 * said otherwise with names of its own, and left these alone.
 */
static bool are_the_tasks(const char *rank, const char *world)
{
    return rank && world && getenv("DLROVER_ROUND") && same("SLURM_PROCID", rank) &&
           same("SLURM_NTASKS", world);
}

int dlr_program_rank(int *ret_rank, int *ret_world, struct dlr_err *err)
{
    bool tasks = are_the_tasks(getenv(sources[0].rank), getenv(sources[0].world));

    if (getenv("DLROVER_WARM"))
        return dlr_fail(err, -EAGAIN,
                        "this process runs ahead on a spare and has no rank yet: open "
                        "the checkpoint inside the round");
    for (unsigned i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        const char *r = getenv(sources[i].rank), *w = getenv(sources[i].world);
        unsigned rank, world;

        if (!r || !w)
            continue;
        /* 0 of 1 in every task: the shell was a launcher's from which the job was
         * submitted
         */
        if (tasks && (i == 0 || dlr_streq(w, "1")))
            continue;
        if (dlr_parse_uint(r, INT_MAX, &rank) < 0 ||
            dlr_parse_uint(w, INT_MAX, &world) < 0)
            return dlr_fail(err, -EINVAL, "%s='%s' and %s='%s' must be numbers",
                            sources[i].rank, r, sources[i].world, w);
        if (world <= rank)
            return dlr_fail(err, -EINVAL, "rank %u of %u (%s) cannot be", rank, world,
                            sources[i].rank);
        *ret_rank = (int)rank;
        *ret_world = (int)world;
        return 0;
    }
    *ret_rank = 0;
    *ret_world = 1;
    return 0;
}
