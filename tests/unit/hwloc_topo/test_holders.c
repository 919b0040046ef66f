/* SPDX-License-Identifier: Apache-2.0 */
/* Holders of copies and parity: equal shares, on as many leaves as can be, few changes
 * after a loss; and what that survives.
 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "hwloc_topo/holders.h"

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

/* Each place keeps as many as are kept of it, of nobody twice and none of its own. */
static void assert_fair(const unsigned *holder, unsigned n, unsigned copies)
{
    unsigned load[MAX] = {0};

    for (unsigned p = 0; p < n; p++)
        for (unsigned j = 0; j < copies; j++) {
            unsigned at = holder[p * copies + j];

            assert_true(at < n && at != p);
            load[at]++;
            for (unsigned i = 0; i < j; i++)
                assert_int_not_equal(holder[p * copies + i], at);
        }
    for (unsigned p = 0; p < n; p++)
        assert_int_equal(load[p], copies);
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
        for (unsigned p = 0; copies == 1 && p < n; p++)
            assert_int_equal(one[p], holder[p]);
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

/* Leaves of random sizes side by side, as a first round has them; the largest. */
static unsigned side_by_side(unsigned *leaf, unsigned n, unsigned most)
{
    unsigned largest = 0, l = 0;

    for (unsigned at = 0; at < n; l++) {
        unsigned size = 1 + (unsigned)rand() % most;

        size = size < n - at ? size : n - at;
        largest = size > largest ? size : largest;
        for (; size > 0; size--)
            leaf[at++] = l;
    }
    return largest;
}

/* What is lost with a leaf, the slow way: the sets of which more than rows parts are
 * there.
 */
static unsigned lost_with(const struct dlr_topo_sets *sets, const unsigned *holder,
                          const unsigned *leaf, unsigned gone)
{
    unsigned lost = 0;

    for (unsigned set = 0; set < sets->nsets; set++) {
        unsigned parts = 0;

        for (unsigned p = set; p < sets->nplaces; p += sets->nsets)
            parts += leaf[p] == gone;
        for (unsigned row = 0; row < sets->rows; row++)
            parts += leaf[holder[set * sets->rows + row]] == gone;
        lost += parts > sets->rows;
    }
    return lost;
}

static unsigned bad_leaves(const struct dlr_topo_sets *sets, const unsigned *holder,
                           const unsigned *leaf)
{
    unsigned bad = 0;

    for (unsigned l = 0; l < MAX; l++)
        bad += lost_with(sets, holder, leaf, l) > 0;
    return bad;
}

static struct dlr_topo_sets random_sets(const struct dlr_topo_node *nodes, unsigned n)
{
    unsigned rows = 1 + (unsigned)rand() % 3, members = 1 + (unsigned)rand() % 5, nsets;

    rows = rows < n ? rows : n - 1;
    for (nsets = (n + members - 1) / members; n - (n + nsets - 1) / nsets < rows;)
        nsets++;
    return (struct dlr_topo_sets){nodes, NULL, n, nsets, rows};
}

static void what_is_said_to_survive_is_what_does(void **state)
{
    struct dlr_topo_node nodes[MAX];
    unsigned leaf[MAX], place[MAX], holder[MAX * 8], survived = 0;

    srand(13);
    for (unsigned round = 0; round < 600; round++) {
        unsigned n = 2 + (unsigned)rand() % (MAX - 2);
        struct dlr_topo_sets sets = random_sets(nodes, n);
        struct dlr_topo_survival got;

        side_by_side(leaf, n, 1 + round % 20);
        make_nodes(leaf, n, nodes, place);
        assert_int_equal(dlr_topo_holders(&sets, holder), 0);
        assert_int_equal(dlr_topo_survives(&sets, holder, &got), 0);
        assert_int_equal(got.leaf.things, leaf[n - 1] + 1);
        assert_int_equal(got.leaf.bad, bad_leaves(&sets, holder, leaf));
        assert_int_equal(got.domain.things, 0);
        assert_int_equal(got.nodes, sets.rows);
        if (got.leaf.bad)
            assert_true(lost_with(&sets, holder, leaf, leaf[got.leaf.place]) > 0);
        survived += !got.leaf.bad;
    }
    assert_in_range(survived, 60, 540);
}

/* Copies: where each place's copies can be elsewhere at all, some are. */
static void a_leaf_is_survived_wherever_that_can_be(void **state)
{
    struct dlr_topo_node nodes[MAX];
    unsigned leaf[MAX], place[MAX], holder[MAX * DLR_TOPO_COPIES_MAX];

    srand(14);
    for (unsigned round = 0; round < 1000; round++) {
        unsigned copies = 1 + round % DLR_TOPO_COPIES_MAX;
        unsigned n = copies + 1 + (unsigned)rand() % (MAX - copies - 1);
        unsigned most = side_by_side(leaf, n, 1 + (unsigned)rand() % n);
        struct dlr_topo_sets sets = {nodes, NULL, n, n, copies};

        make_nodes(leaf, n, nodes, place);
        assert_int_equal(dlr_topo_holders(&sets, holder), 0);
        if (most <= n * copies / (copies + 1))
            assert_int_equal(bad_leaves(&sets, holder, leaf), 0);
        else
            assert_int_equal(bad_leaves(&sets, holder, leaf), 1);
    }
}

/* A set's parts, over leaves of one size: no leaf has more of them than it must. */
static void parity_is_spread_over_the_leaves_there_are(void **state)
{
    struct dlr_topo_node nodes[MAX];
    unsigned leaf[MAX], place[MAX], holder[MAX * 4];

    for (unsigned leaves = 2; leaves <= 8; leaves++)
        for (unsigned members = 2; members <= 6; members++)
            for (unsigned rows = 1; rows <= 3; rows++) {
                unsigned n = leaves * 8, parts = members + rows;
                struct dlr_topo_sets sets = {nodes, NULL, n,
                                             (n + members - 1) / members, rows};
                unsigned must = (parts + leaves - 1) / leaves;

                for (unsigned i = 0; i < n; i++)
                    leaf[i] = i / 8;
                make_nodes(leaf, n, nodes, place);
                assert_int_equal(dlr_topo_holders(&sets, holder), 0);
                if (must <= rows)
                    assert_int_equal(bad_leaves(&sets, holder, leaf), 0);
            }
}

static unsigned changed(const unsigned *a, const unsigned *b, unsigned n)
{
    unsigned count = 0;

    for (unsigned i = 0; i < n; i++)
        count += a[i] != b[i];
    return count;
}

/* Each of the parts that the node has or holds is exchanged with one other at most. */
static void a_replaced_node_changes_few_holders(void **state)
{
    struct dlr_topo_node nodes[MAX];
    unsigned leaf[MAX], place[MAX], before[MAX * 4], after[MAX * 4], most = 0;

    srand(15);
    for (unsigned round = 0; round < 2000; round++) {
        unsigned n = 24 + (unsigned)rand() % (MAX - 24), lost = (unsigned)rand() % n;
        struct dlr_topo_sets sets = random_sets(nodes, n);
        unsigned parts = sets.nsets * sets.rows, each = (parts + n - 1) / n, now;

        if (side_by_side(leaf, n, 4) > 4)
            continue;
        make_nodes(leaf, n, nodes, place);
        assert_int_equal(dlr_topo_holders(&sets, before), 0);
        leaf[lost] = (unsigned)rand() % (leaf[n - 1] + 2);
        make_nodes(leaf, n, nodes, place);
        assert_int_equal(dlr_topo_holders(&sets, after), 0);
        now = changed(before, after, parts);
        most = now > most ? now : most;
        assert_true(now <= 3 * (sets.rows + each));
    }
    print_message("  at most %u parts\n", most);
}

static void domains_are_told_apart_where_leaves_cannot_be(void **state)
{
    struct dlr_topo_node nodes[MAX];
    unsigned holder[MAX];
    struct dlr_topo_sets sets = {nodes, NULL, 24, 24, 1};
    struct dlr_topo_survival got;
    char text[DLR_TOPO_SURVIVAL_TEXT];

    for (unsigned i = 0; i < 24; i++) { /* one leaf, dealt out over four domains */
        dlr_format(nodes[i].name, sizeof(nodes[i].name), "n%u", i);
        dlr_format(nodes[i].path, sizeof(nodes[i].path), "s.l0.~d%u.n%u", i % 4, i);
    }
    assert_int_equal(dlr_topo_holders(&sets, holder), 0);
    assert_int_equal(dlr_topo_survives(&sets, holder, &got), 0);
    assert_int_equal(got.leaf.things, 1);
    assert_int_equal(got.leaf.bad, 1);
    assert_int_equal(got.domain.things, 4);
    assert_int_equal(got.domain.bad, 0);
    assert_int_equal(dlr_topo_survival_text(&sets, &got, text, sizeof(text)), 0);
    assert_string_equal(text, "any one node, not leaf switch 'l0' (1 of 1), any one "
                              "domain below a leaf switch");
}

static void survival_is_told_in_one_line(void **state)
{
    static const struct {
        const char *paths[4];
        unsigned rows;
        const char *want;
    } rows[] = {
        {{"s.a.", "s.a.", "s.b.", "s.b."}, 1, "any one node, any one leaf switch"},
        {{"s.a.", "s.a.", "s.a.", "s.b."},
         1,
         "any one node, not leaf switch 'a' (1 of 2)"},
        {{"", "", "", ""}, 1, "any one node"},
        {{"", "", "", ""}, 2, "any 2 nodes"},
        {{"", "", "", "b."}, 1, "any one node, not leaf switch '' (1 of 2)"},
        {{"s.a.", "s.a.", "s.b.", "s.b."}, 0, "no loss, not leaf switch 'a' (2 of 2)"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_topo_node nodes[4];
        struct dlr_topo_sets sets = {nodes, NULL, 4, 4, rows[i].rows};
        struct dlr_topo_survival got;
        unsigned holder[12];
        char text[DLR_TOPO_SURVIVAL_TEXT];

        for (unsigned p = 0; p < 4; p++) {
            dlr_format(nodes[p].name, sizeof(nodes[p].name), "n%u", p);
            dlr_format(nodes[p].path, sizeof(nodes[p].path), "%sn%u", rows[i].paths[p],
                       p);
        }
        assert_int_equal(dlr_topo_holders(&sets, holder), 0);
        assert_int_equal(dlr_topo_survives(&sets, holder, &got), 0);
        assert_int_equal(dlr_topo_survival_text(&sets, &got, text, sizeof(text)), 0);
        assert_string_equal(text, rows[i].want);
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
        cmocka_unit_test(what_is_said_to_survive_is_what_does),
        cmocka_unit_test(a_leaf_is_survived_wherever_that_can_be),
        cmocka_unit_test(parity_is_spread_over_the_leaves_there_are),
        cmocka_unit_test(a_replaced_node_changes_few_holders),
        cmocka_unit_test(domains_are_told_apart_where_leaves_cannot_be),
        cmocka_unit_test(survival_is_told_in_one_line),
        cmocka_unit_test(one_node_has_nobody),
    };

    return cmocka_run_group_tests_name("holders", tests, NULL, NULL);
}
