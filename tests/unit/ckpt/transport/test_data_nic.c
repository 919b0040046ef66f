/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/transport/nic.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/file.h"
#include "common/base/str.h"

/* As ucp_ep_print_info() of UCX 1.13 prints it. */
#define LANE(n, device)                                                                \
    "#                 lane[" n "]:  2:" device                                        \
    " md[1]  -> addr[1].md[1]/tcp/sysdev[255] am\n"

static void devices_are_found_in_the_description(void **state)
{
    static const struct {
        const char *info, *devices;
    } rows[] = {
        {"", ""},
        {"#\n# UCP endpoint n1/4\n#\n", ""},
        {"#               peer: n1\n" LANE("0", "tcp/eth0.0"), "eth0"},
        {LANE("0", "tcp/eth0.0") LANE("1", "tcp/eth0.1"), "eth0"},
        {LANE("0", "rc_mlx5/mlx5_0:1.0") LANE("1", "rc_mlx5/mlx5_1:1.0"),
         "mlx5_0:1,mlx5_1:1"},
        {LANE("0", "tcp/eth0.100.0"), "eth0.100"},
        {"# lane[0]: nothing\n" LANE("1", "tcp/ib0"), "ib0"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char devices[256];

        print_message("row %zu\n", i);
        dlr_nic_parse(rows[i].info, devices, sizeof(devices));
        assert_string_equal(devices, rows[i].devices);
    }
}

static char root[] = "/tmp/dlr-nic-XXXXXX";

static void put(const char *path, const char *text)
{
    char full[256];
    struct dlr_err err;
    FILE *f;

    snprintf(full, sizeof(full), "%s/%s", root, path);
    *strrchr(full, '/') = '\0';
    assert_int_equal(dlr_mkdirs(full, 0700, &err), 0);
    snprintf(full, sizeof(full), "%s/%s", root, path);
    f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int make_sysfs(void **state)
{
    assert_non_null(mkdtemp(root));
    put("sys/class/net/lo/operstate", "unknown\n");
    put("sys/class/net/eth0/speed", "1000\n");
    put("sys/class/net/eth0/operstate", "up\n");
    put("sys/class/net/eth1/speed", "100000\n");
    put("sys/class/net/eth1/operstate", "up\n");
    put("sys/class/net/eth0/device/numa_node", "-1\n");
    put("sys/class/net/eth1/device/numa_node", "3\n");
    put("sys/class/net/eth2/speed", "200000\n");
    put("sys/class/net/eth2/operstate", "down\n");
    put("sys/class/net/tun0/speed", "-1\n");
    put("sys/class/net/tun0/operstate", "up\n");
    put("sys/class/infiniband/mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)\n");
    put("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
    put("sys/class/infiniband/mlx5_1/ports/1/rate", "400 Gb/sec (4X NDR)\n");
    put("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n");
    put("sys/class/infiniband/mlx5_0/device/numa_node", "1\n");
    put("sys/class/infiniband/mlx5_1/device/numa_node", "1\n");
    return 0;
}

static int remove_sysfs(void **state)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -r %s", root);
    return system(command); /* NOLINT: a name of ours */
}

static void a_faster_device_that_is_not_used_is_named(void **state)
{
    static const struct {
        const char *uses, *report;
    } rows[] = {
        {"eth0", "{\"uses\":\"eth0\",\"mbps\":1000,\"faster\":\"mlx5_0\",\"numa\":[]}"},
        {"eth1",
         "{\"uses\":\"eth1\",\"mbps\":100000,\"faster\":\"mlx5_0\",\"numa\":[3]}"},
        {"eth0,eth1",
         "{\"uses\":\"eth0,eth1\",\"mbps\":100000,\"faster\":\"mlx5_0\",\"numa\":[3]}"},
        {"eth1,mlx5_0:1",
         "{\"uses\":\"eth1,mlx5_0:1\",\"mbps\":200000,\"faster\":\"\",\"numa\":[3,1]}"},
        {"mlx5_0:1,mlx5_1:1", "{\"uses\":\"mlx5_0:1,mlx5_1:1\",\"mbps\":400000,"
                              "\"faster\":\"\",\"numa\":[1]}"},
        /* nothing to compare */
        {"tun0", "{\"uses\":\"tun0\",\"mbps\":0,\"faster\":\"\",\"numa\":[]}"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char report[256];

        print_message("row '%s'\n", rows[i].uses);
        dlr_nic_report(root, rows[i].uses, report, sizeof(report));
        assert_string_equal(report, rows[i].report);
    }
}

static void what_is_asked_for_must_be_here(void **state)
{
    struct dlr_err err = {0};

    unsetenv("UCX_NET_DEVICES");
    unsetenv("UCX_IB_TRAFFIC_CLASS");
    assert_int_equal(dlr_nic_setup("", 0, &err), 0);
    assert_null(getenv("UCX_NET_DEVICES"));
    assert_null(getenv("UCX_IB_TRAFFIC_CLASS"));
    assert_int_equal(dlr_nic_setup("lo", 96, &err), 0);
    assert_string_equal(getenv("UCX_NET_DEVICES"), "lo");
    assert_string_equal(getenv("UCX_IB_TRAFFIC_CLASS"), "96");
    assert_int_equal(dlr_nic_setup("lo,no-such0", 0, &err), -ENODEV);
    assert_non_null(dlr_after(err.text,
                              "--dlrover-set=net: no device 'no-such0' on this "
                              "node, there are: "));
    assert_int_equal(dlr_nic_setup("../net/lo", 0, &err), -ENODEV);
}

/* The loopback leads to no peer; every port of a fabric may. */
static void devices_lead_outward(void **state)
{
    char top[] = "/tmp/dlr-nic-XXXXXX", command[256], list[256];

    assert_non_null(mkdtemp(top));
    dlr_nic_outward(top, list, sizeof(list));
    assert_null(strstr(list, "lo"));
    assert_null(strstr(list, ":"));
    dlr_format(command, sizeof(command),
               "mkdir -p %s/sys/class/infiniband/mlx5_0/ports/1", top);
    assert_int_equal(system(command), 0);
    dlr_nic_outward(top, list, sizeof(list));
    assert_string_equal(strtok(list, ","), "mlx5_0:1");
    dlr_nic_outward(top, list, 4); /* no room for all */
    assert_string_equal(list, "");
    dlr_format(command, sizeof(command), "rm -r %s", top);
    assert_int_equal(system(command), 0);
}

static void an_rdma_device_counts_whose_port_is_up(void **state)
{
    static const struct {
        const char *list;
        bool found;
    } rows[] = {{"", true},       {"all", true},           {"mlx5_0:1", true},
                {"mlx5_0", true}, {"mlx5_0:2", false},     {"mlx5_1:1", false},
                {"eth0", false},  {"eth0,mlx5_0:1", true}, {"../mlx5_0", false}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        print_message("row '%s'\n", rows[i].list);
        assert_int_equal(dlr_nic_rdma(root, rows[i].list), rows[i].found);
    }
    assert_false(dlr_nic_rdma("/nowhere", ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_lead_outward),
        cmocka_unit_test(devices_are_found_in_the_description),
        cmocka_unit_test(a_faster_device_that_is_not_used_is_named),
        cmocka_unit_test(what_is_asked_for_must_be_here),
        cmocka_unit_test(an_rdma_device_counts_whose_port_is_up),
    };

    return cmocka_run_group_tests(tests, make_sysfs, remove_sysfs);
}
