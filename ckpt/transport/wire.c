/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/transport/wire.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static bool ours(uint32_t magic, uint16_t version)
{
    return magic == DLR_WIRE_MAGIC && version == DLR_WIRE_VERSION;
}

int dlr_wire_read_begin(const void *msg, size_t bytes, struct dlr_wire_begin *ret,
                        const void **ret_address, const void **ret_meta)
{
    const unsigned char *payload = (const unsigned char *)msg + sizeof(*ret);
    struct dlr_wire_begin head;

    if (bytes < sizeof(head) + DLR_WIRE_TAG)
        return -EBADMSG;
    memcpy(&head, msg, sizeof(head));
    if (!ours(head.magic, head.version) || !head.address_bytes ||
        head.address_bytes > DLR_WIRE_ADDRESS_MAX || !head.meta_bytes ||
        bytes - sizeof(head) - DLR_WIRE_TAG !=
            (uint64_t)head.address_bytes + head.meta_bytes)
        return -EBADMSG;
    *ret = head;
    *ret_address = payload;
    *ret_meta = payload + head.address_bytes;
    return 0;
}

int dlr_wire_read_answer(const void *msg, size_t bytes, struct dlr_wire_answer *ret)
{
    struct dlr_wire_answer answer;

    if (bytes != sizeof(answer))
        return -EBADMSG;
    memcpy(&answer, msg, sizeof(answer));
    if (!ours(answer.magic, answer.version))
        return -EBADMSG;
    *ret = answer;
    return 0;
}

int dlr_wire_read_block(const void *msg, size_t bytes, struct dlr_wire_block *ret)
{
    struct dlr_wire_block head;

    if (bytes != sizeof(head))
        return -EBADMSG;
    memcpy(&head, msg, sizeof(head));
    if (!ours(head.magic, head.version))
        return -EBADMSG;
    *ret = head;
    return 0;
}
