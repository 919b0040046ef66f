/* SPDX-License-Identifier: Apache-2.0 */
/* The report of a node: who it is, whom it asks, which snapshots it can prove. */
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/base/crc32c.h"
#include "ckpt/slot/store.h"
#include "ckpt/slot/write.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "mpi_launcher/rendezvous/node_report.h"
#include "mpi_launcher/run/master_port.h"

static const struct dlr_report_clock no_clock;
static unsigned char data[5000];
static char dir[64];

static void put(const char *name, int32_t rank, uint64_t step)
{
    const struct dlr_ckpt_region region = {"d", DLR_CKPT_LOCAL, "u8", 1,   1, {5000},
                                           {0}, {5000},         {0},  data};
    const struct dlr_slot_owner owner = {dlr_slot_key("c.1.run"), rank, 8};
    struct dlr_slot_plan *plan;
    struct dlr_slot *slot;
    DLR_AUTO_CLOSE int fd = open(dir, O_RDONLY | O_DIRECTORY);
    uint64_t size;

    assert_int_equal(dlr_slot_plan_new(&region, 1, &owner, &plan, NULL), 0);
    size = dlr_slot_plan_bytes(plan);
    assert_int_equal(dlr_slot_create(fd, name, size, &slot, NULL), 0);
    assert_int_equal(dlr_slot_begin(slot, plan, (struct dlr_version){3, step}, NULL),
                     0);
    size = dlr_slot_plan_data(plan);
    memset(dlr_slot_data(slot, plan, 0), 7, size);
    dlr_slot_set_crc(slot, plan, 0, dlr_crc32c(0, dlr_slot_data(slot, plan, 0), size));
    dlr_slot_seal(slot, plan);
    dlr_slot_unmap(slot);
    dlr_slot_plan_free(plan);
}

static off_t spoil_last_data(const char *name)
{
    DLR_AUTO_CLOSE int fd = -1;
    char path[128];
    struct stat st;

    dlr_format(path, sizeof(path), "%s/%s", dir, name);
    fd = open(path, O_RDWR);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    assert_int_equal(pwrite(fd, "x", 1, 8192 + 100), 1);
    return st.st_size;
}

