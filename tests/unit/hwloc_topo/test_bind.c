/* SPDX-License-Identifier: Apache-2.0 */
/* Which local rank gets which cores, GPUs and NICs, on machines that hwloc describes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "hwloc_topo/bind.h"

#define HGX "./tests/fixtures/hwloc/hgx-8gpu-8nic-2socket.xml"
#define NPS4 "./tests/fixtures/hwloc/nps4-8gpu-8nic-2socket.xml"
#define GRACE "./tests/fixtures/hwloc/grace-4gpu-4nic.xml"
#define RANKS 64

static void describe(const char *node, const char *root, struct dlr_machine *ret)
{
    struct dlr_topo *topo = NULL;

    assert_int_equal(dlr_topo_load(node, &topo, NULL), 0);
    dlr_machine_describe(topo, root, ret);
    dlr_topo_free(topo);
    assert_int_equal(dlr_machine_check(ret, sizeof(*ret), NULL), 0);
}

/* "0-3,8"; "": all of the machine's */
static struct dlr_topo_cpus cpus_of(const struct dlr_machine *m, const char *list)
{
    struct dlr_topo_cpus cpus = {0};
    unsigned from, to;
    int used;

    for (unsigned cpu = 0; !*list && cpu < DLR_TOPO_CPUS; cpu++)
        if (m->core[cpu])
            cpus.bits[cpu / 64] |= UINT64_C(1) << cpu % 64;
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

static bool has_cpu(const struct dlr_topo_cpus *cpus, unsigned cpu)
{
    return cpus->bits[cpu / 64] >> cpu % 64 & 1;
}

/* Every usable core is exactly one rank's, whole; shares differ by at most 1. */
static void check_shares(const struct dlr_machine *m,
                         const struct dlr_topo_cpus *usable,
                         const struct dlr_bind_rank *r, unsigned n)
{
    unsigned owner[DLR_TOPO_CPUS + 1] = {0}, least = UINT32_MAX, most = 0;

    for (unsigned i = 0; i < n; i++) {
        least = r[i].cores < least ? r[i].cores : least;
        most = r[i].cores > most ? r[i].cores : most;
    }
    assert_true(most - least <= 1);
    for (unsigned cpu = 0; cpu < DLR_TOPO_CPUS; cpu++) {
        unsigned owners = 0;

        for (unsigned i = 0; i < n; i++) {
            if (!has_cpu(&r[i].own, cpu))
                continue;
            assert_true(has_cpu(&r[i].near, cpu));
            assert_true(owner[m->core[cpu]] == 0 || owner[m->core[cpu]] == i + 1);
            owner[m->core[cpu]] = i + 1;
            owners++;
        }
        assert_int_equal(owners, m->core[cpu] && has_cpu(usable, cpu));
    }
}

static unsigned all_gpus(const struct dlr_machine *m, unsigned gpus[DLR_MACHINE_GPUS])
{
    for (unsigned i = 0; i < m->gpus; i++)
        gpus[i] = i;
    return m->gpus;
}

/* "0-3/0-7 g0,1 mlx5_0": own and near CPUs, GPUs, NICs */
static void write_rank(const struct dlr_machine *m, const struct dlr_bind_rank *r,
                       char *text, size_t size)
{
    char own[256], near[256];
    int at;

    assert_true(dlr_topo_cpus_text(&r->own, own, sizeof(own)) > 0);
    assert_true(dlr_topo_cpus_text(&r->near, near, sizeof(near)) > 0);
    at = snprintf(text, size, "%s/%s", own, near);
    for (unsigned i = 0; i < r->ngpus; i++)
        at += snprintf(text + at, size - at, "%s%u", i ? "," : " g", r->gpus[i]);
    for (unsigned i = 0; i < r->nnics; i++)
        at += snprintf(text + at, size - at, "%s%s", i ? "," : " ",
                       m->nic[r->nics[i]].name);
}

static void every_rank_gets_its_share_where_its_gpu_is(void **state)
{
    static const struct {
        const char *name, *node, *usable;
        unsigned n, ngpus; /* 99: all */
        const char *want[9];
        /* clang-format off */
    } rows[] = {
        {"a rank for each GPU of an HGX", HGX, "", 8, 99,
         {"0-1,16-17/0-7,16-23 g0 mlx5_0", "2-3,18-19/0-7,16-23 g1 mlx5_1",
          "4-5,20-21/0-7,16-23 g2 mlx5_2", "6-7,22-23/0-7,16-23 g3 mlx5_3",
          "8-9,24-25/8-15,24-31 g4 mlx5_4", "10-11,26-27/8-15,24-31 g5 mlx5_5",
          "12-13,28-29/8-15,24-31 g6 mlx5_6", "14-15,30-31/8-15,24-31 g7 mlx5_7"}},
        {"one for two of its GPUs", HGX, "", 4, 99,
         {"0-3,16-19/0-7,16-23 g0,1 mlx5_0,mlx5_1", "4-7,20-23/0-7,16-23 g2,3 mlx5_2,mlx5_3",
          "8-11,24-27/8-15,24-31 g4,5 mlx5_4,mlx5_5", "12-15,28-31/8-15,24-31 g6,7 mlx5_6,mlx5_7"}},
        {"a cgroup with a part of both sockets", HGX, "6-9,22-25", 2, 99,
         {"6-7,22-23/6-7,22-23 g0,1,2,3 mlx5_0,mlx5_1", "8-9,24-25/8-9,24-25 g4,5,6,7 mlx5_4,mlx5_5"}},
        {"one without the second hardware threads", HGX, "0-15", 2, 0,
         {"0-7/0-7 mlx5_0,mlx5_1,mlx5_2,mlx5_3", "8-15/8-15 mlx5_4,mlx5_5,mlx5_6,mlx5_7"}},
        {"half of a core", HGX, "0-1,16", 2, 0,
         {"0,16/0-1,16 mlx5_0,mlx5_1", "1/0-1,16 mlx5_2,mlx5_3"}},
        {"more ranks than GPUs", HGX, "0-7", 4, 2,
         {"0-1/0-7 g0 mlx5_0", "2-3/0-7 g1 mlx5_1", "4-5/0-7 g0 mlx5_0", "6-7/0-7 g1 mlx5_1"}},
        {"NPS4: half of each NUMA node that has GPUs, then of its neighbour", NPS4, "", 8, 99,
         {"0-1,12-13,32-33,44-45/0-3,12-15,32-35,44-47 g0 mlx5_0",
          "2-3,14-15,34-35,46-47/0-3,12-15,32-35,44-47 g1 mlx5_1",
          "4-5,8-9,36-37,40-41/4-11,36-43 g2 mlx5_2",
          "6-7,10-11,38-39,42-43/4-11,36-43 g3 mlx5_3",
          "16-17,28-29,48-49,60-61/16-19,28-31,48-51,60-63 g4 mlx5_4",
          "18-19,30-31,50-51,62-63/16-19,28-31,48-51,60-63 g5 mlx5_5",
          "20-21,24-25,52-53,56-57/20-27,52-59 g6 mlx5_6",
          "22-23,26-27,54-55,58-59/20-27,52-59 g7 mlx5_7"}},
        {"NPS4, a part: the rest of a package before that of another", NPS4, "0-3,12-31", 2, 99,
         {"0-3,12-15,24-27/0-3,12-15,24-27 g0,1,2,3 mlx5_0,mlx5_1",
          "16-23,28-31/16-23,28-31 g4,5,6,7 mlx5_4,mlx5_5"}},
        {"a superchip for each rank", GRACE, "", 4, 99,
         {"0-5/0-5 g0 mlx5_0", "6-11/6-11 g1 mlx5_1", "12-17/12-17 g2 mlx5_2", "18-23/18-23 g3 mlx5_3"}},
        {"no devices, shares that do not divide", "numa:2 core:4 pu:1", "", 3, 0,
         {"0-2/0-3", "3-5/0-7", "6-7/4-7"}},
        {"one rank", "core:4 pu:2", "", 1, 0, {"0-7/0-7"}},
    };
    /* clang-format on */

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        static struct dlr_machine m;
        static struct dlr_bind_rank got[RANKS];
        struct dlr_topo_cpus usable;
        unsigned gpus[DLR_MACHINE_GPUS], ngpus;

        print_message("  %s\n", rows[i].name);
        describe(rows[i].node, "", &m);
        usable = cpus_of(&m, rows[i].usable);
        ngpus = all_gpus(&m, gpus);
        if (rows[i].ngpus != 99)
            ngpus = rows[i].ngpus;
        assert_int_equal(dlr_bind_plan(&m, &usable, rows[i].n, gpus, ngpus, got, NULL),
                         0);
        check_shares(&m, &usable, got, rows[i].n);
        for (unsigned k = 0; k < rows[i].n; k++) {
            char text[512];

            write_rank(&m, &got[k], text, sizeof(text));
            assert_string_equal(text, rows[i].want[k]);
        }
    }
}

