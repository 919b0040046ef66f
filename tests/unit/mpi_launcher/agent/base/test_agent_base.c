/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's lowest engine alone: a supervisor and a peer that are plain sockets. */
#include <czmq.h>
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/base/answers.h"
#include "mpi_launcher/agent/base/auth_failures.h"
#include "mpi_launcher/agent/base/base_state.h"
#include "mpi_launcher/agent/base/kept.h"
#include "mpi_launcher/agent/base/reactor.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "tests/support/agent_loop.h"

static struct rig {
    struct dlr_agent_base *base;
    struct dlr_identity *ours, *theirs;
    struct dlr_server *supervisor;
    struct dlr_client *peer;
    unsigned ends;     /* told */
    char heard[256];   /* what the agent heard, one word after the other */
    char answers[512]; /* what the others did */
    unsigned awaited;  /* messages, until the end */
} rig;

static void note(char *list, size_t size, const char *words, size_t n)
{
    size_t at = strlen(list);

    snprintf(list + at, size - at, "%.*s;", (int)n, words);
}

static void done(void)
{
    if (--rig.awaited == 0)
        dlr_agent_end(rig.base);
}

static void on_supervisor(void *arg, const struct dlr_packet *packet)
{
    assert_ptr_equal(arg, &rig);
    note(rig.heard, sizeof(rig.heard), packet->data, packet->size);
    done();
}

/* An order: it is answered as the supervisor's are. */
static void on_peer(void *arg, const struct dlr_packet *packet)
{
    struct dlr_agent_origin to = {
        .from = DLR_AGENT_PEER, .route = packet->from, .id = 7};

    assert_ptr_equal(arg, &rig);
    assert_string_equal(packet->key, dlr_identity_key(rig.theirs));
    note(rig.heard, sizeof(rig.heard), packet->data, packet->size);
    dlr_agent_done(rig.base, &to, -5, "why");
}

static void on_end(void *arg)
{
    rig.ends++;
    dlr_agent_end(rig.base);
}

static const struct dlr_agent_base_ops ops = {
    .supervisor = on_supervisor,
    .peer = on_peer,
    .end = on_end,
};

static int setup(void **state)
{
    rig = (struct rig){0};
    if (dlr_identity_new(&rig.ours, NULL) < 0 ||
        dlr_identity_new(&rig.theirs, NULL) < 0)
        return -1;
    rig.base = dlr_agent_base_new(&ops, &rig);
    return rig.base ? 0 : -1;
}

static int teardown(void **state)
{
    rig.peer = dlr_client_free(rig.peer);
    rig.base = dlr_agent_base_free(rig.base);
    rig.supervisor = dlr_server_free(rig.supervisor);
    rig.ours = dlr_identity_free(rig.ours);
    rig.theirs = dlr_identity_free(rig.theirs);
    return 0;
}

static void run(void)
{
    assert_true(agent_loop_ends(rig.base));
}

static void hear(const struct dlr_packet *p)
{
    note(rig.answers, sizeof(rig.answers), p->data, p->size);
    done();
}

static int supervisor_hears(zloop_t *loop, zsock_t *sock, void *arg)
{
    struct dlr_packet p;

    if (dlr_server_recv(rig.supervisor, &p) <= 0)
        return 0;
    if (!strstr(rig.answers, ";"))
        dlr_server_send(rig.supervisor, &p.from, "welcome", strlen("welcome"));
    hear(&p);
    dlr_packet_done(&p);
    return 0;
}

static int peer_hears(zloop_t *loop, zsock_t *sock, void *arg)
{
    struct dlr_packet p;

    if (dlr_client_recv(rig.peer, &p) <= 0)
        return 0;
    hear(&p);
    dlr_packet_done(&p);
    return 0;
}

/* ---------------------------------------------------------------------------------- */

