/* SPDX-License-Identifier: Apache-2.0 */
/* srun's words as users write them: one on each line. The first byte says how large the
 * allocation is. What comes out must be a plan that fits it.
 */
#include "mpi_launcher/stepplan.h"
#include "tests/fuzz/fuzz.h"

#define WORDS_MAX 64

static void check(const struct dlr_stepplan_in *in, const struct dlr_stepplan *plan)
{
    uint64_t sum = 0;

    if (plan->plain)
        return;
    FUZZ_CHECK(plan->nplaces >= 1 && plan->nplaces <= in->nnodes);
    for (unsigned i = 0; i < plan->nplaces; i++)
        sum += plan->tasks[i];
    FUZZ_CHECK(sum == plan->world);
    FUZZ_CHECK(plan->program >= in->argv && plan->program <= in->argv + in->argc);
    for (unsigned i = 0; i < plan->noptions; i++)
        FUZZ_CHECK(plan->options[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char srun[] = "srun", *words[WORDS_MAX + 1] = {srun}, *all, *rest, *line;
    struct dlr_stepplan_in in = {.argc = 1, .argv = words};
    struct dlr_stepplan plan;
    struct dlr_err err = {0};

    if (size == 0)
        return 0;
    in.nnodes = data[0] % 8 + 1;
    in.spares = data[0] / 8 % 4;
    in.ntasks = data[0] & 64 ? "4" : NULL;
    in.per_node = data[0] & 128 ? "2" : NULL;
    all = rest = fuzz_text(data + 1, size - 1);
    while (in.argc < WORDS_MAX && (line = fuzz_line(&rest)))
        words[in.argc++] = line;
    if (dlr_stepplan_make(&in, &plan, &err) == 0) {
        check(&in, &plan);
        dlr_stepplan_done(&plan);
    } else {
        FUZZ_CHECK(err.text[0]); /* refused with a reason */
    }
    free(all);
    return 0;
}