static void more_ranks_than_cores_are_refused(void **state)
{
    static struct dlr_machine m;
    struct dlr_bind_rank got[3];
    struct dlr_topo_cpus usable;
    struct dlr_err err = {0};

    describe("core:2 pu:2", "", &m);
    usable = cpus_of(&m, "");
    assert_int_equal(dlr_bind_plan(&m, &usable, 3, NULL, 0, got, &err), -EDOM);
    assert_string_equal(err.text, "3 tasks on 2 cores");
}

/* All numbers of ranks, all rests of a cgroup, on all machines. */
static void shares_hold_for_any_part_of_a_machine(void **state)
{
    static const char *const nodes[] = {HGX, NPS4, GRACE, "pack:2 numa:3 core:3 pu:2",
                                        "core:7 pu:1"};
    static struct dlr_machine m;
    static struct dlr_bind_rank got[RANKS], again[RANKS];
    unsigned gpus[DLR_MACHINE_GPUS], draw = 1;

    for (size_t i = 0; i < sizeof(nodes) / sizeof(*nodes); i++) {
        unsigned ngpus;

        describe(nodes[i], "", &m);
        ngpus = all_gpus(&m, gpus);
        for (unsigned k = 0; k < 200; k++) {
            struct dlr_topo_cpus usable = cpus_of(&m, "");
            unsigned n = 1 + k % 17;
            int rc;

            for (unsigned cpu = 0; k >= 17 && cpu < 64; cpu++) {
                draw = draw * 1103515245u + 12345u;
                if (draw >> 16 & 1)
                    usable.bits[0] &= ~(UINT64_C(1) << cpu);
            }
            rc = dlr_bind_plan(&m, &usable, n, gpus, ngpus, got, NULL);
            if (rc == -EDOM)
                continue;
            assert_int_equal(rc, 0);
            check_shares(&m, &usable, got, n);
            dlr_bind_plan(&m, &usable, n, gpus, ngpus, again, NULL);
            assert_memory_equal(got, again, n * sizeof(*got));
        }
    }
}

