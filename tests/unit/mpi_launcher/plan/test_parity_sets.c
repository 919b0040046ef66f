/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks share parity, who holds it, and what is made of what. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "mpi_launcher/plan/parity_sets.h"

#define MAX 40

static void make_nodes(struct dlr_topo_node *nodes, unsigned n, unsigned per_leaf)
{
    for (unsigned i = 0; i < n; i++) {
        dlr_format(nodes[i].name, sizeof(nodes[i].name), "n%u", i);
        dlr_format(nodes[i].path, sizeof(nodes[i].path), "s.l%u.n%u", i / per_leaf, i);
    }
}

static void make_sets(struct dlr_parity_sets *s, unsigned n, unsigned members,
                      unsigned rows)
{
    unsigned tasks[MAX];

    for (unsigned i = 0; i < n; i++)
        tasks[i] = 1 + i % 3;
    assert_int_equal(dlr_parity_sets_init(s, n, tasks, NULL, members, rows), 0);
}

/* A rank is in one group; a node has at most one of a group's ranks and shards. */
static void check(unsigned n, unsigned members, unsigned rows)
{
    struct dlr_topo_node nodes[MAX];
    unsigned holder[MAX * DLR_PARITY_ROWS_MAX], load[MAX] = {0}, least = n, most = 0;
    unsigned char seen[3 * MAX] = {0};
    struct dlr_parity_sets s;

    make_nodes(nodes, n, 4);
    make_sets(&s, n, members, rows);
    assert_int_equal(dlr_parity_sets_holders(&s, nodes, holder), 0);
    for (unsigned p = 0; p < n; p++)
        for (unsigned r = s.first[p]; r < s.first[p + 1]; r++) {
            unsigned ranks[DLR_PARITY_DATA_MAX],
                count = dlr_parity_sets_group(&s, r, ranks);
            unsigned char here[MAX] = {0};

            assert_true(count >= 1 && count <= members && count <= n - rows);
            for (unsigned i = 0; i < count; i++) {
                unsigned q = 0;

                while (s.first[q + 1] <= ranks[i])
                    q++;
                assert_false(here[q]++);
                seen[ranks[i]] += ranks[0] == r;
            }
            for (unsigned j = 0; j < rows; j++)
                assert_false(here[holder[p * rows + j]]++);
        }
    for (unsigned r = 0; r < s.world; r++)
        assert_int_equal(seen[r], 1);
    for (unsigned set = 0; set < s.nsets; set++)
        for (unsigned j = 0; j < rows; j++)
            load[holder[set * rows + j]]++;
    for (unsigned p = 0; p < n; p++) {
        least = load[p] < least ? load[p] : least;
        most = load[p] > most ? load[p] : most;
    }
    assert_true(most - least <= 2);
    dlr_parity_sets_done(&s);
}

static void no_node_has_two_parts_of_a_group_or_many_more_shards(void **state)
{
    for (unsigned n = 2; n <= MAX; n++)
        for (unsigned members = 2; members <= 9; members++)
            for (unsigned rows = 1; rows <= DLR_PARITY_ROWS_MAX && rows < n; rows++)
                check(n, members, rows);
}

static void with_leaves_enough_a_leaf_has_one_part_of_a_set(void **state)
{
    struct dlr_topo_node nodes[16];
    unsigned holder[16];
    struct dlr_parity_sets s;

    make_nodes(nodes, 16, 4); /* four leaves of four; three members and their parity */
    make_sets(&s, 16, 3, 1);
    assert_int_equal(dlr_parity_sets_holders(&s, nodes, holder), 0);
    for (unsigned set = 0; set < s.nsets; set++) {
        unsigned leaves = 0, parts = 0;

        for (unsigned p = set; p < 16; p += s.nsets, parts++)
            leaves |= 1u << p / 4;
        assert_int_equal(__builtin_popcount(leaves), parts);
    }
    dlr_parity_sets_done(&s);
}

static void ranks_that_are_dealt_out_are_found(void **state)
{
    const unsigned tasks[3] = {2, 2, 2}, dealt[6] = {0, 3, 1, 4, 2, 5};
    unsigned ranks[DLR_PARITY_DATA_MAX];
    struct dlr_parity_sets s;

    assert_int_equal(dlr_parity_sets_init(&s, 3, tasks, dealt, 2, 1), 0);
    assert_int_equal(dlr_parity_sets_group(&s, 5, ranks), 2); /* places 0 and 2 */
    assert_int_equal(ranks[0], 3);
    assert_int_equal(ranks[1], 5);
    assert_int_equal(dlr_parity_sets_group(&s, 4, ranks), 1);
    assert_int_equal(ranks[0], 4);
    dlr_parity_sets_done(&s);
}

