/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of /proc and /sys say of a node's hardware: nodes are trees made here. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "health/health.h"
#include "tests/support/fake_root.h"

static char root[] = "/tmp/dlr-health-XXXXXX";

/* --- a node ----------------------------------------------------------------------- */

static void make(const char *path, const char *text)
{
    fake_root_put(root, path, text);
}

static int clear(void **state)
{
    return fake_root_clear(root);
}

static int begin(void **state)
{
    return mkdtemp(root) ? 0 : -1;
}

static int end(void **state)
{
    return clear(state) | rmdir(root);
}

struct row {
    const char *check;
    const char *files[17]; /* path, text, path, text ... NULL */
    enum dlr_health_verdict want;
    const char *reason;
};

static void ask(const struct dlr_health_env *env, const char *check,
                struct dlr_health_result *ret)
{
    assert_int_equal(dlr_health_run(env, check, ret, 1, NULL), 1);
}

/* env NULL: nothing optional is known. */
static void try_row(const struct row *row, const struct dlr_health_env *env)
{
    struct dlr_health_result got;
    struct dlr_health_env own;

    print_message("  %s: %s\n", row->check, row->reason);
    if (env)
        own = *env;
    else
        dlr_health_env_init(&own);
    own.root = root;
    clear(NULL);
    for (size_t i = 0; row->files[i]; i += 2)
        make(row->files[i], row->files[i + 1]);
    ask(&own, row->check, &got);
    assert_string_equal(got.reason, row->reason);
    assert_int_equal(got.verdict, row->want);
}

#define TRY(rows)                                                                      \
    for (size_t i_ = 0; i_ < sizeof(rows) / sizeof((rows)[0]); i_++)                   \
    try_row(&(rows)[i_], NULL)

#define OK DLR_HEALTH_OK
#define SKIP DLR_HEALTH_SKIP
#define WARN DLR_HEALTH_WARN
#define FAIL DLR_HEALTH_FAIL
#define DRAIN DLR_HEALTH_DRAIN
#define TEN_DAYS "/proc/uptime", "864000.55 1234.5\n"

// clang-format off
/* --- memory ----------------------------------------------------------------------- */

#define MC "/sys/devices/system/edac/mc/"

static void memory_errors_are_judged_by_kind_and_rate(void **state)
{
    static const struct row rows[] = {
        {"edac", {NULL}, SKIP, "the kernel counts no memory errors here (EDAC)"},
        {"edac", {MC "mc0/ue_count", "?", MC "mc0/ce_count", ""}, SKIP,
         "the kernel counts no memory errors here (EDAC)"},
        {"edac", {MC "mc0/ue_count", "0\n", MC "mc0/ce_count", "9\n"}, OK,
         "9 corrected memory errors in 1.0 days, limit 10 a day"},
        {"edac", {MC "mc0/ue_count", "0\n", MC "mc0/ce_count", "6\n", MC "mc1/ce_count", "4\n"}, WARN,
         "10 corrected memory errors in 1.0 days, limit 10 a day"},
        {"edac", {TEN_DAYS, MC "mc0/ue_count", "0\n", MC "mc0/ce_count", "99\n"}, OK,
         "99 corrected memory errors in 10.0 days, limit 10 a day"},
        {"edac", {TEN_DAYS, MC "mc0/ce_count", "9999\n", MC "mc1/ue_count", "1\n"}, DRAIN,
         "1 uncorrected memory errors since boot, limit 0"},
        {"edac", {MC "mc0/ue_count", "99999999999999999999999\n", MC "mc1/ce_count", "0\n"}, OK,
         "0 corrected memory errors in 1.0 days, limit 10 a day"},
    };

    TRY(rows);
}

#define MEMINFO(swap_free) "/proc/meminfo", \
    "MemTotal: 1000000 kB\nMemAvailable: 900000 kB\nSwapTotal: 500000 kB\nSwapFree: " swap_free " kB\n"
