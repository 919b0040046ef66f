/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a trace that ui.perfetto.dev and chrome://tracing show: tracks with slices,
 * instants and counters. Two formats: Perfetto's protobuf (perfetto.dev, "Synthetic
 * track event", protos/perfetto/trace/trace_packet.proto), and the JSON of
 * chrome://tracing ("Trace Event Format"). Times are nanoseconds since the epoch.
 */
#ifndef DLR_MPI_LAUNCHER_TRACE_TRACE_H
#define DLR_MPI_LAUNCHER_TRACE_TRACE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum dlr_trace_format { DLR_TRACE_PERFETTO, DLR_TRACE_JSON };

/* What a click on a slice shows: a text, or a number where text is NULL. */
struct dlr_trace_arg {
    const char *name; /* NULL ends a list */
    const char *text;
    int64_t number;
};

struct dlr_trace {
    FILE *out; /* the caller's; its errors are the caller's to look for */
    enum dlr_trace_format format;
    uint64_t written; /* slices, instants and counts */
};

/* Begins the file. Every text may hold any byte: what is no UTF-8 becomes '?'. */
void dlr_trace_begin(struct dlr_trace *t, FILE *out, enum dlr_trace_format format);
void dlr_trace_end(struct dlr_trace *t);

/* Tracks are told before what lies on them. uuid: not 0, the caller's choice; parent 0:
 * at the top. unit NULL: a track of slices, else of a counter in that unit.
 */
void dlr_trace_track(struct dlr_trace *t, uint64_t uuid, uint64_t parent,
                     const char *name, const char *unit);

/* Slices of a track come in the order of time and do not overlap; from <= to. args may
 * be NULL.
 */
void dlr_trace_slice(struct dlr_trace *t, uint64_t track, int64_t from_ns,
                     int64_t to_ns, const char *name, const struct dlr_trace_arg *args);
void dlr_trace_instant(struct dlr_trace *t, uint64_t track, int64_t ns,
                       const char *name, const struct dlr_trace_arg *args);
void dlr_trace_count(struct dlr_trace *t, uint64_t track, int64_t ns, int64_t value);

#endif
