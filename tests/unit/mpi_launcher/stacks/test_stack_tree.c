/* SPDX-License-Identifier: Apache-2.0 */
/* Merging stacks: sets of ranks, the tree, its lines and its text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_launcher/stacks/stack_rows.h"
#include "mpi_launcher/stacks/stack_tree.h"

#define MANY 131072

/* --- sets of ranks ---------------------------------------------------------------- */

static void lists_of_ranks_are_read_in_any_order(void **state)
{
    static const struct {
        const char *text, *same;
        size_t count;
    } rows[] = {
        {"0", "0", 1},
        {"0-4,6-15", "0-4,6-15", 15},
        {"6-15,0-4,5", "0-15", 16},
        {"7,3,5,4", "3-5,7", 4},
        {"16777215,0", "0,16777215", 2},
        {"1-3,2-9,0-20", "0-20", 21},
    };
    char text[64];

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_rank_set set;

        assert_int_equal(dlr_rank_set_parse(rows[i].text, &set, NULL), 0);
        assert_true(dlr_rank_set_text(&set, text, sizeof(text)));
        assert_string_equal(text, rows[i].same);
        assert_int_equal(dlr_rank_set_count(&set), rows[i].count);
        dlr_rank_set_done(&set);
    }
}

static void what_is_no_list_of_ranks_is_refused(void **state)
{
    static const char *const bad[] = {"",    ",",     "1,",  "1-",       "-1",
                                      "3-1", "a",     "1 2", "16777216", "1,,2",
                                      "0x1", "1-2-3", "1\n", "+1",       "99999999999"};
    struct dlr_err err = {0};
    struct dlr_rank_set set;

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        if (dlr_rank_set_parse(bad[i], &set, &err) != -EINVAL)
            fail_msg("'%s' was taken", bad[i]);
    dlr_rank_set_parse("x", &set, &err);
    assert_string_equal(err.text, "'x' is no list of ranks like 0-4,6");
}

/* Against a table of all ranks. */
static void random_sets_hold_what_was_put_in(void **state)
{
    enum { END = 300 };

    srand(7);
    for (unsigned round = 0; round < 200; round++) {
        struct dlr_rank_set set = {0};
        bool there[END] = {0};
        size_t count = 0;

        for (unsigned i = 0; i < 40; i++) {
            uint32_t first = (uint32_t)rand() % END,
                     last = first + (uint32_t)rand() % 8;

            last = last < END ? last : END - 1;
            assert_int_equal(dlr_rank_set_add(&set, first, last), 0);
            memset(there + first, 1, last - first + 1);
        }
        for (uint32_t r = 0; r < END; r++) {
            assert_int_equal(dlr_rank_set_has(&set, r), there[r]);
            count += there[r];
        }
        assert_int_equal(dlr_rank_set_count(&set), count);
        for (size_t i = 1; i < set.n; i++)
            assert_true(set.ranges[i - 1].last + 1 < set.ranges[i].first);
        dlr_rank_set_done(&set);
    }
}

static void a_long_set_is_cut_behind_a_range(void **state)
{
    struct dlr_rank_set set = {0};
    char text[32];

    for (uint32_t r = 0; r < 100; r += 2)
        assert_int_equal(dlr_rank_set_add(&set, r, r), 0);
    assert_false(dlr_rank_set_text(&set, text, sizeof(text)));
    assert_string_equal(text, "0,2,4,6,8,10,12,14,16,18,20,...");
    dlr_rank_set_done(&set);
}

/* --- the tree --------------------------------------------------------------------- */

static void put(struct dlr_stack_tree *tree, uint32_t rank, const char *words)
{
    char *copy = strdup(words), *save = NULL;
    const char *frames[16];
    size_t n = 0;

    for (char *w = strtok_r(copy, ";", &save); w; w = strtok_r(NULL, ";", &save))
        frames[n++] = w;
    assert_int_equal(dlr_stack_tree_add(tree, frames, n, rank), 0);
    free(copy);
}

static char *text_of(const struct dlr_stack_tree *tree)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    assert_int_equal(dlr_stack_tree_print(tree, f), 0);
    fclose(f);
    return text;
}

static void assert_text(const struct dlr_stack_tree *tree, const char *want)
{
    char *text = text_of(tree);

    assert_string_equal(text, want);
    free(text);
}

static void the_one_that_is_elsewhere_stands_first(void **state)
{
    struct dlr_stack_tree *tree = dlr_stack_tree_new(DLR_STACK_BYTES);

    for (uint32_t rank = 0; rank < 16; rank++)
        put(tree, rank,
            rank == 5 ? "train;main;step;load;read" : "train;main;step;MPI_Allreduce");
    assert_text(tree, "ranks 0-15\n"
                      "  train\n"
                      "  main\n"
                      "  step\n"
                      "  rank 5\n"
                      "    load\n"
                      "    read\n"
                      "  ranks 0-4,6-15\n"
                      "    MPI_Allreduce\n");
    dlr_stack_tree_free(tree);
}

