/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=mpi_launcher/supervisor/watch */
/* Whether a round goes on, under a clock of the test's own: four ranks on two nodes. */
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
#include "interpose/calls/calls.h"
#include "mpi_launcher/supervisor/watch/call_kinds.h"
#include "mpi_launcher/supervisor/watch/watch.h"
#include "mpi_launcher/wire/looks.h"
#include "watch/judge/judge.h"

#define RANKS 4
#define MS 1000000ull
#define TICK 50

static struct dlr_plan_place places[] = {{.node = {.name = "n1"}},
                                         {.node = {.name = "n2"}}};
static unsigned place_of[RANKS] = {0, 0, 1, 1};

struct world {
    struct dlr_sup_watch *watch;
    struct dlr_plan plan;
    int64_t hang_limit_ms;
    struct dlr_sup_watch_now now;
    struct dlr_look looks[RANKS];
    bool mute; /* no agent answers */
    unsigned asked, stills, moves, saids, stucks, changes;
    char words[512], place[512], class[32];
    bool proven;
    char call[32];
    unsigned culprits;
    json_int_t stood_ms;
};

static void answer(struct world *w, uint32_t round, uint64_t id)
{
    for (unsigned node = 0; node < 2; node++) {
        json_t *msg = dlr_msg_new("looked");

        json_object_set_new(msg, "round", json_integer(round));
        json_object_set_new(msg, "id", json_integer((json_int_t)id));
        json_object_set_new(msg, "now_ns", json_integer(w->now.ms * (json_int_t)MS));
        json_object_set_new(msg, "rows", dlr_looks_pack(&w->looks[2 * node], 2));
        dlr_sup_watch_looked(w->watch, places[node].node.name, msg);
        json_decref(msg);
    }
}

static uint64_t pending; /* a question that was not answered yet */

static void on_ask(void *arg, uint32_t round, uint64_t id)
{
    struct world *w = arg;

    w->asked++;
    pending = id;
}

static void on_tell(void *arg, const char *event, json_t *row, const char *words)
{
    struct world *w = arg;

    assert_non_null(row);
    if (strcmp(event, "moves") == 0) {
        w->moves++;
        w->stood_ms = json_integer_value(json_object_get(row, "stood_ms"));
    } else {
        const char *call = json_string_value(json_object_get(row, "call"));

        w->stills++;
        w->proven = json_is_true(json_object_get(row, "proven"));
        w->culprits = (unsigned)json_array_size(json_object_get(row, "ranks"));
        snprintf(w->class, sizeof(w->class), "%s",
                 json_string_value(json_object_get(row, "class")));
        snprintf(w->call, sizeof(w->call), "%s", call ? call : "");
        snprintf(w->words, sizeof(w->words), "%s", words);
        assert_string_equal(words, json_string_value(json_object_get(row, "why")));
    }
    json_decref(row);
}

static void on_say(void *arg, const struct dlr_sup_hang *hang)
{
    ((struct world *)arg)->saids++;
}

static void on_stuck(void *arg, const struct dlr_sup_hang *hang)
{
    struct world *w = arg;

    w->stucks++;
    assert_int_equal(hang->round, w->now.round);
    snprintf(w->words, sizeof(w->words), "%s", hang->words);
    snprintf(w->place, sizeof(w->place), "%s", hang->place);
}

static void on_changed(void *arg)
{
    ((struct world *)arg)->changes++;
}

static const struct dlr_sup_watch_ops ops = {.ask = on_ask,
                                             .tell = on_tell,
                                             .say = on_say,
                                             .stuck = on_stuck,
                                             .changed = on_changed};

/* All ranks have come to the collective and left it; they compute. */
static void put_ranks(struct world *w)
{
    for (int r = 0; r < RANKS; r++) {
        struct dlr_look *look = &w->looks[r];

        *look = (struct dlr_look){.rank = r,
                                  .round = w->now.round,
                                  .data = DLR_LOOK_CALLS_TOO,
                                  .pid = 100 + r,
                                  .step = w->now.step,
                                  .step_ns = (uint64_t)w->now.ms * MS,
                                  .moved_ns = (uint64_t)w->now.ms * MS,
                                  .steps_ns = 1,
                                  .ncomms = 1};
        look->comms[0] = (struct dlr_look_comm){.id = DLR_LOOK_WORLD,
                                                .size = RANKS,
                                                .my_rank = (uint32_t)r,
                                                .op = DLR_CALL_Allreduce,
                                                .entered = 811,
                                                .left = 811};
    }
}

