/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptions of networks, as Slurm's releases and ibnetdiscover write them, and what
 * several of them add up to.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "hwloc_topo/networks.h"

#define NODES_MAX 16

/* As 22.05 to 25.11 print topology/tree: a blank at each end, all nodes in upper lines. */
static const char tree_2205[] =
    "SwitchName=leaf0 Level=0 LinkSpeed=1 Nodes=n[1-2] \n"
    "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[3,10-11] \n"
    "SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=gpu01,x[08-09]y \n"
    "SwitchName=mid Level=1 LinkSpeed=1 Nodes=n[1-3,10-11] Switches=leaf[0-1] \n"
    "SwitchName=spine Level=2 LinkSpeed=1 Nodes=n[1-3,10-11],gpu01,x[08-09]y "
    "Switches=mid,leaf2 \n";

static const char tree_conf[] = "# the fabric of 2024\n"
                                "\n"
                                "switchname=leaf0\tnodes=n[1-2]   # rack 1\r\n"
                                "SwitchName=leaf1 Nodes=n3,\\\nn[10-11] LinkSpeed=1\n"
                                "  SwitchName=top Switches=leaf[0-1] Nodes=login\n";

static const char block_2405[] = "BlockName=b1 BlockIndex=0 Nodes=n[1-2]\n"
                                 "BlockName=b2 BlockIndex=1 Nodes=n[3-4]\n";

static const char block_2411[] =
    "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\n"
    "BlockName=b2 BlockIndex=1 Nodes=n[3-4] BlockSize=2\n"
    "BlockName=b3 BlockIndex=2 Nodes=n[5-6] BlockSize=2\n"
    "AggregatedBlock=b[1-2] BlockIndex=3 Nodes=n[1-4] BlockSize=4\n"
    "AggregatedBlock=b[1-3] BlockIndex=4 Nodes=n[1-6] BlockSize=8\n";

/* Two leaves, two spines, each linked to each; n1 has two rails; a switch's own port. */
static const char fat_tree[] =
    "#\n# Topology file: generated on Wed Feb 13 13:41:02 2019\n#\n"
    "# Initiated from node 0002c903000b1234 port 0002c903000b1235\n\n"
    "vendid=0x2c9\ndevid=0xd2f0\nsysimgguid=0x1\nswitchguid=0x1(1)\n"
    "Switch\t40 \"S-0000000000000001\"\t\t# \"MF0;leaf-a:MQM8700/U1\" enhanced port 0 "
    "lid 1 lmc 0\n"
    "[1]\t\"H-00000000000000a1\"[1](a1) \t\t# \"n1 mlx5_0\" lid 11 4xHDR\n"
    "[2]\t\"H-00000000000000a2\"[1](a2) \t\t# \"n2 mlx5_0\" lid 12 4xHDR\n"
    "[21]\t\"S-0000000000000003\"[1]\t\t# \"Quantum Mellanox Technologies\" lid 3 "
    "4xHDR\n"
    "[22]\t\"S-0000000000000004\"[1]\t\t# \"Quantum Mellanox Technologies\" lid 4 "
    "4xHDR\n"
    "\n"
    "vendid=0x2c9\ndevid=0xd2f0\nsysimgguid=0x2\nswitchguid=0x2(2)\n"
    "Switch\t40 \"S-0000000000000002\"\t\t# \"MF0;leaf-b:MQM8700/U1\" enhanced port 0 "
    "lid 2 lmc 0\n"
    "[1]\t\"H-00000000000000a3\"[1](a3) \t\t# \"n3.site.org HCA-1\" lid 13 4xHDR\n"
    "[2]\t\"H-00000000000000b1\"[1](b1) \t\t# \"n1 mlx5_1\" lid 14 4xHDR\n"
    "[21]\t\"S-0000000000000003\"[2]\t\t# \"Quantum Mellanox Technologies\" lid 3 "
    "4xHDR\n"
    "[22]\t\"S-0000000000000004\"[2]\t\t# \"Quantum Mellanox Technologies\" lid 4 "
    "4xHDR\n"
    "\n"
    "vendid=0x2c9\ndevid=0xd2f0\nsysimgguid=0x3\nswitchguid=0x3(3)\n"
    "Switch\t40 \"S-0000000000000003\"\t\t# \"Quantum Mellanox Technologies\" base "
    "port 0 "
    "lid 3 lmc 0\n"
    "[1]\t\"S-0000000000000001\"[21]\t\t# \"MF0;leaf-a:MQM8700/U1\" lid 1 4xHDR\n"
    "[2]\t\"S-0000000000000002\"[21]\t\t# \"MF0;leaf-b:MQM8700/U1\" lid 2 4xHDR\n"
    "[41]\t\"H-00000000000000c1\"[1](c1) \t\t# \"Mellanox Technologies Aggregation "
    "Node\" lid 30 4xHDR\n"
    "\n"
    "vendid=0x2c9\ndevid=0xd2f0\nsysimgguid=0x4\nswitchguid=0x4(4)\n"
    "Switch\t40 \"S-0000000000000004\"\t\t# \"Quantum Mellanox Technologies\" base "
    "port 0 "
    "lid 4 lmc 0\n"
    "[1]\t\"S-0000000000000001\"[22]\t\t# \"MF0;leaf-a:MQM8700/U1\" lid 1 4xHDR\n"
    "[2]\t\"S-0000000000000002\"[22]\t\t# \"MF0;leaf-b:MQM8700/U1\" lid 2 4xHDR\n"
    "\n"
    "vendid=0x2c9\ndevid=0x101b\nsysimgguid=0xa1\ncaguid=0xa1\n"
    "Ca\t1 \"H-00000000000000a1\"\t\t# \"n1 mlx5_0\"\n"
    "[1](a1) \t\"S-0000000000000001\"[1]\t\t# lid 11 lmc 0 \"MF0;leaf-a:MQM8700/U1\" "
    "lid "
    "1 4xHDR\n";

