/* SPDX-License-Identifier: Apache-2.0 */
/* Why an srun ended, from its wait status and its own words: whose fault it is decides what a
 * supervisor does next. Pure functions.
 */
#ifndef DLR_MPI_LAUNCHER_SRUN_END_H
#define DLR_MPI_LAUNCHER_SRUN_END_H

#include <stdbool.h>
#include <stddef.h>

enum dlr_srun_end {
    DLR_SRUN_END_OK,      /* exit code 0 */
    DLR_SRUN_END_PROGRAM, /* its tasks ended so, or nothing tells otherwise */
    DLR_SRUN_END_CONTROL, /* slurmctld or munged does not answer: try again later */
    DLR_SRUN_END_BUSY,    /* the step waits, or has waited, for resources of the job */
    DLR_SRUN_END_REFUSED, /* no such step can be: trying again is no use */
    DLR_SRUN_END_NODE,    /* the step was created, a node did not start it */
    DLR_SRUN_END_GONE,    /* the job or the step is at its end or unknown */
};

#define DLR_SRUN_WORDS 256

/* wait_status is waitpid(2)'s. started: a task of the step has started, so whatever stands in
 * text may be the program's own and the answer is OK or PROGRAM. text is srun's stderr or its
 * last part (NULL: not known); only lines that begin with "srun: " count, the last of them that
 * says something decides. ret_words (may be NULL, else DLR_SRUN_WORDS bytes) is that line
 * without "srun: " and "error: ", "" for OK and PROGRAM.
 */
enum dlr_srun_end dlr_srun_end_of(int wait_status, bool started, const char *text,
                                  char *ret_words);

#define DLR_SRUN_NODE 256

/* The next line of srun's in text that names a node on which the step could not be started: the
 * node's name (DLR_SRUN_NODE bytes) and why (DLR_SRUN_WORDS bytes). Returns where to go on;
 * NULL: there is no more.
 */
const char *dlr_srun_end_node(const char *text, char *ret_name, char *ret_why);

/* "busy", "control", ... as the journal writes it. */
const char *dlr_srun_end_name(enum dlr_srun_end end);

#endif
