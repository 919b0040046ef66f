/* SPDX-License-Identifier: Apache-2.0 */
/* The library by which a program says how far it is, beside an agent that this program
 * plays.
 */
#include "watch/client/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/str.h"
#include "common/local/message.h"
#include "watch/read.h"
#include "watch/write.h"

static struct agent {
    char dir[64], socket[96];
    int listen_fd;
    pthread_t thread;
    bool refuses, hangs_up;
    struct dlr_local_msg asked;
    int page_fd;
    struct dlr_watch_page *page;
} agent;

static void answer(int fd)
{
    struct dlr_local_msg m;
    int fds[DLR_LOCAL_FDS];
    unsigned n = 0;

    if (dlr_local_recv(fd, &agent.asked, fds, &n) <= 0 || agent.hangs_up)
        return;
    dlr_local_init(&m, agent.refuses ? DLR_LOCAL_REFUSED : DLR_LOCAL_WATCHED);
    dlr_local_text(&m, "%s", agent.refuses ? "no room for the watch page" : "");
    dlr_local_send(fd, &m, &agent.page_fd, agent.refuses ? 0 : 1);
}

static void *serve(void *arg)
{
    int fd;

    while ((fd = accept4(agent.listen_fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        answer(fd);
        close(fd);
    }
    return NULL;
}

static int start(void **state)
{
    agent = (struct agent){.dir = "/dev/shm/dlr-test-watch.XXXXXX"};
    if (!mkdtemp(agent.dir))
        return -1;
    dlr_format(agent.socket, sizeof(agent.socket), "%s/agent.sock", agent.dir);
    agent.page_fd = memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (ftruncate(agent.page_fd, DLR_WATCH_BYTES) < 0 ||
        fcntl(agent.page_fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
        return -1;
    agent.page = mmap(NULL, DLR_WATCH_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
                      agent.page_fd, 0);
    dlr_watch_page_init(agent.page, 3, 2, 0, 0, 1);
    setenv("DLROVER_AGENT_SOCKET", agent.socket, 1);
    setenv("DLROVER_ROUND", "2", 1);
    setenv("RANK", "3", 1);
    setenv("WORLD_SIZE", "8", 1);
    if (dlr_local_listen(agent.socket, &agent.listen_fd, NULL) < 0)
        return -1;
    return pthread_create(&agent.thread, NULL, serve, NULL);
}

static int stop(void **state)
{
    shutdown(agent.listen_fd, SHUT_RDWR);
    pthread_join(agent.thread, NULL);
    close(agent.listen_fd);
    munmap(agent.page, DLR_WATCH_BYTES);
    close(agent.page_fd);
    unlink(agent.socket);
    return rmdir(agent.dir);
}

static struct dlr_look look(void)
{
    struct dlr_look is;

    dlr_watch_read(agent.page, 3, 2, (uint64_t)dlr_now_ns(), &is);
    return is;
}

static void what_a_program_says_is_on_its_page(void **state)
{
    struct dlr_watch *w;

    assert_int_equal(dlr_watch_open(&w), 0);
    assert_true(dlr_watch_active(w));
    assert_int_equal(agent.asked.type, DLR_LOCAL_WATCH);
    assert_true(agent.asked.rank == 3 && agent.asked.round == 2 &&
                agent.asked.arg[0] == 0);
    dlr_watch_total(w, 100);
    dlr_watch_step(w, 41);
    dlr_watch_step(w, 42);
    dlr_watch_phase(w, "eval", 1200);
    dlr_watch_pause(w);
    assert_int_equal(look().data, DLR_LOOK_STEPS);
    assert_true(look().step == 42 && look().total == 100 && look().paused);
    assert_string_equal(look().phase, "eval");
    assert_true(look().phase_limit_ns == UINT64_C(1200000000000));
    dlr_watch_phase(w, NULL, 0);
    dlr_watch_resume(w);
    assert_true(look().phase_ns == 0 && !look().paused && !look().finished);
    dlr_watch_close(w);
    assert_true(look().finished && look().step == 42);
}

static void say_all(struct dlr_watch *w)
{
    assert_false(dlr_watch_active(w));
    dlr_watch_step(w, 1);
    dlr_watch_total(w, 2);
    dlr_watch_phase(w, "eval", 3);
    dlr_watch_pause(w);
    dlr_watch_resume(w);
    dlr_watch_close(w);
}

static void say_nothing_is_seen(void)
{
    struct dlr_watch *w;

    assert_int_equal(dlr_watch_open(&w), 0);
    say_all(w);
    assert_true(look().step == UINT64_MAX && look().data == DLR_LOOK_NONE);
}

static void without_a_job_it_does_nothing(void **state)
{
    unsetenv("DLROVER_AGENT_SOCKET");
    say_nothing_is_seen();
    setenv("DLROVER_AGENT_SOCKET", agent.socket, 1);
    unsetenv("DLROVER_ROUND");
    say_nothing_is_seen();
    setenv("DLROVER_ROUND", "two", 1);
    say_nothing_is_seen();
    dlr_watch_close(NULL);
}

static void where_the_agent_does_not_answer_it_does_nothing(void **state)
{
    agent.refuses = true;
    say_nothing_is_seen();
    agent.hangs_up = true;
    say_nothing_is_seen();
    setenv("DLROVER_AGENT_SOCKET", "/nonexistent/agent.sock", 1);
    say_nothing_is_seen();
}

static void ahead_on_a_spare_it_does_nothing(void **state)
{
    setenv("DLROVER_WARM", "1", 1);
    say_nothing_is_seen();
    unsetenv("DLROVER_WARM");
}

static void a_rank_that_cannot_be_is_an_error(void **state)
{
    struct dlr_watch *w = NULL;

    setenv("RANK", "8", 1);
    assert_int_equal(dlr_watch_open(&w), -EINVAL);
    assert_null(w);
}

static void a_forked_child_says_nothing(void **state)
{
    struct dlr_watch *w;
    int status;
    pid_t pid;

    assert_int_equal(dlr_watch_open(&w), 0);
    dlr_watch_step(w, 1);
    pid = fork();
    if (pid == 0) {
        dlr_watch_step(w, 9);
        dlr_watch_pause(w);
        status = dlr_watch_active(w);
        dlr_watch_close(w);
        _exit(status);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(look().step == 1 && !look().paused && !look().finished);
    dlr_watch_close(w);
}

static void two_handles_write_one_page(void **state)
{
    struct dlr_watch *first, *second;

    assert_int_equal(dlr_watch_open(&first), 0);
    assert_int_equal(dlr_watch_open(&second), 0);
    dlr_watch_step(first, 1);
    dlr_watch_close(first);
    assert_true(look().finished);
    dlr_watch_step(second, 2);
    assert_true(look().step == 2 && !look().finished);
    dlr_watch_close(second);
}

static void where_calls_are_told_to_close_is_not_to_leave(void **state)
{
    struct dlr_watch *w;

    dlr_watch_put_flag(agent.page, DLR_WATCH_SEEN_CALLS, true);
    assert_int_equal(dlr_watch_open(&w), 0);
    dlr_watch_step(w, 1);
    dlr_watch_close(w);
    assert_false(look().finished);
}

static const struct dlr_watch_group group = {.id = 7,
                                             .size = 3,
                                             .my_rank = 2,
                                             .entered = 5,
                                             .left = 4,
                                             .call = 1024,
                                             .item = 4,
                                             .root = UINT32_MAX,
                                             .bytes = 400};

static void groups_are_told_as_they_are(void **state)
{
    struct dlr_watch_group now = group;
    struct dlr_watch *w;
    struct dlr_look seen;

    assert_int_equal(dlr_watch_open(&w), 0);
    assert_int_equal(dlr_watch_rank(w), agent.page->rank);
    assert_int_equal(look().data, DLR_LOOK_STEPS);
    assert_int_equal(dlr_watch_put_group(w, &now), 0);
    seen = look();
    assert_true(seen.data == DLR_LOOK_CALLS_TOO && seen.ncomms == 1);
    assert_true(seen.comms[0].id == 7 && seen.comms[0].size == 3 &&
                seen.comms[0].my_rank == 2 && seen.comms[0].op == 1024 &&
                seen.comms[0].type == 4 && seen.comms[0].root == UINT32_MAX &&
                seen.comms[0].entered == 5 && seen.comms[0].left == 4 &&
                seen.comms[0].bytes == 400 && seen.comms[0].lost == 0);
    now.left = 5;
    now.call = 0;
    now.lost = 1;
    assert_int_equal(dlr_watch_put_group(w, &now), 0);
    seen = look();
    assert_true(seen.ncomms == 1 && seen.comms[0].left == 5 && seen.comms[0].op == 0 &&
                seen.comms[0].lost == 1);
    assert_true(seen.comms[0].left_ns > seen.comms[0].entered_ns);
    now.id = DLR_LOOK_WORLD; /* MPI's */
    assert_int_equal(dlr_watch_put_group(w, &now), -EINVAL);
    dlr_watch_del_group(w, 7);
    assert_true(look().ncomms == 0);
    dlr_watch_close(w);
    assert_true(look().finished);
}

static void threads_that_stand_are_told_until_they_go_on(void **state)
{
    struct dlr_watch_wait waits[DLR_WATCH_WAITS + 1];
    struct dlr_watch *w;
    struct dlr_look seen;

    for (unsigned i = 0; i < DLR_WATCH_WAITS + 1; i++)
        waits[i] = (struct dlr_watch_wait){.group = 7,
                                           .peer = (int32_t)i - 2,
                                           .tid = 40 + i,
                                           .call = dlr_watch_call_number("recv"),
                                           .bytes = 8,
                                           .since_ns = (uint64_t)dlr_now_ns()};
    assert_int_equal(dlr_watch_open(&w), 0);
    dlr_watch_put_waits(w, waits, DLR_WATCH_WAITS + 1);
    seen = look();
    assert_true(seen.ncalls == DLR_WATCH_WAITS && seen.more_calls == 0);
    for (unsigned i = 0; i < DLR_WATCH_WAITS; i++)
        assert_true(seen.in[i].comm == 7 && seen.in[i].call >= 1024 &&
                    seen.in[i].peer == (int32_t)(seen.in[i].tid - 42));
    dlr_watch_put_waits(w, waits, 1);
    assert_true(look().ncalls == 1);
    dlr_watch_close(w);
    assert_true(look().ncalls == 0);
}

static void without_a_job_groups_are_told_to_nobody(void **state)
{
    const struct dlr_watch_wait wait = {.group = 7, .tid = 40};
    struct dlr_watch *w;

    unsetenv("DLROVER_AGENT_SOCKET");
    assert_int_equal(dlr_watch_open(&w), 0);
    assert_int_equal(dlr_watch_rank(w), -1);
    assert_int_equal(dlr_watch_put_group(w, &group), 0);
    dlr_watch_put_waits(w, &wait, 1);
    dlr_watch_del_group(w, 7);
    dlr_watch_close(w);
}

/* Who tells calls by MPI goes on to after this one has ended. */
static void another_that_tells_calls_is_not_ended(void **state)
{
    struct dlr_watch *w;

    dlr_watch_put_flag(agent.page, DLR_WATCH_SEEN_CALLS, true);
    assert_int_equal(dlr_watch_open(&w), 0);
    assert_int_equal(dlr_watch_put_group(w, &group), 0);
    dlr_watch_close(w);
    assert_true(look().data == DLR_LOOK_CALLS_TOO && !look().finished);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, start, stop)
    const struct CMUnitTest tests[] = {
        T(what_a_program_says_is_on_its_page),
        T(without_a_job_it_does_nothing),
        T(where_the_agent_does_not_answer_it_does_nothing),
        T(ahead_on_a_spare_it_does_nothing),
        T(a_rank_that_cannot_be_is_an_error),
        T(a_forked_child_says_nothing),
        T(two_handles_write_one_page),
        T(where_calls_are_told_to_close_is_not_to_leave),
        T(groups_are_told_as_they_are),
        T(threads_that_stand_are_told_until_they_go_on),
        T(without_a_job_groups_are_told_to_nobody),
        T(another_that_tells_calls_is_not_ended),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
