/* SPDX-License-Identifier: Apache-2.0 */
/* A run as numbers for Prometheus: what its journal adds up to. Pure: lines in, a page
 * out. Fewer than 300 series whatever the size of the job: no series for a node or a
 * rank. Formats: Prometheus text 0.0.4 (prometheus.io, "Exposition formats") and
 * OpenMetrics 1.0.0.
 */
#ifndef DLR_MPI_LAUNCHER_METRICS_METRICS_H
#define DLR_MPI_LAUNCHER_METRICS_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define DLR_METRICS_SERIES 300 /* at most */

enum dlr_metrics_format { DLR_METRICS_PROMETHEUS, DLR_METRICS_OPENMETRICS };

struct dlr_metrics;

/* NULL without memory; free accepts NULL and returns NULL. */
struct dlr_metrics *dlr_metrics_new(void);
struct dlr_metrics *dlr_metrics_free(struct dlr_metrics *m);

/* Takes the next line of the journal. Lines that are no events are counted. */
void dlr_metrics_line(struct dlr_metrics *m, const char *line, size_t size);

/* Whether the last line so far is the end of the run. */
bool dlr_metrics_over(struct dlr_metrics *m);

/* Writes all series, each with the labels slurm_job and run. now_ms: since the epoch;
 * ages are measured to it. No time stamps: node_exporter's textfile collector refuses
 * files that have any.
 */
void dlr_metrics_write(struct dlr_metrics *m, const char *job, const char *run,
                       int64_t now_ms, enum dlr_metrics_format format, FILE *out);

/* The i-th metric's name as a sample has it, its type and what it says; false behind
 * the last: what documentation and dashboards are compared with.
 */
bool dlr_metrics_name(size_t i, const char **ret_name, const char **ret_type,
                      const char **ret_help);

#endif
