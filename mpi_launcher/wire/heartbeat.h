/* SPDX-License-Identifier: Apache-2.0 */
/* The 48 bytes that say "alive" and "you may go on". Little endian, the same for both
 * kinds:
 *
 *   0  "DLRB"      4  u16 version (1)    6  u16 kind      8  u32 generation
 *  12  u32 sequence                     16  u64 sent_ns
 *  24  u32 round                        28  u32 lease_ms (lease; 0 in a beat)
 *  32  u64 step_min                     40  u64 step_max (beat; 0 in a lease)
 */
#ifndef DLR_MPI_LAUNCHER_WIRE_HEARTBEAT_H
#define DLR_MPI_LAUNCHER_WIRE_HEARTBEAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DLR_HEARTBEAT_BYTES 48
#define DLR_HEARTBEAT_VERSION 1
#define DLR_HEARTBEAT_NO_STEP UINT64_MAX
#define DLR_LEASE_HELD UINT32_MAX /* lease_ms: until the next lease, whenever that is */

enum dlr_heartbeat_kind {
    DLR_HEARTBEAT = 1, /* agent to supervisor */
    DLR_LEASE = 2,     /* the answer: sequence and sent_ns of the beat, echoed */
};

struct dlr_heartbeat {
    enum dlr_heartbeat_kind kind;
    uint32_t gen;
    uint32_t seq;
    uint64_t sent_ns; /* CLOCK_BOOTTIME of the agent when it sent the beat */
    uint32_t round;
    uint32_t lease_ms; /* lease: workers may run until sent_ns + lease_ms */
    uint64_t step_min,
        step_max; /* beat: over the node's ranks; DLR_HEARTBEAT_NO_STEP: none */
};

void dlr_heartbeat_pack(const struct dlr_heartbeat *beat,
                        unsigned char ret_buf[DLR_HEARTBEAT_BYTES]);

/* 0, or -EBADMSG for anything that is not exactly such a frame.
 * Foreign bytes: fuzz target heartbeat.
 */
int dlr_heartbeat_unpack(const void *buf, size_t size, struct dlr_heartbeat *ret_beat);

/* True when the bytes claim to be a beat (their first four are its magic); JSON never
 * does.
 */
bool dlr_heartbeat_is(const void *buf, size_t size);

/* Whether a beat that is due goes out, when so many of those that went have no answer
 * and so many that were due since have not gone. At most as many as a node may miss are
 * on their way: what waits at an overloaded supervisor stays short, so that the leases
 * it gives are young. A way to it that takes less than a lease slows nothing down. Who
 * is only not answered is heard again once in the time of these.
 */
bool dlr_heartbeat_goes(uint32_t unanswered, uint32_t held, uint32_t missed);

/* SIGTERM came to an agent: for so long its tasks need no lease, and the supervisor
 * calls nobody dead for silence. Two minutes, or KillWait and half a minute if that is
 * longer; kill_wait: its seconds, as the variable of that name has them, NULL: not
 * known.
 */
#define DLR_KILL_WAIT "DLROVER_KILL_WAIT"
int64_t dlr_term_hold_ms(const char *kill_wait);

#endif
