/* SPDX-License-Identifier: Apache-2.0 */
#include "interpose/communicators.h"

#include <pthread.h>
#include <string.h>

#include "common/base/hash.h"
#include "watch/look.h"
#include "watch/write.h"

#define TABLE 8192u /* a power of two; more communicators at a time are unknown */
#define PROBES 64u
#define GONE ((uintptr_t)1)
#define SAMPLES 8u      /* of the members that the id is made of */
#define GROUP_CALLS 256 /* kinds of MPI_Comm_create_group and alike, told apart */
#define TRIES 100

static struct dlr_mpi_comm table[TABLE];
static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;

/* How often the same members have made one by themselves. */
static struct {
    uint64_t key;
    uint32_t count;
} group_calls[GROUP_CALLS];

static uint64_t mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static unsigned place(uintptr_t handle)
{
    return (unsigned)(mix(0, handle) >> 32) & (TABLE - 1);
}

struct dlr_mpi_comm *dlr_mpi_comm_of(uintptr_t handle)
{
    for (unsigned i = 0, at = place(handle); i < PROBES; i++, at = (at + 1) % TABLE) {
        uintptr_t there = atomic_load_explicit(&table[at].handle, memory_order_acquire);

        if (there == handle)
            return &table[at];
        if (!there)
            return NULL;
    }
    return NULL;
}

static struct dlr_mpi_comm *free_place(uintptr_t handle)
{
    for (unsigned i = 0, at = place(handle); i < PROBES; i++, at = (at + 1) % TABLE)
        if (atomic_load(&table[at].handle) <= GONE)
            return &table[at];
    return NULL;
}

static void insert(struct dlr_watch_page *page, uintptr_t handle,
                   const struct dlr_mpi_comm *comm, uint64_t now_ns)
{
    struct dlr_mpi_comm *at;

    pthread_mutex_lock(&changing);
    at = free_place(handle);
    if (at) {
        at->member = comm->member;
        at->inter = comm->inter;
        at->peers_from = comm->peers_from;
        at->children = 0;
        at->line = dlr_watch_comm_open(page, &at->member, now_ns);
        atomic_store_explicit(&at->handle, handle, memory_order_release);
    }
    pthread_mutex_unlock(&changing);
}

static int ask_int(const char *name, uintptr_t handle)
{
    int value = -1;
    const uintptr_t a[] = {handle, (uintptr_t)&value};

    return dlr_mpi_ask(name, 2, a) == 0 ? value : -1;
}

void dlr_mpi_comms_begin(const struct dlr_mpi_abi *abi, struct dlr_watch_page *page,
                         uint64_t now_ns)
{
    int size = ask_int("PMPI_Comm_size", abi->world),
        rank = ask_int("PMPI_Comm_rank", abi->world);
    const struct dlr_mpi_comm world = {
        .member = {.id = DLR_LOOK_WORLD, .size = size, .my_rank = rank}};

    if (size > 0 && rank >= 0)
        insert(page, abi->world, &world, now_ns);
}

struct dlr_mpi_birth dlr_mpi_comm_birth(struct dlr_mpi_comm *parent, bool ordered,
                                        int tag)
{
    return (struct dlr_mpi_birth){parent, parent && ordered ? ++parent->children : 0,
                                  tag, ordered};
}

/* --- the members ------------------------------------------------------------------- */

static uintptr_t group_of(const struct dlr_mpi_abi *abi, const char *name,
                          uintptr_t comm)
{
    uintptr_t group = 0;
    const uintptr_t a[] = {comm, (uintptr_t)&group};

    return dlr_mpi_ask(name, 2, a) == 0 ? dlr_mpi_handle(abi, group) : 0;
}

static void free_group(uintptr_t group)
{
    const uintptr_t a[] = {(uintptr_t)&group};

    dlr_mpi_ask("PMPI_Group_free", 1, a);
}

/* Of a group its size, its first member's rank in world, and a hash of the size and of
 * some members: to ask for all takes a library the square of their number. False when
 * one of them is not in world.
 */
static bool describe(const struct dlr_mpi_abi *abi, uintptr_t group, int *ret_size,
                     int *ret_first, uint64_t *ret_hash)
{
    uintptr_t world = group_of(abi, "PMPI_Comm_group", abi->world);
    int size = ask_int("PMPI_Group_size", group), ranks[SAMPLES], there[SAMPLES];
    unsigned n = size < (int)SAMPLES ? (unsigned)(size > 0 ? size : 0) : SAMPLES;
    uint64_t hash = mix(0, (uint64_t)size);
    bool known = n > 0;

    for (unsigned i = 0; i < n; i++)
        ranks[i] =
            n < SAMPLES ? (int)i : (int)((int64_t)i * (size - 1) / (SAMPLES - 1));
    const uintptr_t a[] = {group, n, (uintptr_t)ranks, world, (uintptr_t)there};
    known = known && world && dlr_mpi_ask("PMPI_Group_translate_ranks", 5, a) == 0;
    for (unsigned i = 0; known && i < n; i++) {
        known = there[i] != abi->undefined;
        hash = mix(hash, (uint64_t)there[i]);
    }
    if (world)
        free_group(world);
    if (!known)
        return false;
    *ret_size = size;
    *ret_first = there[0];
    *ret_hash = hash;
    return true;
}

