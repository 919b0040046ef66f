/* SPDX-License-Identifier: Apache-2.0 */
/* Beats of a group of nodes in one frame, and the answer to all of them: above a number
 * of nodes one agent of each group, its collector, passes on those of the others. Little
 * endian:
 *
 *   beats   0  "DLRG"      4  u16 version (1)    6  u16 n     8  u32 generation
 *          12  u32 sequence                     16  u64 sent_ns, of the first one
 *          24  n times    u32 node   u32 ticket   u32 round   u64 step_max
 *   answer  0  "DLRA"      4  u16 version (1)    6  u16 0     8  u32 generation
 *          12  u32 sequence                     16  u32 lease_ms   20  u64 taken
 */
#ifndef DLR_MPI_LAUNCHER_WIRE_GROUP_BEATS_H
#define DLR_MPI_LAUNCHER_WIRE_GROUP_BEATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DLR_GROUP_NODES 64u /* a node's group is its number / 64, its first collects */
#ifndef DLR_GROUP_ABOVE     /* XCFLAGS of a build that tries groups on few nodes */
#define DLR_GROUP_ABOVE 256 /* nodes of a job: in smaller ones each beats by itself */
#endif
#define DLR_GROUP_MISSED_MIN 4 /* beats that a node may miss: with fewer, too */
#define DLR_GROUP_BEATS_BYTES (24 + DLR_GROUP_NODES * 20)
#define DLR_GROUP_LEASES_BYTES 28

struct dlr_group_beat {
    uint32_t node;   /* its number, as its welcome says */
    uint32_t ticket; /* of the same welcome: another agent there has another one */
    uint32_t round;
    uint64_t step_max; /* DLR_HEARTBEAT_NO_STEP: none */
};

struct dlr_group_beats {
    uint32_t gen, seq;
    uint64_t sent_ns; /* of a node's own beat: CLOCK_BOOTTIME when it sent it */
    unsigned n;       /* 1 to DLR_GROUP_NODES */
    struct dlr_group_beat all[DLR_GROUP_NODES];
};

struct dlr_group_leases {
    uint32_t gen, seq; /* of the beats */
    uint32_t lease_ms; /* as of DLR_LEASE, of each that is taken */
    uint64_t taken;    /* bit i: the i-th beat; others must beat by themselves */
};

/* Returns the bytes that it takes. */
size_t dlr_group_beats_pack(const struct dlr_group_beats *beats,
                            unsigned char ret_buf[DLR_GROUP_BEATS_BYTES]);
void dlr_group_leases_pack(const struct dlr_group_leases *leases,
                           unsigned char ret_buf[DLR_GROUP_LEASES_BYTES]);

/* 0, or -EBADMSG for anything that is not exactly such a frame.
 * Foreign bytes: fuzz target heartbeat.
 */
int dlr_group_beats_unpack(const void *buf, size_t size, struct dlr_group_beats *ret);
/* The same of an answer. Foreign bytes: fuzz target heartbeat. */
int dlr_group_leases_unpack(const void *buf, size_t size, struct dlr_group_leases *ret);

/* True when the bytes claim to be one: JSON and a beat never do. */
bool dlr_group_beats_is(const void *buf, size_t size);
bool dlr_group_leases_is(const void *buf, size_t size);

#endif
