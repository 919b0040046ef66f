/* SPDX-License-Identifier: Apache-2.0 */
#include "interpose/track.h"

#include <unistd.h>

#include "interpose/waits.h"
#include "watch/look.h"
#include "watch/ring.h"

#define MARK 0x6d2f91e5c37a40b8u
#define POLLS 1000 /* failed ones in a row, before a thread counts as waiting */

/* What an MPI returns whose functions are not there: no program gets that far. */
#define NO_MPI 16

struct under_way {
    const struct dlr_mpi_call *call;
    const uintptr_t *a;
    struct dlr_mpi_comm *comm;
    struct dlr_mpi_operation op;
    struct dlr_mpi_birth birth;
    uint32_t sequence;
    bool inside; /* of a collective that ends with the call */
};

static _Thread_local struct dlr_mpi_thread self;

/* --- before ------------------------------------------------------------------------ */

static uint64_t bytes_of(const struct dlr_mpi_call *call, const uintptr_t *a,
                         int *ret_size)
{
    const struct dlr_mpi_process *p = &dlr_mpi_process;
    const uintptr_t type = call->type < 0 ? 0 : dlr_mpi_handle(p->abi, a[call->type]);
    const uintptr_t ask[] = {type, (uintptr_t)ret_size};
    int64_t count;

    *ret_size = 0;
    if (call->type < 0 || call->count < 0 || type == p->type_null || !type ||
        !p->type_size)
        return 0;
    count = call->wide ? (int64_t)a[call->count] : (int)a[call->count];
    if (count < 0 || (int)dlr_mpi_invoke(p->type_size, 2, ask) != 0 || *ret_size < 0)
        *ret_size = 0;
    return (uint64_t)count * (uint64_t)*ret_size;
}

static bool all_members_alike(enum dlr_mpi_kind kind)
{
    return kind == DLR_MPI_COLLECTIVE || kind == DLR_MPI_ICOLLECTIVE ||
           kind == DLR_MPI_COLLECTIVE_INIT;
}

/* The pair of MPI_X and MPI_X_c has one number: members may differ in that. */
static uint32_t common_number(uint32_t number)
{
    return dlr_mpi_calls[number].wide ? number - 1 : number;
}

static void describe(struct under_way *u, uint32_t number)
{
    const struct dlr_mpi_call *call = u->call;
    const struct dlr_mpi_abi *abi = dlr_mpi_process.abi;
    int size = 0, root = -1;

    if (!abi)
        return;
    if (call->comm >= 0)
        u->comm = dlr_mpi_comm_of(dlr_mpi_handle(abi, u->a[call->comm]));
    if (call->root >= 0 && all_members_alike(call->kind))
        root = (int)u->a[call->root];
    u->op.bytes = bytes_of(call, u->a, &size);
    u->op.call = common_number(number);
    u->op.root = root < 0 ? DLR_WATCH_NO_ROOT : (uint32_t)root;
    if (all_members_alike(call->kind) && u->comm && !u->comm->inter)
        u->op.agreed = (uint32_t)size;
}

static struct dlr_mpi_request as_request(const struct under_way *u, int peer_at)
{
    const struct dlr_mpi_call *call = u->call;
    struct dlr_mpi_request r = {.comm = u->comm,
                                .peer = DLR_LOOK_NOBODY,
                                .call = u->op.call,
                                .bytes = u->op.bytes};

    if (u->comm) {
        r.id = u->comm->member.id;
        if (peer_at >= 0)
            r.peer =
                dlr_mpi_comm_peer(dlr_mpi_process.abi, u->comm, (int)u->a[peer_at]);
    }
    if (call->tag >= 0)
        r.tag = (int)u->a[call->tag];
    return r;
}

static void block(struct under_way *u, int peer_at)
{
    const struct dlr_mpi_request r = as_request(u, peer_at);

    dlr_mpi_block(&self, u->op.call, &r);
}

static void enter_collective(struct under_way *u)
{
    if (!u->comm)
        return;
    dlr_mpi_comm_enter(u->comm, dlr_mpi_process.map.page, &u->op, self.entered_ns);
    u->sequence = (uint32_t)u->comm->member.entered;
    u->inside = true;
}

/* Of what MPI_Start begins only collectives have something to be counted. */
static void start(const struct under_way *u, int n)
{
    const struct dlr_mpi_abi *abi = dlr_mpi_process.abi;
    struct dlr_mpi_request r;

    for (int i = 0; i < n; i++) {
        uintptr_t handle = dlr_mpi_handle_at(abi, u->a[u->call->request], (unsigned)i);
        const struct dlr_mpi_operation *op;

        if (!dlr_mpi_request_peek(handle, &r) || !r.comm || r.collective ||
            dlr_mpi_calls[r.call].kind != DLR_MPI_COLLECTIVE_INIT)
            continue;
        op = &(struct dlr_mpi_operation){r.call, 0, DLR_WATCH_NO_ROOT, r.bytes};
        dlr_mpi_comm_enter(r.comm, dlr_mpi_process.map.page, op, self.entered_ns);
        dlr_mpi_request_start(handle);
    }
}

