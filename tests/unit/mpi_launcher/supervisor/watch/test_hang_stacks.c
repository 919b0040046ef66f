/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=mpi_launcher/supervisor/watch */
/* The stacks of a round that stands: who is asked, what their answers become. The agents
 * are played.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/json/message.h"
#include "mpi_launcher/supervisor/watch/stack_place.h"
#include "mpi_launcher/supervisor/watch/stacks.h"
#include "watch/judge/judge.h"

#define RANKS 1024
#define OF_A_NODE 8
#define NODES (RANKS / OF_A_NODE)

static struct dlr_plan_place places[NODES];
static unsigned place_of[RANKS];
static uint8_t parts[RANKS];

static struct rig {
    struct dlr_sup_stacks *stacks;
    struct dlr_plan plan;
    char asked[2048]; /* "n1:0-3 n2:8;" */
    uint64_t id;
    unsigned done, nodes, silent;
    char words[512], place[512], ranks[512], text[4096];
} rig;

static void on_ask(void *arg, const char *node, uint32_t round, uint64_t id,
                   const char *ranks)
{
    size_t at = strlen(rig.asked);

    assert_int_equal(round, 3);
    rig.id = id;
    snprintf(rig.asked + at, sizeof(rig.asked) - at, "%s:%s ", node, ranks);
}

static void on_done(void *arg, const struct dlr_sup_stacks_found *found)
{
    rig.done++;
    rig.nodes = found->nodes;
    rig.silent = found->silent;
    assert_int_equal(found->hang.round, 3);
    snprintf(rig.words, sizeof(rig.words), "%s", found->hang.words);
    snprintf(rig.place, sizeof(rig.place), "%s", found->hang.place);
    snprintf(rig.ranks, sizeof(rig.ranks), "%s", found->ranks);
    snprintf(rig.text, sizeof(rig.text), "%s", found->text ? found->text : "none");
}

static const struct dlr_sup_stacks_ops ops = {.ask = on_ask, .done = on_done};

static int setup(void **state)
{
    rig = (struct rig){
        .plan = {
            .nplaces = NODES, .world = RANKS, .places = places, .place_of = place_of}};
    for (unsigned i = 0; i < NODES; i++)
        snprintf(places[i].node.name, sizeof(places[i].node.name), "n%u", i + 1);
    for (unsigned r = 0; r < RANKS; r++) {
        place_of[r] = r / OF_A_NODE;
        parts[r] = DLR_PART_BUSY;
    }
    rig.stacks = dlr_sup_stacks_new(&ops, &rig);
    return rig.stacks ? 0 : -1;
}

static int teardown(void **state)
{
    rig.stacks = dlr_sup_stacks_free(rig.stacks);
    return 0;
}

static void begin(uint32_t first)
{
    dlr_sup_stacks_begin(rig.stacks,
                         &(struct dlr_sup_hang){.round = 3,
                                                .words = "rank 9 (n2) stands",
                                                .place = "hang: rank 9 stands",
                                                .parts = parts,
                                                .first = first,
                                                .one = true},
                         &rig.plan, 1000);
}

static void answer_as(const char *node, uint32_t round, uint64_t id, const char *text)
{
    json_t *msg = dlr_msg_new("stacks");

    json_object_set_new(msg, "round", json_integer(round));
    json_object_set_new(msg, "id", json_integer((json_int_t)id));
    json_object_set_new(msg, "text", json_string(text));
    dlr_sup_stacks_take(rig.stacks, node, msg);
    json_decref(msg);
}

static void tick(int64_t now_ms)
{
    dlr_sup_stacks_tick(rig.stacks, true, 3, now_ms);
}

#define ONE                                                                            \
    "[0,-1,\"python3\",\"9\",1]\n[1,0,\"main (train.py:88)\",\"9\",1]\n"               \
    "[2,1,\"read (libc.so.6)\",\"9\",1]\n[3,2,\"[read of /data/x]\",\"9\",1]\n"        \
    "{\"end\":\"n2\"}\n"
