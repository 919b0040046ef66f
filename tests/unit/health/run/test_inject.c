/* SPDX-License-Identifier: Apache-2.0 */
/* Faults by DLROVER_INJECT. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/str.h"
#include "health/inject.h"
#include "tests/support/fake_root.h"

static void words_that_cannot_be_obeyed_are_refused(void **state)
{
    static const struct {
        const char *text, *error; /* NULL: fine */
    } rows[] = {
        {NULL, NULL},
        {"", NULL},
        {"n2:memory=fail", NULL},
        {"*:disk=warn,n3:clock=250ms", NULL},
        {"n3:clock=drain", NULL},
        {"n2:memory=ok,", NULL},
        {"n2", "DLROVER_INJECT: 'n2' is not NODE:CHECK=VALUE, as n2:memory=fail"},
        {"n1:memory=ok,n2:memory",
         "DLROVER_INJECT: 'n2:memory' is not NODE:CHECK=VALUE, as n2:memory=fail"},
        {":memory=fail",
         "DLROVER_INJECT: ':memory=fail' is not NODE:CHECK=VALUE, as n2:memory=fail"},
        {"n2:=fail",
         "DLROVER_INJECT: 'n2:=fail' is not NODE:CHECK=VALUE, as n2:memory=fail"},
        {"n2=memory:fail",
         "DLROVER_INJECT: 'n2=memory:fail' is not NODE:CHECK=VALUE, as n2:memory=fail"},
        {"n2:memroy=fail",
         "DLROVER_INJECT: 'memroy' is no check; dlrover check --list has them"},
        {"n3:ib.rate=10,n3:ib.rate=0.5,*:disk.free=20m,n1:write.time=7s", NULL},
        {"n3:ib.rat=10", "DLROVER_INJECT: 'ib.rat' is no number of a check; it has "
                         "ib.rate, ib.state"},
        {"n3:ib.=10", "DLROVER_INJECT: 'ib.' is no number of a check; it has ib.rate, "
                      "ib.state"},
        {"n3:gpu.lost=1", "DLROVER_INJECT: 'gpu.lost' is no number of a check; it has "
                          "gpu.error, gpu.recovery"},
        {"n3:timesync.off=1",
         "DLROVER_INJECT: 'timesync.off' is no number of a check; of this one only the "
         "verdict is played, as timesync=fail"},
        {"n3:cloc.k=1",
         "DLROVER_INJECT: 'cloc.k' is no check; dlrover check --list has "
         "them"},
        {"n3:link.delay=5ms",
         "DLROVER_INJECT: 'link.delay' is not played: it takes root "
         "to slow a link down ('tc qdisc' on that node)"},
        {"n3:loss=5", "DLROVER_INJECT: 'loss' is not played: it takes root to slow a "
                      "link down ('tc qdisc' on that node)"},
        {"n3:ib.rate=fail",
         "DLROVER_INJECT: ib.rate cannot be 'fail': it takes a number"},
        {"n3:ib.rate=-1", "DLROVER_INJECT: ib.rate cannot be '-1': it takes a number"},
        {"n3:ib.rate=nan",
         "DLROVER_INJECT: ib.rate cannot be 'nan': it takes a number"},
        {"n3:ib.rate=1e99",
         "DLROVER_INJECT: ib.rate cannot be '1e99': it takes a number"},
        {"n3:ib.rate=", "DLROVER_INJECT: ib.rate cannot be '': it takes a number"},
        {"n3:disk.free=much", "DLROVER_INJECT: disk.free cannot be 'much': it takes a "
                              "size as 4g"},
        {"n3:write.time=5", NULL},
        {"n3:write.time=long",
         "DLROVER_INJECT: write.time cannot be 'long': it takes a "
         "time as 250ms"},
        {"n2:memory=bad", "DLROVER_INJECT: memory cannot be 'bad': it takes ok, skip, "
                          "warn, fail or drain"},
        {"n2:memory=", "DLROVER_INJECT: memory cannot be '': it takes ok, skip, "
                       "warn, fail or drain"},
        {"n2:clock=soon", "DLROVER_INJECT: clock cannot be 'soon': it takes ok, skip, "
                          "warn, fail or drain, or a time as 250ms"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_err err = {0};
        int rc = dlr_inject_check(rows[i].text, dlr_health_checks, &err);

        print_message("  %s\n", rows[i].text ? rows[i].text : "NULL");
        assert_string_equal(err.text, rows[i].error ? rows[i].error : "");
        assert_int_equal(rc, rows[i].error ? -EINVAL : 0);
    }
}

