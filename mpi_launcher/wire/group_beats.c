/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/wire/group_beats.h"

#include <errno.h>
#include <string.h>

#include "mpi_launcher/wire/little_endian.h"

#define VERSION 1
#define HEAD 24 /* bytes before the first beat */
#define EACH 20 /* bytes of a beat */

static const unsigned char beats_magic[4] = {'D', 'L', 'R', 'G'};
static const unsigned char leases_magic[4] = {'D', 'L', 'R', 'A'};

static void put_head(unsigned char *p, const unsigned char magic[4], unsigned n,
                     uint32_t gen, uint32_t seq)
{
    memcpy(p, magic, 4);
    dlr_put16(p + 4, VERSION);
    dlr_put16(p + 6, (uint16_t)n);
    dlr_put32(p + 8, gen);
    dlr_put32(p + 12, seq);
}

size_t dlr_group_beats_pack(const struct dlr_group_beats *beats,
                            unsigned char ret_buf[DLR_GROUP_BEATS_BYTES])
{
    unsigned char *p = ret_buf + HEAD;

    put_head(ret_buf, beats_magic, beats->n, beats->gen, beats->seq);
    dlr_put64(ret_buf + 16, beats->sent_ns);
    for (unsigned i = 0; i < beats->n; i++, p += EACH) {
        dlr_put32(p, beats->all[i].node);
        dlr_put32(p + 4, beats->all[i].ticket);
        dlr_put32(p + 8, beats->all[i].round);
        dlr_put64(p + 12, beats->all[i].step_max);
    }
    return (size_t)(p - ret_buf);
}

void dlr_group_leases_pack(const struct dlr_group_leases *leases,
                           unsigned char ret_buf[DLR_GROUP_LEASES_BYTES])
{
    put_head(ret_buf, leases_magic, 0, leases->gen, leases->seq);
    dlr_put32(ret_buf + 16, leases->lease_ms);
    dlr_put64(ret_buf + 20, leases->taken);
}

int dlr_group_beats_unpack(const void *buf, size_t size, struct dlr_group_beats *ret)
{
    const unsigned char *p = buf;
    unsigned n;

    if (size < HEAD + EACH || !dlr_group_beats_is(buf, size) ||
        dlr_get16(p + 4) != VERSION)
        return -EBADMSG;
    n = dlr_get16(p + 6);
    if (n == 0 || n > DLR_GROUP_NODES || size != HEAD + n * EACH)
        return -EBADMSG;
    ret->gen = dlr_get32(p + 8);
    ret->seq = dlr_get32(p + 12);
    ret->sent_ns = dlr_get64(p + 16);
    ret->n = n;
    p += HEAD;
    for (unsigned i = 0; i < n; i++, p += EACH)
        ret->all[i] = (struct dlr_group_beat){.node = dlr_get32(p),
                                              .ticket = dlr_get32(p + 4),
                                              .round = dlr_get32(p + 8),
                                              .step_max = dlr_get64(p + 12)};
    return 0;
}

int dlr_group_leases_unpack(const void *buf, size_t size, struct dlr_group_leases *ret)
{
    const unsigned char *p = buf;

    if (size != DLR_GROUP_LEASES_BYTES || !dlr_group_leases_is(buf, size) ||
        dlr_get16(p + 4) != VERSION || dlr_get16(p + 6) != 0)
        return -EBADMSG;
    *ret = (struct dlr_group_leases){.gen = dlr_get32(p + 8),
                                     .seq = dlr_get32(p + 12),
                                     .lease_ms = dlr_get32(p + 16),
                                     .taken = dlr_get64(p + 20)};
    return 0;
}

bool dlr_group_beats_is(const void *buf, size_t size)
{
    return size >= sizeof(beats_magic) &&
           memcmp(buf, beats_magic, sizeof(beats_magic)) == 0;
}

bool dlr_group_leases_is(const void *buf, size_t size)
{
    return size >= sizeof(leases_magic) &&
           memcmp(buf, leases_magic, sizeof(leases_magic)) == 0;
}