#define PSI(avg) "/proc/pressure/memory", \
    "some avg10=99.00 avg60=99.00 avg300=99.00 total=1\nfull avg10=99.00 avg60=" avg " avg300=99.00 total=1\n"

static void swap_and_stalls_are_told(void **state)
{
    static const struct row rows[] = {
        {"swap", {NULL}, SKIP, "/proc/meminfo cannot be read"},
        {"swap", {"/proc/meminfo", "MemTotal: 5 kB\nSwapTotal: 3 kB\nSwapFree: 4 kB\n"}, SKIP,
         "/proc/meminfo cannot be read"},
        {"swap", {"/proc/meminfo", "MemTotal: 0 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"}, SKIP,
         "/proc/meminfo cannot be read"},
        {"swap", {MEMINFO("401000")}, OK, "9.9% of the memory is in swap, limit 10"},
        {"swap", {MEMINFO("400000")}, WARN, "10.0% of the memory is in swap, limit 10"},
        {"swap", {MEMINFO("500000"), PSI("9.99")}, OK,
         "0.0% of the memory is in swap, limit 10, 10.0% of a minute lost waiting for memory, limits 10 and 60"},
        {"swap", {MEMINFO("500000"), PSI("10.00")}, WARN,
         "0.0% of the memory is in swap, limit 10, 10.0% of a minute lost waiting for memory, limits 10 and 60"},
        {"swap", {MEMINFO("500000"), PSI("60.00")}, FAIL,
         "0.0% of the memory is in swap, limit 10, 60.0% of a minute lost waiting for memory, limits 10 and 60"},
        {"swap", {MEMINFO("500000"), PSI("nan")}, OK, "0.0% of the memory is in swap, limit 10"},
        {"swap", {MEMINFO("500000"), PSI("1e9")}, OK, "0.0% of the memory is in swap, limit 10"},
        {"swap", {MEMINFO("500000"), PSI("")}, OK, "0.0% of the memory is in swap, limit 10"},
    };

    TRY(rows);
}

/* --- CPUs ------------------------------------------------------------------------- */

#define CPU "/sys/devices/system/cpu/"
#define HOT "/thermal_throttle/"

static void heat_is_told_when_it_lasts(void **state)
{
    static const struct row rows[] = {
        {"throttle", {NULL}, SKIP, "the kernel does not count it here (thermal_throttle)"},
        {"throttle", {CPU "cpu0" HOT "package_throttle_count", "x"}, SKIP,
         "the kernel does not count it here (thermal_throttle)"},
        {"throttle", {TEN_DAYS, CPU "cpu0" HOT "package_throttle_total_time_ms", "86399000\n",
                      CPU "cpu0" HOT "package_throttle_count", "9999999\n"}, OK,
         "slowed down by heat for 86399 s, 10.0% of 10.0 days, limit 10%"},
        {"throttle", {TEN_DAYS, CPU "cpu0" HOT "core_throttle_total_time_ms", "5\n",
                      CPU "cpu11" HOT "core_throttle_total_time_ms", "86400000\n"}, WARN,
         "slowed down by heat for 86400 s, 10.0% of 10.0 days, limit 10%"},
        {"throttle", {TEN_DAYS, CPU "cpu0" HOT "package_throttle_count", "9999\n"}, OK,
         "slowed down by heat 9999 times in 10.0 days, limit 1000 a day"},
        {"throttle", {TEN_DAYS, CPU "cpu0" HOT "core_throttle_count", "10000\n"}, WARN,
         "slowed down by heat 10000 times in 10.0 days, limit 1000 a day"},
    };

    TRY(rows);
}

#define PCI "/sys/bus/pci/devices/"
#define GPU(n) PCI "0000:0" n ":00.0/class", "0x030200\n", PCI "0000:0" n ":00.0/vendor", "0x10de\n"
#define CONSOLE PCI "0000:09:00.0/class", "0x030000\n", PCI "0000:09:00.0/vendor", "0x1a03\n"
#define DRIVER "/sys/module/nvidia/version", "550\n"

