/* SPDX-License-Identifier: Apache-2.0 */
#include "interpose/waits.h"

#include "watch/look.h"
#include "watch/write.h"

void dlr_mpi_block(struct dlr_mpi_thread *thread, uint32_t number,
                   const struct dlr_mpi_request *request)
{
    if (thread->nlines < DLR_MPI_LINES)
        thread->lines[thread->nlines++] = dlr_watch_block(
            dlr_mpi_process.map.page, thread->tid, number, request->id, request->peer,
            request->tag, request->bytes, thread->entered_ns);
}

void dlr_mpi_request_ended(const struct dlr_mpi_request *request, uint64_t now_ns)
{
    const struct dlr_mpi_abi *abi = dlr_mpi_process.abi;

    if (request->collective && request->comm && request->comm->member.id == request->id)
        dlr_mpi_comm_leave(request->comm, dlr_mpi_process.map.page, now_ns);
    if (request->made)
        dlr_mpi_comm_add(abi, dlr_mpi_process.map.page, &request->birth,
                         dlr_mpi_handle_at(abi, request->made, 0), now_ns);
}

static bool is_list(enum dlr_mpi_kind kind)
{
    return kind != DLR_MPI_WAIT && kind != DLR_MPI_TEST;
}

static bool is_any(enum dlr_mpi_kind kind)
{
    return kind == DLR_MPI_WAITANY || kind == DLR_MPI_WAITSOME ||
           kind == DLR_MPI_TESTANY || kind == DLR_MPI_TESTSOME;
}

/* Of several of which one is enough there is one line: any of them. */
static void block_any(struct dlr_mpi_thread *thread, const struct dlr_mpi_wait *wait,
                      uint32_t number)
{
    struct dlr_mpi_request request, all = {.peer = DLR_LOOK_NOBODY};
    unsigned found = 0;

    for (unsigned i = 0; i < wait->n && found < 2; i++)
        if (dlr_mpi_request_peek(wait->kept[i], &request) && found++ == 0)
            all = request;
    if (found > 1) {
        all.peer = DLR_LOOK_ANY;
        all.bytes = 0;
        all.id = 0;
    }
    dlr_mpi_block(thread, number, &all);
}

static void block_all(struct dlr_mpi_thread *thread, const struct dlr_mpi_wait *wait,
                      uint32_t number)
{
    static const struct dlr_mpi_request unknown = {.peer = DLR_LOOK_NOBODY};
    struct dlr_mpi_request request;

    for (unsigned i = 0; i < wait->n && thread->nlines < DLR_MPI_LINES; i++)
        if (dlr_mpi_request_peek(wait->kept[i], &request))
            dlr_mpi_block(thread, number, &request);
    if (!thread->nlines)
        dlr_mpi_block(thread, number, &unknown);
}

/* The handles are read before: those that have ended are null after it. */
void dlr_mpi_wait_begin(struct dlr_mpi_thread *thread, struct dlr_mpi_wait *wait,
                        uint32_t number)
{
    const struct dlr_mpi_call *call = wait->call;
    const uintptr_t array = wait->a[call->request];
    const int n = is_list(call->kind) ? (int)wait->a[call->count] : 1;

    wait->n = 0;
    for (int i = 0; i < n && wait->n < DLR_MPI_KEPT && array; i++)
        wait->kept[wait->n++] =
            dlr_mpi_handle_at(dlr_mpi_process.abi, array, (unsigned)i);
    if (!thread)
        return;
    if (is_any(call->kind))
        block_any(thread, wait, number);
    else
        block_all(thread, wait, number);
}

static void end_one(const struct dlr_mpi_wait *wait, int index, uint64_t now_ns)
{
    struct dlr_mpi_request request;

    if (index >= 0 && (unsigned)index < wait->n &&
        dlr_mpi_request_take(wait->kept[index], false, &request))
        dlr_mpi_request_ended(&request, now_ns);
}

static bool end_all(const struct dlr_mpi_wait *wait, uint64_t now_ns)
{
    for (unsigned i = 0; i < wait->n; i++)
        end_one(wait, (int)i, now_ns);
    return true;
}

/* A flag, an index or a count that the call has written. */
static int written(const struct dlr_mpi_wait *wait, int argument)
{
    const int *at = argument < 0 ? NULL : (const int *)wait->a[argument];

    return at ? *at : 0;
}

static bool end_listed(const struct dlr_mpi_wait *wait, uint64_t now_ns)
{
    const int n = written(wait, wait->call->root);
    const int *indices = (const int *)wait->a[wait->call->tag];

    for (int i = 0; i < n; i++)
        end_one(wait, indices[i], now_ns);
    return n > 0;
}

bool dlr_mpi_wait_end(struct dlr_mpi_wait *wait, uint64_t now_ns)
{
    const struct dlr_mpi_call *call = wait->call;

    switch (call->kind) {
    case DLR_MPI_WAIT:
    case DLR_MPI_WAITALL:
        return end_all(wait, now_ns);
    case DLR_MPI_TEST:
    case DLR_MPI_TESTALL:
        return written(wait, call->root) && end_all(wait, now_ns);
    case DLR_MPI_WAITANY:
        end_one(wait, written(wait, call->root), now_ns);
        return true;
    case DLR_MPI_TESTANY:
        if (!written(wait, call->root))
            return false;
        end_one(wait, written(wait, call->tag), now_ns);
        return true;
    default:
        return end_listed(wait, now_ns);
    }
}
