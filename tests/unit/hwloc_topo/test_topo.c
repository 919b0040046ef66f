/* SPDX-License-Identifier: Apache-2.0 */
/* Node topology and the switch tree. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "hwloc_topo/names.h"
#include "hwloc_topo/topo.h"

static void synthetic_nodes_are_counted(void **state)
{
    static const struct {
        const char *text;
        struct dlr_topo_summary want;
    } rows[] = {
        {"numa:2 core:8 pu:2", {0, 2, 16, 32, 2ull << 30, 0, 0}},
        {"pack:2 numa:2(memory=4GB) core:3 pu:1", {2, 4, 12, 12, 16000000000ull, 0, 0}},
        {"pack:1 core:1 pu:1", {1, 1, 1, 1, 1ull << 30, 0, 0}},
    };
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_topo_summary got;
        struct dlr_topo *topo = NULL;
        struct dlr_err err = {0};

        print_message("  %s\n", rows[i].text);
        assert_int_equal(dlr_topo_load(rows[i].text, &topo, &err), 0);
        dlr_topo_summary(topo, &got);
        assert_int_equal(got.packages, rows[i].want.packages);
        assert_int_equal(got.numa_nodes, rows[i].want.numa_nodes);
        assert_int_equal(got.cores, rows[i].want.cores);
        assert_int_equal(got.pus, rows[i].want.pus);
        assert_int_equal(got.memory_bytes, rows[i].want.memory_bytes);
        assert_int_equal(got.gpus + got.nics, 0);
        assert_null(dlr_topo_free(topo));
    }
}

/* "0-3,8" */
static struct dlr_topo_cpus cpus_of(const char *list)
{
    struct dlr_topo_cpus cpus = {0};
    unsigned from, to;
    int used;

    while (sscanf(list, "%u%n", &from, &used) == 1) {
        list += used;
        to = from;
        if (sscanf(list, "-%u%n", &to, &used) == 1)
            list += used;
        for (; from <= to; from++)
            cpus.bits[from / 64] |= UINT64_C(1) << from % 64;
        list += *list == ',';
    }
    return cpus;
}

