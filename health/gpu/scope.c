/* SPDX-License-Identifier: Apache-2.0 */
/* Which GPUs are the caller's. Slurm gives a step's GPUs as the numbers of their device
 * files (SLURM_STEP_GPUS; a prolog and the batch script have SLURM_JOB_GPUS: prolog(5),
 * gres_common.c). With ConstrainDevices the driver shows no others; without, all of the
 * node. What is not the job's is not judged in it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "health/gpu/gpu.h"

#define PCI "/sys/bus/pci/devices"
#define NVIDIA "0x10de"  /* vendor */
#define DISPLAY "0x0300" /* class: VGA ... */
#define THREE_D "0x0302" /* ... and 3D controllers */

static bool reads(const char *root, const char *device, const char *file,
                  const char *want)
{
    DLR_AUTO_FREE char *text = NULL;
    char path[PATH_MAX];
    size_t size;

    return dlr_format(path, sizeof(path), "%s" PCI "/%s/%s", root, device, file) == 0 &&
           dlr_file_load(AT_FDCWD, path, 64, &text, &size, NULL) == 0 &&
           dlr_after(text, want);
}

/* A GPU that was given to a virtual machine is not the driver's. */
static bool is_of_another_driver(const char *root, const char *device)
{
    char path[PATH_MAX], to[PATH_MAX];
    ssize_t n;

    if (dlr_format(path, sizeof(path), "%s" PCI "/%s/driver", root, device) < 0)
        return true;
    n = readlink(path, to, sizeof(to) - 1);
    if (n < 0)
        return false; /* of none */
    to[n] = '\0';
    return !dlr_streq(strrchr(to, '/') ? strrchr(to, '/') + 1 : to, "nvidia");
}

static unsigned count_pci(const char *root)
{
    DLR_AUTO_CLOSEDIR DIR *dir = NULL;
    char path[PATH_MAX];
    struct dirent *e;
    unsigned n = 0;

    if (dlr_format(path, sizeof(path), "%s" PCI, root) == 0)
        dir = opendir(path);
    while (dir && (e = readdir(dir)))
        n += e->d_name[0] != '.' && reads(root, e->d_name, "vendor", NVIDIA) &&
             (reads(root, e->d_name, "class", DISPLAY) ||
              reads(root, e->d_name, "class", THREE_D)) &&
             !is_of_another_driver(root, e->d_name);
    return n;
}

/* "0,1,2,3" or "0-3": its numbers, each once; 0 for anything else. */
static unsigned read_list(const char *text, unsigned char listed[DLR_GPU_MAX])
{
    unsigned n = 0;

    for (char *end = (char *)text; *text; text = end) {
        unsigned long first = strtoul(text, &end, 10), last = first;

        if (end == text)
            return 0;
        if (*end == '-')
            last = strtoul(text = end + 1, &end, 10);
        if (end == text || last < first || last >= DLR_GPU_MAX || (*end && *end != ','))
            return 0;
        for (; first <= last; first++) {
            n += !listed[first];
            listed[first] = 1;
        }
        end += *end == ',';
    }
    return n;
}

static const char *word(const char *name)
{
    const char *value = getenv(name);

    return value && value[0] ? value : NULL;
}

static bool is_visible(const struct dlr_gpu *gpu)
{
    return gpu->error != DLR_NVML_NO_PERMISSION;
}

static bool is_listed(const struct dlr_gpu *gpu, const unsigned char *listed)
{
    return gpu->minor >= 0 && gpu->minor < DLR_GPU_MAX && listed[gpu->minor];
}

/* Those whose device file Slurm names, where more are shown; else all that are. One
 * that is lost does not tell its file: then all are looked at.
 */
static void choose(struct dlr_health_gpus *gpus, const unsigned char *listed)
{
    struct dlr_health_gpu_scope *s = &gpus->scope;
    unsigned named = 0;
    bool all;

    for (unsigned i = 0; i < gpus->facts.ngpus; i++) {
        const struct dlr_gpu *gpu = &gpus->facts.gpus[i];

        s->visible += is_visible(gpu);
        named += is_listed(gpu, listed);
    }
    all = !s->job || !s->expected || s->visible <= s->expected || named < s->expected;
    for (unsigned i = 0; i < gpus->facts.ngpus; i++) {
        const struct dlr_gpu *gpu = &gpus->facts.gpus[i];

        s->ours[i] = is_visible(gpu) && (all || is_listed(gpu, listed));
        s->nours += s->ours[i];
    }
}

void dlr_health_gpus_scope(const struct dlr_health_env *env,
                           struct dlr_health_gpus *gpus)
{
    bool step = word("SLURM_PROCID");
    const char *list = step ? word("SLURM_STEP_GPUS") : word("SLURM_JOB_GPUS");
    struct dlr_health_gpu_scope *s = &gpus->scope;
    unsigned char listed[DLR_GPU_MAX] = {0};

    memset(s, 0, sizeof(*s));
    s->job = word("SLURM_JOB_ID");
    s->shared =
        word("SLURM_SHARDS_ON_NODE") || word("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
    s->expected = s->job ? read_list(list ? list : "", listed) : count_pci(env->root);
    s->known = !s->job || s->expected;
    if (!s->job || !dlr_streq(word("CUDA_VISIBLE_DEVICES"), "NoDevFiles"))
        choose(gpus, listed);
}
