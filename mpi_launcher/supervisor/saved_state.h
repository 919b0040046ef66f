/* SPDX-License-Identifier: Apache-2.0 */
/* What outlives a supervisor: state.json for the next incarnation of the job, and the
 * keeper's memory file for the next supervisor of this one. Each engine saves and loads
 * its part. dlr_state(5).
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_SAVED_STATE_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_SAVED_STATE_H

#include <jansson.h>

struct dlr_sup;

/* Both, or the keeper's alone. */
void dlr_sup_save_state(struct dlr_sup *s);
void dlr_sup_save_takeover_state(struct dlr_sup *s);

/* The file's, and what the keeper has: the run's state is part of it. */
void dlr_sup_save_run(const struct dlr_sup *s, json_t *state);
void dlr_sup_load_run(struct dlr_sup *s, const json_t *state);
void dlr_sup_load_kept(struct dlr_sup *s, const json_t *state);
/* The same for a supervisor on another host; the caller's, NULL: out of memory. */
json_t *dlr_sup_state_for_heirs(const struct dlr_sup *s);
/* It had ended already: its code is all that is left to be told. */
void dlr_sup_load_end(struct dlr_sup *s, const json_t *state);

#endif
