/* SPDX-License-Identifier: Apache-2.0 */
#include "common/local/split.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

uint32_t dlr_split_count(size_t bytes)
{
    size_t n = (bytes + DLR_SPLIT_BYTES - 1) / DLR_SPLIT_BYTES;

    return n > DLR_SPLIT_MAX ? 0 : n ? (uint32_t)n : 1;
}

void dlr_split_put(struct dlr_local_msg *msg, const char *text, size_t bytes,
                   uint32_t i, uint32_t count)
{
    size_t from = (size_t)i * DLR_SPLIT_BYTES, left = bytes - from;

    msg->arg[0] = i;
    msg->arg[1] = count;
    msg->text_len = (uint32_t)(left < DLR_SPLIT_BYTES ? left : DLR_SPLIT_BYTES);
    memcpy(msg->text, text + from, msg->text_len);
}

void dlr_split_done(struct dlr_split *parts)
{
    free(parts->text);
    *parts = (struct dlr_split){0};
}

static int append(struct dlr_split *parts, const struct dlr_local_msg *msg)
{
    char *more = realloc(parts->text, parts->bytes + msg->text_len + 1);

    if (!more)
        return -ENOMEM;
    parts->text = more;
    memcpy(more + parts->bytes, msg->text, msg->text_len);
    parts->bytes += msg->text_len;
    more[parts->bytes] = '\0';
    return 0;
}

int dlr_split_take(struct dlr_split *parts, const struct dlr_local_msg *msg)
{
    uint64_t of = msg->arg[1] ? msg->arg[1] : 1;
    int rc = 0;

    if (msg->arg[0] == 0) {
        dlr_split_done(parts);
        parts->of = of > DLR_SPLIT_MAX ? 0 : (uint32_t)of;
    }
    if (msg->arg[0] != parts->next || of != parts->of || parts->next == parts->of)
        rc = -EBADMSG;
    if (rc == 0)
        rc = append(parts, msg);
    if (rc < 0) {
        dlr_split_done(parts);
        return rc;
    }
    return ++parts->next == parts->of;
}