static bool describe_comm(const struct dlr_mpi_abi *abi, uintptr_t handle,
                          const char *which, int *ret_size, int *ret_first,
                          uint64_t *ret_hash)
{
    uintptr_t group = group_of(abi, which, handle);
    bool known = group && describe(abi, group, ret_size, ret_first, ret_hash);

    if (group)
        free_group(group);
    return known;
}

/* Fills in who is in it; *ret_hash is equal on all of them. */
static bool describe_members(const struct dlr_mpi_abi *abi, uintptr_t handle,
                             struct dlr_mpi_comm *comm, uint64_t *ret_hash)
{
    int size = 0, first = 0, others = 0, first_other = 0,
        rank = ask_int("PMPI_Comm_rank", handle);
    uint64_t other_hash;

    if (rank < 0 ||
        !describe_comm(abi, handle, "PMPI_Comm_group", &size, &first, ret_hash))
        return false;
    comm->inter = ask_int("PMPI_Comm_test_inter", handle) > 0;
    comm->member.size = (uint32_t)size;
    comm->member.my_rank = (uint32_t)rank;
    if (!comm->inter)
        return true;
    if (!describe_comm(abi, handle, "PMPI_Comm_remote_group", &others, &first_other,
                       &other_hash))
        return false;
    comm->member.size += (uint32_t)others;
    if (first < first_other) {
        comm->peers_from = (uint32_t)size;
        *ret_hash = mix(*ret_hash, other_hash);
    } else {
        comm->member.my_rank += (uint32_t)others;
        *ret_hash = mix(other_hash, *ret_hash);
    }
    return true;
}

/* The first, second .. time that these members do it: each of them was there the times
 * before. 0: too many to tell.
 */
static uint32_t count_group_call(uint64_t key)
{
    uint32_t count = 0;

    pthread_mutex_lock(&changing);
    for (unsigned i = 0; i < GROUP_CALLS && !count; i++) {
        if (!group_calls[i].count)
            group_calls[i].key = key;
        if (group_calls[i].key == key)
            count = ++group_calls[i].count;
    }
    pthread_mutex_unlock(&changing);
    return count;
}

void dlr_mpi_comm_add(const struct dlr_mpi_abi *abi, struct dlr_watch_page *page,
                      const struct dlr_mpi_birth *birth, uintptr_t handle,
                      uint64_t now_ns)
{
    struct dlr_mpi_comm comm = {0};
    uint32_t ordinal = birth->ordinal;
    uint64_t hash;

    if (!birth->parent || handle == abi->comm_null || dlr_mpi_comm_of(handle) ||
        !describe_members(abi, handle, &comm, &hash))
        return;
    comm.member.parent = birth->parent->member.id;
    /* The two sides of an intercommunicator come from parents of their own. */
    hash = birth->ordered || !comm.inter ? mix(hash, comm.member.parent) : hash;
    if (!birth->ordered) {
        hash = mix(hash, (uint64_t)birth->tag);
        ordinal = count_group_call(hash);
        if (!ordinal)
            return;
    }
    comm.member.id = mix(mix(hash, birth->ordered), ordinal);
    if (comm.member.id > DLR_LOOK_WORLD)
        insert(page, handle, &comm, now_ns);
}

void dlr_mpi_comm_del(struct dlr_watch_page *page, uintptr_t handle)
{
    struct dlr_mpi_comm *comm;

    pthread_mutex_lock(&changing);
    comm = dlr_mpi_comm_of(handle);
    if (comm && comm->member.id != DLR_LOOK_WORLD) {
        dlr_watch_comm_close(page, comm->line, comm->member.id);
        atomic_store_explicit(&comm->handle, GONE, memory_order_release);
    }
    pthread_mutex_unlock(&changing);
}

/* --- operations -------------------------------------------------------------------- */

static bool has_line(const struct dlr_mpi_comm *comm, const struct dlr_watch_page *page)
{
    return comm->line >= 0 &&
           DLR_WATCH_GET(page->comms[comm->line].id) == comm->member.id;
}

/* The line may be another's by now, and another thread may be ending an operation. */
void dlr_mpi_comm_enter(struct dlr_mpi_comm *comm, struct dlr_watch_page *page,
                        const struct dlr_mpi_operation *op, uint64_t now_ns)
{
    bool there = false;

    for (unsigned i = 0; i < TRIES && !there; i++) {
        if (!has_line(comm, page))
            comm->line = dlr_watch_comm_open(page, &comm->member, now_ns);
        there = dlr_watch_enter(page, comm->line, comm->member.id, op->call, op->agreed,
                                comm->inter ? DLR_WATCH_NO_ROOT : op->root, op->bytes,
                                now_ns);
    }
    comm->member.entered++; /* by one thread at a time, as MPI demands */
    if (!there)
        __atomic_fetch_add(&comm->member.lost, 1, __ATOMIC_RELAXED);
}

void dlr_mpi_comm_leave(struct dlr_mpi_comm *comm, struct dlr_watch_page *page,
                        uint64_t now_ns)
{
    bool there = false;

    __atomic_fetch_add(&comm->member.left, 1, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < TRIES && !there && has_line(comm, page); i++)
        there = dlr_watch_leave(page, comm->line, comm->member.id, now_ns);
}

int32_t dlr_mpi_comm_peer(const struct dlr_mpi_abi *abi,
                          const struct dlr_mpi_comm *comm, int peer)
{
    if (peer == abi->any_source)
        return DLR_LOOK_ANY;
    if (peer < 0 || !comm)
        return DLR_LOOK_NOBODY;
    return peer + (int32_t)comm->peers_from;
}
