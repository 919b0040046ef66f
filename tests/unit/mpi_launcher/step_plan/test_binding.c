/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "mpi_launcher/step_plan/binding.h"
#include "mpi_launcher/step_plan/container.h"

static void who_asks_slurm_for_a_binding_is_heard(void **state)
{
    static const struct {
        char *options[4], *env[3];
        const char *want; /* NULL: he has not */
    } rows[] = {
        {{NULL}, {NULL}, NULL},
        {{"-l", "-c2", "--exact"}, {"SLURM_CPUS_PER_TASK=2"}, NULL},
        {{"--cpu-bind=none"}, {NULL}, "--cpu-bind=none"},
        {{"-l", "--cpu_bind", "map_cpu:1"}, {NULL}, "--cpu_bind"},
        {{"--cpu-b=cores"}, {NULL}, "--cpu-b=cores"},
        {{"--mem-bind=local"}, {NULL}, "--mem-bind=local"},
        {{"--gpu-bind=closest"}, {NULL}, "--gpu-bind=closest"},
        {{"--tres-bind=gres/gpu:closest"}, {NULL}, "--tres-bind=gres/gpu:closest"},
        {{"--accel-bind=g"}, {NULL}, "--accel-bind=g"},
        {{"--hint=nomultithread"}, {NULL}, "--hint=nomultithread"},
        {{"-O"}, {NULL}, "-O"},
        {{"--overcommit"}, {NULL}, "--overcommit"},
        {{"--cpus-per-task=4", "-"}, {NULL}, NULL},
        {{NULL}, {"SLURM_CPU_BIND=cores"}, "SLURM_CPU_BIND"},
        {{NULL}, {"SLURM_HINT=nomultithread"}, "SLURM_HINT"},
        {{NULL}, {"SLURM_GPU_BIND=closest"}, "SLURM_GPU_BIND"},
        {{NULL}, {"SLURM_CPU_BIND_TYPE=none"}, NULL}, /* srun does not read it */
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const char *got = dlr_srun_binding(rows[i].options, rows[i].env);

        print_message("  %s\n", rows[i].want ? rows[i].want : "-");
        if (rows[i].want)
            assert_string_equal(got, rows[i].want);
        else
            assert_null(got);
    }
}

static void who_asks_for_a_container_is_heard(void **state)
{
    static const struct {
        char *options[4], *env[3];
        const char *want; /* NULL: he has not */
    } rows[] = {
        {{NULL}, {NULL}, NULL},
        {{"-l", "--contiguous"}, {"SLURM_CONT=1"}, NULL},
        {{"--container=/oci"}, {NULL}, "--container=/oci"},
        {{"-l", "--container-image=a#b"}, {NULL}, "--container-image=a#b"},
        {{"--container-image", "a"}, {NULL}, "--container-image"},
        {{NULL}, {"A=b", "SLURM_CONTAINER=/oci"}, "SLURM_CONTAINER=/oci"},
        {{NULL},
         {"SLURM_SPANK__SLURM_SPANK_OPTION_pyxis_container_image=a"},
         "SLURM_SPANK__SLURM_SPANK_OPTION_pyxis_container_image=a"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const char *got = dlr_srun_container(rows[i].options, rows[i].env);

        print_message("  %s\n", rows[i].want ? rows[i].want : "-");
        if (rows[i].want)
            assert_string_equal(got, rows[i].want);
        else
            assert_null(got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_asks_slurm_for_a_binding_is_heard),
        cmocka_unit_test(who_asks_for_a_container_is_heard),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
