/* SPDX-License-Identifier: Apache-2.0 */
/* The progress page: one 4 KiB page per rank, shared by a worker and its node's agent. The
 * worker's begin is a store, a load and a compare on it.
 */
#ifndef DLR_CKPT_PAGE_H
#define DLR_CKPT_PAGE_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

#define DLR_PAGE_MAGIC 0x31504c44u /* "DLP1" */
#define DLR_PAGE_SIZE 4096
#define DLR_PAGE_NEVER UINT64_MAX
#define DLR_PAGE_CPUS 1024
#define DLR_PAGE_HELD UINT64_MAX /* lease_ns: no end until further word */

/* Who missed what is decided by this order (a Dekker handshake, both sides seq_cst):
 *   worker: store begun_step, then load save_at; equal -> save
 *   agent:  store save_at, then load begun_step; begun_step >= save_at -> the rank may have
 *           missed it: report it, the supervisor aborts the version
 * Both may happen at once; then the worker saves in vain, never the other way round.
 */
struct dlr_page {
    uint32_t magic;
    uint32_t size;
    int32_t rank;
    uint32_t round;

    /* written by the worker */
    _Alignas(64) _Atomic uint64_t begun_step; /* DLR_PAGE_NEVER before the first */
    _Atomic uint64_t progress_ns;             /* CLOCK_BOOTTIME of the last step */
    _Atomic uint64_t saves, given_up;
    _Atomic uint64_t begin_ns, fence_ns; /* totals */
    _Atomic uint64_t copied_bytes;
    _Atomic uint64_t changed; /* fences that found memory changed */

    /* written by the agent */
    _Alignas(64) _Atomic uint64_t save_at; /* DLR_PAGE_NEVER: none decided */
    _Atomic uint64_t save_slot;            /* slot to use; stored before save_at */
    _Atomic uint64_t committed_step;       /* of this round; DLR_PAGE_NEVER: none */
    _Atomic uint64_t
        lease_ns; /* CLOCK_BOOTTIME; the worker is killed then; 0: never set */
    _Atomic uint32_t lease_seq; /* futex: one more with each lease */

    /* written by the worker: what saving costs */
    _Alignas(64) _Atomic uint64_t
        blocked_ns;                         /* of begin_ns, fence_ns: those of saves */
    _Atomic uint64_t plain_steps, plain_ns; /* steps without a save or a copy */

    /* written by the agent before the worker has the page: CPUs for the worker's helper threads,
     * CPU i is bit i % 64 of word i / 64; all 0: no advice */
    _Alignas(64) uint64_t helper_cpus[DLR_PAGE_CPUS / 64];

    unsigned char room[4096 - 256 - DLR_PAGE_CPUS / 8]; /* hang detection, timing */
};

static_assert(sizeof(struct dlr_page) == DLR_PAGE_SIZE, "shared layout");

#endif
