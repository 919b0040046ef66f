/* SPDX-License-Identifier: Apache-2.0 */
/* The header that makes the data of slots the body of a file in the `safetensors` form
 * (man/dlr_persist.5.scd draws it): what other tools read without us. The meta blocks
 * are a text of its metadata. Pure functions of the blocks: what is read is compared
 * with what would be written.
 */
#ifndef DLR_CKPT_PERSIST_SAFETENSORS_H
#define DLR_CKPT_PERSIST_SAFETENSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/slot/slot.h"

/* bytes of a header: the public readers' limit */
#define DLR_SAFETENSORS_MAX 100000000u

/* What a file begins with behind the header's length: its form's version is refused by
 * its number.
 */
#define DLR_SAFETENSORS_VERSION "2"
#define DLR_SAFETENSORS_FORM "{\"" DLR_SAFETENSORS_OWN "\":{\"format\":\"dlrover-"
#define DLR_SAFETENSORS_BEGIN                                                          \
    DLR_SAFETENSORS_FORM DLR_SAFETENSORS_VERSION "\",\"dlrover.slot\":\""

/* Keys of the header that no region may have as its name, or as the beginning of it:
 * what is no tensor; what a BLOB has room for beyond its length.
 */
#define DLR_SAFETENSORS_OWN "__metadata__"
#define DLR_SAFETENSORS_ROOM "dlrover.room."
bool dlr_safetensors_reserved(const char *name);

/* One rank's share of a file. */
struct dlr_safetensors_part {
    const void *meta; /* its block, of bytes bytes */
    size_t bytes;
    uint64_t most; /* what the block may say that its slot has */
    /* What the block says, once there is a header of it: */
    struct dlr_slot_info info;
    uint64_t data_off; /* of its data in the slot, and in the file */
    uint64_t at;
};

/* The header of a file of n ranks' slots (1 and more), in the order of ranks and all of
 * one version: *ret is heap memory at a multiple of 4 KiB and *ret_bytes such a
 * multiple. The tensors' bytes are the slots' data, each slot's from the next multiple
 * of 4 KiB on. -EBADMSG (also for names that cannot be keys), -ENOMEM, -EFBIG (beyond
 * the 100 MB that readers take) with text; *ret_bad, when it is not NULL, is then the
 * part whose block is malformed, or n. Foreign bytes: fuzz target safetensors.
 */
int dlr_safetensors_header(struct dlr_safetensors_part *parts, unsigned n, char **ret,
                           uint64_t *ret_bytes, unsigned *ret_bad, struct dlr_err *err);

/* Bytes of the header of a file that begins with these 8. */
int dlr_safetensors_length(const void *begin, uint64_t file_bytes, uint64_t *ret,
                           struct dlr_err *err);

/* The meta blocks that a header carries, not checked: one heap block, freed by the
 * caller.
 */
int dlr_safetensors_parts(const char *header, uint64_t bytes,
                          struct dlr_safetensors_part **ret, unsigned *ret_n,
                          struct dlr_err *err);

#endif
