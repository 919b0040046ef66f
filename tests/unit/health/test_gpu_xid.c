/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=health/run */
/* Xids in the kernel's log, and measured speeds, of nodes that are described in files:
 * tests/nodes/gpu_*.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "health/checks.h"
#include "health/gpu/xid.h"

#define S INT64_C(1000000)
#define NOW (10000 * S)

/* What a log of some records at these seconds says of its first GPU. */
static void records_are_told_by_number(void **state)
{
    // clang-format off
    static const struct {
        const char *record;
        enum dlr_health_verdict want;
        unsigned number, n;
    } rows[] = {
        {"4,1,9000000000,-;NVRM: Xid (PCI:0000:1b:00): 79, pid=1234, name=python, GPU has fallen off the bus.", DLR_HEALTH_DRAIN, 79, 1},
        {"4,1,9000000000,c;NVRM: Xid (0000:03:00): 48, pid=12, An uncorrectable double bit error", DLR_HEALTH_DRAIN, 48, 1},
        {"4,1,9000000000,-,caller=T12;NVRM: Xid (PCI:0000:1b:00): 94, pid='<unknown>', name=<unknown>, Contained", DLR_HEALTH_WARN, 94, 1},
        {"4,1,9000000000,-;NVRM: Xid (PCI:0000:1b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", DLR_HEALTH_DRAIN, 154, 1},
        {"4,1,9000000000,-;NVRM: Xid (PCI:0000:1b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", DLR_HEALTH_DRAIN, 154, 1},
        {"4,1,9000000000,-;NVRM: Xid (PCI:0000:1b:00): 154, GPU recovery action changed from 0x0 (None) to 0x3 (Drain P2P)", DLR_HEALTH_FAIL, 154, 1},
        {"4,1,9000000000,-;NVRM: Xid (PCI:0000:1b:00): 154, a text of a later release", DLR_HEALTH_OK, 0, 0},
        {"4,1,9000000000,-;NVRM: Xid (PCI:0000:1b:00): 31, pid=1, MMU Fault", DLR_HEALTH_OK, 0, 0}, /* the program's */
        {"4,1,9000000000,-;NVRM: Xid (PCI:0000:1b:00): 13, Graphics Exception", DLR_HEALTH_OK, 0, 0},
        {"4,1,6399999999,-;NVRM: Xid (PCI:0000:1b:00): 79, old", DLR_HEALTH_OK, 0, 0},
        {"4,1,6400000000,-;NVRM: Xid (PCI:0000:1b:00): 79, just not", DLR_HEALTH_DRAIN, 79, 1},
        {"NVRM: Xid (PCI:0000:1b:00): 79, no record", DLR_HEALTH_OK, 0, 0},
        {"4,1,x,-;NVRM: Xid (PCI:0000:1b:00): 79, no time", DLR_HEALTH_OK, 0, 0},
        {"4,1,9000000000,-;NVRM: Xid (PCI:0000:1b:00, cut", DLR_HEALTH_OK, 0, 0},
        {"4,1,9000000000,-;NVRM: Xid (PCI:0000:1b:00): x", DLR_HEALTH_OK, 0, 0},
        {"4,1,9000000000,-;NVRM: Xid (PCI:a name that is far longer than an address): 79", DLR_HEALTH_OK, 0, 0},
        {" SUBSYSTEM=pci", DLR_HEALTH_OK, 0, 0},
        {"", DLR_HEALTH_OK, 0, 0},
    };
    // clang-format on

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_xid_log log = {0};

        print_message("  %s\n", rows[i].record);
        dlr_xid_record(&log, rows[i].record, NOW);
        assert_int_equal(log.of[0].verdict, rows[i].want);
        assert_int_equal(log.of[0].number, rows[i].number);
        assert_int_equal(log.of[0].n, rows[i].n);
    }
}

static void record(struct dlr_xid_log *log, const char *rest)
{
    char text[256];

    assert_int_equal(
        dlr_format(text, sizeof(text), "4,1,9000000000,-;NVRM: Xid %s", rest), 0);
    dlr_xid_record(log, text, NOW);
}

