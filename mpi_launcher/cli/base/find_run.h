/* SPDX-License-Identifier: Apache-2.0 */
/* Which journal is meant: <state directory>/job-<id>/<run>/events.jsonl. */
#ifndef DLR_MPI_LAUNCHER_CLI_BASE_FIND_RUN_H
#define DLR_MPI_LAUNCHER_CLI_BASE_FIND_RUN_H

#include <limits.h>
#include <stdbool.h>

#include "common/base/err.h"

#define DLR_CLI_NAME 256 /* a job's or a run's name, NUL included */

/* What the user asked for; each may be NULL. */
struct dlr_cli_where {
    const char *state_dir; /* else DLROVER_STATE_DIR, else $HOME/.dlrover */
    const char *job;       /* else SLURM_JOB_ID, else the one written to last */
    const char *run;       /* else the one written to last */
};

/* Takes JOB (name NULL), --run and --state-dir, as a command's set function is given
 * them. True: it was one of them, *ret_rc is 0, or -EINVAL with text for a second job.
 */
bool dlr_cli_where_set(struct dlr_cli_where *where, const char *name, const char *value,
                       int *ret_rc, struct dlr_err *err);

struct dlr_cli_run {
    char state_dir[PATH_MAX];
    char job[DLR_CLI_NAME];
    char run[DLR_CLI_NAME];
    char journal[PATH_MAX];
    unsigned others; /* runs of the same job */
};

/* -ENOENT: there is none; err names where it was looked for. -EINVAL: a malformed name.
 */
int dlr_cli_find(const struct dlr_cli_where *where, struct dlr_cli_run *ret,
                 struct dlr_err *err);

#endif