#define OTHER                                                                          \
    "[0,-1,\"python3\",\"0\",1]\n[1,0,\"main (train.py:90)\",\"0\",1]\n"               \
    "[2,1,\"[runs]\",\"0\",1]\n{\"note\":\"rank 1: process 7 cannot be read\"}\n"      \
    "{\"end\":\"n1\"}\n"

/* Rank 9 of n2 is to blame, 0 and 1 of n1 wait. */
static void begin_small(void)
{
    parts[9] = DLR_PART_CULPRIT;
    parts[0] = parts[1] = DLR_PART_WAITS;
    begin(9);
    assert_string_equal(rig.asked, "n1:0-1 n2:9 ");
    assert_true(dlr_sup_stacks_busy(rig.stacks));
}

static void answers_become_one_text_and_say_where_it_is(void **state)
{
    begin_small();
    answer_as("n2", 3, rig.id, ONE);
    tick(1010);
    assert_int_equal(rig.done, 0);
    answer_as("n1", 3, rig.id, OTHER);
    tick(1020);
    assert_int_equal(rig.done, 1);
    assert_false(dlr_sup_stacks_busy(rig.stacks));
    assert_string_equal(rig.words, "rank 9 (n2) stands; it is in read of /data/x, main "
                                   "(train.py:88)");
    assert_string_equal(rig.place, "hang: rank 9 stands");
    assert_string_equal(rig.ranks, "0-1,9");
    assert_non_null(strstr(rig.text, "round 3: rank 9 (n2) stands; it is in"));
    assert_non_null(strstr(rig.text, "\nn1: rank 1: process 7 cannot be read\n"));
    assert_non_null(strstr(rig.text, "\nranks 0,9\n  python3\n  rank 0\n"));
    assert_int_equal(rig.silent, 0);
    tick(4000);
    assert_int_equal(rig.done, 1);
}

static void who_does_not_answer_is_waited_for_two_seconds(void **state)
{
    begin_small();
    answer_as("n1", 3, rig.id, OTHER);
    tick(2999);
    assert_int_equal(rig.done, 0);
    tick(3000);
    assert_int_equal(rig.done, 1);
    assert_int_equal(rig.silent, 1);
    assert_string_equal(rig.words, "rank 9 (n2) stands");
    assert_non_null(strstr(rig.text, "\nn2 has not answered\n"));
}

/* Ptrace is refused everywhere, or all agents are dead. */
static void without_any_stack_it_ends_as_well(void **state)
{
    begin_small();
    answer_as("n1", 3, rig.id, "");
    answer_as("n2", 3, rig.id, "");
    tick(1050);
    assert_int_equal(rig.done, 1);
    assert_string_equal(rig.text, "none");
    assert_string_equal(rig.words, "rank 9 (n2) stands");
}

static void what_does_not_fit_is_dropped(void **state)
{
    begin_small();
    answer_as("n2", 4, rig.id, ONE);
    answer_as("n2", 3, rig.id + 1, ONE);
    answer_as("n3", 3, rig.id, ONE);
    answer_as("n2", 3, rig.id, "}[\n\n[7,3,\"a\",\"x\",-1]\n[0,-1]\n\"text\"");
    answer_as("n2", 3, rig.id, ONE); /* it has answered */
    tick(1050);
    assert_int_equal(rig.done, 0);
    answer_as("n1", 3, rig.id, OTHER);
    tick(1100);
    assert_int_equal(rig.done, 1);
    assert_string_equal(rig.words, "rank 9 (n2) stands");
    assert_non_null(strstr(rig.text, "\nn2 has not said all\n"));
}

static void of_a_round_that_is_over_nothing_is_told(void **state)
{
    begin_small();
    dlr_sup_stacks_tick(rig.stacks, true, 4, 1050);
    tick(5000);
    rig.asked[0] = '\0';
    begin_small();
    dlr_sup_stacks_tick(rig.stacks, false, 3, 1050);
    tick(5000);
    assert_int_equal(rig.done, 0);
    assert_false(dlr_sup_stacks_busy(rig.stacks));
}

