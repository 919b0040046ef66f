/* SPDX-License-Identifier: Apache-2.0 */
/* Which nodes train and at which place, against every way to place them. */
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

#define MAX 7
#define LEVELS 4

/* What the objective counts, most important first: groups that are not whole, then
 * neighbours apart, each from the deepest level up.
 */
struct score {
    unsigned split[LEVELS], apart[LEVELS];
};

struct tree {
    struct dlr_topo_node nodes[MAX];
    unsigned n, depth;
    unsigned at[MAX][LEVELS]; /* number of the switch that a node is under, by level */
};

/* The path down to a level, of a node with fewer switches all of it. */
static size_t prefix(const struct dlr_topo_node *node, unsigned level)
{
    size_t above = strlen(node->path) - strlen(node->name), i = 0;

    for (; i < above; i++)
        if (node->path[i] == '.' && level-- == 1)
            return i;
    return above ? above - 1 : 0;
}

static void number_switches(struct tree *t)
{
    for (unsigned level = 0; level < LEVELS; level++)
        for (unsigned i = 0; i < t->n; i++) {
            size_t size = prefix(&t->nodes[i], level + 1);
            unsigned k = 0;

            while (prefix(&t->nodes[k], level + 1) != size ||
                   memcmp(t->nodes[k].path, t->nodes[i].path, size) != 0)
                k++;
            t->at[i][level] = k;
        }
}

/* Up to four levels, of uneven depth, the lowest one here and there a domain. */
static void grow(struct tree *t, unsigned n)
{
    unsigned wide = 1 + (unsigned)rand() % 3;

    memset(t, 0, sizeof(*t));
    t->n = n;
    for (unsigned i = 0; i < n; i++) {
        unsigned depth = (unsigned)rand() % (LEVELS + 1);
        char path[64] = "";

        for (unsigned level = 0; level < depth; level++) {
            size_t used = strlen(path);

            dlr_format(path + used, sizeof(path) - used, "%ss%u.",
                       level == LEVELS - 1 ? "~" : "", (unsigned)rand() % wide);
        }
        dlr_format(t->nodes[i].name, sizeof(t->nodes[i].name), "n%u", n - i);
        dlr_format(t->nodes[i].path, sizeof(t->nodes[i].path), "%sn%u", path, n - i);
        t->depth = depth > t->depth ? depth : t->depth;
    }
    number_switches(t);
}

static void count(const struct tree *t, const unsigned *place, unsigned m,
                  unsigned group, struct score *ret)
{
    memset(ret, 0, sizeof(*ret));
    for (unsigned level = LEVELS; level-- > 0;) {
        unsigned row = LEVELS - 1 - level;

        for (unsigned p = 0; p < m; p++)
            ret->apart[row] +=
                t->at[place[p]][level] != t->at[place[(p + 1) % m]][level];
        for (unsigned g = 0; g < m; g += group) {
            bool whole = true;

            for (unsigned k = 1; k < group; k++)
                whole = whole && t->at[place[g + k]][level] == t->at[place[g]][level];
            ret->split[row] += !whole;
        }
    }
}

