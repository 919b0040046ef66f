/* SPDX-License-Identifier: Apache-2.0 */
/* Large contents to a file, in pieces by several threads, at most so fast. Past the
 * page cache where the file system lets us: the copy into it costs more than the disk
 * does.
 */
#ifndef DLR_CKPT_PERSIST_BULK_WRITE_H
#define DLR_CKPT_PERSIST_BULK_WRITE_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/err.h"

/* in memory and in the file, for writes past the page cache */
#define DLR_BULK_WRITE_ALIGN 4096u

struct dlr_bulk_write_part {
    const void *data;
    uint64_t bytes;
    const void *arg; /* of check */
};

/* The file is head, then the parts, each behind the one before at the next multiple of
 * DLR_BULK_WRITE_ALIGN after the head, with zeros between. Where head and parts begin
 * in memory at such multiples and head_bytes is one, writes go past the page cache.
 */
struct dlr_bulk_write_write {
    const void *head;
    uint64_t head_bytes;
    const struct dlr_bulk_write_part *parts;
    unsigned nparts;
    /* Looks at bytes [from, to) of a part right before they are written; less than 0
     * with text ends it all. Called by several threads; from is a multiple of unit.
     * NULL: not looked at.
     */
    int (*check)(const void *arg, uint64_t from, uint64_t to, struct dlr_err *err);
    /* a power of two from DLR_BULK_WRITE_ALIGN on; 0: DLR_BULK_WRITE_ALIGN */
    uint32_t unit;
    unsigned threads;         /* 0: what the rate asks for */
    uint64_t rate;            /* bytes a second at most, 0: no limit */
    const atomic_uint *hurry; /* while it is not 0 the rate does not count; or NULL */
    const char *over;         /* as of dlr_file_replace_over(), for one part; or NULL */
};

uint64_t
dlr_bulk_write_bytes(const struct dlr_bulk_write_write *bulk); /* of the file */

/* Replaces dirfd/path as dlr_file_replace() does. Room is taken before the first byte,
 * where the file system can; -ENOSPC, -EDQUOT or whatever else goes wrong later leaves
 * the old file and nothing else. Blocking.
 */
int dlr_bulk_write_replace(int dirfd, const char *path, mode_t mode,
                           const struct dlr_bulk_write_write *bulk,
                           struct dlr_err *err);

#endif
