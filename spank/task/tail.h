/* SPDX-License-Identifier: Apache-2.0 */
/* The last lines of a stream. */
#ifndef DLR_SPANK_TASK_TAIL_H
#define DLR_SPANK_TASK_TAIL_H

#include <stddef.h>

#define DLR_TAIL_BYTES 4096

struct dlr_tail {
    size_t total; /* bytes seen */
    char ring[DLR_TAIL_BYTES];
};

/* Adds bytes; only the last DLR_TAIL_BYTES of all are kept. */
void dlr_tail_add(struct dlr_tail *tail, const char *buf, size_t size);

/* Writes what was kept as text: from the start of a line where the beginning was lost
 * (unless there is one line only), valid UTF-8, '?' for each byte that is not text or
 * that would steer a terminal. Returns its length; text is NUL-terminated.
 */
size_t dlr_tail_text(const struct dlr_tail *tail, char text[DLR_TAIL_BYTES + 1]);

#endif
