/* SPDX-License-Identifier: Apache-2.0 */
/* Starting sruns: their environment, their descriptors, their pidfd. Internal steps
 * start from an environment without any of srun's input variables; the user's step
 * keeps the user's, less what places it.
 */
#ifndef DLR_MPI_LAUNCHER_SLURM_SRUN_H
#define DLR_MPI_LAUNCHER_SLURM_SRUN_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/base/err.h"

/* --- environments: NULL-terminated "NAME=value" arrays on the heap ---------------- */

struct dlr_env {
    char **list;
    unsigned n, room;
};

/* Takes what environ holds: everything (user), or everything but Slurm's input
 * variables and options of SPANK plugins (scrubbed). Variables that place a step are
 * left out of both.
 */
int dlr_env_copy(struct dlr_env *env, bool scrubbed);
int dlr_env_set(struct dlr_env *env, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* What every MPI step gets: the user's SLURM_PMIX_FENCE, else "ring", in a scrubbed
 * environment, too. With the default of Slurm 22.05.8, 9 of 100 starts of 5 ranks
 * crashed in MPI_Init (a peer's first message reached a rank that was still in the
 * fence), with this 0 of 100.
 */
int dlr_srun_pmix_env(struct dlr_env *env);
void dlr_env_done(struct dlr_env *env);

/* --- argument lists --------------------------------------------------------------- */

struct dlr_words {
    char **list; /* NULL-terminated */
    unsigned n, room;
};
int dlr_words_add(struct dlr_words *words, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void dlr_words_done(struct dlr_words *words);

/* --- processes -------------------------------------------------------------------- */

struct dlr_proc {
    pid_t pid; /* 0: none */
    int pidfd;
};

/* Starts argv (found in PATH) in a session of its own, so that a terminal's Ctrl-C
 * reaches the supervisor alone. Descriptors stay the caller's; -1 is /dev/null. Signals
 * are unblocked and at their defaults. -errno when it cannot be started (a missing
 * program shows as exit code 127).
 */
int dlr_proc_start(char *const *argv, char *const *envp, int in, int out, int err_fd,
                   struct dlr_proc *ret, struct dlr_err *err);

#define DLR_SRUN_PASS_FD 3
#define DLR_SRUN_PASS_PATH "/proc/self/fd/3"

/* Same; the process has pass as descriptor DLR_SRUN_PASS_FD, too (-1: none). */
int dlr_proc_start_with(char *const *argv, char *const *envp, int in, int out,
                        int err_fd, int pass, struct dlr_proc *ret,
                        struct dlr_err *err);

/* Takes a process that somebody else started; 0 or -ESRCH. */
int dlr_proc_adopt(pid_t pid, struct dlr_proc *ret);

/* After pidfd became readable: the wait status (0 for one that is not our child);
 * closes.
 */
int dlr_proc_reap(struct dlr_proc *proc);
void dlr_proc_kill(const struct dlr_proc *proc, int sig);

#endif
