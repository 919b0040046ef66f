/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank is on which node: when it is known, and what is said until then. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mpi_launcher/plan/rank_map.h"

static const char *const names[] = {"n1", "n2", "n3"};

struct row {
    const char *name;
    const char *told[3]; /* of each node: "rank/world", 's' behind it: served; "lost" */
    enum dlr_rankmap_state state;
    const char *said; /* nodes of the ranks, or why */
};

static const struct row rows[] = {
    {"nobody is there", {"", "", ""}, DLR_RANKMAP_OPEN, ""},
    {"two a node, in the nodes' order",
     {"0/4 1/4", "2/4 3/4", ""},
     DLR_RANKMAP_WHOLE,
     "0 0 1 1"},
    {"in the launcher's", {"2/4 3/4", "", "1/4 0/4"}, DLR_RANKMAP_WHOLE, "2 2 0 0"},
    {"other numbers on each", {"0/4", "3/4 1/4 2/4", ""}, DLR_RANKMAP_WHOLE, "0 1 1 1"},
    {"only the first rank opens",
     {"0/4", "", ""},
     DLR_RANKMAP_OPEN,
     "3 of 4 ranks have not opened their checkpoint: ranks 1-3"},
    {"one is missing",
     {"0/3", "2/3", ""},
     DLR_RANKMAP_OPEN,
     "1 of 3 ranks have not opened their checkpoint: rank 1"},
    {"every second is missing",
     {"1/20 3/20 5/20 7/20 9/20 11/20 13/20 15/20 17/20 19/20", "", ""},
     DLR_RANKMAP_OPEN,
     "10 of 20 ranks have not opened their checkpoint: ranks 0, 2, 4, 6, 8, 10, 12, 14 "
     "and more"},
    {"another program on each node",
     {"0/2 1/2", "1/2 0/2", ""},
     DLR_RANKMAP_TORN,
     "rank 1 of 2 is there twice, on node n1 and on node n2"},
    {"a rank moves: the old one is there still",
     {"0/3", "0/3 1/3", ""},
     DLR_RANKMAP_OPEN,
     "1 of 3 ranks have not opened their checkpoint: rank 2; rank 0 of 3 is there "
     "twice, on "
     "node n1 and on node n2"},
    {"two numbers of ranks",
     {"0/4 1/4", "0/2", ""},
     DLR_RANKMAP_OPEN,
     "on node n1 a process says that it is one of 4 ranks, on node n2 one of 2"},
    {"some were where the round has them",
     {"0/2s", "1/2", ""},
     DLR_RANKMAP_WHOLE,
     "0 1"},
    {"all have started again", {"0/2 1/2 lost", "lost", ""}, DLR_RANKMAP_WHOLE, "0 0"},
    {"fewer have", {"0/1 lost", "lost", ""}, DLR_RANKMAP_WHOLE, "0"},
    {"one has started again alone",
     {"0/2 lost", "1/2s", ""},
     DLR_RANKMAP_OPEN,
     "1 of 2 ranks have not opened their checkpoint: rank 1"},
    {"all are there again, and one of before",
     {"0/2 1/2 lost", "1/2s", ""},
     DLR_RANKMAP_OPEN,
     "1 processes of a former start of the program have their checkpoint open still"},
};

static void tell(struct dlr_rankmap *map, unsigned node, const char *text)
{
    struct dlr_rankmap_claim claims[32];
    char *copy = strdup(text), *rest = NULL;
    unsigned n = 0;
    bool lost = false;

    for (char *word = strtok_r(copy, " ", &rest); word;
         word = strtok_r(NULL, " ", &rest)) {
        char mark = '\0';

        if (strcmp(word, "lost") == 0) {
            lost = true;
            continue;
        }
        assert_true(sscanf(word, "%u/%u%c", &claims[n].rank, &claims[n].world, &mark) >=
                    2);
        claims[n++].served = mark == 's';
    }
    assert_int_equal(dlr_rankmap_tell(map, node, claims, n, lost), 0);
    free(copy);
}