static void what_slurm_counts_on_is_looked_for(void **state)
{
    static const struct row rows[] = {
        {"inventory", {CPU "online", "0-7\n", CPU "offline", "\n", "/proc/meminfo", "MemTotal: 1048576 kB\n",
                       GPU("1"), GPU("2"), DRIVER}, OK,
         "Slurm counts on 8 CPUs, 1024 MiB and 2 GPUs"},
        {"inventory", {CPU "online", "0-5,7\n", CPU "offline", "6\n"}, DRAIN,
         "7 CPUs are online, 1 offline, Slurm counts on 8"},
        {"inventory", {CPU "online", "0-3\n"}, WARN, "4 CPUs are online, 0 offline, Slurm counts on 8"},
        {"inventory", {"/proc/meminfo", "MemTotal: 1048575 kB\n"}, WARN,
         "1023 MiB of memory, Slurm counts on 1024"},
        {"inventory", {CPU "online", "0-3\n", GPU("1"), CONSOLE, DRIVER}, DRAIN,
         "1 GPUs are on the PCI bus, Slurm counts on 2"},
        /* Slurm only counts them, or counts parts of them */
        {"inventory", {CONSOLE}, OK, "Slurm counts on 8 CPUs, 1024 MiB and 2 GPUs"},
        {"inventory", {GPU("1"), DRIVER, "/proc/driver/nvidia/capabilities/gpu0/mig/gi7/access", "x"}, OK,
         "Slurm counts on 8 CPUs, 1024 MiB and 2 GPUs"},
        {"inventory", {CPU "online", "0-\n", "/proc/meminfo", "MemTotal: lots\n"}, OK,
         "Slurm counts on 8 CPUs, 1024 MiB and 2 GPUs"},
    };
    static const struct row unknown = {"inventory", {CPU "online", "0\n"}, SKIP, "what Slurm counts on is not known"};
    struct dlr_health_env env;

    dlr_health_env_init(&env);
    setenv("SLURM_CPUS_ON_NODE", "8", 1);
    setenv("SLURM_MEM_PER_NODE", "1024", 1);
    setenv("SLURM_GPUS_ON_NODE", "2", 1);
    dlr_health_env_slurm(&env);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        try_row(&rows[i], &env);
    setenv("SLURM_CPUS_ON_NODE", "many", 1);
    unsetenv("SLURM_MEM_PER_NODE");
    setenv("SLURM_GPUS_ON_NODE", "-1", 1);
    dlr_health_env_slurm(&env);
    try_row(&unknown, &env);
    try_row(&unknown, NULL);
}

/* --- disks ------------------------------------------------------------------------ */

#define MOUNTS "/proc/self/mountinfo"

static void disks_that_the_kernel_gave_up_are_named(void **state)
{
    static const struct row rows[] = {
        {"mounts", {NULL}, SKIP, "/proc/self/mountinfo cannot be read"},
        {"mounts", {MOUNTS, "nonsense\n - \n36 35 - - -\n\n"}, OK, "2 mounts, none given up by the kernel"},
        {"mounts", {MOUNTS, "36 35 98:0 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro\n"
                            "37 36 8:1 / /opt ro,relatime - ext4 /dev/sdb1 ro\n"      /* so mounted */
                            "38 36 8:1 /x /bind ro,relatime - ext4 /dev/sdb1 rw\n"    /* so bound */
                            "39 36 7:0 / /snap rw,nodev - squashfs /dev/loop0 ro\n"}, /* never else */
         OK, "4 mounts, none given up by the kernel"},
        {"mounts", {MOUNTS, "36 35 98:0 / / rw - ext4 /dev/sda1 rw\n"
                            "37 36 8:1 / /scratch rw,relatime shared:2 master:1 - xfs /dev/sdb1 ro,noquota\n"
                            "38 36 8:1 / /tmp rw - ext4 /dev/sdc1 errors=remount-ro,ro\n"}, DRAIN,
         "the kernel has made '/scratch' read-only; the kernel has made '/tmp' read-only"},
        {"mounts", {MOUNTS, "36 35 98:0 / / rw - ext4 /dev/sda1 rw\n", "/sys/fs/ext4/sda1/errors_count", "3\n",
                    "/sys/fs/ext4/sdb1/errors_count", "0\n", "/sys/fs/ext4/sdc1/errors_count", "?\n"}, WARN,
         "ext4 has recorded 3 errors on sda1, limit 0"},
        {"mounts", {MOUNTS, "36 35 98:0 / / rw - ext4 /dev/sda1 ro\n", "/sys/fs/ext4/sda1/errors_count", "3\n"},
         DRAIN, "the kernel has made '/' read-only"},
    };

    TRY(rows);
}

