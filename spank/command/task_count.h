/* SPDX-License-Identifier: Apache-2.0 */
/* An srun that says --cpus-per-task and no number of tasks leaves the number to
 * slurmctld, from 24.05 on. slurmctld then counts the nodes on which no other step
 * runs, so that such an srun waits for the step of our agents, which is on all of them
 * until the job ends. With --relative=0 it counts the nodes whose CPUs no other step
 * has, and our agents have none.
 */
#ifndef DLR_SPANK_COMMAND_TASK_COUNT_H
#define DLR_SPANK_COMMAND_TASK_COUNT_H

enum dlr_taskcount {
    DLR_TASKCOUNT_SAID, /* or of no interest to slurmctld */
    DLR_TASKCOUNT_LEFT, /* to slurmctld */
    /* left to it, on nodes by name: srun takes no --relative beside them */
    DLR_TASKCOUNT_PLACED,
};

/* Of srun's own words, of which the program's name is number words, and its
 * environment. An option's value that looks like an option is taken for one.
 */
enum dlr_taskcount dlr_taskcount_read(char *const srun[], int words, char *const env[]);

/* srun with --relative=0 as its first option: an array for the caller to free, whose
 * strings are srun's. NULL when out of memory.
 */
char **dlr_taskcount_words(char *const srun[]);

#endif
