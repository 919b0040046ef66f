/* SPDX-License-Identifier: Apache-2.0 */
/* The codes that mpi_launcher/slurm/api.c tells apart; see slurm.h beside. Their
 * numbers are not Slurm's.
 */
#ifndef DLR_TESTS_SLURM_API_ERRNO_H
#define DLR_TESTS_SLURM_API_ERRNO_H

enum {
    ESLURM_JOB_NOT_PENDING = 1,
    ESLURM_TRANSITION_STATE_NO_UPDATE,
    ESLURM_ACCESS_DENIED,
    ESLURM_USER_ID_MISSING,
    ESLURM_DISABLED,
    ESLURM_BATCH_ONLY,
    ESLURM_INVALID_JOB_ID,
    ESLURM_ALREADY_DONE,
    ESLURM_JOB_FINISHED,
};

char *slurm_strerror(int code);

#endif