static void the_worst_of_each_gpu_counts_until_the_driver_takes_it_back(void **state)
{
    struct dlr_xid_log log = {0};

    record(&log, "(PCI:0000:1b:00): 63, remap");
    record(&log, "(PCI:0000:1c:00): 92, many");
    record(&log, "(PCI:0000:1b:00): 95, uncontained");
    record(&log, "(PCI:0000:1b:00): 94, contained");
    assert_int_equal(log.n, 2);
    assert_int_equal(log.of[0].number, 95);
    assert_int_equal(log.of[0].n, 3);
    assert_int_equal(log.of[1].number, 92);
    record(&log, "(PCI:0000:1b:00): 154, GPU recovery action changed from 0x1 (GPU "
                 "Reset Required) to 0x0 (None)");
    assert_int_equal(log.of[0].verdict, DLR_HEALTH_OK);
    assert_int_equal(log.of[1].number, 92);
    for (unsigned i = 0; i < 2 * DLR_XID_GPUS; i++) {
        char text[64];

        dlr_format(text, sizeof(text), "(PCI:0001:%02x:00): 79, off", i);
        record(&log, text);
    }
    assert_int_equal(log.n, DLR_XID_GPUS);
}

static void addresses_of_log_and_library_are_the_same(void **state)
{
    assert_true(dlr_xid_is_bus("0000:1b:00", "00000000:1B:00.0"));
    assert_true(dlr_xid_is_bus("0001:c6:00", "00000001:C6:00.0"));
    assert_false(dlr_xid_is_bus("0000:1b:00", "00000000:1C:00.0"));
    assert_false(dlr_xid_is_bus("0000:1b:00", "00000001:1B:00.0"));
    assert_false(dlr_xid_is_bus("", ""));
    assert_false(dlr_xid_is_bus("0000", "00000000:1B:00.0"));
}

static void the_table_ascends_and_stands_in_the_manual(void **state)
{
    DLR_AUTO_FREE char *page = NULL;
    char row[256];
    size_t size;

    assert_int_equal(
        dlr_file_load(AT_FDCWD, "docs/gpu-health.md", 1 << 20, &page, &size, NULL), 0);
    for (const struct dlr_xid *x = dlr_xids; x->number; x++) {
        assert_true(x->what && x->advice && x->verdict >= DLR_HEALTH_WARN);
        assert_true(!x[1].number || x->number < x[1].number);
        dlr_format(row, sizeof(row), "\n| %u | %s | %s | %s |\n", x->number,
                   dlr_health_verdict_name(x->verdict), x->what, x->advice);
        if (!strstr(page, row))
            fail_msg("docs/gpu-health.md has no row%s", row);
    }
}

/* Without a job all of a node's GPUs count; in one its own, as far as they are known.
 */