static void forget(const struct under_way *u)
{
    struct dlr_mpi_request r;

    if (dlr_mpi_request_take(
            dlr_mpi_handle_at(dlr_mpi_process.abi, u->a[u->call->request], 0), true,
            &r))
        dlr_mpi_request_ended(&r, self.entered_ns);
}

static void begin(struct under_way *u)
{
    const struct dlr_mpi_call *call = u->call;

    switch (call->kind) {
    case DLR_MPI_SEND:
    case DLR_MPI_RECEIVE:
        block(u, call->peer);
        break;
    case DLR_MPI_EXCHANGE:
        block(u, call->peer);
        block(u, call->root);
        break;
    case DLR_MPI_CREATE:
        u->birth = dlr_mpi_comm_birth(u->comm, true, 0);
        enter_collective(u);
        block(u, -1);
        break;
    case DLR_MPI_COLLECTIVE:
    case DLR_MPI_NEIGHBOR:
        enter_collective(u);
        block(u, -1);
        break;
    case DLR_MPI_ICREATE:
        u->birth = dlr_mpi_comm_birth(u->comm, true, 0);
        enter_collective(u);
        break;
    case DLR_MPI_ICOLLECTIVE:
        enter_collective(u);
        break;
    case DLR_MPI_CREATE_GROUP:
        u->birth = dlr_mpi_comm_birth(u->comm, false, (int)u->a[call->tag]);
        u->comm = NULL;
        block(u, -1);
        break;
    case DLR_MPI_START:
        start(u, 1);
        break;
    case DLR_MPI_STARTALL:
        start(u, (int)u->a[call->count]);
        break;
    case DLR_MPI_FORGET:
        forget(u);
        break;
    case DLR_MPI_FREE:
        dlr_mpi_comm_del(
            dlr_mpi_process.map.page,
            dlr_mpi_handle_at(dlr_mpi_process.abi, u->a[call->request], 0));
        block(u, -1);
        break;
    case DLR_MPI_OTHER:
    case DLR_MPI_FILE:
    case DLR_MPI_INIT:
    case DLR_MPI_FINALIZE:
        block(u, -1);
        break;
    default:
        break;
    }
}

/* --- after ------------------------------------------------------------------------- */

static void keep_request(struct under_way *u, uint64_t now_ns)
{
    const struct dlr_mpi_abi *abi = dlr_mpi_process.abi;
    struct dlr_mpi_request r = as_request(u, u->call->peer), old;
    const bool begun =
        u->call->kind == DLR_MPI_ICOLLECTIVE || u->call->kind == DLR_MPI_ICREATE;

    r.handle = dlr_mpi_handle_at(abi, u->a[u->call->request], 0);
    r.collective = begun && u->comm;
    r.persistent =
        u->call->kind == DLR_MPI_PERSISTENT || u->call->kind == DLR_MPI_COLLECTIVE_INIT;
    if (u->call->kind == DLR_MPI_ICREATE) {
        r.made = u->a[u->call->root];
        r.birth = u->birth;
    }
    if (r.handle == abi->request_null || !dlr_mpi_request_add(&r, &old)) {
        dlr_mpi_request_ended(&r, now_ns);
        return;
    }
    old.made = 0; /* it has ended unseen: that memory may be gone */
    if (old.handle)
        dlr_mpi_request_ended(&old, now_ns);
}

static void keep_comm(struct under_way *u, uint64_t now_ns)
{
    dlr_mpi_comm_add(dlr_mpi_process.abi, dlr_mpi_process.map.page, &u->birth,
                     dlr_mpi_handle_at(dlr_mpi_process.abi, u->a[u->call->request], 0),
                     now_ns);
}

static void finish(struct under_way *u, bool ok, uint64_t now_ns)
{
    switch (u->call->kind) {
    case DLR_MPI_ISEND:
    case DLR_MPI_IRECEIVE:
    case DLR_MPI_PERSISTENT:
    case DLR_MPI_COLLECTIVE_INIT:
        if (ok)
            keep_request(u, now_ns);
        break;
    case DLR_MPI_ICOLLECTIVE:
    case DLR_MPI_ICREATE:
        u->inside = u->inside && !ok; /* else the request ends it */
        if (ok)
            keep_request(u, now_ns);
        break;
    case DLR_MPI_CREATE:
    case DLR_MPI_CREATE_GROUP:
        if (ok)
            keep_comm(u, now_ns);
        break;
    default:
        break;
    }
    if (u->inside)
        dlr_mpi_comm_leave(u->comm, dlr_mpi_process.map.page, now_ns);
}

