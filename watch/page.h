/* SPDX-License-Identifier: Apache-2.0 */
/* The watch page of a rank: 32 KiB that its node's agent makes, that all components of
 * the rank write (library, Python, interposers) and that the agent reads. Layout:
 * docs/watch.md. Behind it a ring of the operations that have ended. Same machine, so
 * host byte order; times are CLOCK_BOOTTIME. Writers: watch/write.h, watch/comms.h; the
 * reader, which trusts nothing of it: watch/read.h.
 */
#ifndef DLR_WATCH_PAGE_H
#define DLR_WATCH_PAGE_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define DLR_WATCH_MAGIC 0x31574c44u /* "DLW1" */
#define DLR_WATCH_BYTES 32768
#define DLR_WATCH_COMMS 224
#define DLR_WATCH_CALLS 32
#define DLR_WATCH_NAME 40
#define DLR_WATCH_NEVER UINT64_MAX   /* step: none yet */
#define DLR_WATCH_NO_ROOT UINT32_MAX /* an operation without one, or of another group */

#define DLR_RING_MAGIC 0x31524c44u /* "DLR1" */
#define DLR_RING_HEAD 4096
#define DLR_RING_RECORDS 32768u /* 1 MiB; always a power of two */

/* dlr_watch_page.flags */
#define DLR_WATCH_PAUSED 1u
#define DLR_WATCH_FINISHED 2u    /* it has left, for now: watch/look.h */
#define DLR_WATCH_HANDLER 4u     /* a signal makes it print its Python stacks */
#define DLR_WATCH_SEEN_STEPS 8u  /* a component that tells steps has opened the page */
#define DLR_WATCH_SEEN_CALLS 16u /* one that tells calls has */
#define DLR_WATCH_UNTIMED 32u    /* its times would cost too much: they are rough */

/* A line with a version is written as a whole: the version is odd meanwhile, and a
 * writer that dies there leaves it odd.
 */
struct dlr_watch_phase {
    _Atomic uint32_t version;
    uint32_t room;
    _Atomic uint64_t since_ns;                 /* 0: no phase */
    _Atomic uint64_t limit_ns;                 /* 0: none declared */
    _Atomic uint64_t name[DLR_WATCH_NAME / 8]; /* text, filled up with zeros */
};

/* A call in which a thread blocks. tid 0: free, which its thread writes without the
 * version. Of a wait for several requests one line for each, all with the same tid.
 */
struct dlr_watch_call {
    _Atomic uint32_t version;
    _Atomic uint32_t tid;
    _Atomic uint32_t call;
    _Atomic int32_t peer; /* in comm's ranks; watch/look.h has those below 0 */
    _Atomic int32_t tag;
    uint32_t room;
    _Atomic uint64_t comm;
    _Atomic uint64_t bytes;
    _Atomic uint64_t entered_ns;
    uint64_t room2[2];
};

/* A communicator. One writer at a time: MPI and NCCL forbid two collectives of one
 * communicator at once; nonblocking ones count at the call, their end is the wait's.
 */
struct dlr_watch_comm {
    _Atomic uint64_t id; /* 0: free */
    _Atomic uint64_t parent;
    _Atomic uint32_t size;
    _Atomic uint32_t my_rank;
    _Atomic uint32_t version;
    _Atomic uint32_t
        op; /* of the last operation, as are type, root and bytes; 0: none known */
    _Atomic uint32_t type;
    _Atomic uint32_t root;
    _Atomic uint32_t lost;
    uint32_t room;
    _Atomic uint64_t entered; /* operations */
    _Atomic uint64_t left;
    _Atomic uint64_t bytes;
    _Atomic uint64_t entered_ns;
    _Atomic uint64_t left_ns;
    uint64_t room2[5];
};

struct dlr_watch_page {
    /* written by the agent before anybody else has the page */
    uint32_t magic;
    uint32_t size; /* DLR_WATCH_BYTES */
    int32_t rank;
    uint32_t round;
    uint32_t pid; /* of the component that asked first, from SO_PEERCRED */
    uint32_t ring_records;
    uint64_t made_ns;

