/* SPDX-License-Identifier: Apache-2.0 */
/* Partners: a permutation without fixed points that leaves as many leaves as can be. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "hwloc_topo/topo.h"

#define MAX_BRUTE 7
#define MAX 64

static void make_nodes(const unsigned *leaf, unsigned n, struct dlr_topo_node *nodes,
                       unsigned *place)
{
    unsigned i;

    for (i = 0; i < n; i++) {
        dlr_format(nodes[i].name, sizeof(nodes[i].name), "n%u", i);
        dlr_format(nodes[i].path, sizeof(nodes[i].path), "s.l%u.n%u", leaf[i], i);
        place[i] = i;
    }
}

static unsigned same_leaf(const unsigned *leaf, const unsigned *partner, unsigned n)
{
    unsigned count = 0, p;

    for (p = 0; p < n; p++)
        count += leaf[p] == leaf[partner[p]];
    return count;
}

static void assert_no_fixed_point(const unsigned *partner, unsigned n)
{
    unsigned char used[MAX] = {0};
    unsigned p;

    for (p = 0; p < n; p++) {
        assert_true(partner[p] < n && partner[p] != p && !used[partner[p]]);
        used[partner[p]] = 1;
    }
}

/* The fewest same-leaf pairs over all permutations without fixed points. */
static unsigned brute(const unsigned *leaf, unsigned n, unsigned at, unsigned used)
{
    unsigned best = UINT_MAX, q;

    if (at == n)
        return 0;
    for (q = 0; q < n; q++) {
        unsigned rest;

        if (q == at || used & 1u << q)
            continue;
        rest = brute(leaf, n, at + 1, used | 1u << q);
        if (rest != UINT_MAX && rest + (leaf[at] == leaf[q]) < best)
            best = rest + (leaf[at] == leaf[q]);
    }
    return best;
}

/* Each way to hang n <= 7 nodes on leaves, up to the leaves' names. */
static void try_leaves(unsigned *leaf, unsigned n, unsigned at, unsigned used,
                       unsigned *tried)
{
    struct dlr_topo_node nodes[MAX_BRUTE];
    unsigned place[MAX_BRUTE], partner[MAX_BRUTE], l;

    if (at < n) {
        for (l = 0; l <= used; l++) {
            leaf[at] = l;
            try_leaves(leaf, n, at + 1, l == used ? used + 1 : used, tried);
        }
        return;
    }
    make_nodes(leaf, n, nodes, place);
    dlr_topo_partners(nodes, place, n, partner);
    assert_no_fixed_point(partner, n);
    assert_int_equal(same_leaf(leaf, partner, n), brute(leaf, n, 0, 0));
    (*tried)++;
}

static void no_permutation_does_better_up_to_seven_nodes(void **state)
{
    unsigned leaf[MAX_BRUTE], n, tried = 0;

    for (n = 2; n <= MAX_BRUTE; n++)
        try_leaves(leaf, n, 0, 0, &tried);
    assert_int_equal(tried,
                     2 + 5 + 15 + 52 + 203 + 877); /* Bell numbers: all partitions */
}

static void larger_jobs_leave_the_leaf_where_they_can(void **state)
{
    struct dlr_topo_node nodes[MAX];
    unsigned leaf[MAX], place[MAX], partner[MAX], round, n, i, l;

    srand(11);
    for (round = 0; round < 2000; round++) {
        unsigned count[8] = {0}, most = 0;

        n = 2 + (unsigned)rand() % (MAX - 2);
        for (i = 0; i < n; i++)
            count[leaf[i] = (unsigned)rand() % (1 + round % 8)]++;
        for (l = 0; l < 8; l++)
            most = count[l] > most ? count[l] : most;
        make_nodes(leaf, n, nodes, place);
        dlr_topo_partners(nodes, place, n, partner);
        assert_no_fixed_point(partner, n);
        assert_int_equal(same_leaf(leaf, partner, n), 2 * most > n ? 2 * most - n : 0);
    }
}

/* Each place keeps as many as are kept of it, none twice and none of its own. */
static void assert_fair(const unsigned *holder, unsigned n, unsigned copies)
{
    for (unsigned j = 0; j < copies; j++) {
        unsigned char used[MAX] = {0};

        for (unsigned p = 0; p < n; p++) {
            unsigned at = holder[p * copies + j];

            assert_true(at < n && at != p && !used[at]);
            used[at] = 1;
            for (unsigned i = 0; i < j; i++)
                assert_int_not_equal(holder[p * copies + i], at);
        }
    }
}

static void every_number_of_copies_is_fair(void **state)
{
    struct dlr_topo_node nodes[MAX];
    unsigned leaf[MAX], place[MAX], holder[MAX * DLR_TOPO_COPIES_MAX], one[MAX];

    srand(12);
    for (unsigned round = 0; round < 1000; round++) {
        unsigned copies = 1 + round % DLR_TOPO_COPIES_MAX;
        unsigned n = copies + 1 + (unsigned)rand() % (MAX - copies - 1);

        for (unsigned i = 0; i < n; i++)
            leaf[i] = (unsigned)rand() % (1 + round % 9);
        make_nodes(leaf, n, nodes, place);
        dlr_topo_copies(nodes, place, n, copies, holder);
        assert_fair(holder, n, copies);
        dlr_topo_partners(nodes, place, n, one);
        for (unsigned p = 0; p < n; p++)
            assert_int_equal(one[p], holder[p * copies]);
    }
}

static void with_leaves_enough_no_two_copies_share_one(void **state)
{
    struct dlr_topo_node nodes[MAX];
    unsigned leaf[MAX], place[MAX], holder[MAX * DLR_TOPO_COPIES_MAX];

    for (unsigned copies = 1; copies <= DLR_TOPO_COPIES_MAX; copies++)
        for (unsigned leaves = copies + 1; leaves <= 6; leaves++) {
            unsigned n = leaves * 3;

            for (unsigned i = 0; i < n; i++)
                leaf[i] = i % leaves;
            make_nodes(leaf, n, nodes, place);
            dlr_topo_copies(nodes, place, n, copies, holder);
            for (unsigned p = 0; p < n; p++)
                for (unsigned j = 0; j < copies; j++) {
                    unsigned at = leaf[holder[p * copies + j]];

                    assert_int_not_equal(at, leaf[p]);
                    for (unsigned i = 0; i < j; i++)
                        assert_int_not_equal(leaf[holder[p * copies + i]], at);
                }
        }
}

static void one_node_has_nobody(void **state)
{
    struct dlr_topo_node node = {"n1", "s.l.n1"};
    const unsigned place = 0;
    unsigned partner = 7;

    dlr_topo_partners(&node, &place, 1, &partner);
    assert_int_equal(partner, 0);
    dlr_topo_partners(&node, &place, 0, &partner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_permutation_does_better_up_to_seven_nodes),
        cmocka_unit_test(larger_jobs_leave_the_leaf_where_they_can),
        cmocka_unit_test(every_number_of_copies_is_fair),
        cmocka_unit_test(with_leaves_enough_no_two_copies_share_one),
        cmocka_unit_test(one_node_has_nobody),
    };

    return cmocka_run_group_tests_name("partners", tests, NULL, NULL);
}
