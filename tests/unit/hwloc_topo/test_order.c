/* SPDX-License-Identifier: Apache-2.0 */
/* Rank order and the replacement of lost nodes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/str.h"
#include "hwloc_topo/rank_order.h"

#define MAX 16

/* Reads "s.l0.n1 s.l0.n2 n3" into nodes. */
static size_t nodes_from(const char *text, struct dlr_topo_node *nodes)
{
    size_t n = 0;

    while (*text) {
        size_t size = strcspn(text, " ");
        const char *name;

        assert_true(n < MAX);
        dlr_format(nodes[n].path, sizeof(nodes[n].path), "%.*s", (int)size, text);
        name = strrchr(nodes[n].path, '.');
        dlr_format(nodes[n].name, sizeof(nodes[n].name), "%s",
                   name ? name + 1 : nodes[n].path);
        n++;
        text += size + (text[size] == ' ');
    }
    return n;
}

static void join(const struct dlr_topo_node *nodes, const unsigned *order, size_t n,
                 char *buf, size_t size)
{
    size_t i;

    buf[0] = '\0';
    for (i = 0; i < n; i++) {
        strncat(buf, i ? " " : "", size - strlen(buf) - 1);
        strncat(buf, nodes[order[i]].name, size - strlen(buf) - 1);
    }
}

static void nodes_of_a_leaf_stand_together(void **state)
{
    static const struct {
        const char *nodes, *want;
    } rows[] = {
        {"n10 n2 n1", "n1 n2 n10"},
        {"s.l1.n1 s.l0.n2 s.l1.n3 s.l0.n4", "n2 n4 n1 n3"},
        {"s.l10.a s.l2.b s.l10.c s.l2.d", "b d a c"},
        {"t.l0.a s.l0.b t.l0.c s.l0.d", "b d a c"},
        {"s.a.l0.n1 s.b.l0.n2 s.a.l1.n3 s.b.l1.n4 s.a.l0.n5", "n1 n5 n3 n2 n4"},
        {"s1.lb.n1 s01.la.n2 s1.la.n3 s01.lb.n4", "n2 n4 n3 n1"},
        {"s.l0.n1 n2 s.l0.n3", "n2 n1 n3"},
        {"s.l.n1", "n1"},
        {"", ""},
    };
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_topo_node nodes[MAX];
        size_t n = nodes_from(rows[i].nodes, nodes);
        unsigned order[MAX];
        char got[256];

        print_message("  %s\n", rows[i].nodes);
        dlr_topo_order(nodes, n, order);
        join(nodes, order, n, got, sizeof(got));
        assert_string_equal(got, rows[i].want);
    }
}

static void order_does_not_depend_on_the_order_given(void **state)
{
    struct dlr_topo_node nodes[MAX], mixed[MAX];
    size_t n =
        nodes_from("s.l1.n1 s.l0.n2 s.l1.n30 s.l0.n4 s.l2.n5 s.l2.n05 n7", nodes);
    unsigned order[MAX], round;
    char want[256], got[256];
    size_t i;

    dlr_topo_order(nodes, n, order);
    join(nodes, order, n, want, sizeof(want));
    srand(7);
    for (round = 0; round < 200; round++) {
        memcpy(mixed, nodes, sizeof(mixed));
        for (i = n; i > 1; i--) {
            size_t j = (size_t)rand() % i;
            struct dlr_topo_node swap = mixed[i - 1];

            mixed[i - 1] = mixed[j];
            mixed[j] = swap;
        }
        dlr_topo_order(mixed, n, order);
        join(mixed, order, n, got, sizeof(got));
        assert_string_equal(got, want);
    }
}

static void a_name_with_dots_is_not_a_switch(void **state)
{
    struct dlr_topo_node nodes[2] = {{"n2.b.org", "n2.b.org"},
                                     {"n1.z.org", "s.l0.n1.z.org"}};
    unsigned order[2];

    dlr_topo_order(nodes, 2, order);
    assert_int_equal(order[0], 0); /* "" before "s.l0" */
}

struct replace_row {
    const char *nodes; /* the first ones have the places */
    size_t nplaces;
    const char *dead; /* indices as letters: "a" is the first node */
    const char *want;
};

