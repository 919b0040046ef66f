/* SPDX-License-Identifier: Apache-2.0 */
/* Large contents to a file, in pieces by several threads, at most so fast. */
#ifndef DLR_CKPT_BULK_H
#define DLR_CKPT_BULK_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/uio.h>

#include "common/err.h"

struct dlr_bulk {
    const struct iovec *parts; /* the contents, one after the other */
    unsigned nparts;
    unsigned threads;         /* 0: what the rate asks for */
    uint64_t rate;            /* bytes a second at most, 0: no limit */
    const atomic_uint *hurry; /* while it is not 0 the rate does not count; or NULL */
};

/* Replaces the file at path as dlr_file_replace() does. Room is taken before the first byte, where
 * the file system can; -ENOSPC, -EDQUOT or whatever else goes wrong later leaves the old file and
 * nothing else. Blocking.
 */
int dlr_bulk_replace(const char *path, mode_t mode, const struct dlr_bulk *bulk,
                     struct dlr_err *err);

#endif
