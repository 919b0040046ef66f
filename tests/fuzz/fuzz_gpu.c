/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=health/gpu */
/* Lines that dlrover-gpu writes, whose library is not ours, and records of the kernel's
 * log. Reaches dlr_gpu_facts_line(), dlr_xid_record().
 */
#include "device/gpu_facts.h"
#include "health/gpu/xid.h"
#include "tests/fuzz/fuzz.h"

static void check_facts(const struct dlr_gpu_facts *facts)
{
    FUZZ_CHECK(facts->ngpus <= DLR_GPU_MAX);
    for (unsigned i = 0; i < facts->ngpus; i++) {
        const struct dlr_gpu *gpu = &facts->gpus[i];

        FUZZ_CHECK(gpu->nprocesses <= DLR_GPU_PROCESSES);
        FUZZ_CHECK(memchr(gpu->bus, '\0', sizeof(gpu->bus)));
        for (const char *c = gpu->name; *c; c++)
            FUZZ_CHECK((unsigned char)*c >= ' ');
        FUZZ_CHECK(gpu->ecc >= DLR_GPU_UNKNOWN && gpu->used >= DLR_GPU_UNKNOWN);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct dlr_gpu_facts facts; /* large */
    struct dlr_xid_log log = {0};
    char *all = fuzz_text(data, size), *rest = all, *line;

    dlr_gpu_facts_init(&facts);
    while ((line = fuzz_line(&rest))) {
        dlr_gpu_facts_line(&facts, line);
        dlr_xid_record(&log, line, INT64_C(10000000000));
    }
    check_facts(&facts);
    FUZZ_CHECK(log.n <= DLR_XID_GPUS);
    for (unsigned i = 0; i < log.n; i++)
        FUZZ_CHECK(log.of[i].verdict == DLR_HEALTH_OK || log.of[i].what);
    free(all);
    return 0;
}