static void enter(struct world *w, int r, uint32_t op)
{
    struct dlr_look *look = &w->looks[r];

    look->comms[0].op = op;
    look->comms[0].entered++;
    look->comms[0].entered_ns = look->moved_ns = (uint64_t)w->now.ms * MS;
    look->comms[0].bytes = 4000000;
    look->ncalls = 1;
    look->in[0] = (struct dlr_look_call){.comm = DLR_LOOK_WORLD,
                                         .peer = DLR_LOOK_NOBODY,
                                         .tid = (uint32_t)look->pid,
                                         .call = op,
                                         .bytes = 4000000,
                                         .entered_ns = look->moved_ns};
}

static void tick(struct world *w)
{
    dlr_sup_watch_tick(w->watch, &w->now);
    if (pending && !w->mute) {
        const uint64_t id = pending;

        pending = 0;
        answer(w, w->now.round, id);
    }
}

static void pass(struct world *w, int64_t ms)
{
    for (const int64_t end = w->now.ms + ms; w->now.ms < end;) {
        w->now.ms += TICK;
        w->now.wall_ms += TICK;
        tick(w);
    }
}

static void step(struct world *w, int64_t took_ms)
{
    pass(w, took_ms);
    w->now.step++;
    put_ranks(w);
    tick(w);
}

/* Ten steps of a second each. */
static int begin(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    w->plan = (struct dlr_plan){
        .nplaces = 2, .world = RANKS, .places = places, .place_of = place_of};
    w->now = (struct dlr_sup_watch_now){
        .ms = 1000000, .wall_ms = 1700000000000, .runs = true, .step = UINT64_MAX};
    w->watch = dlr_sup_watch_new(
        &(struct dlr_sup_watch_env){.plan = &w->plan,
                                    .hang_limit_ms = &w->hang_limit_ms},
        &ops, w);
    assert_non_null(w->watch);
    pending = 0;
    tick(w);
    for (int i = 0; i < 10; i++)
        step(w, 1000);
    assert_int_equal(w->asked, 0);
    *state = w;
    return 0;
}

static int end(void **state)
{
    struct world *w = *state;

    w->watch = dlr_sup_watch_free(w->watch);
    free(w);
    return 0;
}

static void a_rank_that_does_not_come_is_named_and_not_ended(void **state)
{
    struct world *w = *state;

    for (int r = 0; r < RANKS; r++)
        if (r != 2)
            enter(w, r, DLR_CALL_Allreduce);
    pass(w, 3000);
    assert_int_equal(w->asked, 2);
    assert_int_equal(w->stills, 1);
    assert_non_null(strstr(w->words, "rank 2 (n2) has not come to MPI_Allreduce 812 of "
                                     "world (4000 KB); 3 ranks wait since "));
    assert_string_equal(w->class, "not entered");
    assert_string_equal(w->call, "MPI_Allreduce");
    assert_false(w->proven);
    pass(w, 17000);
    assert_int_equal(w->stills, 1);
    assert_int_equal(w->stucks + w->saids, 0);
    pass(w, 15000);
    assert_int_equal(w->saids, 1);
    step(w, 50);
    assert_int_equal(w->moves, 1);
    assert_int_equal(w->stucks, 0);
}

static void a_gap_that_came_before_is_normal_there(void **state)
{
    struct world *w = *state;

    for (int gap = 0; gap < 4; gap++) {
        for (int r = 1; r < RANKS; r++)
            enter(w, r, DLR_CALL_Allreduce);
        step(w, 20000);
        step(w, 1000);
        step(w, 1000);
    }
    assert_in_range(w->stills, 1, 3);
    assert_int_equal(w->moves, w->stills);
    assert_true(w->changes > 0);
}

static void a_stopped_rank_is_proven_once(void **state)
{
    struct world *w = *state;

    for (int r = 0; r < 3; r++)
        enter(w, r, DLR_CALL_Allreduce);
    w->looks[3].state = DLR_LOOK_STOPPED;
    pass(w, 20000);
    assert_int_equal(w->stucks, 1);
    assert_true(w->proven);
    assert_non_null(strstr(w->words, "rank 3 (n2) is stopped by a signal; 3 ranks"));
    assert_string_equal(w->place, "hang: rank 3 is stopped by a signal");
}

