/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs=dlrover-agent */
/* The agent and ranks that are not where the round has them: who waits, what the
 * supervisor hears, and what the next turn gives them.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/json/message.h"
#include "tests/support/worker_rig.h"

static struct rig rig;

/* Round 0: this node has these ranks of world, n2 rank 9. */
static void say_turn(int turn, int world, const char *ranks, const char *restore)
{
    char token[33] = RIG_TOKEN;

    token[0] = (char)('a' + turn);
    dlr_rig_say(&rig, "round",
                "s:i, s:s, s:i, s:i, s:[{s:s, s:o, s:s}, {s:s, s:[i], s:s}], "
                "s:{s:[s], s:[s]}, s:o",
                "round", 0, "token", token, "turn", turn, "world", world, "nodes",
                "node", "n1", "ranks", json_loads(ranks, 0, NULL), "data", "aa", "node",
                "n2", "ranks", 9, "data", "bb", "partners", "n1", "n2", "n2", "n1",
                "restore", json_loads(restore, JSON_DECODE_ANY, NULL));
}

static void begin(void)
{
    dlr_rig_start(&rig, NULL);
    say_turn(0, 2, "[0]", "null");
    dlr_rig_sync(&rig);
}

static int hello(int rank, int world)
{
    int fd = dlr_rig_connect(&rig);

    dlr_rig_send(fd, DLR_LOCAL_HELLO, 0, rank, 0, (uint64_t)world, 0);
    return fd;
}

static void answered(int fd, enum dlr_local_type type, const char *text)
{
    struct dlr_local_msg m;
    int fds[DLR_LOCAL_FDS];
    unsigned n;

    assert_true(dlr_rig_recv(fd, &m, fds, &n));
    assert_int_equal(m.type, type);
    if (text)
        assert_non_null(strstr(m.text, text));
    while (n > 0)
        close(fds[--n]);
}

/* The next "ranks" says that these wait and these are served: "[[2, 4]]". */
static void told(const char *waiting, const char *served, bool lost)
{
    json_t *msg = dlr_rig_expect(&rig, "ranks");
    char *w = json_dumps(json_object_get(msg, "waiting"), 0);
    char *s = json_dumps(json_object_get(msg, "served"), 0);

    assert_string_equal(w, waiting);
    assert_string_equal(s, served);
    assert_int_equal(json_is_true(json_object_get(msg, "lost")), lost);
    free(w);
    free(s);
    json_decref(msg);
}

static void a_rank_of_another_number_waits_for_the_turn(void **state)
{
    int fd, second;

    begin();
    fd = hello(0, 4);
    told("[[0, 4]]", "[]", false);
    second = hello(1, 4);
    told("[[0, 4], [1, 4]]", "[]", false);
    say_turn(1, 4, "[0, 1]", "null");
    dlr_rig_await(&rig, "turned");
    answered(fd, DLR_LOCAL_WELCOME, "c.17.run");
    answered(second, DLR_LOCAL_WELCOME, "c.17.run");
    close(fd);
    close(second);
    dlr_rig_stop(&rig);
}

static void a_rank_where_it_is_expected_is_welcomed_at_once(void **state)
{
    int fd;

    begin();
    fd = hello(0, 2);
    answered(fd, DLR_LOCAL_WELCOME, NULL);
    assert_true(dlr_rig_silent(&rig, "ranks", 4 * RIG_EVERY_MS));
    dlr_rig_say(&rig, "ask_ranks", "s:i, s:i", "round", 0, "turn", 0);
    told("[]", "[[0, 2]]", false);
    close(fd);
    told("[]", "[]", true);
    dlr_rig_stop(&rig);
}

static void one_that_opens_twice_is_refused(void **state)
{
    int fd, second;

    begin();
    fd = hello(0, 2);
    answered(fd, DLR_LOCAL_WELCOME, NULL);
    second = hello(0, 2);
    answered(second, DLR_LOCAL_REFUSED, "rank 0 has its checkpoint open in process");
    close(second);
    close(fd);
    dlr_rig_stop(&rig);
}

/* A program looks what there is, closes, and opens for good: the others may have opened
 * already. A child of it holds what was closed.
 */
static void a_process_that_has_only_looked_is_welcomed_again(void **state)
{
    struct worker w;
    int held;

    begin();
    for (unsigned i = 0; i < 3; i++) {
        assert_true(rig_hello(&rig, &w, 0, 0));
        if (i == 1)
            rig_worker_slots(&w);
        held = dup(w.fd);
        dlr_rig_send(w.fd, DLR_LOCAL_CLOSE, 0, 0, 0, 0, 0);
        rig_bye(&w);
        dlr_rig_sync(&rig);
        assert_false(
            dlr_rig_recv(held, &w.welcome, (int[DLR_LOCAL_FDS]){0}, &w.nslots));
        close(held);
    }
    assert_true(dlr_rig_silent(&rig, "ranks", 4 * RIG_EVERY_MS));
    assert_true(rig_hello(&rig, &w, 0, 0));
    dlr_rig_say(&rig, "ask_ranks", "s:i, s:i", "round", 0, "turn", 0);
    told("[]", "[[0, 2]]", false);
    rig_bye(&w);
    told("[]", "[]", true);
    dlr_rig_stop(&rig);
}

