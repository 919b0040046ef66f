/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent does once, before its engines are made. */
#ifndef DLR_MPI_LAUNCHER_AGENT_STARTUP_H
#define DLR_MPI_LAUNCHER_AGENT_STARTUP_H

#include <stddef.h>

#include "mpi_launcher/wire/identity.h"

/* A signal sent to the whole job (scancel -s, --signal) must not take the snapshots
 * away: SIGTERM, SIGTSTP and SIGCONT are read from *ret_fd, the caller's, and others
 * ignored.
 */
int dlr_agent_take_signals(int *ret_fd, struct dlr_err *err);

/* The kernel's, as text; "": not known. */
void dlr_agent_boot_id(char *buf, size_t size);

/* Which key the supervisor has, proven by its credential in DLROVER_CRED; and an
 * identity and a credential of our own, the caller's also when the latter fails.
 */
int dlr_agent_identify(const struct dlr_run_id *run, char ret_key[DLR_KEY_TEXT],
                       struct dlr_identity **ret_id, char **ret_cred,
                       struct dlr_err *err);

#endif