/* --- networks --------------------------------------------------------------------- */

#define IB(dev) "/sys/class/infiniband/" dev
#define PORT(dev, state, phys, rate, layer) IB(dev) "/ports/1/state", state "\n", IB(dev) "/ports/1/phys_state", phys "\n", \
    IB(dev) "/ports/1/rate", rate "\n", IB(dev) "/ports/1/link_layer", layer "\n"
#define UP(dev, rate) PORT(dev, "4: ACTIVE", "5: LinkUp", rate, "InfiniBand")
#define BOARD(dev) IB(dev) "/board_id", "MT_0000000838\n"

static void infiniband_ports_are_judged_by_state_and_rate(void **state)
{
    static const struct row rows[] = {
        {"ib", {NULL}, SKIP, "no RDMA device here"},
        {"ib", {IB("mlx5_0") "/ports/1/state", "??\n"}, SKIP, "the state of no RDMA port can be read"},
        {"ib", {UP("mlx5_0", "400 Gb/sec (4X NDR)")}, OK, "1 of 1 ports are active"},
        {"ib", {PORT("mlx5_0", "2: INIT", "5: LinkUp", "400 Gb/sec (4X NDR)", "InfiniBand")}, FAIL,
         "mlx5_0 port 1 has a link, and no subnet manager has made it active"},
        /* never connected; disabled; connected until the cable went */
        {"ib", {PORT("mlx5_0", "1: DOWN", "2: Polling", "10 Gb/sec (4X SDR)", "InfiniBand")}, WARN,
         "0 of 1 ports are active"},
        {"ib", {PORT("mlx5_0", "1: DOWN", "3: Disabled", "10 Gb/sec", "InfiniBand"),
                IB("mlx5_0") "/ports/1/counters/link_downed", "1\n"}, WARN, "0 of 1 ports are active"},
        {"ib", {PORT("mlx5_0", "1: DOWN", "2: Polling", "10 Gb/sec", "InfiniBand"),
                IB("mlx5_0") "/ports/1/counters/link_downed", "1\n"}, FAIL,
         "mlx5_0 port 1 is down, and was up since boot"},
        {"ib", {PORT("irdma0", "1: DOWN", "2: Polling", "10 Gb/sec", "Ethernet"),
                IB("irdma0") "/ports/1/counters/link_downed", "1\n"}, OK, "0 of 1 ports are active"},
        {"ib", {IB("a") "/ports/1/state", "4: ACTIVE\n", IB("a") "/ports/1/rate", "400 Gb/sec\n", BOARD("a"),
                IB("b") "/ports/1/state", "4: ACTIVE\n", IB("b") "/ports/1/rate", "200 Gb/sec (2X NDR)\n", BOARD("b")},
         WARN, "b port 1 runs at 200 Gb/s, equal cards at 400"},
        /* another kind of card; one that says nothing */
        {"ib", {IB("a") "/ports/1/state", "4: ACTIVE\n", IB("a") "/ports/1/rate", "400 Gb/sec\n", BOARD("a"),
                IB("b") "/ports/1/state", "4: ACTIVE\n", IB("b") "/ports/1/rate", "200 Gb/sec (2X NDR)\n"},
         OK, "2 of 2 ports are active"},
        {"ib", {IB("a") "/ports/1/state", "4: ACTIVE\n", IB("a") "/ports/1/rate", "400 Gb/sec\n",
                IB("b") "/ports/1/state", "4: ACTIVE\n", IB("b") "/ports/1/rate", "200 Gb/sec (2X NDR)\n"},
         OK, "2 of 2 ports are active"},
    };

    TRY(rows);
}

