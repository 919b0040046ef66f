/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of our own: what all of them say to srun. */
#include "mpi_launcher/supervisor/steps/internal_step.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/cleanup.h"
#include "common/base/hostlist.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/steps/steps_state.h"

int dlr_sup_internal_env(const struct dlr_sup_steps *steps, struct dlr_env *env)
{
    int rc = dlr_env_copy(env, true);

    if (rc == 0)
        rc = dlr_env_set(env, "DLROVER_SUPERVISED", "%s.%u.%s", steps->env.info->job,
                         steps->env.info->incarnation, steps->env.info->name);
    return rc;
}

/* "srun" and what every internal step says: it names all it wants. */
void dlr_sup_step_words(const struct dlr_sup_steps *steps, struct dlr_words *w,
                        const char *name, const char *mpi, const char *list, unsigned n)
{
    dlr_words_add(w, "srun");
    dlr_words_add(w, "--jobid=%s", steps->env.info->job);
    dlr_words_add(w, "--job-name=%s", name);
    dlr_words_add(w, "--nodes=%u", n);
    dlr_words_add(w, "--ntasks=%u", n);
    dlr_words_add(w, "--ntasks-per-node=1");
    dlr_words_add(w, "--nodelist=%s", list);
    dlr_words_add(w, "--mpi=%s", mpi);
    dlr_words_add(w, "--overlap");
    dlr_words_add(w, "--mem=0"); /* the job's, whatever it is */
    dlr_words_add(w, "--distribution=block");
    dlr_words_add(w, "--cpu-bind=none");
    dlr_words_add(w, "--input=none");
    dlr_words_add(w, "--export=ALL");
    dlr_words_add(w, "--quiet");
}

void dlr_sup_internal_words(const struct dlr_sup_steps *steps, struct dlr_words *w,
                            const char *name, const char *mpi)
{
    DLR_AUTO_FREE const char **names = calloc(steps->members->n + 1, sizeof(*names));
    DLR_AUTO_FREE char *list = NULL;
    unsigned n = 0;

    for (unsigned i = 0; names && i < steps->members->n; i++)
        if (dlr_sup_is_candidate(steps, i))
            names[n++] = steps->members->list[i].node.name;
    if (names && dlr_hostlist_join(names, n, &list) == -E2BIG)
        dlr_user_line(steps->env.io,
                      "the names of %u nodes do not fit in one argument of srun", n);
    dlr_sup_step_words(steps, w, name, mpi, list ? list : "", n);
}
