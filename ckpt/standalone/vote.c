/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/standalone/vote.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "ckpt/base/crc32c.h"

size_t dlr_vote_list(uint32_t rank, uint32_t world, uint32_t verdict)
{
    bool decides = verdict == DLR_VOTE_SOUND || verdict == DLR_VOTE_NONE;

    return rank == 0 && decides ? (size_t)world * sizeof(uint64_t) : 0;
}

int dlr_vote_parse(const void *data, size_t bytes, uint32_t rank, uint32_t world,
                   uint32_t own, struct dlr_vote *ret, uint64_t *ret_heard)
{
    const char *p = data;
    struct dlr_vote w;
    uint32_t crc;
    size_t list;

    if (bytes < sizeof(w) + sizeof(crc))
        return -EBADMSG;
    memcpy(&w, p, sizeof(w));
    memcpy(&crc, p + bytes - sizeof(crc), sizeof(crc));
    list = dlr_vote_list(w.rank, world, w.verdict);
    if (w.magic != DLR_VOTE_MAGIC || w.rank != rank || w.world != world ||
        w.verdict < DLR_VOTE_ASKED || w.verdict > DLR_VOTE_READING ||
        bytes != sizeof(w) + list + sizeof(crc) ||
        crc != dlr_crc32c(0, p, bytes - sizeof(crc)))
        return -EBADMSG;
    *ret_heard = 0;
    if (list > 0)
        memcpy(ret_heard, p + sizeof(w) + own * sizeof(*ret_heard), sizeof(*ret_heard));
    *ret = w;
    return 0;
}
