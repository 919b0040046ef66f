/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/client/conf.h"

#include <errno.h>
#include <stdlib.h>

#include "ckpt/client/copy.h"
#include "common/base/str.h"

#define FIELD(f) offsetof(struct dlr_client_conf, f)
#define DIR_DEFAULT "./dlrover-ckpt"

/* clang-format off */
/* Every variable of the environment but the directory, with its default. */
static const struct dlr_opt opts[] = {
    {"DLROVER_CKPT_AGREE_MS", DLR_OPT_UINT, FIELD(agree_ms),   "60000",  "MS",
     "standalone: read other ranks' files when they have not said for so long that theirs are right"},
    {"DLROVER_CKPT_AUDIT",    DLR_OPT_COUNT, FIELD(audit),     "auto",   "N|auto",
     "in each N-th save, or in the first two and each 100th, look for memory changed before its fence"},
    {"DLROVER_CKPT_BUDGET",   DLR_OPT_PPM,  FIELD(budget),     "0.1%",   "PERCENT|off",
     "standalone: share of the program's time that saves may hold it up, where DLROVER_CKPT_EVERY is auto"},
    {"DLROVER_CKPT_DEVICE_GATHER", DLR_OPT_SWITCH, FIELD(device_gather), "off", "on|off",
     "move small regions of device memory together, by a kernel"},
    {"DLROVER_CKPT_DEVICE_PIN", DLR_OPT_SWITCH, FIELD(device_pin), "on", "on|off",
     "register snapshots' memory with the GPU, so that copies go straight into it"},
    {"DLROVER_CKPT_DEVICE_SUM", DLR_OPT_SWITCH, FIELD(device_sum), "off", "on|off",
     "sum device memory where it lies and compare after the copy"},
    {"DLROVER_CKPT_EVERY",    DLR_OPT_COUNT, FIELD(every),     "auto",   "N|auto",
     "standalone: save each N-th step, or as many as the budget allows"},
    {"DLROVER_CKPT_FENCE_MS", DLR_OPT_UINT, FIELD(fence_ms),   "10000",  "MS",
     "give a snapshot up when a fence has waited this long"},
    {"DLROVER_CKPT_FRESH",    DLR_OPT_SWITCH, FIELD(fresh),    "off",    "on|off",
     "standalone: begin anew where there are files and no version is whole"},
    {"DLROVER_CKPT_THREADS",  DLR_OPT_UINT, FIELD(threads),    "0",      "N",
     "copy threads"},
    {"DLROVER_RESTORE_MS",    DLR_OPT_UINT, FIELD(restore_ms), "600000", "MS",
     "longest wait for the agent in open and restore"},
    DLR_OPT_END,
};

/* The launcher closest to the program first: mpirun in a batch script leaves Slurm's
 * variables of the script in place.
 */
static const struct {
    const char *rank, *world;
} sources[] = {
    {"RANK",                 "WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK",             "PMI_SIZE"},
    {"SLURM_PROCID",         "SLURM_NTASKS"},
};
/* clang-format on */

static int set_place(int rank, int world, const char *from,
                     struct dlr_client_conf *conf, struct dlr_err *err)
{
    if (rank < 0 || world <= rank)
        return dlr_fail(err, -EINVAL, "rank %d of %d (%s) cannot be", rank, world,
                        from);
    conf->rank = rank;
    conf->world = world;
    return 0;
}

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

static int find_place(struct dlr_client_conf *conf, struct dlr_err *err)
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
        return set_place((int)rank, (int)world, sources[i].rank, conf, err);
    }
    return set_place(0, 1, "default", conf, err);
}

static void take(unsigned given, unsigned *field)
{
    if (given > 0)
        *field = given;
}

int dlr_client_conf_load(const struct dlr_ckpt_conf *given, struct dlr_client_conf *ret,
                         struct dlr_err *err)
{
    static const struct dlr_ckpt_conf none;
    const char *dir = getenv("DLROVER_CKPT_DIR");
    int rc;

    if (!given)
        given = &none;
    rc = dlr_opt_defaults(opts, ret, err);
    for (const struct dlr_opt *o = opts; rc == 0 && o->name; o++) {
        const char *value = getenv(o->name);

        if (value && *value)
            rc = dlr_opt_set(opts, o->name, value, ret, err);
    }
    if (rc < 0)
        return rc;
    take(given->every, &ret->every);
    take(given->fence_ms, &ret->fence_ms);
    take(given->threads, &ret->threads);
    if (ret->every == 0 || ret->threads > DLR_COPY_THREADS_MAX)
        return dlr_fail(err, -EINVAL, "every must be 1 or more, threads 0 to %d",
                        DLR_COPY_THREADS_MAX);
    dir = given->dir ? given->dir : dir && *dir ? dir : DIR_DEFAULT;
    if (dlr_format(ret->dir, sizeof(ret->dir), "%s", dir) < 0)
        return dlr_fail(err, -ENAMETOOLONG, "the directory's name is too long");
    return given->world > 0 ? set_place(given->rank, given->world, "given", ret, err)
                            : find_place(ret, err);
}
