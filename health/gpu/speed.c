/* SPDX-License-Identifier: Apache-2.0 */
/* How fast the GPUs are, measured: CUDA's device-host copies against what the link can,
 * a matrix multiply against the node's other GPUs of that model. What a model can is
 * nowhere written down that could be read here.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "health/checks.h"
#include "health/gpu/gpu.h"
#include "health/gpu/xid.h"

/* A GPU takes a second or two, with nvidia-persistenced or without. */
#define GPU_SPEED_MS (60 * 1000)
/* Of the link's nominal rate; pinned copies reach 80 and more. */
#define COPY_PERCENT 50
/* Of the fastest of that model beside it. Clocks of good GPUs differ by 5 to 10. */
#define MULTIPLY_PERCENT 70
#define OUT_OF_MEMORY 2 /* CUresult */

/* MB/s of a PCIe lane, by generation: its transfers a second less its encoding (PCI
 * Express Base Specification: 8b/10b, from generation 3 on 128b/130b, then flits).
 */
static const int64_t lane_mbs[] = {0, 250, 500, 985, 1969, 3938, 7563};

/* What the link of the GPU with that address can, 0 unknown. */
static int64_t link_mbs(const struct dlr_health_gpus *told, const char *bus)
{
    for (unsigned i = 0; i < told->facts.ngpus; i++) {
        const struct dlr_gpu *gpu = &told->facts.gpus[i];
        size_t generation = (size_t)gpu->generation_max;

        if (!dlr_xid_is_bus(bus, gpu->bus) || gpu->generation_max < 1 || gpu->width < 1)
            continue;
        if (generation >= sizeof(lane_mbs) / sizeof(*lane_mbs))
            generation = sizeof(lane_mbs) / sizeof(*lane_mbs) - 1;
        return lane_mbs[generation] * gpu->width;
    }
    return 0;
}

static int64_t fastest(const struct dlr_gpu_facts *facts, const char *name)
{
    int64_t best = 0;

    for (unsigned i = 0; i < facts->ngpus; i++)
        if (dlr_streq(facts->gpus[i].name, name) && facts->gpus[i].multiply > best)
            best = facts->gpus[i].multiply;
    return best;
}

static void judge(const struct dlr_health_gpus *told, const struct dlr_gpu_facts *facts,
                  unsigned i, struct dlr_health_result *ret)
{
    const struct dlr_gpu *gpu = &facts->gpus[i];
    int64_t link = link_mbs(told, gpu->bus), best = fastest(facts, gpu->name);
    int64_t copy = gpu->to_host < gpu->to_device ? gpu->to_host : gpu->to_device;

    if (gpu->error != 0)
        dlr_health_say(ret,
                       gpu->error == OUT_OF_MEMORY ? DLR_HEALTH_WARN : DLR_HEALTH_FAIL,
                       "GPU %u (%s): CUDA error %" PRId64, i, gpu->bus, gpu->error);
    else if (gpu->wrong > 0)
        dlr_health_say(ret, DLR_HEALTH_DRAIN,
                       "GPU %u (%s): %" PRId64 " results of a multiply are wrong", i,
                       gpu->bus, gpu->wrong);
    else if (link && copy >= 0 && copy < link / 100 * COPY_PERCENT)
        dlr_health_say(ret, DLR_HEALTH_FAIL,
                       "GPU %u (%s): copies of %" PRId64 " MB/s, the link can %" PRId64,
                       i, gpu->bus, copy, link);
    else if (gpu->multiply >= 0 && gpu->multiply < best / 100 * MULTIPLY_PERCENT)
        dlr_health_say(ret, DLR_HEALTH_FAIL,
                       "GPU %u (%s): multiplies at %" PRId64
                       " Gflop/s, another at %" PRId64,
                       i, gpu->bus, gpu->multiply, best);
}

static bool nothing(const struct dlr_health_gpus *m, struct dlr_health_result *ret)
{
    unsigned done = m->facts.ngpus ? m->facts.ngpus - 1 : 0;

    if (m->asked == DLR_GPU_FAILED)
        dlr_health_say(ret, DLR_HEALTH_SKIP, "dlrover-gpu cannot be run: %s", m->why);
    else if (m->asked == DLR_GPU_STUCK)
        dlr_health_say(ret, DLR_HEALTH_DRAIN, "CUDA hangs in the kernel after %u GPUs",
                       done);
    else if (m->asked == DLR_GPU_SILENT)
        dlr_health_say(ret, DLR_HEALTH_FAIL, "CUDA does not answer after %u GPUs",
                       done);
    else if (m->asked == DLR_GPU_LATE)
        dlr_health_say(ret, DLR_HEALTH_WARN, "CUDA is slow, %u GPUs were measured",
                       done);
    else if (m->asked == DLR_GPU_BROKEN)
        dlr_health_say(ret, DLR_HEALTH_WARN, "dlrover-gpu ended early: %s", m->why);
    else if (!m->facts.library || m->facts.lacks[0])
        dlr_health_say(ret, DLR_HEALTH_SKIP, "no CUDA here");
    else if (m->facts.error)
        dlr_health_say(ret, m->scope.expected ? DLR_HEALTH_FAIL : DLR_HEALTH_SKIP,
                       "CUDA error %" PRId64, m->facts.error);
    else if (m->facts.ngpus == 0)
        dlr_health_say(ret, DLR_HEALTH_SKIP, "no GPU of ours is shown");
    else
        return false;
    return true;
}

static void say_well(const struct dlr_gpu_facts *facts, struct dlr_health_result *ret)
{
    const struct dlr_gpu *least = &facts->gpus[0];

    for (unsigned i = 1; i < facts->ngpus; i++)
        if (facts->gpus[i].multiply < least->multiply)
            least = &facts->gpus[i];
    if (least->multiply < 0 || least->to_host < 0 || least->to_device < 0)
        dlr_health_say(ret, DLR_HEALTH_OK, "%u GPUs compute right, no time was taken",
                       facts->ngpus);
    else
        dlr_health_say(ret, DLR_HEALTH_OK,
                       "%u GPUs: the slowest %" PRId64 " Gflop/s (f32), to it %" PRId64
                       " MB/s, from it %" PRId64,
                       facts->ngpus, least->multiply, least->to_device, least->to_host);
}

void dlr_health_gpu_speed(const struct dlr_health_env *env,
                          struct dlr_health_result *ret)
{
    const struct dlr_health_gpus *told = dlr_health_gpus(env);
    DLR_AUTO_FREE struct dlr_health_gpus *m = calloc(1, sizeof(*m));
    struct dlr_health_result one;

    if (!m || told->asked == DLR_GPU_STUCK || told->asked == DLR_GPU_SILENT) {
        dlr_health_say(ret, DLR_HEALTH_SKIP, "%s", m ? "see check gpu" : "no memory");
        return;
    }
    dlr_health_gpus_ask(env, "speed", GPU_SPEED_MS, m);
    if (!nothing(m, ret)) {
        for (unsigned i = 0; i < m->facts.ngpus; i++) {
            memset(&one, 0, sizeof(one));
            judge(told, &m->facts, i, &one);
            if (one.verdict > ret->verdict)
                dlr_health_say(ret, one.verdict, "%s", one.reason);
        }
        if (ret->verdict == DLR_HEALTH_OK)
            say_well(&m->facts, ret);
    }
    dlr_health_gpus_temper(m, ret);
}