static void open_supervisor(void)
{
    char address[64];

    assert_int_equal(
        dlr_server_new(rig.theirs, "127.0.0.1", 0, 0, 1, &rig.supervisor, NULL), 0);
    dlr_format(address, sizeof(address), "127.0.0.1:%u",
               dlr_server_port(rig.supervisor));
    assert_int_equal(dlr_agent_supervisor_open(rig.base, rig.ours,
                                               dlr_identity_key(rig.theirs), address,
                                               NULL),
                     0);
    dlr_agent_watch_socket(rig.base, dlr_server_sock(rig.supervisor), supervisor_hears,
                           NULL);
}

static void open_peer(void)
{
    char address[64];

    assert_int_equal(dlr_agent_server_open(rig.base, rig.ours, 0, 0, NULL), 0);
    dlr_format(address, sizeof(address), "127.0.0.1:%u",
               dlr_agent_server_port(rig.base));
    assert_int_equal(dlr_client_new(rig.theirs, dlr_identity_key(rig.ours), address,
                                    &rig.peer, NULL),
                     0);
    dlr_agent_watch_socket(rig.base, dlr_client_sock(rig.peer), peer_hears, NULL);
}

static void the_supervisor_is_told_and_heard(void **state)
{
    static const struct dlr_agent_origin self = {.from = DLR_AGENT_SELF},
                                         theirs = {.from = DLR_AGENT_SUPERVISOR,
                                                   .id = 3};

    assert_false(dlr_agent_supervisor_is_open(rig.base));
    dlr_agent_send_supervisor(rig.base,
                              dlr_msg_new("lost")); /* nobody is there: released */
    open_supervisor();
    assert_true(dlr_agent_supervisor_is_open(rig.base));
    rig.awaited = 4;
    dlr_agent_send_supervisor_bytes(rig.base, "beat", 4);
    dlr_agent_done(rig.base, &self, 0, "nobody wants to know");
    dlr_agent_done(rig.base, &theirs, 0, "");
    dlr_agent_auth_failures_resend(rig.base, "");
    dlr_agent_auth_failures_resend(rig.base, "x");
    run();
    assert_string_equal(rig.heard, "welcome;");
    assert_string_equal(rig.answers,
                        "beat;{\"v\":2,\"t\":\"done\",\"id\":3,\"rc\":0,\"why\":\"\"};"
                        "{\"v\":2,\"t\":\"auth_failures\",\"foreign_name\":\"x\"};");
    dlr_agent_unwatch_socket(rig.base, dlr_server_sock(rig.supervisor));
}

static void a_peer_is_heard_and_answered(void **state)
{
    dlr_agent_server_expect(rig.base, 5); /* not open yet: nothing */
    dlr_agent_server_tend(rig.base, 0);
    open_peer();
    dlr_agent_server_expect(rig.base, 5);
    rig.awaited = 1;
    dlr_client_send(rig.peer, "order", 5);
    run();
    assert_string_equal(rig.heard, "order;");
    assert_string_equal(rig.answers,
                        "{\"v\":2,\"t\":\"done\",\"id\":7,\"rc\":5,\"why\":\"why\"};");
    dlr_agent_unwatch_socket(rig.base, dlr_client_sock(rig.peer));
}

static void on_told(void *arg, uint64_t id, int rc, const char *why)
{
    int *told = arg;

    assert_int_equal(id, 9);
    assert_int_equal(rc, -5);
    assert_string_equal(why, "why");
    ++*told;
}

static void an_order_of_our_own_tells_whom_it_names(void **state)
{
    int told = 0;
    struct dlr_agent_origin self = {.from = DLR_AGENT_SELF, .id = 9};

    dlr_agent_done(rig.base, &self, -5, "nobody");
    self.told = on_told;
    self.arg = &told;
    dlr_agent_done(rig.base, &self, -5, "why");
    assert_int_equal(told, 1);
}

/* Whoever is told of the end may ask for it, too. */
static void the_end_is_told_once(void **state)
{
    dlr_agent_end(rig.base);
    dlr_agent_end(rig.base);
    run();
    assert_int_equal(rig.ends, 1);
}

