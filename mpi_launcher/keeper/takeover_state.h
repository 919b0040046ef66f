/* SPDX-License-Identifier: Apache-2.0 */
/* What a supervisor leaves to the one started after it: a memory file that the keeper
 * holds. A page with the key pair (mpi_launcher/wire/identity.h), one with ended
 * processes (child_exits.h), then one JSON object, in one of two places in turn:
 * whoever is killed while he writes leaves the former one. It never touches a disk.
 * dlr_state(5) draws it.
 */
#ifndef DLR_MPI_LAUNCHER_KEEPER_TAKEOVER_STATE_H
#define DLR_MPI_LAUNCHER_KEEPER_TAKEOVER_STATE_H

#include <jansson.h>

#include "common/base/err.h"

/* bytes of JSON: a plan has a line per rank */
#define DLR_TAKEOVER_STATE_MAX (64u << 20)

/* The object saved last; -ENOENT when there is none yet. *ret is the caller's.
 * Foreign bytes: fuzz target state.
 */
int dlr_takeover_state_load(int fd, json_t **ret, struct dlr_err *err);
/* Replaces it. state stays the caller's. */
int dlr_takeover_state_save(int fd, const json_t *state, struct dlr_err *err);

#endif
