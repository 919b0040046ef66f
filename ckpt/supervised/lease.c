/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/supervised/lease.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ckpt/base/page.h"
#include "common/base/clock.h"

#define STACK_BYTES (256u << 10)
#define NS_PER_S 1000000000ull

/* One for the process, not one for each checkpoint that it opens: the lease goes on
 * when the program has closed its checkpoint, until its end.
 */
static struct {
    pid_t pid; /* whose timer and thread these are: a forked child has neither */
    timer_t timer;
    struct dlr_page *_Atomic page;
} lease;

static void wake(struct dlr_page *page)
{
    syscall(SYS_futex, &page->lease_seq, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void arm(uint64_t lease_ns)
{
    struct itimerspec when = {0}; /* all zero: never */

    if (lease_ns != DLR_PAGE_HELD)
        when.it_value = (struct timespec){(time_t)(lease_ns / NS_PER_S),
                                          (long)(lease_ns % NS_PER_S)};
    timer_settime(lease.timer, TIMER_ABSTIME, &when, NULL);
}

/* Sleeps until the agent writes the next lease; if it never does, the timer has the
 * last word.
 */
static void *keep_armed(void *arg)
{
    for (;;) {
        struct dlr_page *page = atomic_load(&lease.page);
        uint32_t seq = atomic_load(&page->lease_seq);

        arm(atomic_load(&page->lease_ns));
        if (page == atomic_load(&lease.page))
            syscall(SYS_futex, &page->lease_seq, FUTEX_WAIT, seq, NULL, NULL, 0);
    }
    return NULL;
}

/* While a process forks, a thread that writes to memory which the child inherits waits
 * until all of it is copied: 0.1 s and more for each GB. So the stack is memory that no
 * child inherits, and is there before it is needed; the thread writes to nothing else.
 * NULL: a usual stack will do.
 */
static void *make_stack(void)
{
    void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

    if (stack == MAP_FAILED)
        return NULL;
    if (madvise(stack, STACK_BYTES, MADV_WIPEONFORK) < 0) {
        munmap(stack, STACK_BYTES);
        return NULL;
    }
    memset(stack, 1, STACK_BYTES);
    return stack;
}

static int create_thread(pthread_t *ret_thread)
{
    void *stack = make_stack();
    pthread_attr_t attr;
    int rc;

    pthread_attr_init(&attr);
    rc = stack ? pthread_attr_setstack(&attr, stack, STACK_BYTES) : 0;
    rc = rc ? rc : pthread_create(ret_thread, &attr, keep_armed, NULL);
    pthread_attr_destroy(&attr);
    if (rc != EINVAL)
        return rc;
    munmap(stack, STACK_BYTES); /* too small for the program's thread-local data */
    return pthread_create(ret_thread, NULL, keep_armed, NULL);
}

/* A thread of its own, with every signal blocked: the program's may be anywhere. */
static int start_thread(struct dlr_err *err)
{
    sigset_t all, old;
    pthread_t thread;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = create_thread(&thread);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc > 0)
        return dlr_fail(err, -rc, "cannot start the lease's thread: %s", strerror(rc));
    pthread_setname_np(thread, "dlr-lease");
    pthread_detach(thread);
    return 0;
}

/* Slurm suspends a job with SIGTSTP and, two seconds later, SIGSTOP. The first would
 * stop us before the agent can hold the lease, so it is ignored unless the program
 * wants it.
 */
static void outlast_sigtstp(void)
{
    struct sigaction now;

    if (sigaction(SIGTSTP, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) &&
        now.sa_handler == SIG_DFL)
        signal(SIGTSTP, SIG_IGN);
}

/* A timer set to the past kills an interrupt later, and some instructions are run until
 * then.
 */
static void obey(uint64_t lease_ns)
{
    arm(lease_ns);
    if (lease_ns != 0 && lease_ns != DLR_PAGE_HELD &&
        lease_ns <= (uint64_t)dlr_now_ns())
        kill(getpid(), SIGKILL);
}

static int start(struct dlr_err *err)
{
    struct sigevent kill = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    int rc;

    if (timer_create(CLOCK_BOOTTIME, &kill, &lease.timer) < 0)
        return dlr_fail(err, -errno, "cannot create the lease's timer: %s",
                        strerror(errno));
    obey(atomic_load(&atomic_load(&lease.page)->lease_ns)); /* before anything is run */
    rc = start_thread(err);
    if (rc < 0) {
        timer_delete(lease.timer);
        return rc;
    }
    lease.pid = getpid();
    outlast_sigtstp();
    return 0;
}

/* The old page stays mapped, the thread may look at it still. */
static void leave(struct dlr_page *old)
{
    atomic_fetch_add(&old->lease_seq, 1);
    wake(old);
}

void dlr_lease_rest(void)
{
    static struct dlr_page none;

    if (lease.pid != getpid())
        return;
    atomic_store(&none.lease_ns, DLR_PAGE_HELD);
    leave(atomic_exchange(&lease.page, &none));
    arm(DLR_PAGE_HELD);
}

int dlr_lease_follow(int page_fd, struct dlr_err *err)
{
    struct dlr_page *page =
        mmap(NULL, DLR_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, page_fd, 0);
    struct dlr_page *old;

    if (page == MAP_FAILED)
        return dlr_fail(err, -errno, "cannot map the page of the lease: %s",
                        strerror(errno));
    old = atomic_exchange(&lease.page, page);
    if (lease.pid != getpid())
        return start(err);
    leave(old);
    return 0;
}
