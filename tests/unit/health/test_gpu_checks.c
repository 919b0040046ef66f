/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=health/run needs=dlrover-gpu,tests/fake/libnvidia-ml.so.1 */
/* The checks of GPUs: dlrover-gpu is run, with a stand-in for NVIDIA's library
 * (tests/support/fake_nvml.c) that is as ill as a row says.
 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/install_path.h"
#include "common/base/str.h"
#include "health/checks.h"
#include "health/gpu/gpu.h"
#include "health/gpu/xid.h"

static const char *const slurm[] = {"SLURM_JOB_ID",         "SLURM_PROCID",
                                    "SLURM_STEP_GPUS",      "SLURM_JOB_GPUS",
                                    "CUDA_VISIBLE_DEVICES", "SLURM_SHARDS_ON_NODE"};
static char helper[PATH_MAX];

/* Which of the stand-ins; "nowhere": a directory without one. */
static void stand_in(const char *name, const char *fake)
{
    char dir[PATH_MAX];

    assert_int_equal(dlr_install_path_sibling(name, dir, sizeof(dir)), 0);
    setenv("LD_LIBRARY_PATH", dir, 1);
    setenv("FAKE_NVML", fake, 1);
}

/* A step of job 77 with these GPUs; NULL: no job; "": a job that has none. */
static void in_job(const char *gpus)
{
    for (size_t i = 0; i < sizeof(slurm) / sizeof(*slurm); i++)
        unsetenv(slurm[i]);
    if (!gpus)
        return;
    setenv("SLURM_JOB_ID", "77", 1);
    setenv("SLURM_PROCID", "0", 1);
    if (gpus[0])
        setenv("SLURM_STEP_GPUS", gpus, 1);
}

static void run(const char *root, const char *check, struct dlr_health_result *ret)
{
    struct dlr_health_env env;

    dlr_health_env_init(&env);
    env.root = root;
    env.gpu_helper = helper;
    assert_int_equal(dlr_health_run(&env, check, ret, 1, NULL), 1);
}

struct row {
    const char *fake, *gpus, *check;
    enum dlr_health_verdict want;
    const char *reason;
};

static void compare(const struct row *rows, size_t n, const char *name)
{
    struct dlr_health_result got;

    for (size_t i = 0; i < n; i++) {
        print_message("  %s %s: %s\n", rows[i].check, rows[i].gpus ? rows[i].gpus : "-",
                      rows[i].fake);
        stand_in(name, rows[i].fake);
        in_job(rows[i].gpus);
        run("", rows[i].check, &got);
        assert_string_equal(got.reason, rows[i].reason);
        assert_int_equal(got.verdict, rows[i].want);
    }
}

#define OK DLR_HEALTH_OK
#define SKIP DLR_HEALTH_SKIP
#define WARN DLR_HEALTH_WARN
#define FAIL DLR_HEALTH_FAIL
#define DRAIN DLR_HEALTH_DRAIN

