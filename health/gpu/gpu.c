/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA GPUs, by what their driver says. A GPU is judged for itself and the worst is
 * told. Limits and verdicts, where none other is named: NVIDIA, "GPU Memory Error
 * Management" and "Health Validation" (docs.nvidia.com), and the checks of Meta's
 * clusters (facebookresearch/gcm: a pending row remap is critical). docs/gpu-health.md
 * says them in a table.
 */
#include "health/gpu/gpu.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/str.h"
#include "health/checks.h"

#define CLUSTER_DIGITS 32
#define FABRIC_COMPLETED 3 /* nvmlGpuFabricState_t; 0: there is none */

/* nvmlDeviceGpuRecoveryAction_t */
static const struct {
    enum dlr_health_verdict verdict;
    const char *text;
} actions[] = {
    {DLR_HEALTH_OK, "none"},
    {DLR_HEALTH_DRAIN, "it must be reset"},
    {DLR_HEALTH_DRAIN, "the node must be rebooted"},
    {DLR_HEALTH_DRAIN, "what it shares with other GPUs must end"},
    {DLR_HEALTH_DRAIN, "its programs must end, then it must be reset"},
    {DLR_HEALTH_WARN, "the IMEX domain must be recovered"},
    {DLR_HEALTH_DRAIN, "its bus must be reset"},
    {DLR_HEALTH_DRAIN, "the whole system must be rebooted"},
};

/* --- is there anything to judge? -------------------------------------------------- */

static void say_init_error(const struct dlr_health_gpus *g,
                           struct dlr_health_result *ret)
{
    enum dlr_health_verdict verdict = DLR_HEALTH_FAIL;

    switch (g->facts.error) {
    case DLR_NVML_NO_PERMISSION:
        verdict = DLR_HEALTH_SKIP;
        break;
    case DLR_NVML_DRIVER_NOT_LOADED:
        verdict = g->scope.expected ? DLR_HEALTH_DRAIN : DLR_HEALTH_SKIP;
        break;
    case DLR_NVML_VERSION_MISMATCH:
    case DLR_NVML_GPU_IS_LOST:
    case DLR_NVML_RESET_REQUIRED:
        verdict = DLR_HEALTH_DRAIN;
        break;
    default:
        break;
    }
    dlr_health_say(ret, verdict, "NVML: %s (%" PRId64 ")",
                   dlr_nvml_text(g->facts.error), g->facts.error);
}

/* The row "gpu" says why there is nothing to judge, with a verdict; the others skip. */
static bool nothing(const struct dlr_health_gpus *g, struct dlr_health_result *ret)
{
    const struct dlr_gpu_facts *f = &g->facts;

    if (g->asked == DLR_GPU_FAILED)
        dlr_health_say(ret, DLR_HEALTH_SKIP, "dlrover-gpu cannot be run: %s", g->why);
    else if (g->asked == DLR_GPU_STUCK)
        dlr_health_say(ret, DLR_HEALTH_DRAIN,
                       "the driver hangs in the kernel, %u GPUs have answered",
                       f->ngpus ? f->ngpus - 1 : 0);
    else if (g->asked == DLR_GPU_LATE)
        dlr_health_say(ret, DLR_HEALTH_WARN,
                       "the driver is slow, %u GPUs have answered in time; is "
                       "nvidia-persistenced there?",
                       f->ngpus ? f->ngpus - 1 : 0);
    else if (g->asked == DLR_GPU_SILENT)
        dlr_health_say(ret, DLR_HEALTH_FAIL,
                       "the driver does not answer, %u GPUs have answered",
                       f->ngpus ? f->ngpus - 1 : 0);
    else if (g->asked == DLR_GPU_BROKEN)
        dlr_health_say(ret, DLR_HEALTH_WARN, "dlrover-gpu ended early: %s", g->why);
    else if (!f->library)
        dlr_health_say(ret, DLR_HEALTH_SKIP, "no NVIDIA driver here");
    else if (f->lacks[0])
        dlr_health_say(ret, DLR_HEALTH_SKIP, "libnvidia-ml has no %s", f->lacks);
    else if (f->error)
        say_init_error(g, ret);
    else
        return false;
    return true;
}

void dlr_health_gpus_temper(const struct dlr_health_gpus *g,
                            struct dlr_health_result *ret)
{
    char reason[sizeof(ret->reason)];

    if (g->scope.known || ret->verdict <= DLR_HEALTH_WARN)
        return;
    memcpy(reason, ret->reason, sizeof(reason));
    dlr_health_say(ret, DLR_HEALTH_WARN, "%.200s (Slurm gives no GPU here)", reason);
}

