/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=hwloc_topo */
/* A node's description as somebody else wrote it (dlr_machine_load() gives a file's
 * bytes to dlr_machine_check()): whatever is taken can be planned with. The first two
 * bytes are the number of ranks and of GPUs, the others what follows magic and size.
 */
#include <stdlib.h>

#include "hwloc_topo/bind.h"
#include "tests/fuzz/fuzz.h"

static void check(const struct dlr_machine *m, unsigned n, unsigned ngpus)
{
    static struct dlr_bind_rank ranks[256];
    struct dlr_topo_cpus all;
    unsigned gpus[DLR_MACHINE_GPUS], cores = 0;
    struct dlr_err err = {0};

    memset(&all, 0xff, sizeof(all));
    for (unsigned i = 0; i < m->gpus; i++)
        gpus[i] = i;
    if (dlr_bind_plan(m, &all, n, gpus, ngpus > m->gpus ? m->gpus : ngpus, ranks,
                      &err) < 0) {
        FUZZ_CHECK(err.text[0]);
        return;
    }
    for (unsigned i = 0; i < n; i++) {
        cores += ranks[i].cores;
        FUZZ_CHECK(ranks[i].cores > 0 && ranks[i].numa < m->numas);
        FUZZ_CHECK(ranks[i].nnics <= m->nics);
    }
    FUZZ_CHECK(cores <= m->cores);
    FUZZ_CHECK(dlr_bind_gpu_order(ranks, n, gpus) <= m->gpus);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct dlr_machine m;
    size_t head = offsetof(struct dlr_machine, numas), rest = sizeof(m) - head;

    if (size < 3)
        return 0;
    memset(&m, 0, sizeof(m));
    m.magic = DLR_MACHINE_MAGIC;
    m.size = sizeof(m);
    memcpy((char *)&m + head, data + 2, size - 2 < rest ? size - 2 : rest);
    if (dlr_machine_check(&m, sizeof(m), NULL) == 0)
        check(&m, 1 + data[0] % 255u, data[1]);
    return 0;
}