static void verdicts_of_the_node_are_replaced(void **state)
{
    struct dlr_health_result r[] = {
        {"memory", DLR_HEALTH_OK, "58 GiB available"},
        {"disk", DLR_HEALTH_WARN, "'/tmp' is full"},
        {"clock", DLR_HEALTH_OK, ""},
    };

    dlr_inject_apply("n2:memory=drain,n3:clock=fail,n2:memory=fail,*:disk=ok", "n2", r,
                     3);
    assert_int_equal(r[0].verdict, DLR_HEALTH_FAIL);
    assert_string_equal(r[0].reason, "injected; 58 GiB available");
    assert_int_equal(r[1].verdict, DLR_HEALTH_OK);
    assert_string_equal(r[1].reason, "injected; '/tmp' is full");
    assert_int_equal(r[2].verdict, DLR_HEALTH_OK);
    assert_string_equal(r[2].reason, "");
}

static void numbers_are_for_their_node(void **state)
{
    static const char text[] = "n1:clock=1s,n2:clock=250ms,n2:memory=fail,n22:clock=9s";
    double value = -1;

    assert_true(dlr_inject_number(text, "n2", "clock", &value));
    assert_true(value == 250);
    assert_false(dlr_inject_number(text, "n3", "clock", &value));
    assert_false(dlr_inject_number(text, "n2", "memory", &value));
    assert_false(dlr_inject_number("n2:clock=fail", "n2", "clock", &value));
    assert_false(dlr_inject_number(NULL, "n2", "clock", &value));
    assert_true(dlr_inject_number("*:clock=2s,n2:clock=1s", "n2", "clock", &value));
    assert_true(value == 1000);
}