static void equal_threads_of_one_rank_are_counted(void **state)
{
    struct dlr_stack_tree *tree = dlr_stack_tree_new(DLR_STACK_BYTES);

    put(tree, 3, "train;main;step");
    put(tree, 3, "train;pool;wait");
    put(tree, 3, "train;pool;wait");
    assert_text(tree, "rank 3, 3 threads\n"
                      "  train\n"
                      "  rank 3\n"
                      "    main\n"
                      "    step\n"
                      "  rank 3, 2 threads\n"
                      "    pool\n"
                      "    wait\n");
    dlr_stack_tree_free(tree);
}

static void a_stack_that_ends_earlier_is_not_lost(void **state)
{
    struct dlr_stack_tree *tree = dlr_stack_tree_new(DLR_STACK_BYTES);

    put(tree, 0, "main;step");
    put(tree, 1, "main");
    assert_text(tree, "ranks 0-1\n  main\n  rank 0\n    step\n");
    dlr_stack_tree_free(tree);
}

static void names_of_frames_steer_no_terminal(void **state)
{
    struct dlr_stack_tree *tree = dlr_stack_tree_new(DLR_STACK_BYTES);
    char longer[2 * DLR_STACK_FRAME];

    memset(longer, 'x', sizeof(longer));
    longer[sizeof(longer) - 1] = '\0';
    put(tree, 0, "\x1b[2Jmain\n\xc3\xa9\x7f");
    put(tree, 1, longer);
    assert_string_equal(dlr_stack_tree_node(tree, 0)->frame, "?[2Jmain????");
    assert_int_equal(strlen(dlr_stack_tree_node(tree, 1)->frame), DLR_STACK_FRAME - 1);
    dlr_stack_tree_free(tree);
}

static void a_full_tree_says_what_it_lost(void **state)
{
    struct dlr_stack_tree *tree = dlr_stack_tree_new(4096);
    char words[64], *text;

    for (uint32_t i = 0; i < 1000; i++) {
        snprintf(words, sizeof(words), "main;f%u", i);
        put(tree, i, words);
    }
    assert_true(dlr_stack_tree_lost(tree) > 900);
    text = text_of(tree);
    assert_non_null(strstr(text, "frames more than fit are left out\n"));
    free(text);
    dlr_stack_tree_free(tree);
}

static void a_deep_stack_ends_at_the_limit(void **state)
{
    struct dlr_stack_tree *tree = dlr_stack_tree_new(DLR_STACK_BYTES);
    const char *frames[2 * DLR_STACK_DEPTH];

    for (size_t i = 0; i < 2 * DLR_STACK_DEPTH; i++)
        frames[i] = "again";
    assert_int_equal(dlr_stack_tree_add(tree, frames, 2 * DLR_STACK_DEPTH, 0), 0);
    assert_int_equal(dlr_stack_tree_count(tree), DLR_STACK_DEPTH);
    assert_int_equal(dlr_stack_tree_lost(tree), 1);
    free(text_of(tree));
    dlr_stack_tree_free(tree);
}

static void all_ranks_of_a_large_job_make_one_small_tree(void **state)
{
    struct dlr_stack_tree *tree = dlr_stack_tree_new(DLR_STACK_BYTES);

    for (uint32_t rank = 0; rank < MANY; rank++)
        put(tree, rank * 7919 % MANY,
            rank == 5 ? "train;main;read" : "train;main;wait");
    assert_int_equal(dlr_stack_tree_count(tree), 4);
    assert_int_equal(dlr_stack_tree_lost(tree), 0);
    assert_int_equal(dlr_rank_set_count(&dlr_stack_tree_node(tree, 0)->ranks), MANY);
    assert_int_equal(dlr_stack_tree_node(tree, 0)->ranks.n, 1);
    dlr_stack_tree_free(tree);
}

/* --- lines ------------------------------------------------------------------------ */

static void feed(struct dlr_stack_reader *r, const char *text)
{
    while (*text) {
        size_t len = strcspn(text, "\n");

        assert_true(len < DLR_STACK_ROW);
        assert_int_equal(dlr_stack_reader_take(r, text, len), 0);
        text += len + (text[len] == '\n');
    }
}

static char *rows_of(const struct dlr_stack_tree *tree, const char *node)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    dlr_stack_rows_write(tree, f);
    dlr_stack_rows_note(f, "rank 1: a \"note\"\n");
    dlr_stack_rows_end(f, node);
    fclose(f);
    return text;
}

