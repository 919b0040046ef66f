/* SPDX-License-Identifier: Apache-2.0 */
/* The few messages of Perfetto's protobuf that a trace has. Private to the folder.
 * Numbers of fields: protos/perfetto/trace/trace_packet.proto, track_event.proto,
 * track_descriptor.proto, counter_descriptor.proto, debug_annotation.proto and
 * clock_snapshot.proto of github.com/google/perfetto.
 */
#ifndef DLR_MPI_LAUNCHER_TRACE_PERFETTO_H
#define DLR_MPI_LAUNCHER_TRACE_PERFETTO_H

#include <stdint.h>
#include <stdio.h>

#include "mpi_launcher/trace/trace.h"

enum dlr_perfetto_type {
    DLR_PERFETTO_BEGIN = 1,
    DLR_PERFETTO_END = 2,
    DLR_PERFETTO_INSTANT = 3,
};

/* Says that the times of the trace are those of the wall. */
void dlr_perfetto_begin(FILE *out);
void dlr_perfetto_track(FILE *out, uint64_t uuid, uint64_t parent, const char *name,
                        const char *unit);
void dlr_perfetto_event(FILE *out, enum dlr_perfetto_type type, uint64_t track,
                        int64_t ns, const char *name, const struct dlr_trace_arg *args);
void dlr_perfetto_count(FILE *out, uint64_t track, int64_t ns, int64_t value);

#endif
