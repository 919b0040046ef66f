/* SPDX-License-Identifier: Apache-2.0 */
/* The page of metrics over HTTP (libmicrohttpd): GET and HEAD of /metrics, in the format
 * that the Accept header asks for. A thread of its own; 16 connections at once, 8
 * from one address, more are closed, as is one that is still for 5 s; 10 answers a
 * second (docs/limits.md), else 429.
 */
#ifndef DLR_MPI_LAUNCHER_CLI_METRICS_SERVER_H
#define DLR_MPI_LAUNCHER_CLI_METRICS_SERVER_H

#include <stdint.h>
#include <stdio.h>

#include "common/base/err.h"
#include "mpi_launcher/metrics/metrics.h"

struct dlr_metrics_server;

/* Writes the page; called in the server's thread. */
typedef void (*dlr_metrics_page_fn)(void *arg, enum dlr_metrics_format format,
                                    FILE *out);

/* where: "PORT" (of 127.0.0.1), "ADDRESS:PORT" or "[ADDRESS]:PORT"; port 0: any free
 * one. -EINVAL: none of these; else -errno of the socket. *ret is the caller's.
 */
int dlr_metrics_server_new(const char *where, dlr_metrics_page_fn page, void *arg,
                           struct dlr_metrics_server **ret, struct dlr_err *err);

uint16_t dlr_metrics_server_port(const struct dlr_metrics_server *server);

/* Waits for the answer that is being written. Accepts NULL, returns NULL. */
struct dlr_metrics_server *dlr_metrics_server_free(struct dlr_metrics_server *server);

#endif