static void calls_that_do_not_match_are_proven(void **state)
{
    struct world *w = *state;

    for (int r = 0; r < RANKS; r++)
        enter(w, r, r == 1 ? DLR_CALL_Bcast : DLR_CALL_Allreduce);
    pass(w, 3000);
    assert_int_equal(w->stucks, 1);
    assert_string_equal(w->class, "mismatch");
    assert_non_null(strstr(w->words, "rank 1 (n1) is in MPI_Bcast where others are in "
                                     "MPI_Allreduce 812 of world"));
    assert_string_equal(w->place, "hang: rank 1 is in MPI_Bcast where others are in "
                                  "MPI_Allreduce of world");
}

static void two_receives_are_named_with_both_ranks(void **state)
{
    struct world *w = *state;

    for (int r = 0; r < RANKS; r++) {
        struct dlr_look *look = &w->looks[r];

        look->ncalls = 1;
        look->in[0] = (struct dlr_look_call){.comm = DLR_LOOK_WORLD,
                                             .peer = r ^ 1,
                                             .tid = (uint32_t)look->pid,
                                             .call = DLR_CALL_Recv,
                                             .entered_ns = look->moved_ns};
    }
    pass(w, 3000);
    assert_string_equal(w->class, "deadlock");
    assert_int_equal(w->culprits, RANKS);
    assert_int_equal(w->stucks, 0);
    assert_non_null(strstr(w->words, "ranks 0 (n1), 1 (n1), 2 (n2) and 3 (n2) wait for "
                                     "each other in MPI_Recv"));
}

static void missing_answers_are_no_sign_that_it_goes_on(void **state)
{
    struct world *w = *state;
    unsigned changes;

    for (int r = 1; r < RANKS; r++)
        enter(w, r, DLR_CALL_Allreduce);
    pass(w, 3000);
    assert_int_equal(w->stills, 1);
    changes = w->changes;
    w->mute = true;
    pass(w, 200000);
    w->mute = false;
    pass(w, 200000);
    assert_int_equal(w->moves, 0);
    assert_int_equal(w->changes, changes);
    assert_int_equal(w->stills, 1);
    step(w, 50);
    assert_int_equal(w->moves, 1);
}

static void a_hang_is_over_when_the_job_was_suspended(void **state)
{
    struct world *w = *state;

    for (int r = 1; r < RANKS; r++)
        enter(w, r, DLR_CALL_Allreduce);
    pass(w, 3000);
    assert_int_equal(w->stills, 1);
    w->now.held = true;
    pass(w, 1000);
    w->now.held = false;
    pass(w, 1000);
    assert_int_equal(w->moves, 1);
}

static void a_suspended_job_has_not_stood_still(void **state)
{
    struct world *w = *state;

    for (int r = 1; r < RANKS; r++)
        enter(w, r, DLR_CALL_Allreduce);
    pass(w, 1000);
    w->now.held = true;
    pass(w, 60000);
    w->now.held = false;
    pass(w, 60000); /* no step of it has ended: the limit of a first one */
    assert_int_equal(w->stills, 0);
    step(w, 50);
    step(w, 1000);
    enter(w, 1, DLR_CALL_Allreduce);
    pass(w, 4000);
    assert_int_equal(w->stills, 1);
}

static void a_first_step_has_time_and_the_users_limit_is_for_it_too(void **state)
{
    struct world *w = *state;

    w->now.round = 1;
    w->now.step = UINT64_MAX;
    put_ranks(w);
    for (int r = 1; r < RANKS; r++)
        enter(w, r, DLR_CALL_Allreduce);
    pass(w, 600000);
    assert_int_equal(w->stills, 0);
    w->hang_limit_ms = 5000;
    w->now.round = 2;
    put_ranks(w);
    for (int r = 1; r < RANKS; r++)
        enter(w, r, DLR_CALL_Allreduce);
    pass(w, 5000);
    assert_int_equal(w->stills, 1);
}

