/* SPDX-License-Identifier: Apache-2.0 */
/* A slot as a file in the `safetensors` form (man/dlr_persist.5.scd draws it): what other tools
 * read without us. Larger items first and no holes, as the form wants it; the header is padded to
 * whole pages, so that the data can be mapped. A BLOB, and a type the form does not know, is U8.
 */
#ifndef DLR_CKPT_SAFETENSORS_H
#define DLR_CKPT_SAFETENSORS_H

#include <sys/uio.h>

#include "ckpt/slot.h"

/* The header's key for what is no tensor; no region may have this name (dlr_regions_add()). */
#define DLR_SAFETENSORS_OWN "__metadata__"

/* The file's parts in order: [0] the header, owned by this struct; the others point into the
 * slot, which must outlive it.
 */
struct dlr_safetensors {
    char *header;
    struct iovec *parts;
    unsigned nparts;
    uint64_t bytes; /* of the file */
};

/* Of a slot that dlr_slot_verify() found good. -EBADMSG (also for names that cannot be keys),
 * -ENOMEM, -EFBIG (a header beyond the 100 MB that readers take) with text. Blocking: reads all
 * data once for the checksums.
 */
int dlr_safetensors_make(const struct dlr_slot *slot, struct dlr_safetensors *ret,
                         struct dlr_err *err);
void dlr_safetensors_done(struct dlr_safetensors *st);

#endif