    /* written by the thread that calls step; flags by everybody */
    _Alignas(64) _Atomic uint32_t steps_version;
    _Atomic uint32_t flags;
    _Atomic uint64_t step;
    _Atomic uint64_t step_ns; /* when it began */
    _Atomic uint64_t total;   /* 0: unknown */

    _Alignas(64) struct dlr_watch_phase phase;

    /* totals of the round */
    _Alignas(64) _Atomic uint64_t steps;
    _Atomic uint64_t steps_ns;
    _Atomic uint64_t waited_ns;
    _Atomic uint64_t calls;
    _Atomic uint64_t bytes;
    _Atomic uint64_t lost;    /* operations that found no line */
    _Atomic uint64_t call_ns; /* when the last call of any thread ended */

    _Alignas(64) _Atomic uint32_t comms_lock; /* a line is being given to another */

    _Alignas(1024) struct dlr_watch_call calls_in[DLR_WATCH_CALLS];
    _Alignas(4096) struct dlr_watch_comm comms[DLR_WATCH_COMMS];
};

static_assert(sizeof(struct dlr_watch_phase) == 64, "shared layout");
static_assert(sizeof(struct dlr_watch_call) == 64, "shared layout");
static_assert(sizeof(struct dlr_watch_comm) == 128, "shared layout");
static_assert(offsetof(struct dlr_watch_page, steps_version) == 64, "shared layout");
static_assert(offsetof(struct dlr_watch_page, phase) == 128, "shared layout");
static_assert(offsetof(struct dlr_watch_page, steps) == 192, "shared layout");
static_assert(offsetof(struct dlr_watch_page, comms_lock) == 256, "shared layout");
static_assert(offsetof(struct dlr_watch_page, calls_in) == 1024, "shared layout");
static_assert(offsetof(struct dlr_watch_page, comms) == 4096, "shared layout");
static_assert(sizeof(struct dlr_watch_page) == DLR_WATCH_BYTES, "shared layout");

/* An operation that has ended. */
struct dlr_ring_record {
    _Atomic uint64_t began_ns;
    _Atomic uint32_t took; /* nanoseconds; microseconds with DLR_RING_MICRO */
    _Atomic uint16_t op;
    _Atomic uint8_t kind; /* enum dlr_ring_kind */
    _Atomic uint8_t flags;
    _Atomic uint64_t bytes;
    _Atomic uint32_t seq;  /* of the operation in its communicator */
    _Atomic uint16_t comm; /* its line; DLR_RING_NO_COMM: none */
    _Atomic uint16_t lap;  /* written last: low bits of 1 + number / records */
};

enum dlr_ring_kind {
    DLR_RING_NONE,
    DLR_RING_STEP,
    DLR_RING_PHASE,
    DLR_RING_COLLECTIVE,
    DLR_RING_MESSAGE,
    DLR_RING_WAIT,
    DLR_RING_FILE,
    DLR_RING_KERNEL,
};
#define DLR_RING_MICRO 1u /* dlr_ring_record.flags */
#define DLR_RING_NO_COMM UINT16_MAX

struct dlr_watch_ring {
    uint32_t magic; /* these by the agent */
    uint32_t records;
    _Alignas(64) _Atomic uint64_t next; /* records ever begun */
    _Alignas(DLR_RING_HEAD) struct dlr_ring_record record[];
};

static_assert(sizeof(struct dlr_ring_record) == 32, "shared layout");
static_assert(offsetof(struct dlr_watch_ring, next) == 64, "shared layout");
static_assert(offsetof(struct dlr_watch_ring, record) == DLR_RING_HEAD,
              "shared layout");

#define DLR_RING_BYTES(records)                                                        \
    (DLR_RING_HEAD + (size_t)(records) * sizeof(struct dlr_ring_record))

#endif