static void only_lost_places_move(void **state)
{
    static const struct replace_row rows[] = {
        {"s.l0.n1 s.l0.n2 s.l1.n3 s.l1.n4 s.l1.n5", 4, "b", "n1 n5 n3 n4"},
        {"s.l0.n1 s.l0.n2 s.l1.n3 s.l1.n4 s.l1.n5", 4, "", "n1 n2 n3 n4"},
        {"s.l0.n1 s.l1.n2 s.l1.n8 s.l0.n9", 2, "a", "n9 n2"},
        {"s.l0.n1 s.l1.n2 s.l1.n8 s.l0.n9", 2, "b", "n1 n8"},
        {"s.l0.n1 s.l1.n2 s.l1.n8 s.l0.n9", 2, "ab", "n9 n8"},
        /* the place in front does not take what the other has on its leaf */
        {"s.l9.n1 s.l1.n2 s.l1.n3 s.l2.n4", 2, "ab", "n4 n3"},
        /* a nearer switch above the leaf counts */
        {"r.a.l0.n1 r.b.l0.n2 r.a.l1.n3", 1, "a", "n3"},
        /* what is between two nodes is still between them when others are paired */
        {"r.a.l0.n1 r.b.l0.n2 r.b.l2.n3 r.b.l0.n4 r.b.l1.n5 s.x.l0.n6", 3, "abc",
         "n6 n4 n5"},
        /* the domain before the leaf */
        {"r.l0.~d0.n1 r.l0.~d1.n2 r.l0.~d0.n3", 1, "a", "n3"},
        {"r.l0.~d0.n1 r.l1.~d0.n2 r.l0.~d1.n3", 1, "a", "n3"},
        {"n1 n2 n10 n9", 2, "a", "n9 n2"},
        /* a dead spare is not taken */
        {"s.l0.n1 s.l0.n2 s.l1.n3", 1, "ab", "n3"},
    };
    size_t i, k;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_topo_node nodes[MAX];
        size_t n = nodes_from(rows[i].nodes, nodes);
        unsigned place[MAX], got[MAX];
        unsigned char alive[MAX];
        char text[256];

        print_message("  %s without %s\n", rows[i].nodes, rows[i].dead);
        for (k = 0; k < n; k++) {
            place[k] = (unsigned)k;
            alive[k] = !strchr(rows[i].dead, 'a' + (int)k);
        }
        assert_int_equal(
            dlr_topo_replace(nodes, n, place, rows[i].nplaces, alive, got, NULL), 0);
        join(nodes, got, rows[i].nplaces, text, sizeof(text));
        assert_string_equal(text, rows[i].want);
    }
}

/* Many places are lost at once, each second node free: who is near stays near, and no
 * more neighbours are apart than two for each.
 */
static void many_lost_nodes_are_replaced_from_near(void **state)
{
    const unsigned n = 16384, m = n / 2;
    struct dlr_topo_node *nodes = calloc(n, sizeof(*nodes));
    unsigned *place = calloc(m, sizeof(*place)), *got = calloc(m, sizeof(*got));
    unsigned char *alive = calloc(n, 1);
    struct dlr_topo_cost before, after;
    unsigned lost = 0;
    int64_t t0;

    for (unsigned i = 0; i < n; i++) {
        dlr_format(nodes[i].name, sizeof(nodes[i].name), "n%u", i);
        dlr_format(nodes[i].path, sizeof(nodes[i].path), "c.p%u.l%u.n%u", i / 512,
                   i / 16, i);
        /* of each leaf the first half has places; of the first pod all are lost */
        alive[i] = i >= 512 && i % 64 != 5;
        if (i % 16 < 8)
            place[i / 16 * 8 + i % 16] = i;
    }
    for (unsigned p = 0; p < m; p++)
        lost += !alive[place[p]];
    assert_int_equal(dlr_topo_cost(nodes, place, m, 1, &before), 0);
    t0 = dlr_now_ns();
    assert_int_equal(dlr_topo_replace(nodes, n, place, m, alive, got, NULL), 0);
    print_message("  %u of 8,192 places in %.1f ms\n", lost,
                  (double)(dlr_now_ns() - t0) / 1e6);
    assert_int_equal(dlr_topo_cost(nodes, got, m, 1, &after), 0);
    assert_true(after.apart <= before.apart + 2 * lost);
    for (unsigned p = 0; p < m; p++) {
        assert_true(alive[got[p]]);
        if (alive[place[p]])
            assert_int_equal(got[p], place[p]);
        else if (place[p] >= 512) /* its own leaf has eight free ones */
            assert_int_equal(got[p] / 16, place[p] / 16);
    }
    free(nodes);
    free(place);
    free(got);
    free(alive);
}

static void too_few_nodes_are_counted_and_nothing_moves(void **state)
{
    struct dlr_topo_node nodes[MAX];
    size_t n = nodes_from("n1 n2 n3 n4", nodes);
    const unsigned place[] = {0, 1, 2};
    const unsigned char alive[] = {0, 0, 1, 1};
    unsigned got[3] = {77, 77, 77};
    struct dlr_err err = {0};

    assert_int_equal(dlr_topo_replace(nodes, n, place, 3, alive, got, &err), -ENOSPC);
    assert_string_equal(err.text, "2 nodes are lost and 1 are free: 1 short");
    assert_int_equal(got[0] + got[1] + got[2], 3 * 77);
}

/* --- a new order of those that have places ---------------------------------------- */

