/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of GPUs that the user injects. Of a node without any, two are played. */
#include <string.h>

#include "common/base/str.h"
#include "health/checks.h"
#include "health/gpu/gpu.h"

#define PLAYED 2
#define OF(number) offsetof(struct dlr_gpu, number)

static const struct {
    const char *key;
    size_t at;     /* of a GPU's facts; 0: of the kernel's log */
    bool measured; /* by check gpu-speed */
} rows[] = {
    {"gpu.error", OF(error), false},
    {"gpu.recovery", OF(recovery), false},
    {"gpu-memory.uncorrected", OF(ecc), false},
    {"gpu-memory.retire-pending", OF(retire_pending), false},
    {"gpu-memory.remap-pending", OF(remap_pending), false},
    {"gpu-memory.remap-failed", OF(remap_failed), false},
    {"gpu-xid.number", 0, false},
    {"gpu-link.links", OF(links_up), false},
    {"gpu-link.lanes", OF(width), false},
    {"gpu-clock.reasons", OF(clocks), false},
    {"gpu-speed.to-device", OF(to_device), true},
    {"gpu-speed.to-host", OF(to_host), true},
    {"gpu-speed.multiply", OF(multiply), true},
    {"gpu-speed.wrong", OF(wrong), true},
};

/* The first of ours; NULL: there is none. */
static struct dlr_gpu *first(struct dlr_health_gpus *g)
{
    for (unsigned i = 0; i < g->facts.ngpus; i++)
        if (g->scope.ours[i])
            return &g->facts.gpus[i];
    return NULL;
}

/* Two that are well. */
static struct dlr_gpu *play(struct dlr_health_gpus *g)
{
    struct dlr_gpu_facts *f = &g->facts;
    bool job = g->scope.job;

    dlr_gpu_facts_init(f);
    g->asked = DLR_GPU_ASKED;
    memset(&g->scope, 0, sizeof(g->scope));
    g->scope.job = job;
    g->scope.known = true;
    for (unsigned i = 0; i < PLAYED; i++) {
        char line[64];

        dlr_format(line, sizeof(line), "gpu %u", i);
        dlr_gpu_facts_line(f, line);
        dlr_format(f->gpus[i].bus, sizeof(f->gpus[i].bus), "00000000:0%u:00.0", i + 1);
        dlr_format(f->gpus[i].name, sizeof(f->gpus[i].name), "played");
        f->gpus[i].error = f->gpus[i].recovery = f->gpus[i].wrong = 0;
        f->gpus[i].ecc = f->gpus[i].clocks = 0;
        f->gpus[i].links = f->gpus[i].links_up = 18;
        f->gpus[i].width = f->gpus[i].width_max = 16;
        f->gpus[i].generation_max = 5;
        f->gpus[i].fabric = 3; /* joined */
        f->gpus[i].fabric_status = 0;
        f->gpus[i].to_device = f->gpus[i].to_host = 50000;
        f->gpus[i].multiply = 50000;
        g->scope.ours[i] = 1;
    }
    g->scope.nours = g->scope.visible = g->scope.expected = PLAYED;
    f->library = f->ended = true;
    f->error = 0;
    dlr_format(f->driver, sizeof(f->driver), "played");
    return &f->gpus[0];
}

void dlr_health_gpus_inject(const struct dlr_health_env *env, bool measured,
                            struct dlr_health_gpus *g)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_gpu *gpu;
        uint64_t value;

        if (!dlr_health_injected_count(env, rows[i].key, &value))
            continue;
        gpu = first(g);
        if (!gpu)
            gpu = play(g);
        if (rows[i].at && rows[i].measured == measured)
            *(int64_t *)((char *)gpu + rows[i].at) = (int64_t)value;
    }
}

bool dlr_health_gpus_injected_xid(const struct dlr_health_env *env,
                                  const struct dlr_health_gpus *g, int64_t now_us,
                                  char *buf, size_t size)
{
    uint64_t number;

    if (!dlr_health_injected_count(env, "gpu-xid.number", &number))
        return false;
    for (unsigned i = 0; i < g->facts.ngpus; i++) {
        const char *bus = g->facts.gpus[i].bus, *colon = strchr(bus, ':');

        if (g->scope.ours[i] && colon && colon - bus >= 4) /* "00000000:1B:00.0" */
            return dlr_format(buf, size, "4,1,%lld,-;NVRM: Xid (PCI:%.10s): %llu, ",
                              (long long)now_us, colon - 4,
                              (unsigned long long)number) == 0;
    }
    return false;
}
