/* SPDX-License-Identifier: Apache-2.0 */
/* What the plugin in sbatch leaves in a job's environment for the plugin beside the
 * job's script.
 */
#ifndef DLR_SPANK_BASE_SCRIPT_ENV_H
#define DLR_SPANK_BASE_SCRIPT_ENV_H

/* SLURM_OPEN_MODE as it is to be there, "-" none. The script has it with SLURM_SPANK_
 * before it.
 */
#define DLR_BATCH_OPEN_MODE "DLROVER_OPEN_MODE"

#endif
