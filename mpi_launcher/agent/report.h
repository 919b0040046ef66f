/* SPDX-License-Identifier: Apache-2.0 */
/* Node reports, each made by a child. */
#ifndef DLR_MPI_LAUNCHER_AGENT_REPORT_H
#define DLR_MPI_LAUNCHER_AGENT_REPORT_H

#include <jansson.h>

#include "mpi_launcher/agent/base/answers.h"
#include "mpi_launcher/agent/base/base.h"
#include "mpi_launcher/agent/base/self.h"

struct dlr_agent_reports; /* opaque */

/* A report that this agent itself wanted; NULL: there is none. */
typedef void dlr_agent_own_report_fn(void *arg, const json_t *report);

/* All that it is given must live as long. NULL: out of memory. */
struct dlr_agent_reports *dlr_agent_reports_new(struct dlr_agent_base *base,
                                                const struct dlr_agent_self *self,
                                                dlr_agent_own_report_fn *own,
                                                void *arg);
/* Nobody hears of those that are being made. Accepts NULL, returns NULL. */
struct dlr_agent_reports *dlr_agent_reports_free(struct dlr_agent_reports *all);

/* Starts a child that makes one; "report" goes to from when it is there. */
void dlr_agent_report(struct dlr_agent_reports *all,
                      const struct dlr_agent_origin *from);

#endif
