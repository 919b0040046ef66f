/* SPDX-License-Identifier: Apache-2.0 */
#include "spank/command/task_count.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/env.h"
#include "common/base/str.h"

/* TASKS: with any of them slurmctld counts no idle nodes. */
enum word { CPUS, TASKS, NODES, OTHER };

/* clang-format off */
/* min: the shortest abbreviation that srun takes. */
static const struct {
    const char *name;
    size_t min;
    char letter;
    enum word what;
} rows[] = {
    {"cpus-per-task", 10, 'c', CPUS},
    {"tres-per-task", 6, '\0', CPUS},
    {"ntasks", 6, 'n', TASKS},
    {"ntasks-per-node", 12, '\0', TASKS},
    {"tasks-per-node", 5, '\0', TASKS},
    {"overlap", 5, '\0', TASKS},
    {"external-launcher", 8, '\0', TASKS},
    {"interactive", 3, '\0', TASKS},
    {"relative", 3, 'r', TASKS},
    {"nodelist", 5, 'w', NODES},
    {"nodefile", 5, 'F', NODES},
    {"exclude", 6, 'x', NODES},
};
/* clang-format on */
#define NROWS (sizeof(rows) / sizeof(*rows))

static enum word long_word(const char *name)
{
    size_t len = strcspn(name, "=");

    for (size_t i = 0; i < NROWS; i++)
        if (len >= rows[i].min && len <= strlen(rows[i].name) &&
            strncmp(name, rows[i].name, len) == 0)
            return rows[i].what;
    return OTHER;
}

/* "-lc4": letters without a value up to the first that has one. */
static enum word letters(const char *at)
{
    at += strspn(at, "EHlOQsuvVXZ");
    for (size_t i = 0; *at && i < NROWS; i++)
        if (rows[i].letter == *at)
            return rows[i].what;
    return OTHER;
}

static enum word read_word(const char *word)
{
    if (word[0] != '-')
        return OTHER;
    return word[1] == '-' ? long_word(word + 2) : letters(word + 1);
}

enum dlr_taskcount dlr_taskcount_read(char *const srun[], int words, char *const env[])
{
    static const char *const vars[] = {"SLURM_NTASKS",   "SLURM_NPROCS",
                                       "SLURM_OVERLAP",  "SLURM_NTASKS_PER_NODE",
                                       "SLURM_HOSTFILE", "SLURM_EXTERNAL_LAUNCHER"};
    bool found[OTHER + 1] = {[CPUS] = dlr_env_get(env, "SLURM_CPUS_PER_TASK")};

    for (size_t i = 0; i < sizeof(vars) / sizeof(*vars); i++)
        found[TASKS] |= dlr_env_get(env, vars[i]) != NULL;
    for (int i = 1; i < words && srun[i]; i++)
        found[read_word(srun[i])] = true;
    if (!found[CPUS] || found[TASKS])
        return DLR_TASKCOUNT_SAID;
    return found[NODES] ? DLR_TASKCOUNT_PLACED : DLR_TASKCOUNT_LEFT;
}

char **dlr_taskcount_words(char *const srun[])
{
    static char relative[] = "--relative=0";
    size_t n = 0;
    char **argv;

    while (srun[n])
        n++;
    argv = n ? calloc(n + 2, sizeof(*argv)) : NULL;
    if (!argv)
        return NULL;
    argv[0] = srun[0];
    argv[1] = relative;
    memcpy(argv + 2, srun + 1, (n - 1) * sizeof(*argv));
    return argv;
}