static void more_holders_than_other_places_are_refused(void **state)
{
    const unsigned tasks[2] = {1, 1};
    struct dlr_parity_sets s;

    assert_int_equal(dlr_parity_sets_init(&s, 2, tasks, NULL, 2, 2), -EINVAL);
    assert_int_equal(dlr_parity_sets_init(&s, 2, tasks, NULL, 33, 1), -EINVAL);
    assert_int_equal(dlr_parity_sets_init(&s, 2, tasks, NULL, 0, 1), -EINVAL);
}

static const char *on_node(void *arg, unsigned slot)
{
    static char name[16];
    const unsigned *gone = arg;

    if (slot == gone[0] || slot == gone[1])
        return NULL;
    dlr_format(name, sizeof(name), "n%u", slot);
    return name;
}

static void terms_name_slots(void **state)
{
    const unsigned tasks[4] = {1, 1, 1, 1}, have[2] = {4, 8};
    unsigned gone[2] = {2, 0};
    struct dlr_parity_sets s;
    char text[128];

    assert_int_equal(dlr_parity_sets_init(&s, 4, tasks, NULL, 2, 1), 0);
    assert_int_equal(dlr_parity_sets_parity_terms(&s, 3, 0, text, sizeof(text)), 0);
    assert_string_equal(text, "1*1 3*1");
    assert_int_equal(dlr_parity_sets_sources(&s, 2, on_node, gone, text, sizeof(text)),
                     -ENOENT);
    gone[1] = 2;
    assert_int_equal(dlr_parity_sets_sources(&s, 2, on_node, gone, text, sizeof(text)),
                     0);
    assert_string_equal(text, "0@n0 4@n4");
    dlr_parity_sets_done(&s);
    assert_int_equal(dlr_parity_sets_init(&s, 4, tasks, NULL, 2, 2), 0);
    assert_int_equal(dlr_parity_sets_rebuild_terms(&s, 2, have, text, sizeof(text)), 0);
    assert_true(strncmp(text, "4*", 2) == 0 && strstr(text, " 8*"));
    dlr_parity_sets_done(&s);
}

static bool is_lost(void *arg, unsigned rank)
{
    return rank < *(unsigned *)arg;
}

static void sources_are_read_back_and_each_lost_rank_has_another_maker(void **state)
{
    const unsigned tasks[4] = {1, 1, 1, 1};
    char node[DLR_PARITY_DATA_MAX][DLR_TOPO_NAME];
    unsigned slot[DLR_PARITY_DATA_MAX], lost = 4;
    struct dlr_parity_sets s;

    assert_int_equal(dlr_parity_sets_read_sources("4@n3 8@node-4", slot, node), 2);
    assert_int_equal(slot[0], 4);
    assert_int_equal(slot[1], 8);
    assert_string_equal(node[0], "n3");
    assert_string_equal(node[1], "node-4");
    assert_int_equal(dlr_parity_sets_read_sources("4 8@n4", slot, node), 0);
    assert_int_equal(dlr_parity_sets_init(&s, 4, tasks, NULL, 2, 2), 0);
    assert_int_equal(dlr_parity_sets_maker(&s, 0, 2, is_lost, &lost), 0);
    assert_int_equal(dlr_parity_sets_maker(&s, 2, 2, is_lost, &lost), 1);
    assert_int_equal(dlr_parity_sets_maker(&s, 2, 1, is_lost, &lost),
                     1); /* too few parts */
    lost = 0;
    assert_int_equal(dlr_parity_sets_maker(&s, 2, 2, is_lost, &lost), 0);
    dlr_parity_sets_done(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_node_has_two_parts_of_a_group_or_many_more_shards),
        cmocka_unit_test(with_leaves_enough_a_leaf_has_one_part_of_a_set),
        cmocka_unit_test(ranks_that_are_dealt_out_are_found),
        cmocka_unit_test(more_holders_than_other_places_are_refused),
        cmocka_unit_test(terms_name_slots),
        cmocka_unit_test(sources_are_read_back_and_each_lost_rank_has_another_maker),
    };

    return cmocka_run_group_tests_name("sets", tests, NULL, NULL);
}
