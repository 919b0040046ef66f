/* SPDX-License-Identifier: Apache-2.0 */
/* Slots as a file on a disk, in the safetensors form: written from where they lie in
 * memory, and read as the slots they were.
 */
#ifndef DLR_CKPT_PERSIST_SLOT_FILE_H
#define DLR_CKPT_PERSIST_SLOT_FILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "ckpt/base/file_slice.h"
#include "ckpt/slot/slot.h"

#define DLR_SLOT_FILE_SUFFIX ".safetensors"

struct dlr_slot_file_how {
    bool check;               /* compare each block with its sum on the way */
    uint64_t rate;            /* bytes a second at most, 0: no limit */
    const atomic_uint *hurry; /* while it is not 0 the rate does not count; or NULL */
    const char *over;         /* of one slot: as of dlr_file_replace_over(); or NULL */
};

struct dlr_slot_file_part {
    const struct dlr_slot *slot;
    struct dlr_slice slice; /* set when it was written */
    bool bad; /* set when it was not, and that is this slot's fault: it is corrupt */
};

/* Replaces dirfd/path by one file of n ranks' slots (1 and more), as dlr_file_replace()
 * does: durable when it returns. They are in the order of ranks and of one version. The
 * meta blocks are checked in any case. -ENOSPC with the numbers before anything is
 * written where the file system has no room for it; -EFBIG when their header would be
 * longer than readers take. Blocking.
 */
int dlr_slot_file_write(struct dlr_slot_file_part *parts, unsigned n, int dirfd,
                        const char *path, mode_t mode,
                        const struct dlr_slot_file_how *how, struct dlr_err *err);

/* A rank's slot in a file (-1: the first that is there), to read, state SEALED: every
 * byte before the data is checked, the data is for dlr_slot_verify(), and read as it is
 * asked for (dlr_slot_join()). fd stays the caller's. -EBADMSG with text for any other
 * file, for one that was cut, and for one without that rank.
 * Foreign bytes: fuzz target safetensors.
 */
int dlr_slot_file_map(int fd, int32_t rank, struct dlr_slot **ret, struct dlr_err *err);

/* What files said before their data, for who takes many ranks out of files of many: it
 * is read and checked once for each file that stays as it is, while all of them are not
 * too long. Begins as zeros; for one thread.
 */
struct dlr_slot_file_heads {
    struct dlr_slot_file_head *newest; /* opaque */
    uint64_t bytes;
};
void dlr_slot_file_heads_done(struct dlr_slot_file_heads *heads);
/* The same as dlr_slot_file_map(), by them; NULL: there are none. */
int dlr_slot_file_map_by(struct dlr_slot_file_heads *heads, int fd, int32_t rank,
                         struct dlr_slot **ret, struct dlr_err *err);

#endif
