/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's part of a file of several: how messages and manifests name it. */
#ifndef DLR_CKPT_BASE_FILE_SLICE_H
#define DLR_CKPT_BASE_FILE_SLICE_H

#include <stdint.h>

#define DLR_SLICE_TEXT 80

struct dlr_slice {
    uint64_t at, bytes; /* of its data in the file */
    uint64_t room;      /* in bytes, of a slot that holds it */
    uint32_t crc;       /* CRC32C of its meta block, which has that of every block */
};

/* As words of a message, "AT BYTES ROOM CRC", and back: -EBADMSG. */
void dlr_slice_show(const struct dlr_slice *slice, char buf[DLR_SLICE_TEXT]);
/* Foreign bytes: fuzz target msg_supervisor. */
int dlr_slice_parse(const char *text, struct dlr_slice *ret);

#endif