/* Steps that are ordered are not in its new page: nobody waits for them. */
static void what_was_ordered_before_it_came_again_is_missed(void **state)
{
    struct worker w;
    json_t *msg;

    begin();
    assert_true(rig_hello(&rig, &w, 0, 0));
    rig_worker_slots(&w);
    dlr_rig_say(&rig, "save_at", "s:i, s:i", "round", 0, "step", 5);
    dlr_rig_sync(&rig);
    rig_bye(&w);
    dlr_rig_sync(&rig);
    assert_true(rig_hello(&rig, &w, 0, 0));
    msg = dlr_rig_expect(&rig, "missed");
    assert_int_equal(dlr_rig_int(msg, "step"), 5);
    json_decref(msg);
    rig_bye(&w);
    dlr_rig_stop(&rig);
}

/* It has a state by now, which the others may go on with. */
static void a_process_that_had_begun_waits_for_the_turn(void **state)
{
    struct worker w;
    int fd;

    begin();
    assert_true(rig_hello(&rig, &w, 0, 0));
    atomic_store(&w.page->begun_step, 1);
    rig_bye(&w);
    fd = hello(0, 2);
    told("[[0, 2]]", "[]", true);
    close(fd);
    dlr_rig_stop(&rig);
}

/* All have restored with it. */
static void a_process_that_had_restored_waits_for_the_turn(void **state)
{
    struct worker w;
    int fd;

    dlr_rig_start(&rig, NULL);
    say_turn(0, 2, "[0]", "{\"vround\":0,\"step\":3,\"world\":3}");
    dlr_rig_sync(&rig);
    assert_true(rig_hello(&rig, &w, 0, 0));
    dlr_rig_send(w.fd, DLR_LOCAL_RESTORED, 0, 0, 3, 0, 0);
    dlr_rig_await(&rig, "restored");
    rig_bye(&w);
    fd = hello(0, 2);
    told("[[0, 2]]", "[]", true);
    close(fd);
    dlr_rig_stop(&rig);
}

/* One that was killed may be torchrun's. */
static void first_process(void)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        answered(hello(0, 2), DLR_LOCAL_WELCOME, NULL);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* torchrun has restarted it: all begin again from what is committed by then. */
static void a_rank_that_comes_again_waits_for_the_turn(void **state)
{
    int fd;

    begin();
    first_process();
    fd = hello(0, 2);
    told("[[0, 2]]", "[]", true);
    say_turn(1, 2, "[0]", "null");
    dlr_rig_await(&rig, "turned");
    answered(fd, DLR_LOCAL_WELCOME, NULL);
    assert_true(dlr_rig_silent(&rig, "ranks", 4 * RIG_EVERY_MS));
    say_turn(0, 2, "[1]", "null"); /* an old word changes nothing */
    dlr_rig_sync(&rig);
    dlr_rig_say(&rig, "ask_ranks", "s:i, s:i", "round", 0, "turn", 1);
    told("[]", "[[0, 2]]", false);
    close(fd);
    dlr_rig_stop(&rig);
}

/* The launcher has put another rank beside it than the round had. */
static void a_rank_that_stays_in_a_turn_sees_who_is_beside_it(void **state)
{
    struct worker w;

    begin();
    assert_true(rig_hello(&rig, &w, 0, 0));
    assert_int_equal(w.page->nmates, 1);
    say_turn(1, 2, "[0, 1]", "null");
    dlr_rig_await(&rig, "turned");
    dlr_rig_sync(&rig);
    assert_int_equal(w.page->nmates, 2);
    assert_int_equal(w.page->mates[1], 1);
    rig_bye(&w);
    dlr_rig_stop(&rig);
}

static void who_waits_too_long_is_told_why(void **state)
{
    int fd;

    begin();
    fd = hello(0, 4);
    told("[[0, 4]]", "[]", false);
    dlr_rig_say(&rig, "refuse", "s:i, s:i, s:s", "round", 0, "turn", 0, "why",
                "3 of 4 ranks have not opened");
    answered(fd, DLR_LOCAL_REFUSED, "3 of 4 ranks have not opened");
    close(fd);
    dlr_rig_stop(&rig);
}

/* The first turn's worker has gone, a child of it holds the connection. */
static void a_child_that_keeps_the_connection_does_not_count(void **state)
{
    int fd, pipes[2], status;
    char byte;
    pid_t pid;

    begin();
    assert_int_equal(pipe(pipes), 0);
    pid = fork();
    if (pid == 0) {
        fd = hello(0, 2);
        answered(fd, DLR_LOCAL_WELCOME, NULL);
        if (fork() == 0) {
            close(pipes[1]);
            _exit(read(pipes[0], &byte, 1) < 0);
        }
        _exit(0);
    }
    close(pipes[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    fd = hello(0, 2);
    told("[[0, 2]]", "[]", true);
    close(pipes[1]);
    close(fd);
    dlr_rig_stop(&rig);
}

RIG_MAIN(RIG_TEST(a_rank_of_another_number_waits_for_the_turn),
         RIG_TEST(a_rank_where_it_is_expected_is_welcomed_at_once),
         RIG_TEST(one_that_opens_twice_is_refused),
         RIG_TEST(a_process_that_has_only_looked_is_welcomed_again),
         RIG_TEST(what_was_ordered_before_it_came_again_is_missed),
         RIG_TEST(a_process_that_had_begun_waits_for_the_turn),
         RIG_TEST(a_process_that_had_restored_waits_for_the_turn),
         RIG_TEST(a_rank_that_comes_again_waits_for_the_turn),
         RIG_TEST(a_rank_that_stays_in_a_turn_sees_who_is_beside_it),
         RIG_TEST(who_waits_too_long_is_told_why),
         RIG_TEST(a_child_that_keeps_the_connection_does_not_count))
