/* SPDX-License-Identifier: Apache-2.0 */
/* A task's binding by the plugin, on the CPUs of the machine that the test runs on. */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "spank/task/bind.h"

static char dir[] = "/tmp/test_task_bind.XXXXXX", socket_path[64], file_path[64];
static struct dlr_machine machine; /* every CPU is a core, of NUMA node 0 or 1 */
static unsigned cpus[DLR_TOPO_CPUS], ncpus;

/* As wide as the kernel lets us: a test may be run bound. */
static int start(void **state)
{
    cpu_set_t set;

    memset(&set, 0xff, sizeof(set));
    sched_setaffinity(0, sizeof(set), &set);
    if (!mkdtemp(dir) || sched_getaffinity(0, sizeof(set), &set) < 0)
        return -1;
    snprintf(socket_path, sizeof(socket_path), "%s/agent.sock", dir);
    snprintf(file_path, sizeof(file_path), "%s/machine", dir);
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set))
            cpus[ncpus++] = cpu;
    machine = (struct dlr_machine){.magic = DLR_MACHINE_MAGIC,
                                   .size = sizeof(machine),
                                   .numas = 2,
                                   .cores = ncpus,
                                   .nics = 2,
                                   .nic = {{"mlx5_0", 1, 0, 1}, {"mlx5_1", 2, 0, 2}}};
    for (unsigned i = 0; i < ncpus; i++) {
        machine.core[cpus[i]] = (uint16_t)(i + 1);
        machine.numa[cpus[i]] = i >= ncpus / 2;
    }
    return dlr_machine_save(&machine, file_path, NULL);
}

static int stop(void **state)
{
    unlink(file_path);
    return rmdir(dir);
}

static const char *value_of(const struct dlr_task_env *vars, const char *name)
{
    for (unsigned i = 0; i < vars->count; i++)
        if (dlr_streq(vars->vars[i].name, name))
            return vars->vars[i].value;
    return "-";
}

/* In a child, which is bound to its first CPU before when bound is 1. Returns what
 * dlr_task_bind() has; text gets "CPUS names and values of variables", or its reason.
 */
static int bind_child(unsigned local, unsigned n, char *const env[], int bound,
                      char *text, size_t size)
{
    static const char *const names[] = {"OMP_NUM_THREADS", "UCX_NET_DEVICES",
                                        "NCCL_IB_HCA", "CUDA_VISIBLE_DEVICES"};
    int ends[2], status;
    FILE *from;
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
        struct dlr_task_env vars = {0};
        struct dlr_err err = {0};
        cpu_set_t set;
        int rc;

        CPU_ZERO(&set);
        CPU_SET(cpus[0], &set);
        if (bound)
            sched_setaffinity(0, sizeof(set), &set);
        rc = dlr_task_bind(socket_path, local, n, env, &vars, &err);
        sched_getaffinity(0, sizeof(set), &set);
        dprintf(ends[1], "%u", CPU_COUNT(&set));
        for (unsigned i = 0; rc == 0 && i < 4; i++)
            dprintf(ends[1], " %s", value_of(&vars, names[i]));
        if (rc < 0)
            dprintf(ends[1], " %s", err.text);
        dlr_task_env_free(&vars);
        _exit(-rc);
    }
    close(ends[1]);
    from = fdopen(ends[0], "r");
    assert_non_null(from);
    text[fread(text, 1, size - 1, from)] = '\0';
    fclose(from);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return -WEXITSTATUS(status);
}

static void a_task_is_bound_as_the_job_asks(void **state)
{
    unsigned half = ncpus / 2;
    const struct {
        const char *name;
        char *env[4];
        unsigned local, n;
        int bound, rc;
        const char *want; /* behind the number of its CPUs */
        unsigned cpus;
    } rows[] = {
        {"nobody asks", {NULL}, 0, 2, 0, 0, "- - - -", ncpus},
        {"cores", {"DLROVER_BIND=cores"}, 0, 2, 0, 0, "%u mlx5_0:1 =mlx5_0:1 -", 0},
        {"another rank's",
         {"DLROVER_BIND=cores"},
         1,
         2,
         0,
         0,
         "%u mlx5_1:2 =mlx5_1:2 -",
         0},
        {"what is set stays",
         {"DLROVER_BIND=cores", "OMP_NUM_THREADS=3", "NCCL_IB_HCA=x"},
         0,
         2,
         0,
         0,
         "- mlx5_0:1 - -",
         0},
        {"NUMA nodes", {"DLROVER_BIND=numa"}, 0, 2, 0, 0, "- - - -", 0},
        {"a launcher of several processes",
         {"DLROVER_BIND=cores"},
         0,
         1,
         0,
         0,
         "- - - -",
         ncpus},
        {"Slurm has bound it",
         {"DLROVER_BIND=cores"},
         0,
         2,
         1,
         -EALREADY,
         "Slurm has bound it",
         1},
        {"more tasks than cores",
         {"DLROVER_BIND=cores"},
         0,
         ncpus + 1,
         0,
         -EDOM,
         "%u tasks on %u cores",
         ncpus},
    };

    if (ncpus < 2 || ncpus % 2 || ncpus > 512) {
        print_message("  this needs an even number of CPUs, 2 to 512\n");
        skip();
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char text[600], want[600], rest[500];

        print_message("  %s\n", rows[i].name);
        assert_int_equal(bind_child(rows[i].local, rows[i].n, rows[i].env,
                                    rows[i].bound, text, sizeof(text)),
                         rows[i].rc);
        if (rows[i].rc == -EDOM)
            snprintf(rest, sizeof(rest), "%u tasks on %u cores", ncpus + 1, ncpus);
        else if (rows[i].want[0] == '%')
            snprintf(rest, sizeof(rest), "%u%s", half, rows[i].want + 2);
        else
            snprintf(rest, sizeof(rest), "%s", rows[i].want);
        snprintf(want, sizeof(want), "%u %s", rows[i].cpus ? rows[i].cpus : half, rest);
        assert_string_equal(text, want);
    }
}

