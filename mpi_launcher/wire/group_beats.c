/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/wire/group_beats.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#define VERSION 1
#define HEAD 24 /* bytes before the first beat */
#define EACH 20 /* bytes of a beat */

static const unsigned char beats_magic[4] = {'D', 'L', 'R', 'G'};
static const unsigned char leases_magic[4] = {'D', 'L', 'R', 'A'};

static void put16(unsigned char *p, unsigned v)
{
    p[0] = v & 0xff;
    p[1] = v >> 8 & 0xff;
}

static void put32(unsigned char *p, uint32_t v)
{
    v = htole32(v);
    memcpy(p, &v, sizeof(v));
}

static void put64(unsigned char *p, uint64_t v)
{
    v = htole64(v);
    memcpy(p, &v, sizeof(v));
}

static unsigned get16(const unsigned char *p)
{
    return p[0] | (unsigned)p[1] << 8;
}

static uint32_t get32(const unsigned char *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return le32toh(v);
}

static uint64_t get64(const unsigned char *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return le64toh(v);
}

static void put_head(unsigned char *p, const unsigned char magic[4], unsigned n,
                     uint32_t gen, uint32_t seq)
{
    memcpy(p, magic, 4);
    put16(p + 4, VERSION);
    put16(p + 6, n);
    put32(p + 8, gen);
    put32(p + 12, seq);
}

size_t dlr_group_beats_pack(const struct dlr_group_beats *beats,
                            unsigned char ret_buf[DLR_GROUP_BEATS_BYTES])
{
    unsigned char *p = ret_buf + HEAD;

    put_head(ret_buf, beats_magic, beats->n, beats->gen, beats->seq);
    put64(ret_buf + 16, beats->sent_ns);
    for (unsigned i = 0; i < beats->n; i++, p += EACH) {
        put32(p, beats->all[i].node);
        put32(p + 4, beats->all[i].ticket);
        put32(p + 8, beats->all[i].round);
        put64(p + 12, beats->all[i].step_max);
    }
    return (size_t)(p - ret_buf);
}

void dlr_group_leases_pack(const struct dlr_group_leases *leases,
                           unsigned char ret_buf[DLR_GROUP_LEASES_BYTES])
{
    put_head(ret_buf, leases_magic, 0, leases->gen, leases->seq);
    put32(ret_buf + 16, leases->lease_ms);
    put64(ret_buf + 20, leases->taken);
}

int dlr_group_beats_unpack(const void *buf, size_t size, struct dlr_group_beats *ret)
{
    const unsigned char *p = buf;
    unsigned n;

    if (size < HEAD + EACH || !dlr_group_beats_is(buf, size) || get16(p + 4) != VERSION)
        return -EBADMSG;
    n = get16(p + 6);
    if (n == 0 || n > DLR_GROUP_NODES || size != HEAD + n * EACH)
        return -EBADMSG;
    ret->gen = get32(p + 8);
    ret->seq = get32(p + 12);
    ret->sent_ns = get64(p + 16);
    ret->n = n;
    p += HEAD;
    for (unsigned i = 0; i < n; i++, p += EACH)
        ret->all[i] = (struct dlr_group_beat){.node = get32(p),
                                              .ticket = get32(p + 4),
                                              .round = get32(p + 8),
                                              .step_max = get64(p + 12)};
    return 0;
}

int dlr_group_leases_unpack(const void *buf, size_t size, struct dlr_group_leases *ret)
{
    const unsigned char *p = buf;

    if (size != DLR_GROUP_LEASES_BYTES || !dlr_group_leases_is(buf, size) ||
        get16(p + 4) != VERSION || get16(p + 6) != 0)
        return -EBADMSG;
    *ret = (struct dlr_group_leases){.gen = get32(p + 8),
                                     .seq = get32(p + 12),
                                     .lease_ms = get32(p + 16),
                                     .taken = get64(p + 20)};
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
