/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/unwind/hold.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "common/base/clock.h"

#define ALONE_MS 5 /* for one thread to stop before the next one is held, too */
#define PAGE 4096u
#define PIECES (DLR_UNWIND_STACK / PAGE)

static void take_registers(struct dlr_held *held)
{
#if defined(__x86_64__)
    held->sp = held->regs.rsp;
    held->pc = held->regs.rip;
    held->thread_pointer = held->regs.fs_base;
#elif defined(__aarch64__)
    held->sp = held->regs.sp;
    held->pc = held->regs.pc;
#endif
}

/* Page by page: the stack may end before. */
static void copy_stack(struct dlr_held *held)
{
    struct iovec here, there[PIECES];
    uint64_t at = held->sp, end = held->sp + DLR_UNWIND_STACK;
    unsigned n = 0;
    ssize_t got;

    held->stack = malloc(DLR_UNWIND_STACK);
    if (!held->stack || held->sp == 0 || end < at)
        return;
    while (at < end && n < PIECES) {
        uint64_t next = (at / PAGE + 1) * PAGE;

        there[n++] = (struct iovec){(void *)(uintptr_t)at, next - at};
        at = next;
    }
    here = (struct iovec){held->stack, DLR_UNWIND_STACK};
    got = process_vm_readv(held->tid, &here, 1, there, n, 0);
    held->stack_size = got > 0 ? (size_t)got : 0;
}

static void copy(struct dlr_held *held, dlr_held_fn fn, void *arg)
{
    struct iovec regs = {&held->regs, sizeof(held->regs)};

    held->rc = 0;
    if (ptrace(PTRACE_GETREGSET, held->tid, (void *)NT_PRSTATUS, &regs) < 0) {
        held->rc = -errno;
        return;
    }
    take_registers(held);
    copy_stack(held);
    if (fn)
        fn(held, arg);
}

/* A signal that had just been on its way to it arrives all the same: a stop of ours has
 * an event above its 16 bits. One that is killed meanwhile is still to be waited for: its
 * process would not end before we do.
 */
static void let_go(struct dlr_held *held, int status)
{
    bool signal = WIFSTOPPED(status) && status >> 16 == 0;

    held->pending = ptrace(PTRACE_DETACH, held->tid, NULL,
                           (void *)(long)(signal ? WSTOPSIG(status) : 0)) < 0;
}

static void seize(struct dlr_held *held)
{
    held->pending = ptrace(PTRACE_SEIZE, held->tid, NULL, NULL) == 0;
    if (!held->pending || ptrace(PTRACE_INTERRUPT, held->tid, NULL, NULL) < 0)
        held->rc = -errno;
}

/* Those that have stopped; the number that has not. */
static unsigned collect(struct dlr_held *held, unsigned n, dlr_held_fn fn, void *arg)
{
    unsigned pending = 0;

    for (unsigned i = 0; i < n; i++) {
        struct dlr_held *h = &held[i];
        int status;
        pid_t pid;

        if (!h->pending)
            continue;
        pid = waitpid(h->tid, &status, __WALL | WNOHANG);
        if (pid == 0) {
            pending++;
        } else if (pid < 0 || !WIFSTOPPED(status)) {
            h->rc = h->stack ? h->rc : -ESRCH;
            h->pending = false;
        } else {
            if (!h->stack)
                copy(h, fn, arg);
            let_go(h, status);
            pending += h->pending;
        }
    }
    return pending;
}

/* Until all of n have been let go, or the time is over. */
static void wait_for(struct dlr_held *held, unsigned n, int64_t deadline_ms,
                     dlr_held_fn fn, void *arg)
{
    sigset_t child;

    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    while (collect(held, n, fn, arg)) {
        int64_t left = deadline_ms - dlr_now_ms();
        struct timespec wait = {left / 1000, left % 1000 * 1000000};

        if (left <= 0)
            break;
        sigtimedwait(&child, NULL, &wait);
    }
}

/* One after the other, so that none waits for others to be copied. */
void dlr_hold_threads(struct dlr_held *held, unsigned n, int64_t deadline_ms,
                      dlr_held_fn fn, void *arg)
{
    for (unsigned i = 0; i < n; i++)
        held[i].rc = -ETIMEDOUT;
    for (unsigned i = 0; i < n && dlr_now_ms() < deadline_ms; i++) {
        seize(&held[i]);
        wait_for(&held[i], 1, dlr_now_ms() + ALONE_MS, fn, arg);
    }
    wait_for(held, n, deadline_ms, fn, arg);
    for (unsigned i = 0; i < n; i++)
        if (held[i].pending) /* it has not stopped: at our end the kernel forgets us */
            ptrace(PTRACE_DETACH, held[i].tid, NULL, NULL);
}

void dlr_held_done(struct dlr_held *held, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        free(held[i].stack);
        free(held[i].python);
    }
}