static void gpus_are_used_once_and_ordered_for_all_ranks(void **state)
{
    static const struct {
        unsigned n, ngpus;
        const char *want;
    } rows[] = {
        {8, 8, "0 1 2 3 4 5 6 7"},
        {4, 8, "0 2 4 6 1 3 5 7"},
        {2, 8, "0 4 1 5 2 6 3 7"},
        {3, 8, "0 2 5 1 3 6 4 7"},
        {8, 2, "0 1"},
        {2, 0, ""},
    };
    static struct dlr_machine m;
    struct dlr_topo_cpus usable;
    unsigned gpus[DLR_MACHINE_GPUS];

    describe(HGX, "", &m);
    usable = cpus_of(&m, "");
    all_gpus(&m, gpus);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_bind_rank got[8];
        unsigned order[DLR_MACHINE_GPUS], n;
        char text[64] = "";

        dlr_bind_plan(&m, &usable, rows[i].n, gpus, rows[i].ngpus, got, NULL);
        n = dlr_bind_gpu_order(got, rows[i].n, order);
        for (unsigned k = 0; k < n; k++)
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%u",
                     k ? " " : "", order[k]);
        assert_string_equal(text, rows[i].want);
    }
}

static void put_minor(const char *root, const char *bus, unsigned minor)
{
    char path[512], *slash;
    FILE *f;

    snprintf(path, sizeof(path), "%s/proc/driver/nvidia/gpus/%s/information", root,
             bus);
    for (slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "Model: \t\t H100\nBus Location: \t %s\nDevice Minor: \t %u\n", bus,
            minor);
    fclose(f);
}

static void a_machine_is_described(void **state)
{
    static struct dlr_machine m;
    char root[] = "/tmp/test_bind.XXXXXX", command[64];

    assert_non_null(mkdtemp(root));
    put_minor(root, "0000:12:00.0", 3);
    describe(HGX, root, &m);
    assert_int_equal(m.numas, 2);
    assert_int_equal(m.cores, 16);
    assert_int_equal(m.gpus, 8);
    assert_int_equal(m.nics, 8); /* mlx5_8 has no link */
    assert_string_equal(m.gpu[0].bus, "0000:12:00.0");
    assert_int_equal(m.gpu[0].minor, 3);
    assert_int_equal(m.gpu[7].minor, 7);
    assert_int_equal(m.near[0][1], DLR_NEAR_SWITCH);
    assert_int_equal(m.near[0][2], DLR_NEAR_NUMA);
    assert_int_equal(m.near[0][4], DLR_NEAR_NOT);
    assert_int_equal(m.nic[0].port, 1);
    describe(NPS4, root, &m);
    assert_string_equal(m.nic[0].name, "mlx5_2");
    assert_int_equal(m.near[0][0], DLR_NEAR_PACKAGE);
    assert_int_equal(m.near[2][0], DLR_NEAR_SWITCH);
    describe(GRACE, root, &m);
    assert_int_equal(m.numas, 4); /* GPUs' memory is no place for ranks */
    assert_string_equal(m.gpu[3].bus, "0039:01:00.0");
    assert_int_equal(m.near[1][1], DLR_NEAR_NUMA);
    snprintf(command, sizeof(command), "rm -r '%s'", root);
    assert_int_equal(system(command), 0);
}