// clang-format off
static void each_fault_has_its_verdict(void **state)
{
    static const struct row rows[] = {
        {"", "0,1", "gpu", OK, "2 GPUs answer, driver 550.54.15"},
        {"1.error=15", "0,1", "gpu", DRAIN, "GPU 1: it has fallen off the bus (NVML 15)"},
        {"0.error=16", "0,1", "gpu", DRAIN, "GPU 0: it must be reset (NVML 16)"},
        {"0.error=999", "0,1", "gpu", FAIL, "GPU 0: an internal error of the driver (NVML 999)"},
        {"1.recovery=1", "0,1", "gpu", DRAIN, "GPU 1 (00000000:1C:00.0): it must be reset"},
        {"1.recovery=2", "0,1", "gpu", DRAIN, "GPU 1 (00000000:1C:00.0): the node must be rebooted"},
        {"1.recovery=5", "0,1", "gpu", WARN, "GPU 1 (00000000:1C:00.0): the IMEX domain must be recovered"},
        {"1.recovery=99", "0,1", "gpu", FAIL, "GPU 1 (00000000:1C:00.0): recovery action 99"},
        {"init=9", "0,1", "gpu", DRAIN, "NVML: the driver is not loaded (9)"},
        {"init=18", "0,1", "gpu", DRAIN, "NVML: driver and library are of two versions (18)"},
        {"init=4", "0,1", "gpu", SKIP, "NVML: permission denied (4)"},
        {"init=999", "0,1", "gpu", FAIL, "NVML: an internal error of the driver (999)"},
        {"init=18", "0,1", "gpu-memory", SKIP, "see check gpu"},
        {"", "0,1", "gpu-memory", OK, "2 GPUs: no uncorrected memory error"},
        {"0.ecc=2", "0,1", "gpu-memory", FAIL, "GPU 0 (00000000:1B:00.0): 2 uncorrected memory errors"},
        {"0.remap_pending=1", "0,1", "gpu-memory", DRAIN, "GPU 0 (00000000:1B:00.0): memory rows are remapped at its reset"},
        {"0.remap_pending=1,1.remap_failed=1", "0,1", "gpu-memory", DRAIN,
         "GPU 0 (00000000:1B:00.0): memory rows are remapped at its reset; 2 of 2 GPUs"},
        {"1.remap_failed=1", "0,1", "gpu-memory", DRAIN, "GPU 1 (00000000:1C:00.0): a memory row could not be remapped"},
        {"1.retire_pending=1", "0,1", "gpu-memory", DRAIN, "GPU 1 (00000000:1C:00.0): memory pages are retired at its reset"},
        {"gpus=1,0.ecc=no,0.remap_pending=no", "0", "gpu-memory", SKIP, "no GPU of ours tells"}, /* a consumer card */
        {"", "0,1", "gpu-link", OK, "2 GPUs: all NVLinks and PCIe lanes"},
        {"1.links_up=16", "0,1", "gpu-link", FAIL, "GPU 1 (00000000:1C:00.0): 16 of its 18 NVLinks are active, not 18"},
        {"0.fabric=no,1.fabric=no,0.links_up=4,1.links_up=4", "0,1", "gpu-link", OK, "2 GPUs: all NVLinks and PCIe lanes"}, /* a bridge */
        {"0.fabric=no,1.fabric=no,0.links_up=3,1.links_up=4", "0,1", "gpu-link", FAIL,
         "GPU 0 (00000000:1B:00.0): 3 of its 18 NVLinks are active, not 4"},
        {"0.fabric=2", "0,1", "gpu-link", FAIL, "GPU 0 (00000000:1B:00.0): it has not joined the NVLink fabric (state 2)"},
        {"gpus=1,0.fabric=1", "0", "gpu-link", WARN, "GPU 0 (00000000:1B:00.0): it has not joined the NVLink fabric (state 1)"},
        {"0.fabric_status=999", "0,1", "gpu-link", FAIL, "GPU 0 (00000000:1B:00.0): NVLink fabric: an internal error of the driver (999)"},
        {"0.width=8", "0,1", "gpu-link", WARN, "GPU 0 (00000000:1B:00.0): 8 of 16 PCIe lanes"},
        {"0.width=4", "0,1", "gpu-link", FAIL, "GPU 0 (00000000:1B:00.0): 4 of 16 PCIe lanes"},
        {"0.clocks=4", "0,1", "gpu-clock", OK, "2 GPUs: clocks are not held back"}, /* its power cap: usual */
        {"0.clocks=72", "0,1", "gpu-clock", WARN, "GPU 0 (00000000:1B:00.0): too hot: clocks are halved or lower"},
        {"0.clocks=136", "0,1", "gpu-clock", WARN, "GPU 0 (00000000:1B:00.0): power brake: the power supply asks for it"},
        {"", "0,1", "gpu-users", OK, "2 GPUs: no process of others"},
        {"1.process=1", "0,1", "gpu-users", WARN, "GPU 1 (00000000:1C:00.0): process 1 of user 0, of another job or none, holds 3.0 GiB"},
        {"1.process=999999999", "0,1", "gpu-users", WARN, "GPU 1 (00000000:1C:00.0): process 999999999, which cannot be seen, holds 3.0 GiB"},
        {"1.used=17179869184", "0,1", "gpu-users", WARN, "GPU 1 (00000000:1C:00.0): 16.0 of 80.0 GiB are held by no process that is shown"},
        {"gpus=1,0.mig=1,0.used=17179869184", "0", "gpu-users", SKIP, "no GPU of ours tells"},
        {"crash=1", "0,1", "gpu", WARN, "dlrover-gpu ended early: signal 6 (Aborted)"},
    };

    compare(rows, sizeof(rows) / sizeof(*rows), "fake");
}

