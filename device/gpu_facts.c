/* SPDX-License-Identifier: Apache-2.0 */
#include "device/gpu_facts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"

#define NUMBER(key) {#key, offsetof(struct dlr_gpu, key)},

static const struct number {
    const char *key;
    size_t at;
} numbers[] = {DLR_GPU_NUMBERS(NUMBER)};

static const struct text {
    const char *key;
    size_t at, size;
} texts[] = {
    {"bus", offsetof(struct dlr_gpu, bus), sizeof(((struct dlr_gpu *)0)->bus)},
    {"name", offsetof(struct dlr_gpu, name), sizeof(((struct dlr_gpu *)0)->name)},
    {"cluster", offsetof(struct dlr_gpu, cluster),
     sizeof(((struct dlr_gpu *)0)->cluster)},
};

void dlr_gpu_facts_init(struct dlr_gpu_facts *facts)
{
    memset(facts, 0, sizeof(*facts));
}

static int64_t *number_at(struct dlr_gpu *gpu, size_t i)
{
    return (int64_t *)((char *)gpu + numbers[i].at);
}

/* The decimal number that text is, at most 18 digits. */
static bool read_number(const char *text, size_t size, int64_t *ret)
{
    int64_t value = 0;

    if (size < 1 || size > 18)
        return false;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (text[i] - '0');
    }
    *ret = value;
    return true;
}

static bool begin_gpu(struct dlr_gpu_facts *facts)
{
    struct dlr_gpu *gpu = &facts->gpus[facts->ngpus];

    if (facts->ngpus == DLR_GPU_MAX)
        return false;
    facts->ngpus++;
    memset(gpu, 0, sizeof(*gpu));
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        *number_at(gpu, i) = DLR_GPU_UNKNOWN;
    return true;
}

static bool keep_text(char *to, size_t size, const char *value)
{
    if (dlr_format(to, size, "%s", value) < 0)
        return false;
    dlr_plain(to);
    return true;
}

static bool add_process(struct dlr_gpu *gpu, const char *value)
{
    struct dlr_gpu_process *p = &gpu->processes[gpu->nprocesses];
    size_t n = strcspn(value, " ");

    if (gpu->nprocesses == DLR_GPU_PROCESSES || !value[n] ||
        !read_number(value, n, &p->pid) ||
        !read_number(value + n + 1, strlen(value + n + 1), &p->bytes))
        return false;
    gpu->nprocesses++;
    return true;
}

static bool of_gpu(struct dlr_gpu *gpu, const char *key, const char *value)
{
    if (dlr_streq(key, "process"))
        return add_process(gpu, value);
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        if (dlr_streq(key, texts[i].key))
            return keep_text((char *)gpu + texts[i].at, texts[i].size, value);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        if (dlr_streq(key, numbers[i].key))
            return read_number(value, strlen(value), number_at(gpu, i));
    return false;
}

bool dlr_gpu_facts_line(struct dlr_gpu_facts *facts, const char *line)
{
    size_t n = strcspn(line, " ");
    const char *value = line[n] ? line + n + 1 : "";
    char key[24];

    if (facts->ended || dlr_format(key, sizeof(key), "%.*s", (int)n, line) < 0)
        return false;
    if (dlr_streq(key, "end"))
        return facts->ended = true;
    if (dlr_streq(key, "gpu"))
        return begin_gpu(facts);
    if (facts->ngpus)
        return of_gpu(&facts->gpus[facts->ngpus - 1], key, value);
    if (dlr_streq(key, "library"))
        return facts->library = true;
    if (dlr_streq(key, "init"))
        return read_number(value, strlen(value), &facts->error);
    if (dlr_streq(key, "lacks"))
        return keep_text(facts->lacks, sizeof(facts->lacks), value);
    return dlr_streq(key, "driver") &&
           keep_text(facts->driver, sizeof(facts->driver), value);
}

const char *dlr_nvml_text(int64_t code)
{
    // clang-format off
    static const struct {
        int64_t code;
        const char *text;
    } rows[] = {
        {0, "it answers"},
        {DLR_NVML_NOT_SUPPORTED, "not supported"},
        {DLR_NVML_NO_PERMISSION, "permission denied"},
        {8, "a power cable is not attached"},
        {DLR_NVML_DRIVER_NOT_LOADED, "the driver is not loaded"},
        {10, "the driver's own time has run out"},
        {11, "an interrupt of the GPU does not come"},
        {14, "its infoROM is corrupted"},
        {DLR_NVML_GPU_IS_LOST, "it has fallen off the bus"},
        {DLR_NVML_RESET_REQUIRED, "it must be reset"},
        {17, "the operating system blocks it"},
        {DLR_NVML_VERSION_MISMATCH, "driver and library are of two versions"},
        {20, "no memory"},
        {999, "an internal error of the driver"},
    };
    // clang-format on

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        if (rows[i].code == code)
            return rows[i].text;
    return "an error of the driver";
}
