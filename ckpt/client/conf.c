/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/client/conf.h"

#include <errno.h>
#include <stdlib.h>

#include "ckpt/client/copy.h"
#include "common/base/str.h"
#include "common/local/program_rank.h"

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
/* clang-format on */

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
    if (given->world <= 0)
        return dlr_program_rank(&ret->rank, &ret->world, err);
    if (given->rank < 0 || given->world <= given->rank)
        return dlr_fail(err, -EINVAL, "rank %d of %d (given) cannot be", given->rank,
                        given->world);
    ret->rank = given->rank;
    ret->world = given->world;
    return 0;
}
