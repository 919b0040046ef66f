/* SPDX-License-Identifier: Apache-2.0 */
/* What srun says of a rendezvous by MPI: read when it has made no plan, kept for
 * people.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "mpi_launcher/supervisor/io/state_files.h"
#include "mpi_launcher/supervisor/planning/planning_state.h"

/* What srun has said of the present rendezvous; NULL: nothing. Owned by the caller. */
static char *rendezvous_words(const struct dlr_sup_planning *planning)
{
    off_t end = planning->mpi.log < 0 ? -1 : lseek(planning->mpi.log, 0, SEEK_END);
    char *text = end > 0 ? calloc(1, DLR_SUP_FILE_MAX + 1) : NULL;

    if (text && pread(planning->mpi.log, text, DLR_SUP_FILE_MAX,
                      end > DLR_SUP_FILE_MAX ? end - DLR_SUP_FILE_MAX : 0) < 0)
        text[0] = '\0';
    return text;
}

/* Before 23.02.6 slurmctld ends the extern step on all nodes of a job that has lost
 * one, and with it goes the mount namespace of job_container/tmpfs: running steps have
 * it, a new one cannot enter it.
 */
bool dlr_sup_container_gone(const struct dlr_sup_planning *planning)
{
    DLR_AUTO_FREE char *text = rendezvous_words(planning);

    return text && strstr(text, "error: container_g_join failed");
}

void dlr_sup_rendezvous_log(struct dlr_sup_planning *planning)
{
    DLR_AUTO_FREE char *text = rendezvous_words(planning);
    char path[DLR_RUN_PATH + 32];

    snprintf(path, sizeof(path), "%s/rendezvous.log", planning->env.info->dir);
    if (text && text[0]) {
        text[strlen(text) - (text[strlen(text) - 1] == '\n')] = '\0';
        dlr_journal_append(dlr_sup_journal(planning->env.io), path, text);
    }
    if (planning->mpi.log >= 0)
        close(planning->mpi.log);
    planning->mpi.log = -1;
}
