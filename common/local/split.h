/* SPDX-License-Identifier: Apache-2.0 */
/* A text that may be longer than one local message: it goes in numbered parts, in
 * order, and is whole again at the other end or it is not taken at all.
 */
#ifndef DLR_COMMON_LOCAL_SPLIT_H
#define DLR_COMMON_LOCAL_SPLIT_H

#include <stddef.h>
#include <stdint.h>

#include "common/local/message.h"

#define DLR_SPLIT_BYTES (DLR_LOCAL_TEXT - 1) /* of the text in each part but the last */
#define DLR_SPLIT_MAX 4096u                  /* 32 MiB */

/* What has come so far; begin with zeros. */
struct dlr_split {
    char *text;
    size_t bytes;
    uint32_t next, of; /* the part that comes next, and how many there are */
};

/* How many parts a text of so many bytes has, at least 1; 0: it is too long for any. */
uint32_t dlr_split_count(size_t bytes);

/* Part i of a text of count parts goes into msg: its text, arg[0] = i, arg[1] = count.
 */
void dlr_split_put(struct dlr_local_msg *msg, const char *text, size_t bytes,
                   uint32_t i, uint32_t count);

/* The next part has come. 1: the text is whole (parts->text, parts->bytes, with a NUL
 * behind, until the next call); 0: more follow. Part 0 begins anew, arg[1] = 0 stands
 * for the only one. -EBADMSG: not the one that follows the last; -ENOMEM. Both forget
 * what has come.
 */
int dlr_split_take(struct dlr_split *parts, const struct dlr_local_msg *msg);

void dlr_split_done(struct dlr_split *parts);

#endif