#define COUNT(file, n) IB("mlx5_0") "/ports/1/counters/" file, n "\n"
#define NET "/sys/class/net/"

static void links_are_judged_by_errors_a_day(void **state)
{
    static const struct row rows[] = {
        {"links", {NULL}, SKIP, "no link whose errors are counted"},
        {"links", {COUNT("link_downed", "N/A")}, SKIP, "no link whose errors are counted"},
        {"links", {COUNT("link_downed", "1"), COUNT("symbol_error", "863"), COUNT("port_rcv_errors", "9")}, OK,
         "1 links, none with more errors than its limits"},
        {"links", {TEN_DAYS, COUNT("link_downed", "99"), COUNT("symbol_error", "8639")}, OK,
         "1 links, none with more errors than its limits"},
        {"links", {TEN_DAYS, COUNT("link_downed", "100"), COUNT("symbol_error", "8640")}, WARN,
         "mlx5_0 port 1: 100 link_downed in 10.0 days, limit 10 a day; "
         "mlx5_0 port 1: 8640 symbol_error in 10.0 days, limit 864 a day"},
        {"links", {NET "eth0/device/vendor", "x", NET "eth0/carrier_down_count", "10\n"}, WARN,
         "eth0: 10 carrier_down_count in 1.0 days, limit 10 a day"},
        {"links", {NET "veth0/carrier_down_count", "10\n"}, SKIP, "no link whose errors are counted"},
        {"links", {NET "eth0/device/vendor", "x", NET "eth0/carrier_down_count", "1\n", NET "eth0/carrier", "1\n",
                   NET "eth0/carrier_up_count", "2\n"}, OK, "1 links, none with more errors than its limits"},
        {"links", {NET "eth0/device/vendor", "x", NET "eth0/carrier_down_count", "1\n", NET "eth0/carrier", "0\n",
                   NET "eth0/carrier_up_count", "1\n"}, WARN, "eth0 has no carrier, and had one since boot"},
        {"links", {NET "eth1/device/vendor", "x", NET "eth1/carrier_down_count", "0\n", NET "eth1/carrier", "0\n",
                   NET "eth1/carrier_up_count", "0\n"}, OK, "1 links, none with more errors than its limits"},
    };

    TRY(rows);
}

#define BUS "/sys/devices/pci0000:00/0000:00:01.0/"
#define CARD BUS "0000:01:00.0/"
#define LINK(at, width, max, speed, fast) at "current_link_width", width "\n", at "max_link_width", max "\n", \
    at "current_link_speed", speed " GT/s PCIe\n", at "max_link_speed", fast " GT/s PCIe\n"
#define LISTED PCI "0000:01:00.0", "-> ../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0"