/* "n1 n2" -> nodes */
static size_t nodes_of(const char *names, struct dlr_topo_node *ret)
{
    size_t n = 0;
    int used;

    memset(ret, 0, NODES_MAX * sizeof(*ret));
    while (n < NODES_MAX && sscanf(names, "%255s%n", ret[n].name, &used) == 1) {
        names += used;
        n++;
    }
    return n;
}

/* "spine.leaf0.n1 n4" */
static void paths_are(const struct dlr_topo_node *nodes, size_t n, const char *want)
{
    char got[4096] = "";

    for (size_t i = 0, used = 0; i < n; i++)
        used += (size_t)snprintf(got + used, sizeof(got) - used, "%s%s", i ? " " : "",
                                 nodes[i].path);
    assert_string_equal(got, want);
}

static const struct {
    const char *name, *text, *nodes, *paths, *note;
} texts[] = {
    {"tree", tree_2205, "n1 n10 gpu01 x09y n3",
     "spine.mid.leaf0.n1 spine.mid.leaf1.n10 spine.leaf2.gpu01 spine.leaf2.x09y "
     "spine.mid.leaf1.n3",
     ""},
    {"topology.conf", tree_conf, "n1 n11 login", "top.leaf0.n1 top.leaf1.n11 top.login",
     ""},
    {"nodes on no switch", tree_2205, "n9 n1 n4", "n9 spine.mid.leaf0.n1 n4",
     "2 of 3 nodes are on no switch, the first is n4"},
    {"none of the nodes", tree_2205, "a b", "a b", ""},
    {"two trees", "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\n", "n1 n2",
     "a.n1 b.n2", ""},
    {"levels are uneven",
     "SwitchName=a Nodes=n1\nSwitchName=m Switches=a\nSwitchName=b Nodes=n2\n"
     "SwitchName=t Switches=m,b\n",
     "n1 n2", "t.m.a.n1 t.b.n2", ""},
    {"a level that is not described",
     "SwitchName=t Switches=m\nSwitchName=a Nodes=n1\n", "n1", "a.n1", ""},
    {"a node on two leaves", "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[1-3]\n",
     "n1 n2 n3", "a.n1 a.n2 b.n3",
     "node n1 is on a and b: the first counts, and 1 more such lines"},
    {"a switch below two",
     "SwitchName=a Nodes=n1\nSwitchName=s Switches=a\nSwitchName=t Switches=a\n", "n1",
     "s.a.n1", "switch a is below s and t: the first counts"},
    {"names that are no components",
     "SwitchName=rack1.sw2 Nodes=n1\nSwitchName=~x Nodes=n2\nSwitchName=t "
     "Switches=rack1.sw2,~x\n",
     "n1 n2", "t.rack1_sw2.n1 t._x.n2", ""},
    {"blocks of 24.05", block_2405, "n1 n4 n5", "b1.n1 b2.n4 n5",
     "1 of 3 nodes are on no switch, the first is n5"},
    {"blocks of 24.11", block_2411, "n1 n3 n6",
     "b[1-3].b[1-2].b1.n1 b[1-3].b[1-2].b2.n3 b[1-3].b3.n6", ""},
    {"blocks of topology.conf",
     "BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[2-3]\nBlockSizes=2,4\n",
     "n1 n2 n3", "b1.n1 b1.n2 b2.n3", "node n2 is in b1 and b2: the first counts"},
    {"a fat tree of InfiniBand", fat_tree, "n1 n2 n3",
     "S-0000000000000003.leaf-a.n1 S-0000000000000003.leaf-a.n2 "
     "S-0000000000000003.leaf-b.n3",
     ""},
};