static void helpers_get_idle_cores_near_their_rank(void **state)
{
    static const struct {
        const char *name, *node, *own, *busy, *want;
    } rows[] = {
        {"the rest of its package", "pack:2 numa:1 core:4 pu:2", "0-3", "0-3", "4-7"},
        {"not a busy core's sibling", "pack:2 numa:1 core:4 pu:2", "0", "0,2,4", "6-7"},
        {"another rank elsewhere", "pack:2 numa:1 core:4 pu:2", "8-9", "0-1,8-9",
         "10-15"},
        {"the other package when its own is full", "pack:2 numa:1 core:4 pu:2", "0-7",
         "0-7", "8-15"},
        {"the nearer NUMA node", "pack:2 numa:2 core:2 pu:1", "4", "0-2,4", "5"},
        {"nothing is left", "pack:2 numa:1 core:4 pu:2", "0-3", "0-15", ""},
        {"a rank that is not bound", "core:4 pu:1", "0-3", "0-3", ""},
        {"more than 64", "numa:2 core:48 pu:1", "48-94", "48-94", "95"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_topo_cpus own = cpus_of(rows[i].own), busy = cpus_of(rows[i].busy);
        struct dlr_topo_cpus want = cpus_of(rows[i].want), got = {0};
        struct dlr_topo *topo = NULL;

        print_message("  %s\n", rows[i].name);
        assert_int_equal(dlr_topo_load(rows[i].node, &topo, NULL), 0);
        assert_int_equal(dlr_topo_spare(topo, &own, &busy, &got) > 0,
                         rows[i].want[0] != 0);
        assert_memory_equal(&got, &want, sizeof(got));
        dlr_topo_free(topo);
    }
}

static void the_data_process_goes_beside_its_device(void **state)
{
    static const char two[] = "pack:2 numa:1 core:4 pu:2"; /* CPUs 0-7 and 8-15 */
    static const struct {
        const char *name, *node;
        struct dlr_topo_numa near;
        const char *busy, *helpers, *want;
    } rows[] = {
        {"idle cores beside the device", two, {1, {1}}, "0-3,8-11", "", "12-15"},
        {"those that no helper was sent to", two, {1, {1}}, "8-9", "10-13", "14-15"},
        {"all are the helpers', there are two",
         two,
         {1, {1}},
         "8-11",
         "12-15",
         "12-15"},
        {"one, and it is the helpers'", two, {1, {1}}, "0-1,8-13", "14-15", "2-7"},
        {"one, the helpers', as all others are",
         two,
         {1, {1}},
         "0-1,8-13",
         "2-7,14-15",
         "14-15"},
        {"one, which no helper has", two, {1, {1}}, "0-1,8-13", "2-7", "14-15"},
        {"not a busy core's sibling", two, {1, {1}}, "9,10,12", "", "14-15"},
        {"none beside the device", two, {1, {1}}, "0-3,8-15", "", "4-7"},
        {"none there, all are the helpers'", two, {1, {1}}, "0-3,8-15", "4-7", "4-7"},
        {"the kernel does not say where", two, {0}, "0-3,8-11", "4-7", "12-15"},
        {"a NUMA node that is not here", two, {1, {7}}, "0-3", "", "4-15"},
        {"two devices", two, {2, {0, 1}}, "0-3,8-9", "", "4-7,10-15"},
        {"no core is idle", two, {1, {1}}, "0-15", "", ""},
        {"nobody is bound", two, {1, {0}}, "", "", "0-7"},
        {"fewer CPUs than the machine has",
         "./tests/nodes/cgroup.xml",
         {1, {1}},
         "0",
         "",
         "4-5"},
        {"none of them beside the device",
         "./tests/nodes/cgroup.xml",
         {1, {1}},
         "4-5",
         "",
         "0-2"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_topo_cpus busy = cpus_of(rows[i].busy), got = {0};
        struct dlr_topo_cpus helpers = cpus_of(rows[i].helpers);
        struct dlr_topo *topo = NULL;
        char text[64];

        print_message("  %s\n", rows[i].name);
        assert_int_equal(dlr_topo_load(rows[i].node, &topo, NULL), 0);
        assert_int_equal(dlr_topo_beside(topo, &rows[i].near, &busy, &helpers, &got) >
                             0,
                         rows[i].want[0] != 0);
        assert_true(dlr_topo_cpus_text(&got, text, sizeof(text)) >= 0);
        assert_string_equal(text, rows[i].want);
        dlr_topo_free(topo);
    }
}

static void a_list_of_cpus_is_written_as_ranges(void **state)
{
    static const char *const rows[] = {"", "0", "0-1", "0,2-3,63-64,1023", "0-1023"};
    char text[32];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_topo_cpus cpus = cpus_of(rows[i]);

        assert_int_equal(dlr_topo_cpus_text(&cpus, text, sizeof(text)),
                         strlen(rows[i]));
        assert_string_equal(text, rows[i]);
        assert_int_equal(dlr_topo_cpus_text(&cpus, text, strlen(rows[i]) + 1),
                         strlen(rows[i]));
        if (rows[i][0])
            assert_int_equal(dlr_topo_cpus_text(&cpus, text, strlen(rows[i])), -ENOSPC);
    }
}

static void bad_topology_is_named(void **state)
{
    static const char *const rows[] = {"nonsense:0", "/nowhere/at/all.xml"};
    struct dlr_topo *topo = NULL;
    struct dlr_err err = {0};
    char want[128];
    size_t i;

    for (i = 0; i < 2; i++) {
        assert_int_equal(dlr_topo_load(rows[i], &topo, &err), -EINVAL);
        dlr_format(want, sizeof(want), "%s '%s'",
                   rows[i][0] == '/' ? "hwloc cannot load" : "bad topology", rows[i]);
        assert_non_null(strstr(err.text, rows[i]));
        assert_null(topo);
    }
    assert_null(dlr_topo_free(NULL));
}

static void this_node_has_a_cpu(void **state)
{
    struct dlr_topo_summary got;
    struct dlr_topo *topo = NULL;

    assert_int_equal(dlr_topo_load(NULL, &topo, NULL), 0);
    dlr_topo_summary(topo, &got);
    assert_true(got.pus >= 1 && got.numa_nodes >= 1);
    dlr_topo_free(topo);
}

/* Figures counted in the files with grep; see the README beside them. */
static void recorded_machines_show_their_cards(void **state)
{
    static const struct {
        const char *file;
        unsigned numa, pus, gpus, nics;
    } rows[] = {
        {"power8gpudistances.xml", 2, 16, 4, 0},
        {"AMD-19h-Zen3-2xEpyc-7763.xml", 2, 128, 0, 0},
        {"24em64t-2n6c2t-pci.xml", 2, 24, 0, 3},
        {"32em64t-2n8c2t-pci-wholeio.xml", 2, 32, 2, 3},
        {"96em64t-4n4d3ca2co-pci.xml", 4, 96, 1, 8},
    };
    const char *dir = getenv("DLROVER_FIXTURES");
    size_t i;

    if (!dir)
        dir = "../shared/fixtures/hwloc";
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_topo_summary got;
        struct dlr_topo *topo = NULL;
        char path[1024];

        dlr_format(path, sizeof(path), "%s%s/%s", dir[0] == '/' ? "" : "./", dir,
                   rows[i].file);
        if (access(path, R_OK) < 0) {
            print_message("  no recorded machines in '%s'\n", dir);
            skip();
        }
        print_message("  %s\n", rows[i].file);
        assert_int_equal(dlr_topo_load(path, &topo, NULL), 0);
        dlr_topo_summary(topo, &got);
        dlr_topo_free(topo);
        print_message("  %u %u %u %u\n", got.numa_nodes, got.pus, got.gpus, got.nics);
        assert_int_equal(got.numa_nodes, rows[i].numa);
        assert_int_equal(got.pus, rows[i].pus);
        assert_int_equal(got.gpus, rows[i].gpus);
        assert_int_equal(got.nics, rows[i].nics);
    }
}

static struct dlr_topo_node node_at(const char *path, const char *name)
{
    struct dlr_topo_node node = {0};