static void trees_of_two_nodes_become_one(void **state)
{
    struct dlr_stack_tree *all = dlr_stack_tree_new(DLR_STACK_BYTES);

    for (uint32_t node = 0; node < 2; node++) {
        struct dlr_stack_tree *tree = dlr_stack_tree_new(DLR_STACK_BYTES);
        struct dlr_stack_reader r;
        char *rows;

        put(tree, 2 * node, "main;step \"x\"\\");
        put(tree, 2 * node + 1, node ? "main;read" : "main;step \"x\"\\");
        rows = rows_of(tree, "n1");
        dlr_stack_reader_init(&r, all);
        feed(&r, rows);
        assert_true(r.ended);
        assert_string_equal(r.node, "n1");
        assert_int_equal(r.bad, 0);
        assert_string_equal(json_string_value(json_array_get(r.notes, 0)),
                            "rank 1: a \"note\" ");
        dlr_stack_reader_done(&r);
        dlr_stack_tree_free(tree);
        free(rows);
    }
    assert_text(all, "ranks 0-3\n  main\n  rank 3\n    read\n"
                     "  ranks 0-2\n    step \"x\"\\\n");
    dlr_stack_tree_free(all);
}

/* Every second rank of a node: no line becomes longer than it may. */
static void a_ragged_set_takes_several_lines(void **state)
{
    struct dlr_stack_tree *tree = dlr_stack_tree_new(DLR_STACK_BYTES);
    struct dlr_stack_tree *all = dlr_stack_tree_new(DLR_STACK_BYTES);
    struct dlr_stack_reader r;
    char *rows;

    for (uint32_t rank = 0; rank < 2000; rank += 2)
        put(tree, 16000000 + rank, "main");
    rows = rows_of(tree, "n1");
    dlr_stack_reader_init(&r, all);
    feed(&r, rows);
    assert_int_equal(r.bad, 0);
    assert_true(dlr_rank_set_equal(&dlr_stack_tree_node(all, 0)->ranks,
                                   &dlr_stack_tree_node(tree, 0)->ranks));
    assert_int_equal(dlr_stack_tree_node(all, 0)->threads, 1000);
    dlr_stack_reader_done(&r);
    dlr_stack_tree_free(tree);
    dlr_stack_tree_free(all);
    free(rows);
}

static void lines_that_are_none_are_counted(void **state)
{
    static const char *const bad[] = {
        "",
        "nonsense",
        "[]",
        "[0,-1,\"main\",\"0\"]",
        "[1,-1,\"main\",\"0\",1]", /* not the next one */
        "[0,0,\"main\",\"0\",1]",  /* its own parent */
        "[0,-2,\"main\",\"0\",1]",
        "[0,-1,\"main\",\"x\",1]",
        "[0,-1,\"main\",\"0\",-1]",
        "[0,-1,7,\"0\",1]",
        "[0,-1,\"main\",\"0\",1]x",
        "{\"end\":\"\"}",
        "{\"end\":7}",
        "{\"other\":\"n1\"}",
        "{\"end\":\"a\",\"end\":\"b\"}",
    };
    struct dlr_stack_tree *tree = dlr_stack_tree_new(DLR_STACK_BYTES);
    struct dlr_stack_reader r;

    dlr_stack_reader_init(&r, tree);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_int_equal(dlr_stack_reader_take(&r, bad[i], strlen(bad[i])), 0);
        if (r.bad != i + 1)
            fail_msg("'%s' was taken", bad[i]);
    }
    assert_false(r.ended);
    assert_int_equal(dlr_stack_tree_count(tree), 0);
    dlr_stack_reader_done(&r);
    dlr_stack_tree_free(tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_ranks_are_read_in_any_order),
        cmocka_unit_test(what_is_no_list_of_ranks_is_refused),
        cmocka_unit_test(random_sets_hold_what_was_put_in),
        cmocka_unit_test(a_long_set_is_cut_behind_a_range),
        cmocka_unit_test(the_one_that_is_elsewhere_stands_first),
        cmocka_unit_test(equal_threads_of_one_rank_are_counted),
        cmocka_unit_test(a_stack_that_ends_earlier_is_not_lost),
        cmocka_unit_test(names_of_frames_steer_no_terminal),
        cmocka_unit_test(a_full_tree_says_what_it_lost),
        cmocka_unit_test(a_deep_stack_ends_at_the_limit),
        cmocka_unit_test(all_ranks_of_a_large_job_make_one_small_tree),
        cmocka_unit_test(trees_of_two_nodes_become_one),
        cmocka_unit_test(a_ragged_set_takes_several_lines),
        cmocka_unit_test(lines_that_are_none_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
