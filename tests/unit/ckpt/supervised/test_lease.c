/* SPDX-License-Identifier: Apache-2.0 */
/* The timer that kills a worker: this program plays the agent, a child of it the
 * worker.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/base/page.h"
#include "ckpt/supervised/lease.h"
#include "common/base/clock.h"

#define SOON_MS 50    /* a lease that is to run out */
#define SPARE_MS 1000 /* one that ends after what is to be done before, as a rule */
#define TRIES 6       /* a machine too busy for that: with twice the time, again */
#define LONG_MS 600000

static bool forks; /* the next worker does */

struct worker {
    pid_t pid;
    int page_fd;
    struct dlr_page *page;
    int said; /* the worker writes a byte when it follows, and when it is told to */
    int tell;
};

static void set_lease(struct dlr_page *page, uint64_t lease_ns)
{
    atomic_store(&page->lease_ns, lease_ns);
    atomic_fetch_add(&page->lease_seq, 1);
    syscall(SYS_futex, &page->lease_seq, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static uint64_t in_ms(int64_t ms)
{
    return (uint64_t)(dlr_now_ns() + ms * 1000000);
}

static int make_page(struct dlr_page **ret_page)
{
    int fd = memfd_create("page", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, DLR_PAGE_SIZE), 0);
    *ret_page = mmap(NULL, DLR_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(*ret_page, MAP_FAILED);
    return fd;
}

/* In the worker: answers each byte with a byte, until there is nobody to answer. */
static void answer(int in, int out)
{
    char c;

    while (read(in, &c, 1) == 1 && write(out, &c, 1) == 1)
        ;
}

static void *nothing(void *arg)
{
    return arg;
}

/* A child of the worker: as a loader of data it uses threads, and lives while it is
 * spoken to.
 */
static void begin_child(int in, int out)
{
    pthread_t thread;
    char c;

    if (fork() != 0)
        return;
    if (pthread_create(&thread, NULL, nothing, NULL) != 0 ||
        pthread_join(thread, NULL) != 0 || write(out, "c", 1) != 1)
        _exit(1);
    while (read(in, &c, 1) == 1 && write(out, "d", 1) == 1)
        ;
    _exit(0);
}

#define RESTS (-2) /* as more_fd: it waits for a round */

/* A worker that follows a page with this lease; more_fd (-1: none) is followed after
 * it.
 */
static struct worker begin(uint64_t lease_ns, int more_fd)
{
    struct worker w;
    int in[2], out[2];
    char c = 'x';

    w.page_fd = make_page(&w.page);
    set_lease(w.page, lease_ns);
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    w.pid = fork();
    if (w.pid == 0) {
        struct dlr_err err;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(in[1]);
        close(out[0]);
        if (dlr_lease_follow(w.page_fd, &err) < 0 ||
            (more_fd >= 0 && dlr_lease_follow(more_fd, &err) < 0))
            _exit(1);
        if (more_fd == RESTS)
            dlr_lease_rest();
        if (forks) {
            begin_child(in[0], out[1]);
            for (;;)
                pause();
        }
        answer(in[0], out[1]);
        _exit(0);
    }
    close(in[0]);
    close(out[1]);
    w.tell = in[1];
    w.said = out[0];
    if (!forks)
        (void)!write(w.tell, &c, 1); /* it may have been killed already */
    return w;
}

static bool heard(const struct worker *w)
{
    char c;

    return read(w->said, &c, 1) == 1;
}

static bool answers(const struct worker *w)
{
    return write(w->tell, "y", 1) == 1 && heard(w);
}

static void wait_until(uint64_t ns)
{
    struct timespec when = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

    while (clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &when, NULL) != 0)
        ;
}

static int end(struct worker *w)
{
    int status;

    assert_int_equal(waitpid(w->pid, &status, 0), w->pid);
    close(w->tell);
    close(w->said);
    close(w->page_fd);
    munmap(w->page, DLR_PAGE_SIZE);
    return status;
}

static void leave(struct worker *w)
{
    close(w->tell);
    w->tell = -1;
    assert_int_equal(end(w), 0); /* it ends by itself: nobody has killed it */
}

static void a_lease_that_runs_out_kills(void **state)
{
    struct worker w = begin(in_ms(LONG_MS), -1);

    assert_true(heard(&w));
    set_lease(w.page, in_ms(SOON_MS));
    assert_int_equal(end(&w), SIGKILL);
}

static void a_process_that_waits_for_a_round_has_no_lease(void **state)
{
    struct worker w = begin(in_ms(LONG_MS), RESTS);

    assert_true(heard(&w));
    set_lease(w.page, in_ms(SOON_MS));
    wait_until(in_ms(2 * SOON_MS));
    assert_true(answers(&w));
    leave(&w);
}

/* Stops the worker while its lease runs; false: the lease was over first. */
static bool stop(const struct worker *w)
{
    siginfo_t info = {0};

    kill(w->pid, SIGSTOP);
    /* WEXITED: a wait for the stop of one that was killed has no end. */
    assert_int_equal(waitid(P_PID, (id_t)w->pid, &info, WSTOPPED | WEXITED | WNOWAIT),
                     0);
    return info.si_code == CLD_STOPPED;
}

/* The lease is set before the worker's first word, so this is no thread's doing. */
static void a_stopped_process_is_killed_where_it_stands(void **state)
{
    uint64_t lease_ns = 0;
    struct worker w = {0};
    siginfo_t info;

    for (int i = 0; w.pid == 0; i++) {
        assert_in_range(i, 0, TRIES - 1);
        lease_ns = in_ms(SPARE_MS << i);
        w = begin(lease_ns, -1);
        if (heard(&w) && stop(&w))
            break;
        end(&w);
        w.pid = 0;
    }
    assert_int_equal(write(w.tell, "y", 1), 1); /* would be answered after a SIGCONT */
    assert_int_equal(waitid(P_PID, (id_t)w.pid, &info, WEXITED | WNOWAIT), 0);
    assert_true((uint64_t)dlr_now_ns() >= lease_ns);
    kill(w.pid, SIGCONT);
    assert_false(heard(&w));
    assert_int_equal(end(&w), SIGKILL);
}

static void one_that_is_over_already_kills_before_a_word(void **state)
{
    struct worker w = begin(1, -1);

    assert_false(heard(&w));
    assert_int_equal(end(&w), SIGKILL);
}

/* A worker that lives on when its first lease, which next_ns has taken the place of, is
 * over.
 */
static struct worker outlive(uint64_t next_ns)
{
    for (int i = 0; i < TRIES; i++) {
        uint64_t first_ns = in_ms(SPARE_MS << i);
        struct worker w = begin(first_ns, -1);

        if (heard(&w)) {
            set_lease(w.page, next_ns);
            wait_until(first_ns + 50000000);
            if (answers(&w))
                return w;
        }
        assert_int_equal(end(&w), SIGKILL);
    }
    fail_msg("the first lease counted to its end");
    return (struct worker){0};
}

static void a_renewed_one_does_not(void **state)
{
    struct worker w = outlive(in_ms(LONG_MS));

    leave(&w);
}

static void a_held_one_has_no_end_until_the_next(void **state)
{
    struct worker w = outlive(DLR_PAGE_HELD);

    set_lease(w.page, in_ms(SOON_MS));
    assert_int_equal(end(&w), SIGKILL);
}

static void one_that_was_never_set_does_nothing(void **state)
{
    struct worker w = begin(0, -1);

    assert_true(heard(&w));
    leave(&w);
}

static void a_forked_child_has_no_timer_and_threads_of_its_own(void **state)
{
    struct worker w;
    int status;
    char c = '\0';

    forks = true;
    w = begin(in_ms(LONG_MS), -1);
    forks = false;
    assert_int_equal(read(w.said, &c, 1), 1);
    assert_int_equal(c, 'c');
    set_lease(w.page, in_ms(SOON_MS));
    assert_int_equal(waitpid(w.pid, &status, 0), w.pid);
    assert_int_equal(status, SIGKILL);
    assert_true(answers(&w)); /* the child does */
    close(w.tell);
    assert_false(heard(&w)); /* and now it has ended */
    close(w.said);
    close(w.page_fd);
    munmap(w.page, DLR_PAGE_SIZE);
}

/* A checkpoint that is opened again gets a new page; the old one is not written any
 * more.
 */
static void the_newest_page_counts(void **state)
{
    bool lives = false;
    struct dlr_page *more;
    int fd = make_page(&more);
    struct worker w;

    set_lease(more, in_ms(LONG_MS));
    for (int i = 0; !lives; i++) {
        uint64_t first_ns = in_ms(SPARE_MS << i);

        assert_in_range(i, 0, TRIES - 1);
        w = begin(first_ns, fd);
        wait_until(first_ns + 50000000);
        lives = heard(&w) && answers(&w);
        if (!lives)
            assert_int_equal(end(&w), SIGKILL);
    }
    set_lease(more, in_ms(SOON_MS));
    assert_int_equal(end(&w), SIGKILL);
    munmap(more, DLR_PAGE_SIZE);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lease_that_runs_out_kills),
        cmocka_unit_test(a_process_that_waits_for_a_round_has_no_lease),
        cmocka_unit_test(a_stopped_process_is_killed_where_it_stands),
        cmocka_unit_test(one_that_is_over_already_kills_before_a_word),
        cmocka_unit_test(a_renewed_one_does_not),
        cmocka_unit_test(a_held_one_has_no_end_until_the_next),
        cmocka_unit_test(one_that_was_never_set_does_nothing),
        cmocka_unit_test(a_forked_child_has_no_timer_and_threads_of_its_own),
        cmocka_unit_test(the_newest_page_counts),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
