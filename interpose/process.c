/* SPDX-License-Identifier: Apache-2.0 */
#include "interpose/process.h"

#include <dlfcn.h>
#include <time.h>

#include "common/base/clock.h"
#include "interpose/attach.h"
#include "interpose/communicators.h"
#include "watch/write.h"

#define THREAD_MULTIPLE 3 /* of Open MPI and MPICH */
#define WINDOW_NS 1000000000u
#define WINDOW_CALLS 256 /* less than this many calls do not read a clock for it */
#define WINDOWS_OVER 3
#define SHARE 333 /* one part in so many: 0.3 % */
#define CLOCK_READS 32
#define REST_NS 130 /* of a call beside its clock reads: docs/results/watch.md */

struct dlr_mpi_process dlr_mpi_process;

static int64_t tick_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

uint64_t dlr_mpi_now(void)
{
    return dlr_mpi_process.coarse ? (uint64_t)(tick_ns() + dlr_mpi_process.coarse_ns)
                                  : (uint64_t)dlr_now_ns();
}

static uint64_t clock_cost_ns(void)
{
    int64_t begin = dlr_now_ns(), end = begin;

    for (unsigned i = 0; i < CLOCK_READS; i++)
        end = dlr_now_ns();
    return (uint64_t)(end - begin) / CLOCK_READS;
}

void dlr_mpi_process_begin(void)
{
    struct dlr_mpi_process *p = &dlr_mpi_process;

    if (p->map.page || p->tried)
        return;
    p->tried = true;
    if (dlr_mpi_attach(&p->map) < 0)
        return;
    p->call_cost_ns = 2 * clock_cost_ns() + REST_NS;
    p->many_threads = true; /* until it is known */
    p->first = !(atomic_fetch_or(&p->map.page->flags, DLR_WATCH_SEEN_CALLS) &
                 DLR_WATCH_SEEN_CALLS);
}

/* A process that others have spawned has ranks of its own, which are not the job's. */
static bool is_spawned(const struct dlr_mpi_abi *abi)
{
    uintptr_t parent = abi->comm_null;
    const uintptr_t a[] = {(uintptr_t)&parent};

    return dlr_mpi_ask("PMPI_Comm_get_parent", 1, a) == 0 &&
           dlr_mpi_handle(abi, parent) != abi->comm_null;
}

/* Where MPI has dealt the ranks otherwise than the launcher, the page is another's. */
static bool is_page_of(const struct dlr_mpi_abi *abi, const struct dlr_watch_page *page)
{
    int rank = -1;
    const uintptr_t a[] = {abi->world, (uintptr_t)&rank};

    return dlr_mpi_ask("PMPI_Comm_rank", 2, a) == 0 && rank == page->rank;
}

/* No calls are told there, or by another process. */
static void leave_page(struct dlr_mpi_process *p)
{
    if (p->map.page && p->first)
        dlr_watch_put_flag(p->map.page, DLR_WATCH_SEEN_CALLS, false);
    dlr_watch_map_close(&p->map);
}

void dlr_mpi_process_ready(void)
{
    struct dlr_mpi_process *p = &dlr_mpi_process;
    const struct dlr_mpi_abi *abi = p->map.page ? dlr_mpi_abi() : NULL;
    int level = THREAD_MULTIPLE;
    const uintptr_t a[] = {(uintptr_t)&level};

    if (!abi || is_spawned(abi) || !is_page_of(abi, p->map.page)) {
        leave_page(p);
        return;
    }
    p->many_threads =
        dlr_mpi_ask("PMPI_Query_thread", 1, a) != 0 || level == THREAD_MULTIPLE;
    p->type_size = dlr_mpi_find("PMPI_Type_size");
    p->type_null = abi->type_null;
    dlr_mpi_comms_begin(abi, p->map.page, dlr_mpi_now());
    dlr_watch_put_flag(p->map.page, DLR_WATCH_FINISHED, false); /* by one before it */
    __atomic_store_n(&p->abi, abi, __ATOMIC_RELEASE);
}

void dlr_mpi_process_end(void)
{
    if (dlr_mpi_process.map.page)
        dlr_watch_put_flag(dlr_mpi_process.map.page, DLR_WATCH_FINISHED, true);
}

void dlr_mpi_process_left(void)
{
    dlr_watch_map_close(&dlr_mpi_process.map);
}

void dlr_mpi_weigh(struct dlr_mpi_thread *thread, uint64_t now_ns)
{
    struct dlr_mpi_process *p = &dlr_mpi_process;
    uint64_t step, took_ns = now_ns - thread->window_ns;

    if (++thread->window_calls < WINDOW_CALLS || took_ns < WINDOW_NS || p->coarse)
        return;
    step = DLR_WATCH_GET(p->map.page->step);
    if (step != DLR_WATCH_NEVER && step == thread->window_step)
        return;
    if (!thread->window_ns || thread->window_calls * p->call_cost_ns <= took_ns / SHARE)
        thread->windows_over = 0;
    else if (++thread->windows_over == WINDOWS_OVER) {
        p->coarse_ns = dlr_now_ns() - tick_ns();
        p->coarse = true;
        dlr_watch_put_flag(p->map.page, DLR_WATCH_UNTIMED, true);
    }
    thread->window_ns = now_ns;
    thread->window_step = step;
    thread->window_calls = 0;
}