    dlr_format(node.path, sizeof(node.path), "%s", path);
    dlr_format(node.name, sizeof(node.name), "%s", name ? name : "");
    return node;
}

static void leaf_and_domain_are_the_lowest_above_the_node(void **state)
{
    static const char *const rows[][4] = {
        {"spine.leaf0.n1", "leaf0", ""},
        {"s0.n1", "s0", ""},
        {"n1", "", ""},
        {"", "", ""},
        {".n1", "", ""},
        {"..n1", "", ""},
        {"a.b.c.d", "c", ""},
        {"spine.leaf0.~nvl3.n1", "leaf0", "nvl3"},
        {"spine.leaf0.~rack.~nvl3.n1", "leaf0", "nvl3"},
        {"~nvl3.n1", "", "nvl3"},
        {"~.n1", "", ""},
        {"spine.~nvl3.leaf0.n1", "leaf0", "nvl3"},
        {"leaf0.~n1", "leaf0", ""},
        /* the last word is the node's name, where that holds dots */
        {"spine.leaf0.n1.site.org", "leaf0", "", "n1.site.org"},
        {"spine.leaf0.~nvl3.n1.site.org", "leaf0", "nvl3", "n1.site.org"},
        {"n1.site.org", "", "", "n1.site.org"},
        {"spine.leaf0.n1", "leaf0", "", "n1.site.org"},
    };
    char buf[DLR_TOPO_NAME];
    struct dlr_topo_node node;
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        print_message("  %s\n", rows[i][0]);
        node = node_at(rows[i][0], rows[i][3]);
        assert_int_equal(dlr_topo_leaf(&node, buf, sizeof(buf)), 0);
        assert_string_equal(buf, rows[i][1]);
        assert_int_equal(dlr_topo_domain(&node, buf, sizeof(buf)), 0);
        assert_string_equal(buf, rows[i][2]);
    }
    node = node_at("s.verylong.n1", NULL);
    assert_int_equal(dlr_topo_leaf(&node, buf, 4), -ENAMETOOLONG);
    node = node_at("s.~verylong.n1", NULL);
    assert_int_equal(dlr_topo_domain(&node, buf, 4), -ENAMETOOLONG);
}

static void common_counts_switches_from_the_root(void **state)
{
    static const struct {
        const char *a, *b;
        unsigned want;
        const char *name_a, *name_b;
    } rows[] = {
        {"s.l0.n1", "s.l0.n2", 2},
        {"s.l0.n1", "s.l1.n3", 1},
        {"s.l0.n1", "t.l0.n1", 0},
        {"n1", "n1", 0},
        {"s.l0.n1", "s.n9", 1},
        {"s.l0.n1", "s.l00.n1", 1},
        {"", "", 0},
        {"s.l0.n1.org", "s.l0.n1.com", 2, "n1.org", "n1.com"},
        {"n1.org", "n1.com", 0, "n1.org", "n1.com"},
    };
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_topo_node a = node_at(rows[i].a, rows[i].name_a),
                             b = node_at(rows[i].b, rows[i].name_b);

        print_message("  %s %s\n", rows[i].a, rows[i].b);
        assert_int_equal(dlr_topo_common(&a, &b), rows[i].want);
        assert_int_equal(dlr_topo_common(&b, &a), rows[i].want);
    }
}

static void natural_order_reads_numbers(void **state)
{
    static const char *const rows[] = {"",
                                       "a",
                                       "a1",
                                       "a01b2",
                                       "a1b2",
                                       "a1b10",
                                       "a02",
                                       "a2",
                                       "a10",
                                       "a10x",
                                       "b",
                                       "n99999999999999999999",
                                       "n100000000000000000000"};
    size_t i, j, n = sizeof(rows) / sizeof(rows[0]);

    for (i = 0; i < n; i++)
        for (j = 0; j < n; j++) {
            int rc =
                dlr_topo_name_cmp(rows[i], strlen(rows[i]), rows[j], strlen(rows[j]));

            assert_int_equal((rc > 0) - (rc < 0), (i > j) - (i < j));
        }
}

int main(void)
{
    /* libpciaccess leaks a little at each load; sysfs names the devices without it. */
    setenv("HWLOC_PLUGINS_BLACKLIST", "hwloc_pci.so", 1);

    const struct CMUnitTest tests[] = {
        cmocka_unit_test(synthetic_nodes_are_counted),
        cmocka_unit_test(the_data_process_goes_beside_its_device),
        cmocka_unit_test(a_list_of_cpus_is_written_as_ranges),
        cmocka_unit_test(bad_topology_is_named),
        cmocka_unit_test(helpers_get_idle_cores_near_their_rank),
        cmocka_unit_test(this_node_has_a_cpu),
        cmocka_unit_test(recorded_machines_show_their_cards),
        cmocka_unit_test(leaf_and_domain_are_the_lowest_above_the_node),
        cmocka_unit_test(common_counts_switches_from_the_root),
        cmocka_unit_test(natural_order_reads_numbers),
    };

    return cmocka_run_group_tests_name("topo", tests, NULL, NULL);
}
