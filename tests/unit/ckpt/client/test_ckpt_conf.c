/* SPDX-License-Identifier: Apache-2.0 */
/* How a program finds its rank: by the launcher that is closest to it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/client/conf.h"

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

static const struct {
    const char *name, *value;
    size_t at;
    unsigned before, after,
        given; /* by default, from the environment, from the program; 0: it cannot */
} settings[] = {
#define OF(f) offsetof(struct dlr_client_conf, f)
    {"DLROVER_CKPT_EVERY", "7", OF(every), DLR_COUNT_AUTO, 7, 3},
    {"DLROVER_CKPT_FENCE_MS", "70", OF(fence_ms), 10000, 70, 30},
    {"DLROVER_CKPT_THREADS", "64", OF(threads), 0, 64, 3},
    {"DLROVER_CKPT_BUDGET", "2%", OF(budget), 1000, 20000, 0},
    {"DLROVER_CKPT_BUDGET", "off", OF(budget), 1000, 0, 0},
    {"DLROVER_CKPT_AGREE_MS", "0", OF(agree_ms), 60000, 0, 0},
    {"DLROVER_CKPT_AUDIT", "0", OF(audit), DLR_COUNT_AUTO, 0, 0},
    {"DLROVER_RESTORE_MS", "9", OF(restore_ms), 600000, 9, 0},
};

static unsigned loaded(const struct dlr_ckpt_conf *given, size_t at)
{
    struct dlr_client_conf conf;
    unsigned value;

    assert_int_equal(dlr_client_conf_load(given, &conf, NULL), 0);
    memcpy(&value, (const char *)&conf + at, sizeof(value));
    return value;
}

static void
the_program_goes_before_the_environment_and_that_before_defaults(void **state)
{
    const struct dlr_ckpt_conf given = {.every = 3, .fence_ms = 30, .threads = 3};

    for (unsigned n = 0; n < NAMES; n++)
        unsetenv(names[n]);
    for (unsigned i = 0; i < sizeof(settings) / sizeof(*settings); i++) {
        print_message("%s\n", settings[i].name);
        unsetenv(settings[i].name);
        assert_int_equal(loaded(NULL, settings[i].at), settings[i].before);
        setenv(settings[i].name, settings[i].value, 1);
        assert_int_equal(loaded(NULL, settings[i].at), settings[i].after);
        if (settings[i].given)
            assert_int_equal(loaded(&given, settings[i].at), settings[i].given);
        unsetenv(settings[i].name);
    }
}

static void what_cannot_be_is_refused_by_name(void **state)
{
    static const struct {
        const char *name, *value, *said;
    } bad[] = {
        {"DLROVER_CKPT_EVERY", "0", "every must be 1 or more"},
        {"DLROVER_CKPT_THREADS", "65", "threads 0 to 64"},
        {"DLROVER_CKPT_FENCE_MS", "soon", "DLROVER_CKPT_FENCE_MS"},
        {"DLROVER_CKPT_FRESH", "maybe", "DLROVER_CKPT_FRESH"},
    };

    for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct dlr_client_conf conf;
        struct dlr_err err;

        setenv(bad[i].name, bad[i].value, 1);
        assert_int_equal(dlr_client_conf_load(NULL, &conf, &err), -EINVAL);
        print_message("%s\n", err.text);
        assert_non_null(strstr(err.text, bad[i].said));
        unsetenv(bad[i].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_closest_launcher_counts),
        cmocka_unit_test(
            the_program_goes_before_the_environment_and_that_before_defaults),
        cmocka_unit_test(what_cannot_be_is_refused_by_name),
    };

    return cmocka_run_group_tests_name("conf", tests, NULL, NULL);
}
