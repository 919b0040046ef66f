/* SPDX-License-Identifier: Apache-2.0 */
/* The report of a run: all of its journal on one page, as text, HTML or JSON. Pure:
 * lines in, a page out.
 */
#ifndef DLR_MPI_LAUNCHER_REPORT_REPORT_H
#define DLR_MPI_LAUNCHER_REPORT_REPORT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "mpi_launcher/trace/trace.h"

struct dlr_report;

/* NULL without memory; free accepts NULL and returns NULL. */
struct dlr_report *dlr_report_new(void);
struct dlr_report *dlr_report_free(struct dlr_report *r);

/* To be called before the first line: keeps what a trace needs beyond a report. */
void dlr_report_traced(struct dlr_report *r);

/* Takes the next line of the journal. Lines that are no events are counted. */
void dlr_report_line(struct dlr_report *r, const char *line, size_t size);

/* To be called once, after the last line; skipped: so many lines were too long. */
void dlr_report_finish(struct dlr_report *r, unsigned skipped);

/* others: runs of the same job that have journals of their own. now_ms: since the
 * epoch, for the word that says whether the run goes on.
 */
struct dlr_report_about {
    const char *job, *run; /* what they are called where the journal lies */
    unsigned others;
    int64_t now_ms;
};

void dlr_report_text(const struct dlr_report *r, const struct dlr_report_about *about,
                     FILE *out);

/* One page without scripts, fonts or requests, of printable ASCII; at most 2 MB for any
 * number of nodes.
 */
void dlr_report_html(const struct dlr_report *r, const struct dlr_report_about *about,
                     FILE *out);

/* The caller's; NULL without memory. */
json_t *dlr_report_json(const struct dlr_report *r,
                        const struct dlr_report_about *about);

/* A trace of the run's last last_ms milliseconds (0: of all): rounds, where the time
 * went, incidents, events, nodes, steps. Not more than max slices, instants and counts
 * (0: any number): -E2BIG, and nothing is written.
 */
int dlr_report_trace(const struct dlr_report *r, const struct dlr_report_about *about,
                     enum dlr_trace_format format, int64_t last_ms, uint64_t max,
                     FILE *out);

#endif
