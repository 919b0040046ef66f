/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's command line. */
#ifndef DLR_MPI_LAUNCHER_AGENT_CONFIG_H
#define DLR_MPI_LAUNCHER_AGENT_CONFIG_H

#include "common/base/err.h"
#include "mpi_launcher/agent/base/self.h"

/* Reads argv; 1: help or version was printed. -EINVAL with text. */
int dlr_agent_conf_parse(int argc, char **argv, struct dlr_agent_self *self,
                         struct dlr_err *err);

#endif
