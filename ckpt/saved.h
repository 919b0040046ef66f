/* SPDX-License-Identifier: Apache-2.0 */
/* A slot as a file on a disk, in the safetensors form: written from where it lies in memory, and
 * read as the slot it was.
 */
#ifndef DLR_CKPT_SAVED_H
#define DLR_CKPT_SAVED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "ckpt/slot.h"

#define DLR_SAVED_SUFFIX ".safetensors"

struct dlr_saved_how {
    bool check;               /* compare each chunk with its sum on the way */
    uint64_t rate;            /* bytes a second at most, 0: no limit */
    const atomic_uint *hurry; /* while it is not 0 the rate does not count; or NULL */
};

/* Replaces dirfd/path by the slot's file, as dlr_file_replace() does: durable when it returns. The
 * meta block is checked in any case. -ENOSPC with the numbers before anything is written where
 * the file system has no room for it. Blocking.
 */
int dlr_saved_write(const struct dlr_slot *slot, int dirfd, const char *path,
                    mode_t mode, const struct dlr_saved_how *how, struct dlr_err *err);

/* The slot in a file, to read, state SEALED: every byte before the data is checked, the data is for
 * dlr_slot_verify(), and read as it is asked for (dlr_slot_join()). fd stays the caller's. -EBADMSG with text for any other file, and for one that was cut.
 */
int dlr_saved_map(int fd, struct dlr_slot **ret, struct dlr_err *err);

#endif
