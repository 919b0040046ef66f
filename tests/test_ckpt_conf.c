/* SPDX-License-Identifier: Apache-2.0 */
/* How a program finds its rank: by the launcher that is closest to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/conf.h"

static const char *const names[] = {
    "DLROVER_ROUND",        "RANK",     "WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE",   "SLURM_PROCID",
    "SLURM_NTASKS",
};
#define NAMES (sizeof(names) / sizeof(*names))

static const struct {
    const char *name;
    const char *value[NAMES]; /* in the order of names; NULL: unset */
    int rank, world;
} rows[] = {
    {"by hand", {0}, 0, 1},
    {"srun without us", {[7] = "2", [8] = "4"}, 2, 4},
    {"a task of ours", {"0", "2", "4", [7] = "2", [8] = "4"}, 2, 4},
    {"torchrun in a task", {"0", "3", "4", [7] = "1", [8] = "2"}, 3, 4},
    {"torchrun with one process of one task",
     {"0", "0", "1", [7] = "0", [8] = "1"},
     0,
     1},
    {"mpirun in our only task", {"0", "0", "1", "3", "4", [7] = "0", [8] = "1"}, 3, 4},
    {"Hydra's mpirun in it",
     {"0", "0", "1", [5] = "1", [6] = "4", [7] = "0", [8] = "1"},
     1,
     4},
    {"sbatch from a shell below srun --mpi=pmi2",
     {"0", "2", "4", [5] = "0", [6] = "1", [7] = "2", [8] = "4"},
     2,
     4},
    {"a shell that forks", {"0", "5", "8", [7] = "0", [8] = "1"}, 5, 8},
    {"mpirun in a batch script", {[3] = "1", [4] = "2", [7] = "0", [8] = "1"}, 1, 2},
    {"torchrun without us", {[1] = "0", [2] = "1", [3] = "1", [4] = "2"}, 0, 1},
};

static void the_closest_launcher_counts(void **state)
{
    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_client_conf conf;
        struct dlr_err err;

        print_message("%s\n", rows[i].name);
        for (unsigned n = 0; n < NAMES; n++)
            if (rows[i].value[n])
                setenv(names[n], rows[i].value[n], 1);
            else
                unsetenv(names[n]);
        assert_int_equal(dlr_client_conf_load(NULL, &conf, &err), 0);
        assert_int_equal(conf.rank, rows[i].rank);
        assert_int_equal(conf.world, rows[i].world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_closest_launcher_counts)};

    return cmocka_run_group_tests_name("conf", tests, NULL, NULL);
}
