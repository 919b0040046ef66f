/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank of its program this process is: the launchers' variables of the environment,
 * the launcher closest to the program first.
 */
#ifndef DLR_COMMON_LOCAL_PROGRAM_RANK_H
#define DLR_COMMON_LOCAL_PROGRAM_RANK_H

#include "common/base/err.h"

/* 0 of 1 where no launcher says anything. -EINVAL, with the variables in the text;
 * -EAGAIN: it runs ahead on a spare (DLROVER_WARM) and has none yet.
 */
int dlr_program_rank(int *ret_rank, int *ret_world, struct dlr_err *err);

#endif
