/* SPDX-License-Identifier: Apache-2.0 */
/* A slot made of a meta block and of a file that holds its data. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "ckpt/slot/meta.h"
#include "ckpt/slot/slot.h"

/* Puts state page and meta block where a mapped slot has them. */
static void put_head(struct dlr_slot *slot, const void *meta, size_t bytes)
{
    struct dlr_slot_page *page = dlr_slot_base(slot);

    page->magic = DLR_SLOT_MAGIC;
    page->version = DLR_META_VERSION;
    page->bytes = dlr_slot_bytes(slot);
    page->state = DLR_SLOT_SEALED;
    memcpy((char *)page + DLR_SLOT_PAGE, meta, bytes);
}

int dlr_slot_join(const void *meta, size_t bytes, int fd, uint64_t off,
                  struct dlr_slot **ret, struct dlr_err *err)
{
    int rc = dlr_slot_check_meta(meta, bytes, DLR_SLOT_DATA_MAX, NULL, err);
    struct dlr_meta_head head;
    struct stat st;

    if (rc < 0)
        return rc;
    memcpy(&head, meta, sizeof(head));
    if (fstat(fd, &st) < 0)
        return dlr_fail(err, -errno, "cannot look at it: %m");
    if (off > (uint64_t)st.st_size || head.data_bytes > (uint64_t)st.st_size - off)
        return dlr_fail(err, -EBADMSG,
                        "%" PRIu64 " bytes of data in a file of %" PRIu64,
                        head.data_bytes, (uint64_t)st.st_size);
    rc = dlr_slot_over_file(&head, fd, off, ret, err);
    if (rc == 0)
        put_head(*ret, meta, bytes);
    return rc;
}
