/* SPDX-License-Identifier: Apache-2.0 */
#ifdef DLR_HAVE_CUDA

#include "device/stalls.h"

#include <time.h>

#include "common/base/clock.h"

#define CLOSE_MS 10000
#define CLOSE_PAUSE_MS 1

CUresult dlr_stalls_init(struct dlr_stalls *s)
{
    CUresult r = CUDA_SUCCESS;

    for (unsigned i = 0; r == CUDA_SUCCESS && i < 2; i++) {
        r = CU(cuEventCreate)(&s->of[i].from, CU_EVENT_DEFAULT);
        if (r == CUDA_SUCCESS)
            r = CU(cuEventCreate)(&s->of[i].to, CU_EVENT_DEFAULT);
    }
    return r;
}

void dlr_stalls_done(struct dlr_stalls *s)
{
    for (unsigned i = 0; i < 2; i++) {
        if (s->of[i].from)
            CU(cuEventDestroy)(s->of[i].from);
        if (s->of[i].to)
            CU(cuEventDestroy)(s->of[i].to);
    }
}

bool dlr_stalls_from(struct dlr_stalls *s, uint32_t turn, CUstream stream)
{
    const struct dlr_stall *stall = &s->of[turn % 2];

    return !stall->open && CU(cuEventRecord)(stall->from, stream) == CUDA_SUCCESS;
}

void dlr_stalls_to(struct dlr_stalls *s, uint32_t turn, CUstream stream)
{
    struct dlr_stall *stall = &s->of[turn % 2];

    stall->open = CU(cuEventRecord)(stall->to, stream) == CUDA_SUCCESS;
}

bool dlr_stalls_open(const struct dlr_stalls *s)
{
    return s->of[0].open || s->of[1].open;
}

uint64_t dlr_stalls_tell(struct dlr_stalls *s)
{
    uint64_t ns = 0;

    for (unsigned i = 0; i < 2; i++) {
        struct dlr_stall *stall = &s->of[i];
        CUresult r = stall->open ? CU(cuEventQuery)(stall->to) : CUDA_ERROR_NOT_READY;
        float ms = 0;

        if (r == CUDA_ERROR_NOT_READY)
            continue;
        if (r == CUDA_SUCCESS &&
            dlr_cu.elapsed(&ms, stall->from, stall->to) == CUDA_SUCCESS && ms > 0)
            ns += (uint64_t)((double)ms * 1e6);
        stall->open = false;
    }
    return ns;
}

/* The driver waits for an event without a limit or not at all, so it is asked again. */
bool dlr_stalls_await(struct dlr_stalls *s)
{
    const struct timespec pause = {.tv_nsec = CLOSE_PAUSE_MS * 1000000L};
    int64_t until_ns = dlr_now_ns() + CLOSE_MS * INT64_C(1000000);

    for (dlr_stalls_tell(s); dlr_stalls_open(s); dlr_stalls_tell(s)) {
        if (dlr_now_ns() >= until_ns)
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

#else
typedef int dlr_no_device_stalls; /* a file may not be empty */
#endif