static int on_turn(zloop_t *loop, int timer, void *arg)
{
    unsigned *turns = arg;

    if (++*turns == 3)
        dlr_agent_end(rig.base);
    return 0;
}

static void timers_run_once_or_until_their_end(void **state)
{
    unsigned once = 0, every = 0;
    int a = -1, b = -1;

    dlr_agent_timer(rig.base, &a, 0, on_turn, &once);
    dlr_agent_timer_every(rig.base, &b, 2, on_turn, &every);
    run();
    assert_int_equal(once, 1);
    assert_true(every >= 3);
    dlr_agent_timer_end(rig.base, &b);
    assert_int_equal(b, -1);
    dlr_agent_timer_end(rig.base, &b); /* is never one */
}

static int on_ended(zloop_t *loop, int timer, void *arg)
{
    fail_msg("this timer had ended");
    return -1;
}

static int end_other(zloop_t *loop, int timer, void *arg)
{
    dlr_agent_timer_end(rig.base, arg);
    dlr_agent_end(rig.base);
    return 0;
}

/* Whoever ends one frees what it was for. */
static void a_timer_that_ends_when_it_is_due_already_is_not_called(void **state)
{
    int64_t from = dlr_now_ms();
    int first = -1, other = -1;

    dlr_agent_timer(rig.base, &first, 1, end_other, &other);
    dlr_agent_timer(rig.base, &other, 2, on_ended, NULL);
    while (dlr_now_ms() < from + 10)
        ; /* both are due in the loop's first pass */
    run();
    assert_int_equal(other, -1);
}

static int on_gone(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    dlr_agent_unwatch(rig.base, item->fd);
    close(item->fd);
    dlr_agent_end(rig.base);
    return 0;
}

static void a_child_that_is_not_needed_is_killed_and_reaped(void **state)
{
    pid_t pid = fork();
    int pidfd;

    if (pid == 0)
        for (;;)
            pause();
    pidfd = pidfd_open(pid, 0);
    assert_true(pidfd >= 0);
    /* Both hear of the end in one turn of the loop. */
    dlr_agent_watch(rig.base, dup(pidfd), on_gone, NULL);
    dlr_agent_kill_and_reap(rig.base, pid, pidfd);
    run();
    assert_int_equal(kill(pid, 0), -1); /* no zombie is left */
}

/* --- what a parent keeps for the next agent: each child is one, this program the parent */

static struct dlr_kept *kept;
static unsigned kept_id; /* of the first descriptor a child has handed over */

typedef bool life_fn(void);