static void texts_give_each_node_its_path(void **state)
{
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct dlr_topo_node nodes[NODES_MAX];
        size_t n = nodes_of(texts[i].nodes, nodes), placed = 99;
        char note[DLR_TOPO_NOTE] = "?";

        print_message("  %s\n", texts[i].name);
        assert_int_equal(
            dlr_topo_paths_from_text(texts[i].text, nodes, n, &placed, note, NULL), 0);
        paths_are(nodes, n, texts[i].paths);
        assert_string_equal(note, texts[i].note);
        assert_true(placed <= n);
    }
}

static void bad_texts_are_refused_with_their_line(void **state)
{
    static const char kind1[] = "line 1 is not a switch or block of Slurm's "
                                "('SwitchName=NAME ...' or 'BlockName=NAME ...')";
    static const char kind2[] = "line 2 is not a switch or block as those before "
                                "('SwitchName=NAME ...' or 'BlockName=NAME ...')";
    static const char list2[] = "line 2 has a malformed list";
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"", "line 1 is not a switch or block of Slurm's"},
        {"\n\n# nothing\n", "line 1 is not a switch or block of Slurm's"},
        {"No topology information available\n", kind1},
        {"---\n- topology: t\n", kind1},
        {"SwitchName= Level=0 Nodes=n1\n", kind1},
        {"Nodes=n1 SwitchName=a\n", kind1},
        {"SwitchName=a Nodes=n1\nsome words\n", kind2},
        {"SwitchName=a Nodes=n1\nBlockName=b Nodes=n2\n", kind2},
        {"SwitchName=a Nodes=n1\nSwitchName=b Nodes=n[2-1]\n", list2},
        {"SwitchName=a Nodes=n1\nSwitchName=b Nodes=n[2-\n", list2},
        {"SwitchName=a Nodes=n1\nSwitchName=b Nodes=n[1-2][3-4]\n", list2},
        {"SwitchName=a Nodes=n1\nSwitchName=b Nodes=n[0-999999999]\n", list2},
        {"SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1,,n2\n", list2},
        {"SwitchName=a Nodes=n1 \\\n\nBlockName=b Nodes=n[2-1]\n",
         "line 3 is not a switch or block as those before ('SwitchName=NAME ...' or "
         "'BlockName=NAME ...')"},
        {"SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n", "switch a has two lines"},
        {"SwitchName=l Nodes=n1\nSwitchName=b Switches=c,l\nSwitchName=c Switches=b\n",
         "the switch of line 2 is below itself"},
        {"vendid=0x2c9\n\nSwitch\t24 \"S-01\"\n",
         "line 3 is not of ibnetdiscover: it has no two texts in quotes"},
        {"vendid=0x2c9\n", "no switch is in it"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_topo_node node = {"n1", ""}, *all = NULL;
        char note[DLR_TOPO_NOTE];
        struct dlr_err err = {0};
        size_t n;

        print_message("  %s\n", rows[i].text);
        assert_int_equal(
            dlr_topo_paths_from_text(rows[i].text, &node, 1, &n, note, &err), -EBADMSG);
        assert_string_equal(err.text, rows[i].want);
        assert_string_equal(node.path, "n1");
        assert_true(dlr_topo_nodes_from_text(rows[i].text, &all, &n, note, &err) < 0);
    }
}

