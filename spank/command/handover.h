/* SPDX-License-Identifier: Apache-2.0 */
/* From srun to the keeper: same process, same stdin and stdout, another program. */
#ifndef DLR_SPANK_COMMAND_HANDOVER_H
#define DLR_SPANK_COMMAND_HANDOVER_H

#include <stdbool.h>

#include "spank/base/options.h"

enum dlr_handover {
    DLR_HANDOVER_NO,      /* an ordinary srun, nothing to say */
    DLR_HANDOVER_YES,     /* give it to the keeper */
    DLR_HANDOVER_NOWHERE, /* wanted, but there is no allocation to supervise in */
};

/* What to do with an srun. job is its SLURM_JOB_ID, supervised its DLROVER_SUPERVISED
 * ("<job>.<restarts>.<run>"): where that names the same job, this srun was started by a
 * supervisor. Both may be NULL.
 */
enum dlr_handover dlr_handover_decide(const struct dlr_spank_conf *conf,
                                      const char *job, const char *supervised);

/* The keeper's words: its path, every setting as --name=value, "--", then srun's own
 * words. *ret_argv ends with NULL; its strings up to "--" and the array are the
 * caller's: dlr_handover_free(). -ENOMEM, -ENAMETOOLONG.
 */
int dlr_handover_argv(const struct dlr_spank_conf *conf, char *const srun[],
                      char ***ret_argv, struct dlr_err *err);

/* Frees what dlr_handover_argv() made; NULL is fine. */
void dlr_handover_free(char **argv);

/* Becomes argv[0] with the environment env: descriptors from 3 on are closed, and
 * signals that srun has blocked are let through. Returns -errno only when that failed;
 * srun can go on then.
 */
int dlr_handover_exec(char *const argv[], char *const env[], struct dlr_err *err);

/* Decides for this srun and does it; says on stderr when it goes on without
 * supervision.
 */
void dlr_handover_srun(const struct dlr_spank_conf *conf);

#endif
