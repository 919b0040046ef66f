/* SPDX-License-Identifier: Apache-2.0 */
/* What was learned of a run's steps, as text of its saved state. Pure. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_WATCH_LEARNED_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_WATCH_LEARNED_H

#include "watch/judge/learn.h"

#define DLR_LEARNED_TEXT (2 * DLR_LEARN_BYTES + 1)

void dlr_learned_text(const struct dlr_learn *learn, char ret[DLR_LEARNED_TEXT]);
/* Text that is none changes nothing: -EBADMSG. Our own text. */
int dlr_learned_take(const char *text, struct dlr_learn *learn);

#endif