static void all_nodes_of_a_text_are_listed_once(void **state)
{
    static const struct {
        const char *text, *paths;
    } rows[] = {
        {tree_conf, "top.login top.leaf0.n1 top.leaf0.n2 top.leaf1.n3 top.leaf1.n10 "
                    "top.leaf1.n11"},
        {block_2405, "b1.n1 b1.n2 b2.n3 b2.n4"},
        {"SwitchName=a\n", ""},
        {fat_tree, "S-0000000000000003.leaf-a.n1 S-0000000000000003.leaf-a.n2 "
                   "S-0000000000000003.leaf-b.n3.site.org"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_topo_node *nodes = NULL;
        char note[DLR_TOPO_NOTE];
        size_t n = 0;

        assert_int_equal(dlr_topo_nodes_from_text(rows[i].text, &nodes, &n, note, NULL),
                         0);
        paths_are(nodes, n, rows[i].paths);
        free(nodes);
    }
}

/* Lines of Slurm's in any order; of ibnetdiscover its paragraphs. */
static void shuffle(const char *text, const char *between, unsigned *seed, char *ret)
{
    const char *part[64];
    size_t size[64], n = 0, used = 0;

    while (*text && n < 64) {
        const char *end = strstr(text, between);

        part[n] = text;
        size[n] = end ? (size_t)(end - text) + strlen(between) : strlen(text);
        text += size[n++];
    }
    while (n) {
        size_t i = (size_t)rand_r(seed) % n;

        memcpy(ret + used, part[i], size[i]);
        used += size[i];
        if (ret[used - 1] != '\n')
            ret[used++] = '\n';
        n--;
        part[i] = part[n];
        size[i] = size[n];
    }
    ret[used] = '\0';
}

static void the_order_of_lines_does_not_matter(void **state)
{
    unsigned seed = 16;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        const char *text = texts[i].text, *between = text == fat_tree ? "\n\n" : "\n";
        const char *body = text == fat_tree ? strstr(text, "vendid") : text;

        for (unsigned k = 0; k < 50 && text != tree_conf; k++) {
            struct dlr_topo_node nodes[NODES_MAX];
            size_t n = nodes_of(texts[i].nodes, nodes), placed;
            char mixed[8192], note[DLR_TOPO_NOTE];

            shuffle(body, between, &seed, mixed);
            assert_int_equal(
                dlr_topo_paths_from_text(mixed, nodes, n, &placed, note, NULL), 0);
            paths_are(nodes, n, texts[i].paths);
            assert_string_equal(note, texts[i].note);
        }
    }
}

/* Three levels: pods of two leaves and two switches of their own, below two cores. */
static void a_fabric_of_three_levels_has_its_pods(void **state)
{
    DLR_AUTO_FREE char *text = NULL;
    struct dlr_topo_node nodes[NODES_MAX];
    size_t size = 0, n = nodes_of("n0 n1 n2 n3", nodes), placed;
    char note[DLR_TOPO_NOTE];
    FILE *out = open_memstream(&text, &size);

    for (int leaf = 0; leaf < 4; leaf++) {
        fprintf(out, "Switch\t8 \"S-l%d\"\t# \"X;leaf%d:Y\" lid 1\n", leaf, leaf);
        fprintf(out, "[1]\t\"H-%d\"[1](%d)\t# \"n%d HCA-1\" lid 9\n", leaf, leaf, leaf);
        for (int up = 0; up < 2; up++)
            fprintf(out, "[%d]\t\"S-p%d%d\"[1]\t# \"X;pod%d%d:Y\" lid 2\n", up + 2,
                    leaf / 2, up, leaf / 2, up);
    }
    for (int pod = 0; pod < 4; pod++) {
        fprintf(out, "Switch\t8 \"S-p%d%d\"\t# \"X;pod%d%d:Y\" lid 1\n", pod / 2,
                pod % 2, pod / 2, pod % 2);
        for (int core = 0; core < 2; core++)
            fprintf(out, "[%d]\t\"S-c%d\"[1]\t# \"X;core%d:Y\" lid 2\n", core, core,
                    core);
    }
    fprintf(out, "Switch\t8 \"S-c0\"\t# \"X;core0:Y\" lid 1\n"
                 "Switch\t8 \"S-c1\"\t# \"X;core1:Y\" lid 1\n");
    assert_int_equal(fclose(out), 0);
    assert_int_equal(dlr_topo_paths_from_text(text, nodes, n, &placed, note, NULL), 0);
    paths_are(nodes, n,
              "core0.pod00.leaf0.n0 core0.pod00.leaf1.n1 core0.pod10.leaf2.n2 "
              "core0.pod10.leaf3.n3");
}