/* With ConstrainDevices a job is shown its own; without, all of the node. */
static void only_the_jobs_gpus_are_judged(void **state)
{
    static const struct row rows[] = {
        {"gpus=4,3.error=4,2.error=4,0.error=4", "1", "gpu", OK, "1 GPUs answer, driver 550.54.15"},
        {"gpus=4,3.remap_failed=1", "0,1", "gpu-memory", OK, "2 GPUs: no uncorrected memory error"},
        {"gpus=4,3.remap_failed=1", "1-3", "gpu-memory", DRAIN, "GPU 3 (00000000:1E:00.0): a memory row could not be remapped"},
        {"gpus=4,0.minor=3,3.minor=0,3.ecc=1", "0,1", "gpu-memory", FAIL, "GPU 3 (00000000:1E:00.0): 1 uncorrected memory errors"},
        {"gpus=4,3.error=15", "0,1", "gpu", OK, "2 GPUs answer, driver 550.54.15"},
        {"gpus=4,3.error=15", "2,3", "gpu", DRAIN, "GPU 3: it has fallen off the bus (NVML 15)"},
        {"gpus=7", "0-7", "gpu", DRAIN, "7 GPUs answer, Slurm gives 8"},
        {"gpus=0", "0-7", "gpu", SKIP, "no GPU of ours is shown"}, /* our step was given none */
        {"gpus=2,0.error=4,1.error=4", "0,1", "gpu", SKIP, "no GPU of ours is shown"},
        {"1.error=15", "", "gpu", WARN, "GPU 1: it has fallen off the bus (NVML 15) (Slurm gives no GPU here)"},
        {"init=9", "", "gpu", SKIP, "NVML: the driver is not loaded (9)"},
        {"init=18", "", "gpu", WARN, "NVML: driver and library are of two versions (18) (Slurm gives no GPU here)"},
        {"0.remap_failed=1", "", "gpu-memory", WARN,
         "GPU 0 (00000000:1B:00.0): a memory row could not be remapped (Slurm gives no GPU here)"},
        {"1.error=15", NULL, "gpu", DRAIN, "GPU 1: it has fallen off the bus (NVML 15)"},
        {"init=9", NULL, "gpu", SKIP, "NVML: the driver is not loaded (9)"}, /* no card here */
        {"1.remap_failed=1", "nonsense", "gpu-memory", WARN,
         "GPU 1 (00000000:1C:00.0): a memory row could not be remapped (Slurm gives no GPU here)"},
    };

    compare(rows, sizeof(rows) / sizeof(*rows), "fake");
}

static void a_library_of_another_release_tells_what_it_can(void **state)
{
    static const struct row few[] = {
        {"", "0,1", "gpu", OK, "2 GPUs answer, driver "},
        {"1.error=15", "0,1", "gpu", DRAIN, "GPU 1: it has fallen off the bus (NVML 15)"},
        {"", "0,1", "gpu-memory", SKIP, "no GPU of ours tells"},
        {"", "0,1", "gpu-link", SKIP, "no GPU of ours tells"},
    };
    static const struct row none[] = {
        {"", "0,1", "gpu", SKIP, "libnvidia-ml has no nvmlDeviceGetHandleByIndex_v2"},
    };
    static const struct row nowhere[] = {
        {"", "0,1", "gpu", SKIP, "no NVIDIA driver here"},
        {"", "0,1", "gpu-xid", SKIP, "no NVIDIA driver here"},
    };

    compare(few, sizeof(few) / sizeof(*few), "fake-few");
    compare(none, sizeof(none) / sizeof(*none), "fake-none");
    if (access("/proc/driver/nvidia", F_OK) != 0)
        compare(nowhere, sizeof(nowhere) / sizeof(*nowhere), "nowhere");
}
// clang-format on

static void an_nvlink_domain_of_several_nodes_has_a_name(void **state)
{
    static const struct {
        const char *fake, *want;
    } rows[] = {
        {"", ""}, /* its switches are its own */
        {"cluster=1", "nvl-abababababababababababababababab-7"},
        {"cluster=1,0.clique=9", "nvl-abababababababababababababababab-9"},
        {"cluster=1,0.fabric=2,1.fabric=2", ""},
        {"init=18", ""},
    };
    char domain[DLR_HEALTH_DOMAIN];
    struct dlr_health_result got;
    struct dlr_health_env env;

    in_job("0,1");
    dlr_health_env_init(&env);
    env.gpu_helper = helper;
    env.domain = domain;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        print_message("  %s\n", rows[i].fake);
        stand_in("fake", rows[i].fake);
        memset(domain, 'x', sizeof(domain));
        assert_int_equal(dlr_health_run(&env, "gpu", &got, 1, NULL), 1);
        assert_string_equal(domain, rows[i].want);
    }
}

static void gpus_that_jobs_share_have_processes_of_others(void **state)
{
    struct dlr_health_result got;

    stand_in("fake", "1.process=1");
    in_job("0,1");
    setenv("SLURM_SHARDS_ON_NODE", "4", 1);
    run("", "gpu-users", &got);
    assert_string_equal(got.reason, "GPUs are shared with other jobs");
    assert_int_equal(got.verdict, SKIP);
}

