/* SPDX-License-Identifier: Apache-2.0 */
/* What supervision needs of the allocation itself: that it survives a node (no-kill),
 * may be requeued, and appends to its output. sbatch and salloc take these from their
 * environment, which they read after the plugin's init and after the #SBATCH lines.
 */
#ifndef DLR_SPANK_COMMAND_ALLOCATOR_H
#define DLR_SPANK_COMMAND_ALLOCATOR_H

#include <stdbool.h>

#define DLR_ALLOCATOR_UNKNOWN (-1)

struct dlr_allocator {
    int cli;            /* 1 on, 0 off: the command line's word, which is final */
    unsigned set;       /* bit i: we set the i-th variable */
    char open_mode[16]; /* SLURM_OPEN_MODE as it was, "" none */
};

/* Looks for --dlrover among sbatch's or salloc's own options, the last one wins: 1 on,
 * 0 off, DLR_ALLOCATOR_UNKNOWN when there is none. The words of the job's script or
 * program are not looked at: the first word that is neither an option nor an option's
 * argument ends the search. Which options take an argument in the next word is known
 * for the flags of Slurm 22.05 to 25.11; an option that is not known as a flag is
 * believed to take one.
 */
int dlr_allocator_scan(char *const argv[]);

/* The same for this process's command line; unknown too when it cannot be read. */
int dlr_allocator_cli(void);

/* Takes what a round around us has put into the environment out of it: the new job has
 * no part in that. Starts with what the command line said and, where it said nothing,
 * with before (what plugstack.conf and the environment say).
 */
void dlr_allocator_start(struct dlr_allocator *alloc, int cli, bool before);

/* An option was parsed: sets the variables, or takes back those set here. Nothing the
 * user has set himself is changed. Has no effect when the command line has spoken.
 */
void dlr_allocator_option(struct dlr_allocator *alloc, bool on);

/* Every option is parsed: takes the variables back, so that the job does not inherit
 * them, nor, unless the user said --open-mode himself, what sbatch made of one of them.
 * What SLURM_OPEN_MODE is to be in the script, where slurmctld makes it (from 24.05
 * on), "" not there; NULL when it is the user's matter.
 */
const char *dlr_allocator_end(struct dlr_allocator *alloc);

#endif