/* A child lives so, and dies. */
static void live(life_fn *life)
{
    pid_t pid = fork();
    int status = -1;

    if (pid == 0) {
        dlr_kept_begin(kept);
        _exit(life() ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    dlr_kept_died(kept);
}

static int begin_keeping(void **state)
{
    struct dlr_err err;

    kept_id = 1;
    return dlr_kept_new(&kept, &err);
}

static int end_keeping(void **state)
{
    kept = dlr_kept_free(kept);
    return 0;
}

static bool note_all(void)
{
    int fds[2];

    if (pipe(fds) < 0 || write(fds[1], "w", 1) != 1)
        return false;
    dlr_kept_put_round(kept, "the round");
    dlr_kept_put_lease(kept, 77);
    dlr_kept_put_note(kept, "the note, which is longer than the next one");
    dlr_kept_put_note(kept, "the note");
    dlr_kept_leave(kept);
    return dlr_kept_add(kept, fds[0]) == kept_id;
}

static bool die_in_the_middle(void)
{
    note_all();
    dlr_kept_enter(kept);
    return true;
}

static bool close_it_again(void)
{
    unsigned id = kept_id;

    if (!note_all())
        return false;
    dlr_kept_del(kept, &id);
    return id == 0;
}

static bool know_no_round(void)
{
    dlr_kept_leave(kept);
    return true;
}

static int look(struct dlr_kept_note *ret, struct dlr_err *err)
{
    *err = (struct dlr_err){0};
    return dlr_kept_former(kept, ret, err);
}

static bool finds_all(void)
{
    struct dlr_kept_note note;
    struct dlr_err err;
    char c = 0;
    bool good = look(&note, &err) == 0 && dlr_streq(note.round, "the round") &&
                dlr_streq(note.note, "the note") && note.lease_ns == 77;
    int fd = dlr_kept_claim(kept, kept_id);

    dlr_kept_note_done(&note);
    return good && fd >= 0 && read(fd, &c, 1) == 1 && c == 'w' &&
           dlr_kept_claim(kept, kept_id) == -1;
}

static bool finds_it_closed(void)
{
    struct dlr_kept_note note;
    struct dlr_err err;
    bool good = look(&note, &err) == 0;

    dlr_kept_note_done(&note);
    return good && dlr_kept_claim(kept, kept_id) == -1;
}

static bool finds_it_in_the_middle(void)
{
    struct dlr_kept_note note;
    struct dlr_err err;

    return look(&note, &err) == -EIO &&
           dlr_streq(err.text, "it died in the middle of something");
}

static bool finds_no_round(void)
{
    struct dlr_kept_note note;
    struct dlr_err err;

    return look(&note, &err) == -ENODATA;
}

static bool finds_nobody(void)
{
    struct dlr_kept_note note;
    struct dlr_err err;

    return look(&note, &err) == -ENOENT;
}

static void what_one_has_noted_the_next_one_finds(void **state)
{
    live(note_all);
    live(finds_all);
}

static void the_first_one_finds_nobody(void **state)
{
    live(finds_nobody);
}

static void without_a_round_there_is_nothing_to_go_on_with(void **state)
{
    live(know_no_round);
    live(finds_no_round);
}

static void who_died_in_the_middle_of_something_is_not_followed(void **state)
{
    live(die_in_the_middle);
    live(finds_it_in_the_middle);
}

/* It was not as far as to note anything itself. */
static void nor_is_who_died_before_its_first_note(void **state)
{
    live(note_all);
    live(finds_all);
    live(finds_it_in_the_middle);
}

static void what_is_closed_is_not_kept(void **state)
{
    live(close_it_again);
    live(finds_it_closed);
}

/* More than the socket between them takes. */
static bool keep_and_close_many(void)
{
    bool good = note_all();

    for (int i = 0; i < 2000; i++) {
        unsigned id = dlr_kept_add(kept, STDERR_FILENO);

        good = good && id;
        dlr_kept_del(kept, &id);
    }
    return good;
}

static void a_parent_that_is_late_loses_nothing(void **state)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        dlr_kept_begin(kept);
        _exit(keep_and_close_many() ? 0 : 1);
    }
    usleep(50000);
    while (waitpid(pid, &status, WNOHANG) == 0) {
        dlr_kept_take(kept);
        usleep(500);
    }
    assert_int_equal(status, 0);
    dlr_kept_died(kept);
    live(finds_all);
}

/* --- a life with a loop: what happens changes what is to be noted ------------------ */

#define LONG 60000 /* bytes of a note: a pause of NOTE_PAUSE_MS */
#define NOTE_PAUSE_MS 50

static struct {
    struct dlr_agent_base *base;
    size_t bytes;
    int timer;
    unsigned events, notes, wanted;
    int64_t begin_ms;
} life;

/* As long as that; it begins with the number of what has happened. */
static void note_life(void *arg)
{
    char *text = malloc(life.bytes + 1);

    memset(text, '.', life.bytes);
    text[life.bytes] = '\0';
    text[snprintf(text, life.bytes, "%u", life.events)] = ' ';
    dlr_kept_put_note(kept, text);
    free(text);
    life.notes++;
}

static const struct dlr_agent_base_ops noting = {.note = note_life};

static int happen(zloop_t *loop, int timer, void *arg)
{
    dlr_agent_changed(life.base);
    if (++life.events == life.wanted)
        dlr_agent_timer_end(life.base, &life.timer);
    return 0;
}