static void a_job_without_gpus_is_not_judged_by_them(void **state)
{
    struct dlr_health_result got;

    stand_in("fake", "0.remap_failed=1,1.error=15");
    in_job("");
    setenv("CUDA_VISIBLE_DEVICES", "NoDevFiles", 1);
    run("", "gpu", &got);
    assert_string_equal(got.reason, "no GPU of ours is shown");
    assert_int_equal(got.verdict, SKIP);
    run("", "gpu-memory", &got);
    assert_int_equal(got.verdict, SKIP);
}

/* Where CUDA's headers were there; times are none of the stand-in's. */
static void gpus_that_compute_wrong_are_found(void **state)
{
    struct dlr_health_result got;

    stand_in("fake", "");
    in_job("0,1");
    run("", "gpu-speed", &got);
    if (got.verdict == SKIP) {
        assert_string_equal(got.reason, "no CUDA here");
        skip();
    }
    assert_string_equal(got.reason, "2 GPUs compute right, no time was taken");
    assert_int_equal(got.verdict, OK);
    setenv("FAKE_CUDA_WRONG", "0", 1);
    run("", "gpu-speed", &got);
    unsetenv("FAKE_CUDA_WRONG");
    assert_string_equal(got.reason,
                        "GPU 0 (0000:1B:00.0): 1 results of a multiply are wrong");
    assert_int_equal(got.verdict, DRAIN);
}

static void ask(const char *fake, int64_t timeout_ms, struct dlr_health_gpus *g,
                struct dlr_health_result *ret)
{
    struct dlr_health_env env;

    stand_in("fake", fake);
    in_job("0-7");
    dlr_health_env_init(&env);
    env.gpu_helper = helper;
    env.gpus = g;
    if (timeout_ms)
        dlr_health_gpus_ask(&env, NULL, timeout_ms, g);
    memset(ret, 0, sizeof(*ret));
    dlr_health_gpu(&env, ret);
}

/* Who says something all the while is slow; who does not hangs, and where its process
 * cannot be killed, in the kernel.
 */
static void a_driver_that_does_not_answer_is_left_in_time(void **state)
{
    struct dlr_health_gpus *g = calloc(1, sizeof(*g));
    int64_t t0 = dlr_now_ms();
    struct dlr_health_result got;

    assert_non_null(g);
    ask("gpus=8,hang=2", 1000, g, &got);
    assert_in_range(dlr_now_ms() - t0, 1000, 5000);
    assert_int_equal(g->asked, DLR_GPU_SILENT);
    assert_string_equal(got.reason, "the driver does not answer, 2 GPUs have answered");
    assert_int_equal(got.verdict, FAIL);
    g->asked = DLR_GPU_STUCK;
    ask("", 0, g, &got);
    assert_string_equal(got.reason,
                        "the driver hangs in the kernel, 2 GPUs have answered");
    assert_int_equal(got.verdict, DRAIN);
    ask("gpus=60,slow=100", 2000, g, &got);
    assert_int_equal(g->asked, DLR_GPU_LATE);
    assert_non_null(dlr_after(got.reason, "the driver is slow, "));
    assert_int_equal(got.verdict, WARN);
    free(g);
}

static void without_its_helper_nothing_is_judged(void **state)
{
    struct dlr_health_result got;
    char right[sizeof(helper)];

    memcpy(right, helper, sizeof(right));
    dlr_format(helper, sizeof(helper), "/nowhere/dlrover-gpu");
    run("", "gpu", &got);
    memcpy(helper, right, sizeof(right));
    assert_string_equal(got.reason,
                        "dlrover-gpu cannot be run: No such file or directory");
    assert_int_equal(got.verdict, SKIP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_fault_has_its_verdict),
        cmocka_unit_test(only_the_jobs_gpus_are_judged),
        cmocka_unit_test(a_library_of_another_release_tells_what_it_can),
        cmocka_unit_test(an_nvlink_domain_of_several_nodes_has_a_name),
        cmocka_unit_test(gpus_that_jobs_share_have_processes_of_others),
        cmocka_unit_test(a_job_without_gpus_is_not_judged_by_them),
        cmocka_unit_test(gpus_that_compute_wrong_are_found),
        cmocka_unit_test(a_driver_that_does_not_answer_is_left_in_time),
        cmocka_unit_test(without_its_helper_nothing_is_judged),
    };

    if (dlr_install_path_sibling("../dlrover-gpu", helper, sizeof(helper)) < 0)
        return 1;
    return cmocka_run_group_tests_name("gpu checks", tests, NULL, NULL);
}
