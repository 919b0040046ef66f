/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/base/file_slice.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "common/base/str.h"

void dlr_slice_show(const struct dlr_slice *slice, char buf[DLR_SLICE_TEXT])
{
    snprintf(buf, DLR_SLICE_TEXT, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %08" PRIx32,
             slice->at, slice->bytes, slice->room, slice->crc);
}

int dlr_slice_parse(const char *text, struct dlr_slice *ret)
{
    char again[DLR_SLICE_TEXT];
    struct dlr_slice s;

    if (sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNx32, &s.at, &s.bytes,
               &s.room, &s.crc) != 4)
        return -EBADMSG;
    dlr_slice_show(&s, again);
    if (!dlr_streq(text, again) || s.at > INT64_MAX || s.bytes > INT64_MAX ||
        s.room > INT64_MAX)
        return -EBADMSG;
    *ret = s;
    return 0;
}
