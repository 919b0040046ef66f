/* SPDX-License-Identifier: Apache-2.0 */
/* Who keeps which copy of a snapshot, and how copies come to where they are needed:
 * before a round, while one runs, and again after a loss. It knows the nodes, the steps
 * and the plan, and no engine above them, and says by its events what has happened. One
 * thread.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_COPIES_COPIES_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_COPIES_COPIES_H

struct dlr_sup_copies; /* opaque */

/* What it only reads; all of it must live as long, and may be filled later. */
struct dlr_sup_copies_env {
    const unsigned *generation; /* supervisors of this incarnation, this one too */
};

/* NULL when out of memory. */
struct dlr_sup_copies *dlr_sup_copies_new(const struct dlr_sup_copies_env *env);
/* Accepts NULL, returns NULL. */
struct dlr_sup_copies *dlr_sup_copies_free(struct dlr_sup_copies *copies);

#endif
