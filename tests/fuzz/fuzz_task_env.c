/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=spank/node,spank/command,spank/task */
/* A step's environment as its user wrote it, which slurmstepd reads as root: each line
 * is a variable. The first three bytes are rank, tasks and node of the task.
 */
#include <stdio.h>

#include "common/base/env.h"
#include "spank/base/options.h"
#include "spank/node/job_tmpfs.h"
#include "spank/task/bind.h"
#include "spank/task/task_env.h"
#include "tests/fuzz/fuzz.h"

#define VARS_MAX 64

static void ignore(const struct dlr_err *err)
{
    FUZZ_CHECK(memchr(err->text, '\0', sizeof(err->text)));
}

static const char *made(const struct dlr_task_env *env, const char *name)
{
    for (unsigned i = 0; i < env->count; i++)
        if (strcmp(env->vars[i].name, name) == 0)
            return env->vars[i].value;
    return NULL;
}

static void check(const struct dlr_task_env *env, const struct dlr_task_self *self)
{
    char rank[16], world[16];

    snprintf(rank, sizeof(rank), "%u", self->rank);
    snprintf(world, sizeof(world), "%u", self->world);
    FUZZ_CHECK(env->count <= DLR_TASK_VARS);
    FUZZ_CHECK(strcmp(made(env, "RANK"), rank) == 0);
    FUZZ_CHECK(strcmp(made(env, "WORLD_SIZE"), world) == 0);
    FUZZ_CHECK(strtoul(made(env, "LOCAL_RANK"), NULL, 10) <
               strtoul(made(env, "LOCAL_WORLD_SIZE"), NULL, 10));
}

static void check_gpus(char *const env[], unsigned n)
{
    static const struct dlr_machine m = {
        .gpus = 4, .gpu = {{.minor = 2}, {.minor = 1}, {.minor = 0}, {.minor = 3}}};
    unsigned gpus[DLR_MACHINE_GPUS];
    struct dlr_err err = {0};
    bool order = true;
    int count = dlr_task_bind_gpus(&m, env, n, gpus, &order, &err);

    FUZZ_CHECK(count >= 0 ? count <= DLR_MACHINE_GPUS : err.text[0]);
    for (int i = 0; i < count; i++)
        FUZZ_CHECK(gpus[i] < m.gpus);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct dlr_spank_conf conf; /* large */
    char *env[VARS_MAX + 1] = {NULL}, *all, *rest, *line, node[] = "n?";
    struct dlr_task_round round;
    struct dlr_task_self self = {.node = node};
    struct dlr_task_env vars;
    struct dlr_err err = {0};
    size_t n = 0;

    if (size < 3)
        return 0;
    self.rank = data[0];
    self.world = data[1];
    node[1] = (char)(data[2] ? data[2] : 1);
    all = rest = fuzz_text(data + 3, size - 3);
    while (n < VARS_MAX && (line = fuzz_line(&rest)))
        env[n++] = line;
    self.local = dlr_env_get(env, "SLURM_LOCALID");
    dlr_options_init(&conf);
    dlr_options_env(&conf, env, ignore);
    dlr_jobmem_wanted(env, 7);
    check_gpus(env, 2 + self.world);
    if (dlr_task_round_find(env, &round)) {
        if (dlr_task_env_make(&round, &self, &vars, &err) == 0) {
            check(&vars, &self);
            dlr_task_env_free(&vars);
        } else {
            FUZZ_CHECK(err.text[0]);
        }
    }
    free(all);
    return 0;
}