static void the_source_trusted_most_gives_the_tree(void **state)
{
    static const char ab[] = "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-4]\n";
    static const char xy[] = "SwitchName=x Nodes=n[1-2]\nSwitchName=y Nodes=n[3-4]\n";
    static const char cross[] = "SwitchName=a Nodes=n1,n3\nSwitchName=b Nodes=n2,n4\n";
    static const char one[] = "SwitchName=s Nodes=n[1-4]\n";
    static const struct {
        const char *name, *file, *slurm;
        int want;
        const char *paths, *note;
    } rows[] = {
        {"the file alone", ab, NULL, 0, "a.n1 a.n2 b.n3 b.n4", ""},
        {"Slurm alone", NULL, ab, 1, "a.n1 a.n2 b.n3 b.n4", ""},
        {"neither", NULL, NULL, -1, "n1 n2 n3 n4", ""},
        {"both, alike but for names", ab, xy, 0, "a.n1 a.n2 b.n3 b.n4", ""},
        {"they contradict each other", ab, cross, 0, "a.n1 a.n2 b.n3 b.n4",
         "FILE: n1 and n2 share no leaf by Slurm"},
        {"the second joins what the first parts", ab, one, 0, "a.n1 a.n2 b.n3 b.n4",
         "FILE: n2 and n3 share no leaf by FILE"},
        {"the file is malformed", "words\n", ab, 1, "a.n1 a.n2 b.n3 b.n4",
         "FILE: line 1 is not a switch or block of Slurm's ('SwitchName=NAME ...' or "
         "'BlockName=NAME ...')"},
        {"the file is of other nodes", "SwitchName=z Nodes=z[1-9]\n", ab, 1,
         "a.n1 a.n2 b.n3 b.n4", "FILE: it has a switch for none of the nodes"},
        {"what the file does not name is not taken from Slurm",
         "SwitchName=f Nodes=n[1-3]\n", one, 0, "f.n1 f.n2 f.n3 n4",
         "FILE: 1 of 4 nodes are on no switch, the first is n4"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_topo_source sources[] = {{"FILE", rows[i].file},
                                            {"Slurm", rows[i].slurm}};
        struct dlr_topo_node nodes[NODES_MAX];
        size_t n = nodes_of("n1 n2 n3 n4", nodes);
        char note[DLR_TOPO_NOTE];

        print_message("  %s\n", rows[i].name);
        assert_int_equal(dlr_topo_paths_from_sources(sources, 2, nodes, n, note),
                         rows[i].want);
        paths_are(nodes, n, rows[i].paths);
        assert_string_equal(note, rows[i].note);
    }
}

static void a_domain_goes_below_the_leaf(void **state)
{
    static const char *const rows[][4] = {
        {"n1", "s.l.n1", "nvl3", "s.l.~nvl3.n1"},
        {"n1", "n1", "nvl3", "~nvl3.n1"},
        {"n1", "s.l.n1", "", "s.l.n1"},
        {"n1.site.org", "s.l.n1.site.org", "a.b/7", "s.l.~a_b/7.n1.site.org"},
        {"n1", "s.l.n1", "~x", "s.l.~_x.n1"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_topo_node node;

        dlr_format(node.name, sizeof(node.name), "%s", rows[i][0]);
        dlr_format(node.path, sizeof(node.path), "%s", rows[i][1]);
        assert_int_equal(dlr_topo_put_domain(&node, rows[i][2]), 0);
        assert_string_equal(node.path, rows[i][3]);
    }
}

/* 100,000 nodes on 2,000 leaves: linear but for the sorting. */
static void a_huge_tree_is_read(void **state)
{
    DLR_AUTO_FREE char *text = NULL;
    struct dlr_topo_node *nodes = NULL;
    size_t size = 0, n = 0;
    char note[DLR_TOPO_NOTE];
    FILE *out = open_memstream(&text, &size);

    for (int i = 0; i < 2000; i++)
        fprintf(out, "SwitchName=l%d Nodes=n[%d-%d]\n", i, 50 * i, 50 * i + 49);
    fprintf(out, "SwitchName=top Nodes=n[0-99999] Switches=l[0-1999]\n");
    assert_int_equal(fclose(out), 0);
    assert_int_equal(dlr_topo_nodes_from_text(text, &nodes, &n, note, NULL), 0);
    assert_int_equal(n, 100000);
    assert_string_equal(nodes[99999].path, "top.l1999.n99999");
    free(nodes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_give_each_node_its_path),
        cmocka_unit_test(bad_texts_are_refused_with_their_line),
        cmocka_unit_test(all_nodes_of_a_text_are_listed_once),
        cmocka_unit_test(the_order_of_lines_does_not_matter),
        cmocka_unit_test(a_fabric_of_three_levels_has_its_pods),
        cmocka_unit_test(the_source_trusted_most_gives_the_tree),
        cmocka_unit_test(a_domain_goes_below_the_leaf),
        cmocka_unit_test(a_huge_tree_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
