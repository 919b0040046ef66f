/* SPDX-License-Identifier: Apache-2.0 */
/* What the state files of the job's runs say, state.json of each one's directory: of
 * runs that are over, and of this one in a former incarnation of the job. dlr_state(5).
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_FORMER_RUNS_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_FORMER_RUNS_H

#include <jansson.h>

#include "mpi_launcher/run/run_info.h"

#define DLR_SUP_STATE_MAX 65536 /* bytes of the file */

/* The state in a run's directory. -ENOENT: there is none; -EBADMSG, -EPROTONOSUPPORT:
 * it is none, or another release's. *ret is the caller's. Blocking: file system.
 * Foreign bytes: fuzz target state.
 */
int dlr_sup_former_read(const char *dir, json_t **ret, struct dlr_err *err);
/* what: what err calls the state. */
int dlr_sup_former_version(const json_t *state, const char *what, struct dlr_err *err);

/* A number of it that is at most max, else 0. */
uint64_t dlr_sup_former_number(const json_t *state, const char *key, uint64_t max);

/* True when a run of the job was cut short in the former incarnation, by a requeue: the
 * script begins again for its sake. A job that was over and is run again by hand has
 * none. Blocking: file system.
 */
bool dlr_sup_former_cut_short(const struct dlr_runinfo *info);

/* What the state in dir says of a run, for an srun that asks whether it is a try of it:
 * struct dlr_run_want.
 */
int dlr_sup_former_tries(const struct dlr_runinfo *info, const char *dir,
                         struct dlr_tries_run *ret, struct dlr_err *err);

/* "command" and "tries" of the state: what it was, and its tries before this one. */
void dlr_sup_former_save(const struct dlr_runinfo *info, json_t *state);
/* The tries. Foreign bytes: fuzz target state. */
void dlr_sup_former_load(struct dlr_tries *ret, const json_t *state);

#endif