static int cmp(const unsigned *a, const unsigned *b)
{
    for (unsigned i = 0; i < LEVELS; i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return 0;
}

static void try_all(const struct tree *t, unsigned *place, unsigned at, unsigned m,
                    unsigned used, unsigned group, struct score *best)
{
    struct score s;
    int rc;

    if (at < m) {
        for (unsigned i = 0; i < t->n; i++)
            if (!(used & 1u << i)) {
                place[at] = i;
                try_all(t, place, at + 1, m, used | 1u << i, group, best);
            }
        return;
    }
    count(t, place, m, group, &s);
    rc = cmp(s.split, best->split);
    if (rc < 0 || (rc == 0 && cmp(s.apart, best->apart) < 0))
        *best = s;
}

static void check(const struct tree *t, unsigned m, unsigned group)
{
    unsigned order[MAX], place[MAX], all[MAX], seen = 0;
    struct score got, best;
    char text[256] = "";

    memset(&best, 0xff, sizeof(best));
    dlr_topo_order(t->nodes, t->n, order);
    assert_int_equal(dlr_topo_choose(t->nodes, order, t->n, m, group, place), 0);
    for (unsigned p = 0; p < m; p++) {
        assert_false(seen & 1u << place[p]);
        seen |= 1u << place[p];
        strcat(strcat(text, " "), t->nodes[place[p]].path);
    }
    count(t, place, m, group, &got);
    try_all(t, all, 0, m, 0, group, &best);
    if (cmp(got.split, best.split) || (!got.split[0] && cmp(got.apart, best.apart)))
        fail_msg("%u of %u in groups of %u:%s", m, t->n, group, text);
}

static void no_choice_of_nodes_and_order_does_better(void **state)
{
    struct tree t;

    srand(16);
    for (unsigned round = 0; round < 1500; round++) {
        unsigned n = 1 + (unsigned)rand() % (round < 150 ? MAX : MAX - 1);
        unsigned m = 1 + (unsigned)rand() % n, group = 1 + (unsigned)rand() % m;

        grow(&t, n);
        check(&t, m, 1);
        if (m % group == 0)
            check(&t, m, group);
    }
}

struct row {
    const char *nodes; /* leaf and how many are on it, in order */
    unsigned nplaces, group;
    const char *want; /* leaves of the places, and | between groups */
};

static size_t make(const char *text, struct dlr_topo_node *nodes)
{
    size_t n = 0;

    while (*text) {
        size_t size = strcspn(text, ":");
        unsigned each = (unsigned)(text[size + 1] - '0');

        for (unsigned i = 0; i < each; i++, n++) {
            dlr_format(nodes[n].name, sizeof(nodes[n].name), "n%zu", n);
            dlr_format(nodes[n].path, sizeof(nodes[n].path), "%.*s.n%zu", (int)size,
                       text, n);
        }
        text += size + 2;
        text += *text == ' ';
    }
    return n;
}

static void groups_and_spares_are_where_the_text_says(void **state)
{
    static const struct row rows[] = {
        /* every leaf keeps a spare near */
        {"s.a:4 s.b:4", 6, 1, "aaabbb"},
        {"s.a:5 s.b:3", 6, 1, "aaabbb"},
        {"s.a:4 s.b:4 s.c:4", 10, 1, "aaaabbbccc"},
        /* a leaf that spares can empty is not entered */
        {"s.a:4 s.b:1 s.c:4", 8, 1, "aaaacccc"},
        {"s.a:4 s.b:2 s.c:4", 8, 1, "aaaacccc"},
        {"s.a:4 s.b:2 s.c:4", 9, 1, "aaaabbccc"},
        /* of two that are as small the one that ends its spine */
        {"s.a:2 s.b:2 t.c:2", 4, 1, "aabb"},
        {"s.a:2 s.b:2 t.c:2 t.d:3", 7, 1, "aabbddd"},
        {"u.s.a:2 u.s.b:2 u.t.c:2", 4, 1, "aabb"},
        {"a:2", 2, 1, "aa"},
        /* groups */
        {"s.a:4 s.b:4", 8, 4, "aaaa|bbbb"},
        {"s.a:5 s.b:5", 8, 4, "aaaa|bbbb"},
        {"s.a:5 s.b:3", 4, 4, "aaaa"},
        {"s.a:5 s.b:5", 10, 2, "aa|aa|bb|bb|ab"},
        {"s.a:3 s.b:3 t.c:3 t.d:3", 12, 2, "aa|bb|ab|cc|dd|cd"},
        {"s.a:6 s.b:6 s.c:6", 12, 4, "aaaa|bbbb|cccc"},
        /* no leaf has two groups and a spare, and none is emptied for nothing */
        {"s.a:8 s.b:8 s.c:4", 16, 4, "aaaa|aaaa|bbbb|bbbb"},
        {"s.a:2 s.b:2", 4, 4, "aabb"},
        /* domains before leaves */
        {"s.a.~0:3 s.a.~1:3 s.b.~0:2", 6, 2, "00|11|00"},
        {"s.a.~0:3 s.a.~1:3", 6, 2, "00|11|01"},
        {"s.a.~0:2 s.a.~1:2 s.b.~2:2", 4, 4, "0011"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_topo_node nodes[32];
        unsigned order[32], place[32];
        size_t n = make(rows[i].nodes, nodes);
        char got[64] = "";

        print_message("  %u of %s by %u\n", rows[i].nplaces, rows[i].nodes,
                      rows[i].group);
        dlr_topo_order(nodes, n, order);
        assert_int_equal(
            dlr_topo_choose(nodes, order, n, rows[i].nplaces, rows[i].group, place), 0);
        for (unsigned p = 0; p < rows[i].nplaces; p++) {
            const char *path = nodes[place[p]].path;

            if (p && rows[i].group > 1 && p % rows[i].group == 0)
                strcat(got, "|");
            strncat(got, strrchr(path, '.') - 1, 1);
        }
        assert_string_equal(got, rows[i].want);
    }
}

static void what_an_order_costs_is_counted(void **state)
{
    static const struct {
        const char *nodes;
        unsigned group;
        struct dlr_topo_cost want;
    } rows[] = {
        {"s.a:4", 2, {0, 0, 0, 0, 0}},
        {"s.a:2 s.b:2", 2, {2, 2, 0, 0, 0}},
        {"s.a:1 s.b:1", 2, {2, 2, 1, 0, 2}},
        {"s.a:2 s.b:1 s.a:1", 2, {2, 2, 1, 1, 2}},
        {"s.a:1 s.b:1 s.a:1 s.b:1", 1, {4, 2, 0, 0, 0}},
        {"s.a.~0:2 s.a.~1:2", 4, {0, 0, 0, 0, 0}},
        {"s.a:3 s.b:2 s.c:1", 3, {3, 3, 1, 1, 2}},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_topo_node nodes[32];
        unsigned place[32];
        size_t n = make(rows[i].nodes, nodes);
        struct dlr_topo_cost got;

        print_message("  %s by %u\n", rows[i].nodes, rows[i].group);
        for (unsigned p = 0; p < n; p++)
            place[p] = p;
        assert_int_equal(dlr_topo_cost(nodes, place, n, rows[i].group, &got), 0);
        assert_memory_equal(&got, &rows[i].want, sizeof(got));
    }
}

/* Each second leaf is small enough for the spares to empty it. */
static void many_nodes_are_chosen(void **state)
{
    const unsigned n = 16384;
    struct dlr_topo_node *nodes = calloc(n, sizeof(*nodes));
    unsigned *order = calloc(n, sizeof(*order)), *place = calloc(n, sizeof(*place));
    struct dlr_topo_cost cost;
    int64_t t0;

    for (unsigned i = 0; i < n; i++) {
        dlr_format(nodes[i].name, sizeof(nodes[i].name), "n%u", i);
        dlr_format(nodes[i].path, sizeof(nodes[i].path), "c.p%u.l%u.n%u", i / 512,
                   i / 32 * 2 + (i % 32 > 19), i);
    }
    dlr_topo_order(nodes, n, order);
    for (unsigned group = 1; group <= 4; group += 3) {
        t0 = dlr_now_ns();
        assert_int_equal(dlr_topo_choose(nodes, order, n, n - 160, group, place), 0);
        print_message("  16,384 nodes, 160 spares, groups of %u in %.1f ms\n", group,
                      (double)(dlr_now_ns() - t0) / 1e6);
        assert_int_equal(dlr_topo_cost(nodes, place, n - 160, group, &cost), 0);
        assert_int_equal(cost.split, 0);
        /* 12 of a small leaf: 13 of these go whole */
        assert_int_equal(cost.apart, 1024 - 13);
        assert_int_equal(cost.least, cost.apart);
    }
    free(nodes);
    free(order);
    free(place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_choice_of_nodes_and_order_does_better),
        cmocka_unit_test(groups_and_spares_are_where_the_text_says),
        cmocka_unit_test(what_an_order_costs_is_counted),
        cmocka_unit_test(many_nodes_are_chosen),
    };

    return cmocka_run_group_tests_name("choose", tests, NULL, NULL);
}
