/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=health/run needs=dlrover-gpu,tests/fake/libnvidia-ml.so.1 */
/* A rank died, and the next rendezvous looks at its node: where a GPU of it is ill, the
 * rank moves at once. Where it is not, it stays; the policy moves it after a second
 * failure (test_policy.c).
 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/install_path.h"
#include "common/base/str.h"
#include "health/health.h"
#include "tests/unit/mpi_launcher/plan/plan_rig.h"

/* Node n2, with the checks of a restart as its report has them. */
static void check_node(struct dlr_plan_report *report)
{
    struct dlr_health_result got[DLR_HEALTH_CHECKS_MAX];
    char helper[PATH_MAX];
    struct dlr_health_env env;
    int n;

    assert_int_equal(dlr_install_path_sibling("../dlrover-gpu", helper, PATH_MAX), 0);
    dlr_health_env_init(&env);
    env.gpu_helper = helper;
    n = dlr_health_run(&env, "gpu,gpu-memory,gpu-link,gpu-clock,gpu-users", got,
                       DLR_HEALTH_CHECKS_MAX, NULL);
    assert_int_equal(n, 5);
    free(report->checks);
    report->checks = calloc((size_t)n, sizeof(*report->checks));
    report->nchecks = (unsigned)n;
    for (int i = 0; i < n; i++) {
        struct dlr_plan_check *c = &report->checks[i];

        dlr_format(c->check, sizeof(c->check), "%s", got[i].check);
        dlr_format(c->reason, sizeof(c->reason), "%s", got[i].reason);
        c->verdict = got[i].verdict;
    }
}

static void a_rank_leaves_a_node_with_an_ill_gpu_at_its_first_failure(void **state)
{
    static const struct {
        const char *fake, *want;
    } rows[] = {
        {"", "n1 n2 | n3 |"},
        {"1.clocks=72", "n1 n2 | n3 |"},
        {"1.error=15",
         "n1 n3 |  | n2: gpu: GPU 1: it has fallen off the bus (NVML 15)"},
        {"1.remap_pending=1", "n1 n3 |  | n2: gpu-memory: GPU 1 (00000000:1C:00.0): "
                              "memory rows are remapped at its reset"},
        {"0.links_up=16", "n1 n3 |  | n2: gpu-link: GPU 0 (00000000:1B:00.0): 16 of "
                          "its 18 NVLinks are active, not 18"},
    };
    char dir[PATH_MAX], got[2048];

    assert_int_equal(dlr_install_path_sibling("fake", dir, sizeof(dir)), 0);
    setenv("LD_LIBRARY_PATH", dir, 1);
    setenv("SLURM_JOB_ID", "77", 1);
    setenv("SLURM_PROCID", "1", 1);
    setenv("SLURM_STEP_GPUS", "0,1", 1);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_plan plan;
        struct plan_rig w;

        print_message("  '%s'\n", rows[i].fake);
        setenv("FAKE_NVML", rows[i].fake, 1);
        plan_rig_setup(&w, 2, "l0.n1;l0.n2;l0.n3", "l0.n1 l0.n2");
        check_node(&w.reports[1]);
        assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
        plan_rig_describe(&plan, got, sizeof(got));
        assert_string_equal(got, rows[i].want);
        dlr_plan_done(&plan);
        plan_rig_teardown(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_leaves_a_node_with_an_ill_gpu_at_its_first_failure),
    };

    return cmocka_run_group_tests_name("plan gpu", tests, NULL, NULL);
}