static void every_row(void **state)
{
    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_rankmap *map = dlr_rankmap_new(3);
        char why[DLR_RANKMAP_TEXT], text[256] = "";
        unsigned *nodes = NULL, world = 0;

        print_message("%s\n", rows[i].name);
        for (unsigned n = 0; n < 3; n++)
            tell(map, n, rows[i].told[n]);
        assert_int_equal(dlr_rankmap_look(map, names, &nodes, &world, why),
                         (int)rows[i].state);
        for (unsigned r = 0; r < world; r++)
            sprintf(text + strlen(text), "%s%u", r ? " " : "", nodes[r]);
        assert_string_equal(world ? text : why, rows[i].said);
        free(nodes);
        dlr_rankmap_free(map);
    }
}

static void a_node_says_all_it_has_each_time(void **state)
{
    struct dlr_rankmap *map = dlr_rankmap_new(3);
    char why[DLR_RANKMAP_TEXT];
    unsigned *nodes, world;

    tell(map, 0, "0/2 1/2");
    assert_true(dlr_rankmap_waits(map));
    tell(map, 0, "0/2s");
    assert_false(dlr_rankmap_waits(map));
    tell(map, 1, "1/2");
    tell(map, 0, "");
    tell(map, 2, "0/2");
    assert_int_equal(dlr_rankmap_look(map, names, &nodes, &world, why),
                     DLR_RANKMAP_WHOLE);
    assert_int_equal(nodes[0], 2);
    free(nodes);
    dlr_rankmap_free(map);
}

/* A program of its own on one node, beside ranks that others have not told yet. */
static void nothing_is_whole_before_all_have_spoken(void **state)
{
    struct dlr_rankmap *map = dlr_rankmap_new(3);
    char why[DLR_RANKMAP_TEXT];
    unsigned *nodes, world;

    dlr_rankmap_await(map, 0);
    dlr_rankmap_await(map, 1);
    tell(map, 0, "0/1");
    assert_int_equal(dlr_rankmap_look(map, names, &nodes, &world, why),
                     DLR_RANKMAP_OPEN);
    assert_string_equal(why, "node n2 has not said which ranks it has");
    tell(map, 1, "0/2s 1/2s");
    assert_int_equal(dlr_rankmap_look(map, names, &nodes, &world, why),
                     DLR_RANKMAP_OPEN);
    assert_non_null(strstr(why, "on node n2 one of 2"));
    tell(map, 1, "");
    assert_int_equal(dlr_rankmap_look(map, names, &nodes, &world, why),
                     DLR_RANKMAP_WHOLE);
    free(nodes);
    dlr_rankmap_free(map);
}

static void what_cannot_be_is_refused(void **state)
{
    struct dlr_rankmap *map = dlr_rankmap_new(2);
    const struct dlr_rankmap_claim beyond = {.rank = 2, .world = 2},
                                   none = {.rank = 0, .world = 0},
                                   many = {.rank = 0, .world = 1u << 30};

    assert_int_equal(dlr_rankmap_tell(map, 0, &beyond, 1, false), -EINVAL);
    assert_int_equal(dlr_rankmap_tell(map, 0, &none, 1, false), -EINVAL);
    assert_int_equal(dlr_rankmap_tell(map, 0, &many, 1, false), -EINVAL);
    assert_int_equal(dlr_rankmap_tell(map, 2, NULL, 0, false), -EINVAL);
    dlr_rankmap_free(map);
    assert_null(dlr_rankmap_free(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row),
        cmocka_unit_test(a_node_says_all_it_has_each_time),
        cmocka_unit_test(nothing_is_whole_before_all_have_spoken),
        cmocka_unit_test(what_cannot_be_is_refused),
    };

    return cmocka_run_group_tests_name("rankmap", tests, NULL, NULL);
}