void dlr_health_gpu_each(const struct dlr_health_env *env, dlr_health_gpu_fn *judge,
                         const char *well, struct dlr_health_result *ret)
{
    const struct dlr_health_gpus *g = dlr_health_gpus(env);
    struct dlr_health_result one;
    unsigned judged = 0, bad = 0;

    if (nothing(g, ret)) {
        dlr_health_say(ret, DLR_HEALTH_SKIP, "see check gpu");
        return;
    }
    for (unsigned i = 0; i < g->facts.ngpus; i++) {
        memset(&one, 0, sizeof(one));
        if (!g->scope.ours[i] || g->facts.gpus[i].error != 0 ||
            !judge(env, &g->facts.gpus[i], &one))
            continue;
        judged++;
        bad += one.verdict != DLR_HEALTH_OK;
        if (one.verdict > ret->verdict)
            dlr_health_say(ret, one.verdict, "GPU %u (%s): %.160s", i,
                           g->facts.gpus[i].bus, one.reason);
    }
    if (judged == 0)
        dlr_health_say(ret, DLR_HEALTH_SKIP, "no GPU of ours tells");
    else if (bad == 0)
        dlr_health_say(ret, DLR_HEALTH_OK, "%u GPUs: %s", judged, well);
    else if (bad > 1)
        dlr_format(ret->reason + strlen(ret->reason),
                   sizeof(ret->reason) - strlen(ret->reason), "; %u of %u GPUs", bad,
                   judged);
    dlr_health_gpus_temper(g, ret);
}

/* --- gpu: they are there and answer ----------------------------------------------- */

static void judge_answer(const struct dlr_gpu *gpu, unsigned i,
                         struct dlr_health_result *ret)
{
    size_t action = (size_t)gpu->recovery;
    bool lost =
        gpu->error == DLR_NVML_GPU_IS_LOST || gpu->error == DLR_NVML_RESET_REQUIRED;

    if (gpu->error != 0)
        dlr_health_say(ret, lost ? DLR_HEALTH_DRAIN : DLR_HEALTH_FAIL,
                       "GPU %u: %s (NVML %" PRId64 ")", i, dlr_nvml_text(gpu->error),
                       gpu->error);
    else if (gpu->recovery == DLR_GPU_UNKNOWN)
        return;
    else if (action >= sizeof(actions) / sizeof(*actions))
        dlr_health_say(ret, DLR_HEALTH_FAIL, "GPU %u (%s): recovery action %zu", i,
                       gpu->bus, action);
    else if (actions[action].verdict)
        dlr_health_say(ret, actions[action].verdict, "GPU %u (%s): %s", i, gpu->bus,
                       actions[action].text);
}

/* Nodes whose GPUs have one cluster and one clique can reach each other by NVLink (NVML,
 * nvmlGpuFabricInfo_t); without NVSwitches between nodes there is no cluster.
 */
static void tell_domain(const struct dlr_health_gpus *g, char *ret)
{
    *ret = '\0';
    for (unsigned i = 0; i < g->facts.ngpus && !*ret; i++) {
        const struct dlr_gpu *gpu = &g->facts.gpus[i];

        if (g->scope.ours[i] && gpu->fabric == FABRIC_COMPLETED &&
            strspn(gpu->cluster, "0123456789abcdef") == CLUSTER_DIGITS)
            dlr_format(ret, DLR_HEALTH_DOMAIN, "nvl-%s-%" PRId64, gpu->cluster,
                       gpu->clique);
    }
}

void dlr_health_gpu(const struct dlr_health_env *env, struct dlr_health_result *ret)
{
    const struct dlr_health_gpus *g = dlr_health_gpus(env);
    const struct dlr_health_gpu_scope *s = &g->scope;
    struct dlr_health_result one;

    if (env->domain)
        tell_domain(g, env->domain);
    if (nothing(g, ret)) {
        dlr_health_gpus_temper(g, ret);
        return;
    }
    for (unsigned i = 0; i < g->facts.ngpus; i++) {
        memset(&one, 0, sizeof(one));
        if (s->ours[i])
            judge_answer(&g->facts.gpus[i], i, &one);
        if (one.verdict > ret->verdict)
            dlr_health_say(ret, one.verdict, "%s", one.reason);
    }
    if (ret->verdict)
        dlr_health_gpus_temper(g, ret);
    else if (s->nours == 0)
        dlr_health_say(ret, DLR_HEALTH_SKIP, "no GPU of ours is shown");
    else if (s->visible < s->expected)
        dlr_health_say(ret, DLR_HEALTH_DRAIN, "%u GPUs answer, %s %u", s->visible,
                       s->job ? "Slurm gives" : "the kernel has", s->expected);
    else
        dlr_health_say(ret, DLR_HEALTH_OK, "%u GPUs answer, driver %s", s->nours,
                       g->facts.driver);
}

/* --- gpu-memory ------------------------------------------------------------------- */