static void without_a_description_the_task_stays_as_it_is(void **state)
{
    char *env[] = {"DLROVER_BIND=cores", NULL};
    struct dlr_task_env vars = {0};
    struct dlr_err err = {0};

    assert_int_equal(dlr_task_bind("/nowhere/agent.sock", 0, 2, env, &vars, &err),
                     -ENOENT);
    assert_non_null(strstr(err.text, "/nowhere/machine"));
    assert_int_equal(dlr_task_bind(NULL, 0, 2, env, &vars, &err), -EINVAL);
    assert_int_equal(vars.count, 0);
}

/* "3,1", or "-" when it cannot be told */
static void gpus_are_those_that_cuda_shows(void **state)
{
    static const struct {
        const char *name;
        char *env[4];
        unsigned n;
        bool order;
        const char *want;
    } rows[] = {
        {"a site without GRES", {NULL}, 4, false, "0,1,2,3"},
        {"fewer ranks, CUDA's order is ours", {NULL}, 2, true, "0,1,2,3 ordered"},
        {"fewer ranks, it is not", {NULL}, 2, false, "0,1"},
        {"fewer ranks, it is the user's",
         {"CUDA_DEVICE_ORDER=FASTEST_FIRST"},
         2,
         true,
         "0,1"},
        {"Slurm gives all",
         {"CUDA_VISIBLE_DEVICES=0,1,2,3", "SLURM_STEP_GPUS=0,1,2,3"},
         4,
         true,
         "0,1,2,3"},
        {"two of them, in a cgroup: CUDA counts from 0; minor numbers 2 and 0 are "
         "PCI's 0 and 2",
         {"CUDA_VISIBLE_DEVICES=0,1", "SLURM_STEP_GPUS=0,2"},
         2,
         true,
         "0,2"},
        {"two of them, without",
         {"CUDA_VISIBLE_DEVICES=1,3", "SLURM_STEP_GPUS=1,3"},
         2,
         true,
         "1,3"},
        {"--gpus-per-task=1, in a cgroup",
         {"CUDA_VISIBLE_DEVICES=0", "SLURM_STEP_GPUS=0,1,2,3"},
         4,
         true,
         "2,1,0,3"},
        {"--gpus-per-task=2",
         {"CUDA_VISIBLE_DEVICES=2,3", "SLURM_STEP_GPUS=0,1,2,3"},
         2,
         true,
         "2,1,0,3"},
        {"a part that nobody can name",
         {"CUDA_VISIBLE_DEVICES=0,1,2", "SLURM_STEP_GPUS=0,1,2,3"},
         2,
         true,
         "-"},
        {"a Slurm that does not tell the step's",
         {"CUDA_VISIBLE_DEVICES=2,3"},
         2,
         true,
         "2,3"},
        {"the user's own order", {"CUDA_VISIBLE_DEVICES=3,0"}, 2, true, "3,0"},
        {"his own order of Slurm's",
         {"CUDA_VISIBLE_DEVICES=1,0", "SLURM_STEP_GPUS=0,1"},
         2,
         true,
         "-"},
        {"no GPU for this step", {"CUDA_VISIBLE_DEVICES=NoDevFiles"}, 2, true, ""},
        {"none either", {"CUDA_VISIBLE_DEVICES="}, 2, true, ""},
        {"names of GPUs", {"CUDA_VISIBLE_DEVICES=GPU-8932f937"}, 2, true, "-"},
        {"parts of a GPU",
         {"CUDA_VISIBLE_DEVICES=MIG-41b35", "SLURM_STEP_GPUS=0"},
         2,
         true,
         "-"},
        {"one that is not there", {"CUDA_VISIBLE_DEVICES=4"}, 2, true, "-"},
        {"Slurm's, shown by something else", {"SLURM_STEP_GPUS=0,1"}, 2, true, "-"},
    };
    static struct dlr_machine m = {
        .gpus = 4, .gpu = {{.minor = 2}, {.minor = 1}, {.minor = 0}, {.minor = 3}}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        unsigned gpus[DLR_MACHINE_GPUS];
        bool order = rows[i].order;
        struct dlr_err err = {0};
        char text[64] = "";
        int n = dlr_task_bind_gpus(&m, rows[i].env, rows[i].n, gpus, &order, &err);

        print_message("  %s\n", rows[i].name);
        for (int k = 0; k < n; k++)
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%u",
                     k ? "," : "", gpus[k]);
        if (n > 0 && order)
            strcat(text, " ordered");
        assert_string_equal(n < 0 ? "-" : text, rows[i].want);
        if (n < 0)
            assert_string_equal(err.text,
                                "cannot tell which of the node's 4 GPUs it has");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_is_bound_as_the_job_asks),
        cmocka_unit_test(without_a_description_the_task_stays_as_it_is),
        cmocka_unit_test(gpus_are_those_that_cuda_shows),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