static void a_clock_that_is_said_to_be_ahead_is_judged_so(void **state)
{
    static const struct {
        const char *text, *reason;
        enum dlr_health_verdict verdict;
    } rows[] = {
        {"n2:clock=90s", "+0.0", DLR_HEALTH_OK}, /* another node's */
        {"n1:clock=250ms", "injected; +0.25", DLR_HEALTH_OK},
        {"n1:clock=5s", "injected; +5.0", DLR_HEALTH_WARN},
        {"*:clock=90s", "injected; +90.0", DLR_HEALTH_FAIL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_health_result got;
        struct dlr_health_env env;

        dlr_health_env_init(&env);
        env.ref_wall_ns = dlr_wall_ns();
        env.ref_taken_ns = dlr_now_ns();
        env.inject = rows[i].text;
        env.node = "n1";
        assert_int_equal(dlr_health_run(&env, "clock", &got, 1, NULL), 1);
        got.reason[strlen(rows[i].reason)] = '\0';
        assert_string_equal(got.reason, rows[i].reason);
        assert_int_equal(got.verdict, rows[i].verdict);
    }
}

#define IN "injected; "

/* Each number on both sides of its check's limit, on a node that has none of it. */
static const struct row {
    const char *word, *reason; /* how it begins */
    enum dlr_health_verdict verdict;
} numbers[] = {
    {"memory.available=1g", IN "1.00 of 64.00 GiB", DLR_HEALTH_WARN},
    {"memory.available=2g", IN "2.00 of 64.00 GiB", DLR_HEALTH_OK},
    {"edac.corrected=9", IN "9 corrected", DLR_HEALTH_OK},
    {"edac.corrected=10", IN "10 corrected", DLR_HEALTH_WARN},
    {"edac.uncorrected=1", IN "1 uncorrected", DLR_HEALTH_DRAIN},
    {"edac.uncorrected=0", IN "0 corrected", DLR_HEALTH_OK},
    {"swap.used=9.9", IN "9.9% of the memory is in swap", DLR_HEALTH_OK},
    {"swap.used=10", IN "10.0% of the memory is in swap", DLR_HEALTH_WARN},
    {"swap.stalled=10", IN "0.0% of the memory is in swap, limit 10, 10.0% of",
     DLR_HEALTH_WARN},
    {"swap.stalled=60", IN "0.0% of the memory is in swap, limit 10, 60.0% of",
     DLR_HEALTH_FAIL},
    {"cpu.load=31", IN "8 of 8 CPUs are ours, load 31", DLR_HEALTH_OK},
    {"cpu.load=32", IN "8 of 8 CPUs are ours, load 32", DLR_HEALTH_WARN},
    {"throttle.hot=8639s", IN "slowed down by heat for 8639 s", DLR_HEALTH_OK},
    {"throttle.hot=8640s", IN "slowed down by heat for 8640 s", DLR_HEALTH_WARN},
    {"throttle.events=999", IN "slowed down by heat 999 times", DLR_HEALTH_OK},
    {"throttle.events=1000", IN "slowed down by heat 1000 times", DLR_HEALTH_WARN},
    {"inventory.cpus=8", IN "Slurm counts on 8 CPUs", DLR_HEALTH_OK},
    {"inventory.cpus=7", IN "7 CPUs are online, 1 offline, Slurm counts on 8",
     DLR_HEALTH_DRAIN},
    {"inventory.cpus=0", IN "0 CPUs are online, 8 offline, Slurm counts on 8",
     DLR_HEALTH_DRAIN},
    {"inventory.memory=1g", IN "1024 MiB of memory, Slurm counts on 2048",
     DLR_HEALTH_WARN},
    {"inventory.gpus=1", IN "1 GPUs are on the PCI bus, Slurm counts on 2",
     DLR_HEALTH_DRAIN},
    {"inventory.gpus=2", IN "Slurm counts on 8 CPUs", DLR_HEALTH_OK},
    {"disk.free=0", IN "'/tmp' has 0 MiB free", DLR_HEALTH_FAIL},
    {"disk.free=63m", IN "'/tmp' has 63 MiB and", DLR_HEALTH_WARN},
    {"disk.free=64m", IN "'/tmp' has 64 MiB free", DLR_HEALTH_OK},
    {"disk.inodes=0", IN "'/tmp' has no inode free", DLR_HEALTH_FAIL},
    {"disk.inodes=999", IN "'/tmp' has ", DLR_HEALTH_WARN},
    {"mounts.errors=3", IN "ext4 has recorded 3 errors on a disk", DLR_HEALTH_WARN},
    {"mounts.errors=0", IN "1 mounts, none given up", DLR_HEALTH_OK},
    {"reach.silent=1", IN "cannot reach n4 (1 of 2)", DLR_HEALTH_WARN},
    {"reach.silent=9", IN "cannot reach n4, n5 (2 of 2)", DLR_HEALTH_WARN},
    {"reach.silent=0", IN "2 of 2 nodes answer", DLR_HEALTH_OK},
    {"ib.rate=10", IN "played0 port 1 runs at 10 Gb/s, equal cards at 400",
     DLR_HEALTH_WARN},
    {"ib.rate=400", IN "2 of 2 ports are active", DLR_HEALTH_OK},
    {"ib.state=1", IN "played0 port 1 is down, and was up since boot", DLR_HEALTH_FAIL},
    {"ib.state=2", IN "played0 port 1 has a link, and no subnet manager",
     DLR_HEALTH_FAIL},
    {"ib.state=4", IN "2 of 2 ports are active", DLR_HEALTH_OK},
    {"links.downed=10", IN "a link: 10 link_downed in 1.0 days", DLR_HEALTH_WARN},
    {"links.downed=9", IN "1 links, none", DLR_HEALTH_OK},
    {"links.recoveries=10", IN "a link: 10 link_error_recovery", DLR_HEALTH_WARN},
    {"links.receive-errors=10", IN "a link: 10 port_rcv_errors", DLR_HEALTH_WARN},
    {"links.symbol-errors=864", IN "a link: 864 symbol_error", DLR_HEALTH_WARN},
    {"links.symbol-errors=863", IN "1 links, none", DLR_HEALTH_OK},
    {"links.carrier-losses=10", IN "a link: 10 carrier_down_count", DLR_HEALTH_WARN},
    {"pcie.width=8", IN "a card has 8 of 16 PCIe lanes", DLR_HEALTH_WARN},
    {"pcie.speed=16", IN "a card runs at 16.0 of 32.0 GT/s", DLR_HEALTH_WARN},
    {"pcie.width=16", IN "1 network cards and GPUs", DLR_HEALTH_OK},
    {"leftovers.memory=3g", IN "a process of no job holds 3.0 GiB", DLR_HEALTH_WARN},
    {"matmul.speed=2", IN "", DLR_HEALTH_OK},
    {"matmul.wrong=1", IN "CPU ", DLR_HEALTH_DRAIN},
    {"bandwidth.speed=2", IN "", DLR_HEALTH_OK},
    {"bandwidth.wrong=1", IN "CPU ", DLR_HEALTH_DRAIN},
    {"write.time=900ms", IN "'/tmp': 4096 KiB written in 900 ms", DLR_HEALTH_OK},
    {"write.time=2s", IN "'/tmp': 4096 KiB written in 2000 ms", DLR_HEALTH_WARN},
    {"write.time=5s", IN "'/tmp': a file of 4096 KiB is not written", DLR_HEALTH_FAIL},
    {"shared.time=1001ms", IN "'/tmp': 4 KiB written in 1001 ms", DLR_HEALTH_WARN},
    {"gpu.error=15", IN "GPU 0: it has fallen off the bus (NVML 15)", DLR_HEALTH_DRAIN},
    {"gpu.error=0", IN "2 GPUs answer, driver played", DLR_HEALTH_OK},
    {"gpu.recovery=1", IN "GPU 0 (00000000:01:00.0): it must be reset",
     DLR_HEALTH_DRAIN},
    {"gpu-memory.uncorrected=1", IN "GPU 0 (00000000:01:00.0): ", DLR_HEALTH_FAIL},
    {"gpu-memory.uncorrected=0", IN "2 GPUs: no uncorrected", DLR_HEALTH_OK},
    {"gpu-memory.retire-pending=1", IN "GPU 0 (00000000:01:00.0): ", DLR_HEALTH_DRAIN},
    {"gpu-memory.remap-pending=1", IN "GPU 0 (00000000:01:00.0): ", DLR_HEALTH_DRAIN},
    {"gpu-memory.remap-failed=1", IN "GPU 0 (00000000:01:00.0): ", DLR_HEALTH_DRAIN},
    {"gpu-xid.number=79", IN "GPU 0000:01:00: Xid 79, the GPU has fallen off the bus",
     DLR_HEALTH_DRAIN},
    {"gpu-xid.number=94", IN "GPU 0000:01:00: Xid 94, ", DLR_HEALTH_WARN},
    {"gpu-xid.number=31", IN "no Xid of the GPU's own", DLR_HEALTH_OK},
    {"gpu-link.links=17",
     IN "GPU 0 (00000000:01:00.0): 17 of its 18 NVLinks are active", DLR_HEALTH_FAIL},
    {"gpu-link.links=18", IN "2 GPUs: all NVLinks", DLR_HEALTH_OK},
    {"gpu-link.lanes=8", IN "GPU 0 (00000000:01:00.0): 8 of 16 PCIe lanes",
     DLR_HEALTH_WARN},
    {"gpu-link.lanes=4", IN "GPU 0 (00000000:01:00.0): 4 of 16 PCIe lanes",
     DLR_HEALTH_FAIL},
    {"gpu-clock.reasons=128", IN "GPU 0 (00000000:01:00.0): power brake",
     DLR_HEALTH_WARN},
    {"gpu-clock.reasons=0", IN "2 GPUs: clocks are not held back", DLR_HEALTH_OK},
    {"gpu-speed.to-device=9000", IN "GPU 0 (00000000:01:00.0): copies of 9000 MB/s",
     DLR_HEALTH_FAIL},
    {"gpu-speed.to-host=9000", IN "GPU 0 (00000000:01:00.0): copies of 9000 MB/s",
     DLR_HEALTH_FAIL},
    {"gpu-speed.multiply=9000", IN "GPU 0 (00000000:01:00.0): multiplies at 9000",
     DLR_HEALTH_FAIL},
    {"gpu-speed.multiply=50000", IN "2 GPUs: the slowest 50000", DLR_HEALTH_OK},
    {"gpu-speed.wrong=3", IN "GPU 0 (00000000:01:00.0): 3 results", DLR_HEALTH_DRAIN},
    {"shared.time=6s", IN "'/tmp': a file of 4 KiB is not written", DLR_HEALTH_FAIL},
};

static char root[] = "/tmp/dlr-inject-XXXXXX";

static void make(const char *path, const char *text)
{
    fake_root_put(root, path, text);
}

static int make_node(void **state)
{
    if (!mkdtemp(root))
        return -1;
    make("/proc/meminfo", "MemTotal: 67108864 kB\nMemAvailable: 60000000 kB\n"
                          "SwapTotal: 500000 kB\nSwapFree: 500000 kB\n");
    make("/proc/pressure/memory", "full avg10=0.00 avg60=0.00 avg300=0.00 total=1\n");
    make("/proc/loadavg", "1.00 1.00 1.00 1/99 1\n");
    make("/proc/self/status", "Cpus_allowed_list:\t0-7\n");
    make("/proc/self/mountinfo", "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
    make("/sys/devices/system/cpu/online", "0-7\n");
    make("/sys/devices/system/cpu/cpu0/cache/index3/size", "512K\n");
    make("/sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list", "0-7\n");
    return 0;
}

static int remove_node(void **state)
{
    char command[128];

    dlr_format(command, sizeof(command), "rm -rf %s", root);
    return system(command);
}

static void a_number_goes_through_the_limit_of_its_check(void **state)
{
    static const char *const peers[] = {"127.0.0.1:9", "127.0.0.1:9", NULL};
    static const char *const names[] = {"n4", "n5", NULL};

    unsetenv("TMPDIR");
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        const struct row *row = &numbers[i];
        struct dlr_health_result got;
        struct dlr_health_env env;
        char text[96], check[32];

        print_message("  %s\n", row->word);
        dlr_health_env_init(&env);
        env.root = root;
        env.disk_path = "/tmp";
        env.shm_path = "";
        env.slurm_cpus = 8;
        env.slurm_gpus = 2;
        env.slurm_memory_bytes = 2048u << 20;
        env.peers = peers;
        env.peer_names = names;
        env.node = "n3";
        dlr_format(text, sizeof(text), "n3:%s", row->word);
        assert_int_equal(dlr_inject_check(text, dlr_health_checks, NULL), 0);
        env.inject = text;
        dlr_format(check, sizeof(check), "%.*s", (int)strcspn(row->word, "."),
                   row->word);
        assert_int_equal(dlr_health_run(&env, check, &got, 1, NULL), 1);
        if (!dlr_after(got.reason, row->reason))
            fail_msg("'%s', not '%s'", got.reason, row->reason);
        assert_int_equal(got.verdict, row->verdict);
        if (strstr(row->word, ".speed=2"))
            assert_true(got.speed == 2 && got.kind);
        env.node = "n2"; /* the word is not for it */
        assert_int_equal(dlr_health_run(&env, check, &got, 1, NULL), 1);
        assert_null(dlr_after(got.reason, DLR_INJECTED));
    }
}

static bool is_tried(const char *key)
{
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (dlr_after(numbers[i].word, key))
            return true;
    return dlr_streq(key, "clock"); /* has a test of its own */
}

static void each_number_is_tried(void **state)
{
    for (const struct dlr_inject_key *k = dlr_inject_keys; k->key; k++)
        if (!is_tried(k->key))
            fail_msg("%s has no row", k->key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_that_cannot_be_obeyed_are_refused),
        cmocka_unit_test(verdicts_of_the_node_are_replaced),
        cmocka_unit_test(numbers_are_for_their_node),
        cmocka_unit_test(a_clock_that_is_said_to_be_ahead_is_judged_so),
        cmocka_unit_test(a_number_goes_through_the_limit_of_its_check),
        cmocka_unit_test(each_number_is_tried),
    };

    return cmocka_run_group_tests(tests, make_node, remove_node);
}