static bool judge_memory(const struct dlr_health_env *env, const struct dlr_gpu *gpu,
                         struct dlr_health_result *ret)
{
    if (gpu->remap_failed > 0)
        dlr_health_say(ret, DLR_HEALTH_DRAIN, "a memory row could not be remapped");
    else if (gpu->remap_pending > 0)
        dlr_health_say(ret, DLR_HEALTH_DRAIN, "memory rows are remapped at its reset");
    else if (gpu->retire_pending > 0)
        dlr_health_say(ret, DLR_HEALTH_DRAIN, "memory pages are retired at its reset");
    else if (gpu->ecc > 0)
        dlr_health_say(ret, DLR_HEALTH_FAIL, "%" PRId64 " uncorrected memory errors",
                       gpu->ecc);
    return gpu->ecc >= 0 || gpu->remap_pending >= 0 || gpu->retire_pending >= 0;
}

void dlr_health_gpu_memory(const struct dlr_health_env *env,
                           struct dlr_health_result *ret)
{
    dlr_health_gpu_each(env, judge_memory, "no uncorrected memory error", ret);
}

/* --- gpu-link --------------------------------------------------------------------- */

static int64_t most_links(const struct dlr_health_gpus *g)
{
    int64_t most = 0;

    for (unsigned i = 0; i < g->facts.ngpus; i++)
        if (g->facts.gpus[i].links_up > most)
            most = g->facts.gpus[i].links_up;
    return most;
}

/* With a fabric all links lead to NVSwitches; else some may lead nowhere, and only what
 * another GPU of the node has is wanted.
 */
static void judge_nvlink(const struct dlr_health_gpus *g, const struct dlr_gpu *gpu,
                         struct dlr_health_result *ret)
{
    int64_t want = gpu->fabric == FABRIC_COMPLETED ? gpu->links : most_links(g);

    if (gpu->links_up >= 0 && gpu->links_up < want)
        dlr_health_say(ret, DLR_HEALTH_FAIL,
                       "%" PRId64 " of its %" PRId64
                       " NVLinks are active, not %" PRId64,
                       gpu->links_up, gpu->links, want);
}

/* A GPU alone may be one of a virtual machine, without a fabric manager. */
static void judge_fabric(const struct dlr_health_gpus *g, const struct dlr_gpu *gpu,
                         struct dlr_health_result *ret)
{
    if (gpu->fabric > 0 && gpu->fabric < FABRIC_COMPLETED)
        dlr_health_say(ret, g->scope.visible > 1 ? DLR_HEALTH_FAIL : DLR_HEALTH_WARN,
                       "it has not joined the NVLink fabric (state %" PRId64 ")",
                       gpu->fabric);
    else if (gpu->fabric == FABRIC_COMPLETED && gpu->fabric_status > 0)
        dlr_health_say(ret, DLR_HEALTH_FAIL, "NVLink fabric: %s (%" PRId64 ")",
                       dlr_nvml_text(gpu->fabric_status), gpu->fabric_status);
}

static bool judge_link(const struct dlr_health_env *env, const struct dlr_gpu *gpu,
                       struct dlr_health_result *ret)
{
    judge_nvlink(env->gpus, gpu, ret);
    if (ret->verdict == DLR_HEALTH_OK)
        judge_fabric(env->gpus, gpu, ret);
    if (ret->verdict == DLR_HEALTH_OK && gpu->width > 0 && gpu->width < gpu->width_max)
        dlr_health_say(
            ret, gpu->width * 4 <= gpu->width_max ? DLR_HEALTH_FAIL : DLR_HEALTH_WARN,
            "%" PRId64 " of %" PRId64 " PCIe lanes", gpu->width, gpu->width_max);
    return gpu->links_up >= 0 || gpu->width > 0 || gpu->fabric > 0;
}

void dlr_health_gpu_link(const struct dlr_health_env *env,
                         struct dlr_health_result *ret)
{
    dlr_health_gpu_each(env, judge_link, "all NVLinks and PCIe lanes", ret);
}

/* --- gpu-clock -------------------------------------------------------------------- */

static bool judge_clock(const struct dlr_health_env *env, const struct dlr_gpu *gpu,
                        struct dlr_health_result *ret)
{
    /* nvmlClocksEventReasons; the general bit (8) last: others say more */
    static const struct {
        int64_t bit;
        const char *text;
    } rows[] = {
        {0x80, "power brake: the power supply asks for it"},
        {0x40, "too hot: clocks are halved or lower"},
        {0x20, "warm: the driver lowers its clocks"},
        {0x08, "the hardware lowers its clocks"},
    };

    for (size_t i = 0; gpu->clocks > 0 && i < sizeof(rows) / sizeof(*rows); i++)
        if (gpu->clocks & rows[i].bit) {
            dlr_health_say(ret, DLR_HEALTH_WARN, "%s", rows[i].text);
            break;
        }
    return gpu->clocks >= 0;
}

void dlr_health_gpu_clock(const struct dlr_health_env *env,
                          struct dlr_health_result *ret)
{
    dlr_health_gpu_each(env, judge_clock, "clocks are not held back", ret);
}
