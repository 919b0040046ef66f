/* SPDX-License-Identifier: Apache-2.0 */
/* Sums again, slowly, what this node holds, so that memory that went bad is found while
 * another copy is good. One block at a time, when nothing is copied or filled; the
 * loop's thread owns the state.
 */
#ifndef DLR_CKPT_STREAM_SCRUB_H
#define DLR_CKPT_STREAM_SCRUB_H

#include <stdint.h>

#include "ckpt/stream/state.h"

#define DLR_SCRUB_RATE (64u << 20) /* bytes a second at most */
#define DLR_SCRUB_PAUSE_MS 200 /* while something else goes on, until it looks again */

struct dlr_scrub; /* opaque */

/* pass_ms: each byte once in that time, if the rate lets it; 0: never. */
int dlr_data_scrub_new(struct dlr_data *d, int64_t pass_ms, struct dlr_err *err);
int dlr_data_scrub_fd(const struct dlr_data *d); /* readable: call the next one */
void dlr_data_scrub_finish(struct dlr_data *d);
/* Begins what is due; the time of the next such thing. */
int64_t dlr_data_scrub_tick(struct dlr_data *d, int64_t now_ms);

#endif