static void pcie_links_are_compared_with_card_and_slot(void **state)
{
    static const struct row rows[] = {
        {"pcie", {NULL}, SKIP, "no card whose PCIe link can be read"},
        {"pcie", {CARD "class", "network\n", LINK(CARD, "8", "16", "8", "16"), LISTED}, SKIP,
         "no card whose PCIe link can be read"},
        {"pcie", {CARD "class", "0x020700\n", LINK(CARD, "?", "x", "Unknown", "Unknown"), LISTED}, SKIP,
         "no card whose PCIe link can be read"},
        {"pcie", {CARD "class", "0x020700\n", LINK(CARD, "16", "16", "32.0", "32.0"), LISTED}, OK,
         "1 network cards and GPUs have all their lanes"},
        {"pcie", {CARD "class", "0x020700\n", LINK(CARD, "8", "16", "32.0", "32.0"), LISTED}, WARN,
         "0000:01:00.0 has 8 of 16 PCIe lanes"},
        /* the slot has no more lanes, or is an older one */
        {"pcie", {CARD "class", "0x020000\n", LINK(CARD, "8", "16", "8.0", "16.0"), LISTED,
                  BUS "max_link_width", "8\n", BUS "max_link_speed", "8.0 GT/s PCIe\n"}, OK,
         "1 network cards and GPUs have all their lanes"},
        {"pcie", {CARD "class", "0x020000\n", LINK(CARD, "16", "16", "2.5", "16.0"), LISTED}, WARN,
         "0000:01:00.0 runs at 2.5 of 16.0 GT/s"},
        /* an idle GPU */
        {"pcie", {CARD "class", "0x030200\n", LINK(CARD, "16", "16", "2.5", "32.0"), LISTED}, OK,
         "1 network cards and GPUs have all their lanes"},
        {"pcie", {CARD "class", "0x120000\n", LINK(CARD, "1", "16", "2.5", "32.0"), LISTED}, WARN,
         "0000:01:00.0 has 1 of 16 PCIe lanes"},
        /* a disk; a virtual function; a card that has fallen off the bus */
        {"pcie", {CARD "class", "0x010802\n", LINK(CARD, "1", "4", "2.5", "16.0"), LISTED}, SKIP,
         "no card whose PCIe link can be read"},
        {"pcie", {CARD "class", "0x020700\n", LINK(CARD, "0", "0", "Unknown", "Unknown"), LISTED}, SKIP,
         "no card whose PCIe link can be read"},
        {"pcie", {CARD "class", "0x020700\n", LINK(CARD, "63", "255", "Unknown", "Unknown"), LISTED}, SKIP,
         "no card whose PCIe link can be read"},
    };

    TRY(rows);
}

/* --- processes -------------------------------------------------------------------- */

#define STATUS(pid, name, parent, uid, kib) "/proc/" pid "/status", \
    "Name:\t" name "\nState:\tS\nPPid:\t" parent "\nUid:\t" uid "\t" uid "\t" uid "\t" uid "\nVmRSS:\t " kib " kB\n"
#define NO_GROUP(pid) "/proc/" pid "/cgroup", "0::/user.slice\n"

static void large_processes_without_a_job_are_named(void **state)
{
    static const struct row rows[] = {
        {"leftovers", {NULL}, SKIP, "/proc cannot be read"},
        {"leftovers", {"/proc/7/status", "garbage"}, OK, "0 processes of users, none large without a job"},
        {"leftovers", {STATUS("7", "python3", "1", "1001", "1048575"), NO_GROUP("7")}, OK,
         "1 processes of users, none large without a job"},
        {"leftovers", {STATUS("7", "python3", "1", "1001", "2097152"), NO_GROUP("7")}, WARN,
         "python3 (pid 7, uid 1001) of no job holds 2.0 GiB, limit 1"},
        {"leftovers", {STATUS("7", "mysqld", "1", "999", "2097152"), NO_GROUP("7")}, OK,
         "0 processes of users, none large without a job"},
        {"leftovers", {STATUS("7", "python3", "6", "1001", "2097152"), NO_GROUP("7"),
                       STATUS("6", "bash", "5", "1001", "9"), STATUS("5", "slurmstepd", "1", "0", "9")}, OK,
         "2 processes of users, none large without a job"},
        {"leftovers", {STATUS("7", "python3", "1", "1001", "2097152"),
                       "/proc/7/cgroup", "0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_0\n"}, OK,
         "1 processes of users, none large without a job"},
        /* nobody can tell: no cgroup to read; a parent that has just ended; parents in a ring */
        {"leftovers", {STATUS("7", "python3", "1", "1001", "2097152")}, OK,
         "1 processes of users, none large without a job"},
        {"leftovers", {STATUS("7", "python3", "6", "1001", "2097152"), NO_GROUP("7")}, OK,
         "1 processes of users, none large without a job"},
        {"leftovers", {STATUS("7", "python3", "7", "1001", "2097152"), NO_GROUP("7")}, WARN,
         "python3 (pid 7, uid 1001) of no job holds 2.0 GiB, limit 1"},
    };

    TRY(rows);
}
// clang-format on