static void begin_life(size_t bytes, unsigned events)
{
    life.base = dlr_agent_base_new(&noting, NULL);
    life.bytes = bytes;
    life.wanted = events;
    life.timer = -1;
    life.begin_ms = dlr_now_ms();
    dlr_agent_base_keep(life.base, kept);
    dlr_kept_put_round(kept, "the round");
    dlr_agent_timer_every(life.base, &life.timer, 1, happen, NULL);
}

static bool is_late(void)
{
    return dlr_now_ms() > life.begin_ms + AGENT_LOOP_LIMIT_MS;
}

/* It is none of the agent's events, as a SIGKILL is none. */
static int die_while_a_note_waits(zloop_t *loop, int timer, void *arg)
{
    return (life.events > 1 && life.base->changed) || is_late() ? -1 : 0;
}

static bool die_before_the_note(void)
{
    begin_life(LONG, UINT_MAX);
    zloop_timer(life.base->loop, 1, 0, die_while_a_note_waits, NULL);
    zloop_start(life.base->loop);
    return life.base->changed;
}

static int end_when_all_is_noted(zloop_t *loop, int timer, void *arg)
{
    return (life.events == life.wanted && !life.base->changed) || is_late() ? -1 : 0;
}

/* How often is told by the clock that the loop has: a slow machine has more. */
static bool note_seldom(void)
{
    begin_life(LONG, 200);
    zloop_timer(life.base->loop, 1, 0, end_when_all_is_noted, NULL);
    zloop_start(life.base->loop);
    return life.notes <= 2 + (dlr_now_ms() - life.begin_ms) / NOTE_PAUSE_MS;
}

static bool note_at_once(void)
{
    begin_life(4000, 20);
    zloop_timer(life.base->loop, 1, 0, end_when_all_is_noted, NULL);
    zloop_start(life.base->loop);
    return life.notes == 20;
}

static bool finds_the_last(const char *number)
{
    struct dlr_kept_note note;
    struct dlr_err err;
    bool good = look(&note, &err) == 0 && dlr_after(note.note, number) != NULL;

    dlr_kept_note_done(&note);
    return good;
}

static bool finds_the_200th(void)
{
    return finds_the_last("200 ");
}

static bool finds_the_20th(void)
{
    return finds_the_last("20 ");
}

static void a_long_note_is_written_now_and_then_and_the_last_time_too(void **state)
{
    live(note_seldom);
    live(finds_the_200th);
}

static void a_short_one_is_written_at_once(void **state)
{
    live(note_at_once);
    live(finds_the_20th);
}

static void who_died_before_a_note_was_written_is_not_followed(void **state)
{
    live(die_before_the_note);
    live(finds_it_in_the_middle);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(the_supervisor_is_told_and_heard),
        T(a_peer_is_heard_and_answered),
        T(an_order_of_our_own_tells_whom_it_names),
        T(the_end_is_told_once),
        T(timers_run_once_or_until_their_end),
        T(a_timer_that_ends_when_it_is_due_already_is_not_called),
        T(a_child_that_is_not_needed_is_killed_and_reaped),
#undef T
#define T(f) cmocka_unit_test_setup_teardown(f, begin_keeping, end_keeping)
        T(what_one_has_noted_the_next_one_finds),
        T(the_first_one_finds_nobody),
        T(without_a_round_there_is_nothing_to_go_on_with),
        T(who_died_in_the_middle_of_something_is_not_followed),
        T(nor_is_who_died_before_its_first_note),
        T(what_is_closed_is_not_kept),
        T(a_parent_that_is_late_loses_nothing),
        T(a_long_note_is_written_now_and_then_and_the_last_time_too),
        T(a_short_one_is_written_at_once),
        T(who_died_before_a_note_was_written_is_not_followed),
    };

    dlr_endpoint_prepare();
    zsys_handler_set(NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