static int setup(void **state)
{
    setenv("HWLOC_PLUGINS_BLACKLIST", "hwloc_pci.so", 1); /* libpciaccess leaks */
    setenv("SLURMD_NODENAME", "n3", 1);
    setenv("SLURM_TOPOLOGY_ADDR", "spine.leaf1.n3", 1);
    dlr_format(dir, sizeof(dir), "/dev/shm/dlr-test-report-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    return dlr_store_remove(dir, NULL);
}

static void says_who_and_what_it_can_prove(void **state)
{
    const struct dlr_plan_survey survey = {
        .checks = "clock", .store_dir = dir, .key = "c.1.run", .port = 29999};
    struct dlr_plan_report r;
    off_t size;

    put("r1.s0", 1, 120);
    put("r7.s1", 7, 110);
    put("r7.s0", 7, 120);
    size = spoil_last_data("r7.s0");
    dlr_report_make(&survey, &no_clock, &r);
    assert_string_equal(r.node.name, "n3");
    assert_string_equal(r.node.path, "spine.leaf1.n3");
    assert_int_equal(strlen(r.boot), 36);
    assert_true(r.cpus > 0);
    assert_in_range(r.port, DLR_PORT_FIRST, DLR_PORT_FIRST + DLR_PORT_SPAN - 1);
    assert_int_equal(r.nchecks, 1); /* not what is fine: check clock */
    assert_string_equal(r.checks[0].reason, "1 snapshots failed their verification");
    assert_int_equal(r.ncopies, 2);
    assert_int_equal(r.copies[0].rank, 1);
    assert_int_equal(r.copies[0].world, 8);
    assert_int_equal(r.copies[0].bytes, size);
    assert_int_equal(r.copies[0].version.round, 3);
    assert_int_equal(r.copies[1].rank, 7);
    assert_int_equal(r.copies[1].version.step, 110);
    dlr_plan_report_done(&r);
}

/* Rank 0 may be on any node: each says which port nobody listens at there. */
static void a_port_that_is_listened_at_is_not_offered(void **state)
{
    struct dlr_plan_survey survey = {.port = DLR_PORT_FIRST + 7};
    struct sockaddr_in any = {.sin_family = AF_INET};
    struct dlr_plan_report r;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    do
        any.sin_port = htons((uint16_t)++survey.port);
    while (bind(fd, (struct sockaddr *)&any, sizeof(any)) < 0);
    assert_int_equal(listen(fd, 1), 0);
    dlr_report_make(&survey, &no_clock, &r);
    assert_in_range(r.port, survey.port + 1, DLR_PORT_FIRST + DLR_PORT_SPAN - 1);
    dlr_plan_report_done(&r);
    survey.port = 0; /* nobody wants one */
    dlr_report_make(&survey, &no_clock, &r);
    assert_int_equal(r.port, 0);
    dlr_plan_report_done(&r);
    close(fd);
}

static void the_jobs_tree_goes_before_slurmds_word(void **state)
{
    const char *names[] = {"other", "n3"}, *addrs[] = {"127.0.0.1:1", "127.0.0.1:1"};
    const char *paths[] = {"top.b.other", "top.rack7.n3"};
    struct dlr_plan_survey survey = {
        .npeers = 2, .peer_nodes = names, .peer_addrs = addrs};
    struct dlr_plan_report r;

    setenv("SLURMD_NODENAME", "n3", 1);
    setenv("SLURM_TOPOLOGY_ADDR", "spine.leaf0.n3", 1);
    dlr_report_make(&survey, &no_clock, &r);
    assert_string_equal(r.node.path, "spine.leaf0.n3");
    dlr_plan_report_done(&r);
    survey.peer_paths = paths;
    dlr_report_make(&survey, &no_clock, &r);
    assert_string_equal(r.node.path, "top.rack7.n3");
    dlr_plan_report_done(&r);
    setenv("SLURM_TOPOLOGY_ADDR", "spine.leaf1.n3", 1);
}

static void another_runs_snapshots_are_not_its_own(void **state)
{
    const struct dlr_plan_survey survey = {.store_dir = dir, .key = "c.2.run"};
    struct dlr_plan_report r;

    put("r1.s0", 1, 120);
    dlr_report_make(&survey, &no_clock, &r);
    assert_int_equal(r.ncopies, 0);
    assert_int_equal(r.nchecks, 0);
    dlr_plan_report_done(&r);
}

static void an_unknown_check_leaves_the_node_out(void **state)
{
    const struct dlr_plan_survey survey = {.checks = "memory,frob"};
    struct dlr_plan_report r;

    dlr_report_make(&survey, &no_clock, &r);
    assert_int_equal(r.nchecks, 1);
    assert_string_equal(r.checks[0].check, "report");
    assert_int_equal(r.checks[0].verdict, DLR_HEALTH_FAIL);
    dlr_plan_report_done(&r);
    dlr_report_refuse("no \xff input", &r);
    assert_string_equal(r.node.name, "n3");
    assert_string_equal(r.checks[0].reason, "no ? input");
    dlr_plan_report_done(&r);
}

/* Of 100 peers each node asks the 64 after it by name, round the end; so each is asked
 * by 64.
 */
static void the_next_nodes_are_asked(void **state)
{
    static const unsigned selves[] = {0, 35, 36, 99};
    char names[100][8], self[8], want[8];
    const char *nodes[100], *addrs[100];
    const struct dlr_plan_survey survey = {.checks = "reach",
                                           .peer_timeout_ms = 2000,
                                           .npeers = 100,
                                           .peer_nodes = nodes,
                                           .peer_addrs = addrs};
    unsigned i, k;

    for (i = 0; i < 100; i++) {
        dlr_format(names[i], sizeof(names[i]), "m%02u", (i * 37) % 100);
        nodes[i] = names[i];
        addrs[i] = "nonsense"; /* cannot be reached, and costs no time */
    }
    for (i = 0; i < 4; i++) {
        struct dlr_plan_report r;

        dlr_format(self, sizeof(self), "m%02u", selves[i]);
        setenv("SLURMD_NODENAME", self, 1);
        dlr_report_make(&survey, &no_clock, &r);
        assert_int_equal(r.nsilent, DLR_PLAN_PROBES);
        for (k = 0; k < r.nsilent; k++) {
            dlr_format(want, sizeof(want), "m%02u", (selves[i] + 1 + k) % 100);
            assert_string_equal(r.silent[k], want);
        }
        dlr_plan_report_done(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(says_who_and_what_it_can_prove, setup,
                                        teardown),
        cmocka_unit_test(a_port_that_is_listened_at_is_not_offered),
        cmocka_unit_test_setup_teardown(the_jobs_tree_goes_before_slurmds_word, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(another_runs_snapshots_are_not_its_own, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(an_unknown_check_leaves_the_node_out, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_next_nodes_are_asked, setup, teardown),
    };

    return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