/* --- cards that hang -------------------------------------------------------------- */

/* Instead of firmware that does not answer: a FIFO that nobody writes to. */
static void a_card_that_does_not_answer_fails_in_time(void **state)
{
    static const struct {
        const char *check, *file, *reason;
    } rows[] = {
        {"ib", "/sys/class/infiniband/mlx5_0/ports/1/state",
         "InfiniBand ports cannot be read within 1000 ms"},
        {"links", "/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed",
         "network links cannot be read within 1000 ms"},
        {"pcie", "/sys/bus/pci/devices/0000:01:00.0/class",
         "PCIe links cannot be read within 1000 ms"},
    };
    struct dlr_health_result got;
    struct dlr_health_env env;
    char path[256];

    dlr_health_env_init(&env);
    env.root = root;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        print_message("  %s\n", rows[i].check);
        clear(NULL);
        make(rows[i].file, "");
        dlr_format(path, sizeof(path), "%s%s", root, rows[i].file);
        assert_int_equal(unlink(path) | mkfifo(path, 0600), 0);
        ask(&env, rows[i].check, &got);
        assert_string_equal(got.reason, rows[i].reason);
        assert_int_equal(got.verdict, FAIL);
        close(open(path, O_WRONLY)); /* it answers after all */
    }
}

/* --- all -------------------------------------------------------------------------- */

static void every_row_says_what_an_administrator_needs(void **state)
{
    unsigned n = 0;

    for (const struct dlr_health_check *c = dlr_health_checks; c->name; c++, n++) {
        print_message("  %s\n", c->name);
        assert_true(c->help[0] && c->reads[0] && c->unit && c->limit[0]);
        assert_int_equal(c->advice[strlen(c->advice) - 1], '.');
        assert_true(strlen(c->name) <= 10 && !strpbrk(c->name, " ,"));
    }
    assert_in_range(n, 1, DLR_HEALTH_CHECKS_MAX);
}

static void long_findings_are_cut_and_keep_their_verdict(void **state)
{
    struct dlr_health_result got;
    struct dlr_health_env env;
    char path[64];

    clear(NULL);
    for (unsigned i = 10; i < 40; i++) {
        dlr_format(path, sizeof(path), NET "eth%u/device/x", i);
        make(path, "x");
        dlr_format(path, sizeof(path), NET "eth%u/carrier_down_count", i);
        make(path, "77\n");
    }
    dlr_health_env_init(&env);
    env.root = root;
    ask(&env, "links", &got);
    assert_int_equal(got.verdict, WARN);
    assert_non_null(dlr_after(got.reason, "eth10: 77 carrier_down_count in 1.0 days, "
                                          "limit 10 a day; eth11: 77"));
    assert_int_equal(strlen(got.reason), sizeof(got.reason) - 1);
}

int main(void)
{
#define T(fn) cmocka_unit_test(fn)
    const struct CMUnitTest tests[] = {
        T(memory_errors_are_judged_by_kind_and_rate),
        T(swap_and_stalls_are_told),
        T(heat_is_told_when_it_lasts),
        T(what_slurm_counts_on_is_looked_for),
        T(disks_that_the_kernel_gave_up_are_named),
        T(infiniband_ports_are_judged_by_state_and_rate),
        T(links_are_judged_by_errors_a_day),
        T(pcie_links_are_compared_with_card_and_slot),
        T(large_processes_without_a_job_are_named),
        T(a_card_that_does_not_answer_fails_in_time),
        T(every_row_says_what_an_administrator_needs),
        T(long_findings_are_cut_and_keep_their_verdict),
    };

    return cmocka_run_group_tests_name("passive", tests, begin, end);
}
