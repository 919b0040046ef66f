/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/wire/heartbeat.h"

#include <errno.h>
#include <string.h>

#include "common/base/str.h"
#include "mpi_launcher/wire/little_endian.h"

#define TERM_HOLD_MS 120000
#define TERM_EXTRA_MS 30000  /* from SIGKILL, which comes then, to the end */
#define KILL_WAIT_MAX 65533u /* slurm.conf(5) */

static const unsigned char magic[4] = {'D', 'L', 'R', 'B'};

void dlr_heartbeat_pack(const struct dlr_heartbeat *beat,
                        unsigned char ret_buf[DLR_HEARTBEAT_BYTES])
{
    memcpy(ret_buf, magic, sizeof(magic));
    dlr_put16(ret_buf + 4, DLR_HEARTBEAT_VERSION);
    dlr_put16(ret_buf + 6, beat->kind);
    dlr_put32(ret_buf + 8, beat->gen);
    dlr_put32(ret_buf + 12, beat->seq);
    dlr_put64(ret_buf + 16, beat->sent_ns);
    dlr_put32(ret_buf + 24, beat->round);
    dlr_put32(ret_buf + 28, beat->kind == DLR_LEASE ? beat->lease_ms : 0);
    dlr_put64(ret_buf + 32, beat->kind == DLR_HEARTBEAT ? beat->step_min : 0);
    dlr_put64(ret_buf + 40, beat->kind == DLR_HEARTBEAT ? beat->step_max : 0);
}

int dlr_heartbeat_unpack(const void *buf, size_t size, struct dlr_heartbeat *ret_beat)
{
    const unsigned char *p = buf;
    struct dlr_heartbeat b = {0};
    uint16_t kind;

    if (size != DLR_HEARTBEAT_BYTES || !dlr_heartbeat_is(buf, size) ||
        dlr_get16(p + 4) != DLR_HEARTBEAT_VERSION)
        return -EBADMSG;
    kind = dlr_get16(p + 6);
    if (kind != DLR_HEARTBEAT && kind != DLR_LEASE)
        return -EBADMSG;
    b.kind = kind;
    b.gen = dlr_get32(p + 8);
    b.seq = dlr_get32(p + 12);
    b.sent_ns = dlr_get64(p + 16);
    b.round = dlr_get32(p + 24);
    b.lease_ms = dlr_get32(p + 28);
    b.step_min = dlr_get64(p + 32);
    b.step_max = dlr_get64(p + 40);
    if (kind == DLR_HEARTBEAT && (b.lease_ms != 0 || b.step_min > b.step_max))
        return -EBADMSG;
    if (kind == DLR_LEASE && (b.step_min != 0 || b.step_max != 0))
        return -EBADMSG;
    *ret_beat = b;
    return 0;
}

bool dlr_heartbeat_goes(uint32_t unanswered, uint32_t held, uint32_t missed)
{
    return unanswered < missed || held + 1 >= missed;
}

bool dlr_heartbeat_is(const void *buf, size_t size)
{
    return size >= sizeof(magic) && memcmp(buf, magic, sizeof(magic)) == 0;
}

int64_t dlr_term_hold_ms(const char *kill_wait)
{
    unsigned s = 0;
    int64_t ms;

    if (kill_wait && dlr_parse_uint(kill_wait, KILL_WAIT_MAX, &s) < 0)
        s = 0;
    ms = 1000ll * s + TERM_EXTRA_MS;
    return ms > TERM_HOLD_MS ? ms : TERM_HOLD_MS;
}
