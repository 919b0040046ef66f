/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=mpi_launcher/step_plan,common/local,common/config */
/* srun's arguments as users write them: one on each line. The first byte says how large
 * the allocation is. What comes out must be a plan that fits it. Reaches
 * dlr_step_plan_read(), dlr_step_plan_read_prefer(), dlr_step_plan_read_exclude().
 */
#include "mpi_launcher/step_plan/step_plan.h"
#include "tests/fuzz/fuzz.h"

#define WORDS_MAX 64

static void check(const struct dlr_step_plan_in *in, const struct dlr_step_plan *plan)
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
    for (unsigned i = 0; i < plan->nprefer; i++)
        FUZZ_CHECK(plan->prefer[i] < in->nnodes && !plan->barred[plan->prefer[i]]);
    FUZZ_CHECK(plan->nprefer <= plan->nplaces && plan->shape[0]);
}

/* Names with commas between; a file holds the second node, twice. */
static int expand(const char *text, bool is_file, char ***ret_names, unsigned *ret_n,
                  struct dlr_err *err)
{
    char *copy = strdup(is_file ? "n2,n2" : text), *rest;

    *ret_names = calloc(strlen(copy) + 1, sizeof(**ret_names));
    *ret_n = 0;
    for (char *w = strtok_r(copy, ",", &rest); w; w = strtok_r(NULL, ",", &rest))
        (*ret_names)[(*ret_n)++] = strdup(w);
    free(copy);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char srun[] = "srun", *words[WORDS_MAX + 1] = {srun}, *all, *rest, *line;
    static char ntasks[] = "SLURM_NTASKS=4", per_node[] = "SLURM_NTASKS_PER_NODE=2",
                n1[] = "n1", n2[] = "n2", n3[] = "n3", n4[] = "n4", other[] = "other";
    char *names[] = {n1, n2, n3, n4, other, other, other, other}, *env[3] = {NULL};
    struct dlr_step_plan_in in = {
        .argc = 1, .argv = words, .names = names, .env = env, .expand = expand};
    struct dlr_step_plan plan;
    struct dlr_err err = {0};

    if (size == 0)
        return 0;
    in.nnodes = data[0] % 8 + 1;
    in.spares = data[0] / 8 % 4;
    if (data[0] & 64)
        env[0] = ntasks;
    if (data[0] & 128)
        env[data[0] & 64 ? 1 : 0] = per_node;
    all = rest = fuzz_text(data + 1, size - 1);
    while (in.argc < WORDS_MAX && (line = fuzz_line(&rest)))
        words[in.argc++] = line;
    if (dlr_step_plan_make(&in, &plan, &err) == 0) {
        check(&in, &plan);
        dlr_step_plan_done(&plan);
    } else {
        FUZZ_CHECK(err.text[0]); /* refused with a reason */
    }
    free(all);
    return 0;
}
