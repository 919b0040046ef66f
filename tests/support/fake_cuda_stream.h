/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events of the stand-in for the CUDA driver: threads with a queue of what
 * they were given to do.
 */
#ifndef DLR_TESTS_SUPPORT_FAKE_CUDA_STREAM_H
#define DLR_TESTS_SUPPORT_FAKE_CUDA_STREAM_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_DEVICES 2

struct fake_pinned;

enum fake_kind {
    FAKE_COPY,
    FAKE_RECORD,
    FAKE_WAIT_EVENT,
    FAKE_GATE,
    FAKE_GATE_WAITED,
    FAKE_FILL,
    FAKE_CALL,
    FAKE_SUM,
    FAKE_MOVE,
    FAKE_END
};

struct fake_op {
    enum fake_kind kind;
    void *dst;
    CUhostFn fn; /* called with dst */
    const void *src;
    size_t bytes;
    size_t rows, src_pitch, dst_pitch; /* 0 rows: one */
    uint32_t value;
    bool to_host, spoilt; /* spoilt: on its way there */
    struct fake_pinned *to;
    struct {
        CUdeviceptr list, table;
        uint32_t n, blocks, groups, threads;
    } kernel;
    struct CUevent_st *event;
    uint64_t number; /* in the order in which all streams were given something */
    struct fake_op *next;
};

/* Puts a copy of op at the end of what the stream (NULL: the one without a name) is to
 * do.
 */
void fake_put(CUstream stream, struct fake_op op);

/* Blocks until all that the device's streams have now is done. Nobody gives them
 * anything meanwhile.
 */
void fake_sync(int device);

/* Of the calling thread's context; -1: it has none. */
int fake_device(void);

#endif