/* A sum of all ranks. */
static void sum(struct world *w, int64_t took_ms)
{
    pass(w, took_ms);
    for (int r = 0; r < RANKS; r++) {
        struct dlr_look *look = &w->looks[r];

        look->comms[0].entered = ++look->comms[0].left;
        look->calls++;
        look->ncalls = 0;
        look->moved_ns = (uint64_t)w->now.ms * MS;
    }
}

static void begin_without_steps(struct world *w)
{
    w->now.round = 1;
    w->now.step = UINT64_MAX;
    put_ranks(w);
}

static void a_program_that_tells_no_steps_may_stand_for_30_s(void **state)
{
    struct world *w = *state;

    begin_without_steps(w);
    pass(w, 100000); /* it begins: nothing has been called twice */
    for (int i = 0; i < 200; i++)
        sum(w, 500);
    assert_int_equal(w->stills, 0);
    assert_in_range(w->asked, 3, 15);
    for (int r = 1; r < RANKS; r++)
        enter(w, r, DLR_CALL_Allreduce);
    pass(w, 20000);
    assert_int_equal(w->stills, 0);
    pass(w, 20000);
    assert_int_equal(w->stills, 1);
    assert_non_null(strstr(w->words, "rank 0 (n1) has not come to MPI_Allreduce"));
    pass(w, 200000);
    assert_int_equal(w->saids, 0);
    pass(w, 100000);
    assert_int_equal(w->saids, 1);
    sum(w, 50);
    pass(w, 90000);
    assert_int_equal(w->moves, 1);
    assert_true(w->changes > 0);
    assert_in_range(w->stood_ms, 340000, 440000);
}

static void a_rank_that_is_stopped_is_not_stuck_before_its_limit(void **state)
{
    struct world *w = *state;

    for (int r = 0; r < 3; r++)
        enter(w, r, DLR_CALL_Allreduce);
    w->looks[3].phase_ns = (uint64_t)w->now.ms * MS;
    w->looks[3].phase_limit_ns = 60000 * MS;
    w->looks[3].state = DLR_LOOK_STOPPED;
    pass(w, 40000);
    assert_int_equal(w->stucks, 0);
    pass(w, 40000);
    assert_int_equal(w->stucks, 1);
}

static void an_answer_to_a_former_question_counts_for_nothing(void **state)
{
    struct world *w = *state;

    w->mute = true;
    for (int r = 1; r < RANKS; r++)
        enter(w, r, DLR_CALL_Allreduce);
    for (int i = 0; i < 400; i++) {
        pass(w, TICK);
        if (pending)
            answer(w, w->now.round, pending - 1);
    }
    assert_int_equal(w->stills, 0);
    w->mute = false;
    pass(w, 5000);
    assert_int_equal(w->stills, 1);
}

static void ranks_that_tell_nothing_are_not_spoken_of(void **state)
{
    struct world *w = *state;

    for (int r = 0; r < RANKS; r++)
        w->looks[r] = (struct dlr_look){.rank = r, .step = UINT64_MAX};
    pass(w, 120000);
    assert_int_equal(w->stills, 0);
    w->mute = true;
    pass(w, 120000);
    assert_int_equal(w->stills + w->stucks, 0);
    assert_true(w->asked < 240);
}

static void what_was_learned_outlives_a_supervisor(void **state)
{
    struct world *w = *state;
    json_t *saved = json_object();

    dlr_sup_watch_state(w->watch, saved);
    assert_in_range(json_string_length(json_object_get(saved, "learned")), 100, 4095);
    w->watch = dlr_sup_watch_free(w->watch);
    w->watch = dlr_sup_watch_new(
        &(struct dlr_sup_watch_env){.plan = &w->plan,
                                    .hang_limit_ms = &w->hang_limit_ms},
        &ops, w);
    dlr_sup_watch_take(w->watch, saved);
    json_decref(saved);
    tick(w);
    step(w, 1000);
    for (int r = 1; r < RANKS; r++)
        enter(w, r, DLR_CALL_Allreduce);
    pass(w, 3000);
    assert_int_equal(w->stills, 1);
}

static void a_state_that_is_none_is_not_taken(void **state)
{
    struct world *w = *state;
    json_t *saved = json_pack("{s:s}", "learned", "zz"), *after = json_object();

    dlr_sup_watch_take(w->watch, saved);
    json_object_set_new(saved, "learned", json_integer(3));
    dlr_sup_watch_take(w->watch, saved);
    dlr_sup_watch_state(w->watch, after);
    assert_non_null(json_object_get(after, "learned"));
    json_decref(saved);
    json_decref(after);
}