static enum dlr_ring_kind ring_kind(enum dlr_mpi_kind kind)
{
    switch (kind) {
    case DLR_MPI_SEND:
    case DLR_MPI_RECEIVE:
    case DLR_MPI_EXCHANGE:
        return DLR_RING_MESSAGE;
    case DLR_MPI_COLLECTIVE:
    case DLR_MPI_NEIGHBOR:
    case DLR_MPI_CREATE:
        return DLR_RING_COLLECTIVE;
    case DLR_MPI_FILE:
        return DLR_RING_FILE;
    default:
        return DLR_RING_WAIT;
    }
}

static void clear_lines(uint64_t now_ns)
{
    for (unsigned i = 0; i < self.nlines; i++)
        dlr_watch_clear(dlr_mpi_process.map.page, self.lines[i], now_ns);
    self.nlines = 0;
}

static void put_ring(const struct under_way *u, uint64_t now_ns)
{
    const struct dlr_watch_map *map = &dlr_mpi_process.map;
    const struct dlr_ring_entry entry = {.began_ns = self.entered_ns,
                                         .took_ns = now_ns - self.entered_ns,
                                         .bytes = u->op.bytes,
                                         .seq = u->sequence,
                                         .op = (uint16_t)u->op.call,
                                         .comm = u->comm && u->comm->line >= 0
                                                     ? (uint16_t)u->comm->line
                                                     : DLR_RING_NO_COMM,
                                         .kind = ring_kind(u->call->kind)};

    if (map->ring && !dlr_mpi_process.coarse)
        dlr_ring_put(map->ring, map->records, &entry);
}

static void count(uint64_t bytes, uint64_t waited_ns)
{
    struct dlr_watch_page *page = dlr_mpi_process.map.page;

    if (dlr_mpi_process.many_threads) {
        dlr_watch_add(page, 1, bytes, waited_ns);
        return;
    }
    DLR_WATCH_PUT(page->calls, DLR_WATCH_GET(page->calls) + 1);
    DLR_WATCH_PUT(page->bytes, DLR_WATCH_GET(page->bytes) + bytes);
    DLR_WATCH_PUT(page->waited_ns, DLR_WATCH_GET(page->waited_ns) + waited_ns);
}

/* --- a call ------------------------------------------------------------------------ */

/* Of those that wait for nobody no time is taken. */
static bool is_timed(enum dlr_mpi_kind kind)
{
    return kind != DLR_MPI_LOCAL && kind != DLR_MPI_ISEND && kind != DLR_MPI_IRECEIVE &&
           kind != DLR_MPI_PERSISTENT && kind != DLR_MPI_COLLECTIVE_INIT;
}

static uintptr_t run_timed(struct under_way *u, void *function)
{
    const bool timed = is_timed(u->call->kind);
    uint64_t now_ns;
    uintptr_t rc;
    bool blocked;

    if (timed)
        self.entered_ns = dlr_mpi_now();
    begin(u);
    blocked = self.nlines > 0;
    rc = dlr_mpi_invoke(function, u->call->arguments, u->a);
    if (!dlr_mpi_process.map.page)
        return rc; /* a child by now: fork() in a call-back */
    if (u->call->kind == DLR_MPI_INIT && (int)rc == 0) {
        clear_lines(dlr_mpi_now()); /* while there is the page: it may be another's */
        dlr_mpi_process_ready();
    }
    if (!dlr_mpi_process.map.page)
        return rc;
    now_ns = timed ? dlr_mpi_now() : self.entered_ns;
    finish(u, (int)rc == 0, now_ns);
    if (blocked) {
        put_ring(u, now_ns);
        clear_lines(now_ns);
    }
    count(u->op.bytes, timed ? now_ns - self.entered_ns : 0);
    if (timed)
        dlr_mpi_weigh(&self, now_ns);
    return rc;
}

static uintptr_t run_wait(struct under_way *u, void *function)
{
    struct dlr_mpi_wait wait;
    uint64_t now_ns;
    uintptr_t rc;

    wait.call = u->call;
    wait.a = u->a;
    self.entered_ns = dlr_mpi_now();
    dlr_mpi_wait_begin(&self, &wait, u->op.call);
    rc = dlr_mpi_invoke(function, u->call->arguments, u->a);
    if (!dlr_mpi_process.map.page)
        return rc;
    now_ns = dlr_mpi_now();
    if ((int)rc == 0)
        dlr_mpi_wait_end(&wait, now_ns);
    put_ring(u, now_ns);
    clear_lines(now_ns);
    count(0, now_ns - self.entered_ns);
    dlr_mpi_weigh(&self, now_ns);
    return rc;
}

