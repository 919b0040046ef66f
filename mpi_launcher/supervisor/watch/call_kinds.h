/* SPDX-License-Identifier: Apache-2.0 */
/* What the judge needs to know of MPI's calls, from the interposer's table of them. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_WATCH_CALL_KINDS_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_WATCH_CALL_KINDS_H

#include <stdint.h>

#include "interpose/calls/calls.h"

#define DLR_CALL_KINDS DLR_CALL_COUNT

/* Of each number DLR_CALL_SENDS and the others of watch/judge/judge.h. */
void dlr_call_kinds(uint8_t kinds[DLR_CALL_KINDS]);

#endif
