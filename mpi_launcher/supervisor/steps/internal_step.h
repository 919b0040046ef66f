/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of our own: what all of them say to srun. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_STEPS_INTERNAL_STEP_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_STEPS_INTERNAL_STEP_H

#include "mpi_launcher/slurm/srun.h"
#include "mpi_launcher/supervisor/steps/steps.h"

int dlr_sup_internal_env(const struct dlr_sup_steps *steps, struct dlr_env *env);
/* "srun" and what every internal step says: it names all it wants, but for generic
 * resources, of which it has the job's unless it says DLR_SUP_NO_GRES. On n nodes, or
 * on all candidates.
 */
#define DLR_SUP_NO_GRES "--gres=none"
void dlr_sup_step_words(const struct dlr_sup_steps *steps, struct dlr_words *w,
                        const char *name, const char *mpi, const char *list,
                        unsigned n);
void dlr_sup_internal_words(const struct dlr_sup_steps *steps, struct dlr_words *w,
                            const char *name, const char *mpi);

#endif
