/* SPDX-License-Identifier: Apache-2.0 */
/* What a job that was put back into the queue waits for, as slurmctld says. */
#ifndef DLR_MPI_LAUNCHER_DOCTOR_WAITS_FOR_H
#define DLR_MPI_LAUNCHER_DOCTOR_WAITS_FOR_H

#include <stddef.h>

#define DLR_DOCTOR_WAITS 512

/* In words, from what `scontrol -o show job JOB` prints; "" when it prints nothing of
 * that job, or nothing that is waited for. text need not end with a newline.
 * Foreign bytes: own test, test_waits_for.
 */
void dlr_doctor_waits_for(const char *text, const char *job,
                          char ret[DLR_DOCTOR_WAITS]);

/* Asks, one query for that one job, and waits for the answer a few seconds at most. "" as
 * well when there is no scontrol, or no answer.
 */
void dlr_doctor_ask_waits_for(const char *job, char ret[DLR_DOCTOR_WAITS]);

#endif