static void a_file_gives_back_the_machine_and_nothing_else(void **state)
{
    static struct dlr_machine m, got;
    char path[] = "/tmp/test_bind.XXXXXX";
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    describe(HGX, "", &m);
    assert_int_equal(dlr_machine_save(&m, path, NULL), 0);
    assert_int_equal(dlr_machine_load(path, &got, NULL), 0);
    assert_memory_equal(&m, &got, sizeof(m));
    assert_int_equal(truncate(path, sizeof(m) - 1), 0);
    assert_int_equal(dlr_machine_load(path, &got, NULL), -EBADMSG);
    unlink(path);
    assert_int_equal(dlr_machine_load(path, &got, NULL), -ENOENT);
    close(fd);
}

static void a_machine_out_of_range_is_refused(void **state)
{
    static struct dlr_machine good, m;

    describe(HGX, "", &good);
#define REFUSED(change)                                                                \
    do {                                                                               \
        m = good;                                                                      \
        change;                                                                        \
        assert_int_equal(dlr_machine_check(&m, sizeof(m), NULL), -EBADMSG);            \
    } while (0)
    REFUSED(m.magic++);
    REFUSED(m.size++);
    REFUSED(m.numas = DLR_MACHINE_NUMA + 1);
    REFUSED(m.cores = DLR_TOPO_CPUS + 1);
    REFUSED(m.gpus = DLR_MACHINE_GPUS + 1);
    REFUSED(m.nics = DLR_MACHINE_NICS + 1);
    REFUSED(m.core[5] = 17);
    REFUSED(m.numa[5] = 2);
    REFUSED(memset(m.nic[0].name, 'x', sizeof(m.nic[0].name)));
    REFUSED(m.gpu[0].bus[0] = '\0');
}

/* A rank has cores in a NUMA node of its GPU, unless all of those are outside of the
 * cgroup that the machine was recorded in (the one with irregular groups).
 */
static void recorded_machines_keep_ranks_beside_their_gpu(void **state)
{
    static const struct {
        const char *file;
        unsigned gpus, nics;
    } rows[] = {
        {"power8gpudistances.xml", 4, 0},
        {"24em64t-2n6c2t-pci.xml", 3, 0}, /* old: the state of its port is not told */
        {"32em64t-2n8c2t-pci-wholeio.xml", 3, 1},
        {"64intel64-3g2n+2n-irregulargroups+pci.xml", 2, 0},
        {"AMD-17h-Zen-2xEpyc-7451.xml", 0, 0},
        {"AMD-19h-Zen3-2xEpyc-7763.xml", 0, 0},
    };
    const char *dir = getenv("DLROVER_FIXTURES");

    dir = dir ? dir : "../shared/fixtures/hwloc";
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        static struct dlr_machine m;
        static struct dlr_bind_rank got[RANKS];
        struct dlr_topo_cpus usable;
        unsigned gpus[DLR_MACHINE_GPUS];
        char path[1024];

        dlr_format(path, sizeof(path), "%s%s/%s", dir[0] == '/' ? "" : "./", dir,
                   rows[i].file);
        if (access(path, R_OK) < 0) {
            print_message("  no recorded machines in '%s'\n", dir);
            skip();
        }
        print_message("  %s\n", rows[i].file);
        describe(path, "", &m);
        assert_int_equal(all_gpus(&m, gpus), rows[i].gpus);
        assert_int_equal(m.nics, rows[i].nics);
        usable = cpus_of(&m, "");
        for (unsigned n = 1; n <= 16 && n <= m.cores; n++) {
            assert_int_equal(dlr_bind_plan(&m, &usable, n, gpus, m.gpus, got, NULL), 0);
            check_shares(&m, &usable, got, n);
            for (unsigned k = 0; n == m.gpus && k < n; k++)
                assert_true(m.gpu[k].numa == 0 || m.gpu[k].numa >> got[k].numa & 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_gets_its_share_where_its_gpu_is),
        cmocka_unit_test(more_ranks_than_cores_are_refused),
        cmocka_unit_test(shares_hold_for_any_part_of_a_machine),
        cmocka_unit_test(gpus_are_used_once_and_ordered_for_all_ranks),
        cmocka_unit_test(a_machine_is_described),
        cmocka_unit_test(a_file_gives_back_the_machine_and_nothing_else),
        cmocka_unit_test(a_machine_out_of_range_is_refused),
        cmocka_unit_test(recorded_machines_keep_ranks_beside_their_gpu),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
