/* SPDX-License-Identifier: Apache-2.0 */
/* The types of czmq(7) that headers name. Whoever calls its functions includes <czmq.h>,
 * which takes in most of the system's headers: 50 ms for each source that sees it.
 */
#ifndef DLR_MPI_LAUNCHER_WIRE_ZMQ_TYPES_H
#define DLR_MPI_LAUNCHER_WIRE_ZMQ_TYPES_H

#include <zmq.h>

typedef struct _zlistx_t zlistx_t;
typedef struct _zloop_t zloop_t;
typedef struct _zsock_t zsock_t;
typedef int(zloop_fn)(zloop_t *loop, zmq_pollitem_t *item, void *arg);
typedef int(zloop_reader_fn)(zloop_t *loop, zsock_t *reader, void *arg);
typedef int(zloop_timer_fn)(zloop_t *loop, int timer_id, void *arg);

#endif
