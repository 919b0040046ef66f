/* SPDX-License-Identifier: Apache-2.0 */
/* The header that makes a slot's data the body of a file in the `safetensors` form
 * (man/dlr_persist.5.scd draws it): what other tools read without us. The meta block is a
 * text of its metadata. Pure functions of the slot: what is read is compared with what would be written.
 */
#ifndef DLR_CKPT_SAFETENSORS_H
#define DLR_CKPT_SAFETENSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/slot.h"

/* Keys of the header that no region may have as its name, or as the beginning of it: what is no tensor;
 * what a BLOB has room for beyond its length.
 */
#define DLR_SAFETENSORS_OWN "__metadata__"
#define DLR_SAFETENSORS_ROOM "dlrover.room."
bool dlr_safetensors_reserved(const char *name);

/* The header of a slot: *ret is heap memory at a multiple of 4 KiB and *ret_bytes such a multiple.
 * The tensors' bytes are the slot's data. -EBADMSG (also for names that cannot be keys), -ENOMEM,
 * -EFBIG (beyond the 100 MB that readers take) with text.
 */
int dlr_safetensors_header(const struct dlr_slot *slot, char **ret, uint64_t *ret_bytes,
                           struct dlr_err *err);

/* Bytes of the header of a file that begins with these 8. */
int dlr_safetensors_length(const void *begin, uint64_t file_bytes, uint64_t *ret,
                           struct dlr_err *err);

/* The meta block that a header carries, not checked: heap memory owned by the caller. */
int dlr_safetensors_meta(const char *header, uint64_t bytes, void **ret,
                         size_t *ret_bytes, struct dlr_err *err);

#endif