/* 512 culprits, 504 that wait. */
static void of_many_ranks_some_are_asked_for(void **state)
{
    for (unsigned r = 0; r < RANKS; r++)
        parts[r] = r < 512 ? DLR_PART_CULPRIT : DLR_PART_WAITS;
    begin(0);
    assert_string_equal(rig.asked,
                        "n1:0-3 n2:8-11 n3:16-19 n4:24-27 n65:512-513 n66:520-521 "
                        "n67:528-529 n68:536-537 n69:544-545 n70:552-553 n71:560-561 "
                        "n72:568-569 ");
}

static void nobody_to_ask_is_no_wait(void **state)
{
    begin(9);
    assert_int_equal(rig.done, 1);
    assert_int_equal(rig.nodes, 0);
}

/* --- in a few words --------------------------------------------------------------- */

static const struct {
    const char *frames[8]; /* of one thread */
    const char *more[8];   /* of another */
    const char *want;
} stands[] = {
    {{"python3", "main (train.py:90)", "batch (data.py:31)", "read (libc.so.6)",
      "[read of /data/x]"},
     {"python3", "thread 'pt_autograd_0'", "x (a.py:1)", "[futex (a lock)]"},
     "; it is in read of /data/x, batch (data.py:31)"},
    {{"stand", "main (stand.c:12)", "spin (stand.c:7)", "[runs]"},
     {NULL},
     "; it runs in spin (stand.c:7)"},
    {{"stand", "main (stand.c:12)", "pause (libc.so.6)", "[stopped by a signal]"},
     {NULL},
     "; it is in main (stand.c:12)"},
    {{"bash", "main (bash)", "wait4 (libc.so.6)", "[wait4]"},
     {"stand", "main (stand.c:12)", "recv (libc.so.6)", "[recv of TCP to 10.0.0.7:1]"},
     "; it is in recv of TCP to 10.0.0.7:1, main (stand.c:12)"},
    {{"stand", "[stopped by a signal]"}, {NULL}, "; it is in stopped by a signal"},
    {{"stand", "poll (libc.so.6)", "[poll]"},
     {NULL},
     "; it is in poll, poll (libc.so.6)"},
    {{NULL}, {NULL}, ""},
};

static void add(struct dlr_stack_tree *tree, const char *const frames[8])
{
    size_t n = 0;

    while (n < 8 && frames[n])
        n++;
    assert_int_equal(dlr_stack_tree_add(tree, frames, n, 9), 0);
}

static void a_rank_is_somewhere_in_a_few_words(void **state)
{
    for (size_t i = 0; i < sizeof(stands) / sizeof(*stands); i++) {
        struct dlr_stack_tree *tree = dlr_stack_tree_new(DLR_STACK_BYTES);
        char buf[128];

        add(tree, stands[i].frames);
        add(tree, stands[i].more);
        dlr_stack_place(tree, 9, true, buf, sizeof(buf));
        assert_string_equal(buf, stands[i].want);
        dlr_stack_place(tree, 8, true, buf, sizeof(buf));
        assert_string_equal(buf, "");
        if (i == 1) {
            dlr_stack_place(tree, 9, false, buf, sizeof(buf));
            assert_string_equal(buf, "; rank 9 runs in spin (stand.c:7)");
        }
        dlr_stack_tree_free(tree);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(answers_become_one_text_and_say_where_it_is),
        TEST(who_does_not_answer_is_waited_for_two_seconds),
        TEST(without_any_stack_it_ends_as_well),
        TEST(what_does_not_fit_is_dropped),
        TEST(of_a_round_that_is_over_nothing_is_told),
        TEST(of_many_ranks_some_are_asked_for),
        TEST(nobody_to_ask_is_no_wait),
        cmocka_unit_test(a_rank_is_somewhere_in_a_few_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