/* A thread that asks again and again waits: for what it asks for, where that is always
 * the same.
 */
static void polled_in_vain(struct under_way *u, struct dlr_mpi_wait *wait)
{
    static const struct dlr_mpi_request any = {.peer = DLR_LOOK_ANY};
    const uintptr_t what = wait ? wait->a[u->call->request] : (uintptr_t)u->comm;
    const bool differ = self.polls && what != self.polled && !self.polls_differ;

    self.polls_differ = self.polls_differ || differ;
    self.polled = what;
    if (self.polls < POLLS ? ++self.polls < POLLS : !differ)
        return;
    self.entered_ns = dlr_mpi_now();
    clear_lines(self.entered_ns);
    if (self.polls_differ)
        dlr_mpi_block(&self, u->op.call, &any);
    else if (wait)
        dlr_mpi_wait_begin(&self, wait, u->op.call);
    else
        block(u, u->call->peer);
}

static void end_polls(void)
{
    if (self.nlines)
        clear_lines(dlr_mpi_now());
    self.polls = 0;
    self.polls_differ = false;
}

/* A call that found nothing has not moved the rank and is not counted. */
static uintptr_t run_poll(struct under_way *u, void *function)
{
    const bool tests = u->call->request >= 0;
    struct dlr_mpi_wait wait;
    uintptr_t rc;
    bool found;

    wait.call = u->call;
    wait.a = u->a;
    if (tests)
        dlr_mpi_wait_begin(NULL, &wait, u->op.call);
    rc = dlr_mpi_invoke(function, u->call->arguments, u->a);
    if (!dlr_mpi_process.map.page)
        return rc;
    if (tests)
        found = (int)rc == 0 && dlr_mpi_wait_end(&wait, self.entered_ns);
    else
        found = (int)rc == 0 && *(const int *)u->a[u->call->root];
    if (!found) {
        polled_in_vain(u, tests ? &wait : NULL);
        return rc;
    }
    end_polls();
    count(0, 0);
    return rc;
}

static bool is_poll(enum dlr_mpi_kind kind)
{
    return kind == DLR_MPI_POLL || (kind >= DLR_MPI_TEST && kind <= DLR_MPI_TESTSOME);
}

static bool is_wait(enum dlr_mpi_kind kind)
{
    return kind >= DLR_MPI_WAIT && kind <= DLR_MPI_WAITSOME;
}

/* A call within another one is MPI's own, or a profiling tool's. Where the outer one's
 * mark or its return address is no longer on the stack, it was left by a longjmp() or an
 * exception.
 */
static bool is_within(const void *frame)
{
    return self.mark && frame < (const void *)self.mark && *self.mark == MARK &&
           *self.caller_at == self.caller;
}

static void begin_thread(const struct dlr_mpi_call *call)
{
    if (!self.tid)
        self.tid = (uint32_t)gettid();
    /* Lines are of polls that are given up, or of a call that was left: is_within(). */
    if (!is_poll(call->kind) || !self.polls)
        end_polls();
}

static uintptr_t watched(uint32_t number, void *function, const uintptr_t *a)
{
    struct under_way u = {
        .call = &dlr_mpi_calls[number], .a = a, .op = {.root = DLR_WATCH_NO_ROOT}};

    begin_thread(u.call);
    describe(&u, number);
    u.op.call = common_number(number);
    if (!dlr_mpi_process.abi && u.call->kind != DLR_MPI_INIT)
        return dlr_mpi_invoke(function, u.call->arguments, a);
    if (is_poll(u.call->kind))
        return run_poll(&u, function);
    if (is_wait(u.call->kind))
        return run_wait(&u, function);
    return run_timed(&u, function);
}

uintptr_t dlr_mpi_run(unsigned number, bool profiling, const uintptr_t *a,
                      const void *frame)
{
    const struct dlr_mpi_call *call = &dlr_mpi_calls[number];
    void *function = dlr_mpi_next(number, profiling);
    volatile uint64_t mark = MARK;
    uintptr_t rc;

    if (!function)
        return NO_MPI;
    if (call->kind == DLR_MPI_INIT)
        dlr_mpi_process_begin();
    if (!dlr_mpi_process.map.page || is_within(frame))
        return dlr_mpi_invoke(function, call->arguments, a);
    if (call->kind == DLR_MPI_FINALIZE)
        dlr_mpi_process_end();
    self.mark = &mark;
    self.caller_at = (void *const volatile *)frame + 1;
    self.caller = *self.caller_at;
    rc = watched(number, function, a);
    self.mark = NULL;
    mark = 0;
    if (call->kind == DLR_MPI_FINALIZE)
        dlr_mpi_process_left();
    return rc;
}