static void as_many_as_can_be_keep_their_places(void **state)
{
    static const struct {
        const char *nodes, *want; /* nodes at their places */
        unsigned group, moves, most;
    } rows[] = {
        {"s.a.n1 s.b.n7 s.a.n3 s.b.n4 s.b.n5 s.b.n6", "n1 n3 n7 n4 n5 n6", 1, 2, 1},
        {"s.a.n2 s.a.n1 s.b.n4 s.b.n3", "n2 n1 n4 n3", 1, 0, 0},
        {"n2 n1", "n2 n1", 1, 0, 0},
        {"s.b.n3 s.b.n4 s.a.n1 s.a.n2", "n1 n2 n3 n4", 1, 4, 2},
        {"s.a.n1 s.b.n3 s.a.n2 s.b.n4", "n1 n2 n3 n4", 2, 2, 1},
        {"s.a.~x.n1 s.a.~y.n3 s.a.~x.n2 s.a.~y.n4", "n1 n2 n3 n4", 2, 2, 0},
        {"s.a.n1", "n1", 1, 0, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_topo_node nodes[MAX];
        struct dlr_topo_moves moves;
        unsigned place[MAX];
        size_t n = nodes_from(rows[i].nodes, nodes);
        char got[256];

        for (size_t p = 0; p < n; p++)
            place[p] = (unsigned)p;
        print_message("  %s\n", rows[i].nodes);
        assert_int_equal(dlr_topo_renew(nodes, place, n, rows[i].group, place, &moves),
                         0);
        join(nodes, place, n, got, sizeof(got));
        assert_string_equal(got, rows[i].want);
        assert_int_equal(moves.nodes, rows[i].moves);
        assert_int_equal(moves.most, rows[i].most);
    }
}

/* As good as a fresh order, every node once, and nobody moves a second time. */
static void a_new_order_is_as_good_as_a_fresh_one(void **state)
{
    uint32_t seed = 7;

    for (unsigned round = 0; round < 300; round++) {
        struct dlr_topo_node nodes[MAX];
        unsigned place[MAX], fresh[MAX], to[MAX], seen[MAX] = {0}, n, group;
        struct dlr_topo_cost a, b;
        struct dlr_topo_moves moves;

        group = 1 + round % 3;
        n = group * (1 + (seed >> 8) % (MAX / group));
        for (unsigned i = 0; i < n; i++) {
            seed = seed * 1664525u + 1013904223u;
            dlr_format(nodes[i].name, sizeof(nodes[i].name), "n%u", i);
            dlr_format(nodes[i].path, sizeof(nodes[i].path), "s%u.l%u.n%u",
                       (seed >> 20) % 2, (seed >> 24) % 3, i);
            place[i] = i;
        }
        dlr_topo_order(nodes, n, to);
        assert_int_equal(dlr_topo_choose(nodes, to, n, n, group, fresh), 0);
        assert_int_equal(dlr_topo_renew(nodes, place, n, group, to, &moves), 0);
        assert_int_equal(dlr_topo_cost(nodes, fresh, n, group, &a), 0);
        assert_int_equal(dlr_topo_cost(nodes, to, n, group, &b), 0);
        assert_memory_equal(&a, &b, sizeof(a));
        for (unsigned p = 0; p < n; p++)
            assert_int_equal(seen[to[p]]++, 0);
        assert_int_equal(dlr_topo_renew(nodes, to, n, group, to, &moves), 0);
        assert_int_equal(moves.nodes, 0);
        assert_int_equal(moves.most, 0);
    }
}

static void many_nodes_are_ordered(void **state)
{
    const unsigned n = 16384;
    struct dlr_topo_node *nodes = calloc(n, sizeof(*nodes));
    unsigned *order = calloc(n, sizeof(*order)), i;
    int64_t t0;

    assert_non_null(nodes);
    assert_non_null(order);
    for (i = 0; i < n; i++) {
        unsigned id = (i * 7919u) % n;

        dlr_format(nodes[i].name, sizeof(nodes[i].name), "node%05u", id);
        dlr_format(nodes[i].path, sizeof(nodes[i].path), "core.pod%u.leaf%u.node%05u",
                   id % 32, id % 1024, id);
    }
    t0 = dlr_now_ns();
    dlr_topo_order(nodes, n, order);
    print_message("  16,384 nodes in %.1f ms\n", (double)(dlr_now_ns() - t0) / 1e6);
    for (i = 1; i < n; i++)
        assert_true(dlr_topo_common(&nodes[order[i - 1]], &nodes[order[i]]) >=
                    (i % 16    ? 3u
                     : i % 512 ? 2u
                               : 1u));
    free(nodes);
    free(order);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_of_a_leaf_stand_together),
        cmocka_unit_test(order_does_not_depend_on_the_order_given),
        cmocka_unit_test(a_name_with_dots_is_not_a_switch),
        cmocka_unit_test(only_lost_places_move),
        cmocka_unit_test(many_lost_nodes_are_replaced_from_near),
        cmocka_unit_test(too_few_nodes_are_counted_and_nothing_moves),
        cmocka_unit_test(as_many_as_can_be_keep_their_places),
        cmocka_unit_test(a_new_order_is_as_good_as_a_fresh_one),
        cmocka_unit_test(many_nodes_are_ordered),
    };

    return cmocka_run_group_tests_name("order", tests, NULL, NULL);
}
