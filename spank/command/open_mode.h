/* SPDX-License-Identifier: Apache-2.0 */
/* --open-mode is asked for by the plugin, for the output of a job that may be requeued.
 * sbatch hands it on to every srun of the script (SLURM_OPEN_MODE), and a program's
 * first output would then be added to what a former job has left in the file. So it is
 * taken back where the user himself has not said it.
 */
#ifndef DLR_SPANK_COMMAND_OPEN_MODE_H
#define DLR_SPANK_COMMAND_OPEN_MODE_H

#include <stdbool.h>
#include <stddef.h>

/* Whether sbatch's own words (the first own of argv) or the script's #SBATCH lines say
 * it. The script is argv[own], or standard input when there is no such word and no
 * --wrap. True too when it cannot be looked at, as when it came through a pipe: adding
 * to a file loses nothing.
 */
bool dlr_open_mode_said(char *const argv[], size_t own);

#endif
