/* SPDX-License-Identifier: Apache-2.0 */
#include "common/local/split.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

uint32_t dlr_parts_count(size_t bytes)
{
    size_t n = (bytes + DLR_PARTS_BYTES - 1) / DLR_PARTS_BYTES;

    return n > DLR_PARTS_MAX ? 0 : n ? (uint32_t)n : 1;
}

void dlr_parts_put(struct dlr_local_msg *msg, const char *text, size_t bytes,
                   uint32_t i, uint32_t count)
{
    size_t from = (size_t)i * DLR_PARTS_BYTES, left = bytes - from;

    msg->arg[0] = i;
    msg->arg[1] = count;
    msg->text_len = (uint32_t)(left < DLR_PARTS_BYTES ? left : DLR_PARTS_BYTES);
    memcpy(msg->text, text + from, msg->text_len);
}

void dlr_parts_done(struct dlr_parts *parts)
{
    free(parts->text);
    *parts = (struct dlr_parts){0};
}

static int append(struct dlr_parts *parts, const struct dlr_local_msg *msg)
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

int dlr_parts_take(struct dlr_parts *parts, const struct dlr_local_msg *msg)
{
    uint64_t of = msg->arg[1] ? msg->arg[1] : 1;
    int rc = 0;

    if (msg->arg[0] == 0) {
        dlr_parts_done(parts);
        parts->of = of > DLR_PARTS_MAX ? 0 : (uint32_t)of;
    }
    if (msg->arg[0] != parts->next || of != parts->of || parts->next == parts->of)
        rc = -EBADMSG;
    if (rc == 0)
        rc = append(parts, msg);
    if (rc < 0) {
        dlr_parts_done(parts);
        return rc;
    }
    return ++parts->next == parts->of;
}