static unsigned seen;

static void on_look(void *arg, const struct dlr_look *look)
{
    const struct dlr_look *sent = arg;

    seen++;
    assert_memory_equal(look, &sent[look->rank], sizeof(*look));
}

static void looks_travel_whole_and_those_of_nobody_share_a_row(void **state)
{
    struct world *w = *state;
    json_t *rows;

    enter(w, 0, DLR_CALL_Allreduce);
    w->looks[0].comms[0].id = UINT64_MAX;
    w->looks[0].in[0].peer = DLR_LOOK_ANY;
    w->looks[0].paused = true;
    memcpy(w->looks[1].phase, "eval", 5);
    w->looks[2] = (struct dlr_look){.rank = 2, .step = UINT64_MAX};
    w->looks[3] = (struct dlr_look){.rank = 3, .step = UINT64_MAX};
    rows = dlr_looks_pack(w->looks, RANKS);
    assert_int_equal(json_array_size(rows), 3);
    seen = 0;
    assert_int_equal(dlr_looks_unpack(rows, w->now.round, RANKS, on_look, w->looks), 0);
    assert_int_equal(seen, RANKS);
    assert_true(dlr_looks_unpack(rows, w->now.round, 3, on_look, w->looks) < 0);
    json_array_append_new(json_object_get(json_array_get(rows, 0), "words"),
                          json_integer(1));
    assert_true(dlr_looks_unpack(rows, w->now.round, RANKS, on_look, w->looks) < 0);
    assert_int_equal(seen, RANKS);
    json_decref(rows);
}

static void calls_have_the_kinds_that_the_judge_knows(void **state)
{
    static const struct {
        unsigned call, kinds;
    } rows[] = {
        {DLR_CALL_Send, DLR_CALL_SENDS},
        {DLR_CALL_Recv_c, DLR_CALL_RECEIVES},
        {DLR_CALL_Sendrecv, DLR_CALL_SENDS | DLR_CALL_RECEIVES},
        {DLR_CALL_Iprobe, DLR_CALL_RECEIVES | DLR_CALL_POLLS},
        {DLR_CALL_Test, DLR_CALL_POLLS},
        {DLR_CALL_Testany, DLR_CALL_POLLS | DLR_CALL_ONE_OF},
        {DLR_CALL_Waitany, DLR_CALL_ONE_OF},
        {DLR_CALL_Waitall, 0},
        {DLR_CALL_Allreduce, 0},
        {DLR_CALL_Neighbor_alltoall, DLR_CALL_NEIGHBORS},
        {DLR_CALL_Ineighbor_alltoall, DLR_CALL_NEIGHBORS},
        {DLR_CALL_Win_fence, DLR_CALL_ALONE},
        {DLR_CALL_File_write_all, DLR_CALL_ALONE},
    };
    uint8_t kinds[DLR_CALL_KINDS];

    dlr_call_kinds(kinds);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (kinds[rows[i].call] != rows[i].kinds)
            fail_msg("%s: %u", dlr_mpi_call_name(rows[i].call), kinds[rows[i].call]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_rank_that_does_not_come_is_named_and_not_ended),
        TEST(a_gap_that_came_before_is_normal_there),
        TEST(a_stopped_rank_is_proven_once),
        TEST(calls_that_do_not_match_are_proven),
        TEST(two_receives_are_named_with_both_ranks),
        TEST(missing_answers_are_no_sign_that_it_goes_on),
        TEST(a_hang_is_over_when_the_job_was_suspended),
        TEST(a_suspended_job_has_not_stood_still),
        TEST(a_first_step_has_time_and_the_users_limit_is_for_it_too),
        TEST(a_program_that_tells_no_steps_may_stand_for_30_s),
        TEST(a_rank_that_is_stopped_is_not_stuck_before_its_limit),
        TEST(an_answer_to_a_former_question_counts_for_nothing),
        TEST(ranks_that_tell_nothing_are_not_spoken_of),
        TEST(what_was_learned_outlives_a_supervisor),
        TEST(a_state_that_is_none_is_not_taken),
        TEST(looks_travel_whole_and_those_of_nobody_share_a_row),
        TEST(calls_have_the_kinds_that_the_judge_knows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
