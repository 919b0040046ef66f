/* SPDX-License-Identifier: Apache-2.0 */
#include "interpose/requests.h"

#include <pthread.h>

#define BUCKETS 1024u /* a power of two */
#define PLACES 8u

static struct {
    atomic_flag taken;
    struct dlr_mpi_request places[PLACES];
} buckets[BUCKETS];

static unsigned bucket_of(uintptr_t handle)
{
    return (unsigned)((handle * 0x9e3779b97f4a7c15u) >> 40) & (BUCKETS - 1);
}

/* Held for some loads and stores; a thread that is not run meanwhile holds one of many. */
static void take(unsigned b)
{
    while (atomic_flag_test_and_set_explicit(&buckets[b].taken, memory_order_acquire))
        sched_yield();
}

static void give(unsigned b)
{
    atomic_flag_clear_explicit(&buckets[b].taken, memory_order_release);
}

static struct dlr_mpi_request *find(unsigned b, uintptr_t handle)
{
    for (unsigned i = 0; i < PLACES; i++)
        if (buckets[b].places[i].handle == handle)
            return &buckets[b].places[i];
    return NULL;
}

bool dlr_mpi_request_add(const struct dlr_mpi_request *request,
                         struct dlr_mpi_request *ret_old)
{
    const unsigned b = bucket_of(request->handle);
    struct dlr_mpi_request *at;

    ret_old->handle = 0;
    take(b);
    at = find(b, request->handle);
    if (at)
        *ret_old = *at;
    else
        at = find(b, 0);
    if (at)
        *at = *request;
    give(b);
    return at != NULL;
}

bool dlr_mpi_request_peek(uintptr_t handle, struct dlr_mpi_request *ret)
{
    const unsigned b = bucket_of(handle);
    const struct dlr_mpi_request *at;

    if (!handle)
        return false;
    take(b);
    at = find(b, handle);
    if (at)
        *ret = *at;
    give(b);
    return at != NULL;
}

bool dlr_mpi_request_take(uintptr_t handle, bool freed, struct dlr_mpi_request *ret)
{
    const unsigned b = bucket_of(handle);
    struct dlr_mpi_request *at;

    if (!handle)
        return false;
    take(b);
    at = find(b, handle);
    if (at) {
        *ret = *at;
        if (at->persistent && !freed)
            at->collective = false;
        else
            at->handle = 0;
    }
    give(b);
    return at != NULL;
}

void dlr_mpi_request_start(uintptr_t handle)
{
    const unsigned b = bucket_of(handle);
    struct dlr_mpi_request *at;

    take(b);
    at = handle ? find(b, handle) : NULL;
    if (at)
        at->collective = true;
    give(b);
}