static void nodes_get_their_verdict(void **state)
{
    static const struct {
        const char *root, *gpus, *check;
        enum dlr_health_verdict want;
        const char *reason;
    } rows[] = {
        {"gpu_good", NULL, "gpu", DLR_HEALTH_OK, "2 GPUs answer, driver 570.86.15"},
        {"gpu_good", NULL, "gpu-xid", DLR_HEALTH_OK,
         "no Xid of the GPU's own within 60 min"},
        {"gpu_off_the_bus", NULL, "gpu-xid", DLR_HEALTH_DRAIN,
         "GPU 0000:1c:00: Xid 79, the GPU has fallen off the bus, 2 within 60 min"},
        {"gpu_off_the_bus", "0", "gpu-xid", DLR_HEALTH_OK,
         "no Xid of the GPU's own within 60 min"},
        {"gpu_off_the_bus", "0,1", "gpu-xid", DLR_HEALTH_DRAIN,
         "GPU 0000:1c:00: Xid 79, the GPU has fallen off the bus, 2 within 60 min"},
        {"gpu_off_the_bus", "", "gpu-xid", DLR_HEALTH_WARN,
         "GPU 0000:1c:00: Xid 79, the GPU has fallen off the bus, 2 within 60 min"},
        {"gpu_xid", "0", "gpu-xid", DLR_HEALTH_OK,
         "no Xid of the GPU's own within 60 min"},
        {"gpu_xid", "1", "gpu-xid", DLR_HEALTH_DRAIN,
         "GPU 0000:1c:00: Xid 79, the GPU has fallen off the bus, 2 within 60 min"},
        {"gpu_off_the_bus", NULL, "gpu", DLR_HEALTH_DRAIN,
         "1 GPUs answer, the kernel has 2"},
        {"gpu_no_log", NULL, "gpu-xid", DLR_HEALTH_SKIP,
         "/dev/kmsg: No such file or directory"},
        {"gpu_no_log", NULL, "gpu", DLR_HEALTH_DRAIN,
         "NVML: the driver is not loaded (9)"},
        {"gpu_good", NULL, "gpu-speed", DLR_HEALTH_OK,
         "2 GPUs: the slowest 6100 Gflop/s (f32), to it 55100 MB/s, from it 53000"},
        {"gpu_slow", NULL, "gpu-speed", DLR_HEALTH_FAIL,
         "GPU 1 (0000:1C:00.0): multiplies at 3100 Gflop/s, another at 6200"},
        {"gpu_slow_link", NULL, "gpu-speed", DLR_HEALTH_FAIL,
         "GPU 0 (0000:1B:00.0): copies of 12000 MB/s, the link can 63008"},
        {"gpu_wrong", NULL, "gpu-speed", DLR_HEALTH_DRAIN,
         "GPU 1 (0000:1C:00.0): 3 results of a multiply are wrong"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_health_result got;
        struct dlr_health_env env;
        char root[64];

        print_message("  %s %s\n", rows[i].root, rows[i].check);
        unsetenv("SLURM_STEP_GPUS");
        unsetenv("SLURM_JOB_ID");
        if (rows[i].gpus) {
            setenv("SLURM_JOB_ID", "77", 1);
            setenv("SLURM_PROCID", "0", 1);
            setenv("SLURM_STEP_GPUS", rows[i].gpus, 1);
        }
        dlr_health_env_init(&env);
        dlr_format(root, sizeof(root), "tests/nodes/%s", rows[i].root);
        env.root = root;
        assert_int_equal(dlr_health_run(&env, rows[i].check, &got, 1, NULL), 1);
        assert_string_equal(got.reason, rows[i].reason);
        assert_int_equal(got.verdict, rows[i].want);
    }
}

/* Of a job that has one of two GPUs, and of one that has both. */
static void a_number_is_taken_for_the_first_gpu_of_the_job(void **state)
{
    static const struct {
        const char *gpus, *inject, *check;
        enum dlr_health_verdict want;
        const char *reason;
    } rows[] = {
        {"1", "n1:gpu-xid.number=79", "gpu-xid", DLR_HEALTH_DRAIN,
         "injected; GPU 0000:1C:00: Xid 79, the GPU has fallen off the bus, 1 within "
         "60 min"},
        {"0,1", "n1:gpu-xid.number=79", "gpu-xid", DLR_HEALTH_DRAIN,
         "injected; GPU 0000:1B:00: Xid 79, the GPU has fallen off the bus, 1 within "
         "60 min"},
        {"0,1", "n2:gpu-xid.number=79", "gpu-xid", DLR_HEALTH_OK,
         "no Xid of the GPU's own within 60 min"},
        {"1", "n1:gpu.recovery=2", "gpu", DLR_HEALTH_DRAIN,
         "injected; GPU 1 (00000000:1C:00.0): the node must be rebooted"},
        {"1", "n1:gpu.recovery=2", "gpu-xid", DLR_HEALTH_OK,
         "no Xid of the GPU's own within 60 min"},
        {"0,1", "n1:gpu.error=15", "gpu-speed", DLR_HEALTH_OK, /* CUDA has another */
         "2 GPUs: the slowest 6100 Gflop/s (f32), to it 55100 MB/s, from it 53000"},
        {"", "n1:gpu.recovery=2", "gpu", DLR_HEALTH_DRAIN,
         "injected; GPU 0 (00000000:01:00.0): the node must be rebooted"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_health_result got;
        struct dlr_health_env env;

        print_message("  %s %s\n", rows[i].gpus, rows[i].inject);
        setenv("SLURM_JOB_ID", "77", 1);
        setenv("SLURM_PROCID", "0", 1);
        setenv("SLURM_STEP_GPUS", rows[i].gpus, 1);
        setenv("CUDA_VISIBLE_DEVICES", rows[i].gpus[0] ? "0" : "NoDevFiles", 1);
        dlr_health_env_init(&env);
        env.root = "tests/nodes/gpu_good";
        env.node = "n1";
        env.inject = rows[i].inject;
        assert_int_equal(dlr_health_run(&env, rows[i].check, &got, 1, NULL), 1);
        assert_string_equal(got.reason, rows[i].reason);
        assert_int_equal(got.verdict, rows[i].want);
    }
    unsetenv("CUDA_VISIBLE_DEVICES");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_told_by_number),
        cmocka_unit_test(the_worst_of_each_gpu_counts_until_the_driver_takes_it_back),
        cmocka_unit_test(addresses_of_log_and_library_are_the_same),
        cmocka_unit_test(the_table_ascends_and_stands_in_the_manual),
        cmocka_unit_test(nodes_get_their_verdict),
        cmocka_unit_test(a_number_is_taken_for_the_first_gpu_of_the_job),
    };

    return cmocka_run_group_tests_name("xid", tests, NULL, NULL);
}
