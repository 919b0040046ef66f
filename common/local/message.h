/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between processes of one node: plugin, workers and data process on one side,
 * the agent on the other, over AF_UNIX SOCK_SEQPACKET. Layout and meaning of each type:
 * docs/protocol.md section 3. Same machine, so host byte order.
 */
#ifndef DLR_COMMON_LOCAL_MESSAGE_H
#define DLR_COMMON_LOCAL_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define DLR_LOCAL_MAGIC 0x4c524c44u /* "DLRL" */
#define DLR_LOCAL_VERSION 2
#define DLR_LOCAL_TEXT 8192
#define DLR_LOCAL_FDS 8

enum dlr_local_type {
    /* slurmstepd's plugin -> agent */
    /* round; one connection per step and node; EOF: step is gone */
    DLR_LOCAL_STEPD = 1,
    DLR_LOCAL_TASK = 2,   /* round, rank, arg[0] = pid */
    DLR_LOCAL_EXIT = 3,   /* round, rank, arg[0] = wait status */
    DLR_LOCAL_STDERR = 4, /* round, rank, text = last lines (from dlrover-stderr) */

    /* worker (libdlrover) -> agent */
    DLR_LOCAL_HELLO = 16, /* round, rank, arg[0] = world size */
    /* round, rank, arg[0] = bytes of one slot, header included */
    DLR_LOCAL_RESERVE = 17,
    /* round, rank, step, arg[0] = slot, arg[1] = current step, arg[2] = hash of the
     * regions of which the node's ranks keep a part each, 0: none
     */
    DLR_LOCAL_SEALED = 18,
    /* round, rank, step, text = why, arg[0] = 1: it was SEALED, and an audit found out
     * later that it is not of one moment
     */
    DLR_LOCAL_DEAD = 19,
    DLR_LOCAL_RESTORED = 20, /* round, rank, step, arg[0] = version's round,
                                arg[1] = 0 or errno, arg[2] = 1: the program named
                                something else, arg[3] = 1 + the rank whose copy
                                is corrupt (0: none is), text = why */
    DLR_LOCAL_CLOSE = 21,    /* round, rank: the worker closes in order */
    DLR_LOCAL_PEEK = 22, /* round, rank, arg[0] = the rank whose slot of the version to
                            restore is wanted; on a connection of its own */
    /* round, rank, step: it and later ones are not to be restored; on a connection of
     * its own
     */
    DLR_LOCAL_BAD = 23,
    DLR_LOCAL_STAY = 24,   /* round, rank: it can stay when its round ends; as above */
    DLR_LOCAL_PARKED = 25, /* round, rank: answer to DLR_LOCAL_PARK */
    /* round, rank: a task of the next round asks for the process that is parked;
     * fds: its stdout, its stderr, its environment (from dlrover-relay)
     */
    DLR_LOCAL_RELAY = 26,
    DLR_LOCAL_WARM = 27,  /* it waits for a rank, without one; as STAY */
    DLR_LOCAL_WATCH = 28, /* round, rank, arg[0] = 1: calls are told; as PEEK */

    /* agent -> worker */
    /* arg[0] = 1: restore (arg[1], step) = version's (round, step), arg[2] = slot
     * holding it (index into fds - 1), arg[3] = ranks that made it where no slots are
     * given (see DLR_LOCAL_PEEK), 0: as many as now, and they are; text = the key,
     * "cluster.job.run" (of dlr_slot_key()); fds: page, then slots when there are any
     */
    DLR_LOCAL_WELCOME = 32,
    DLR_LOCAL_SLOTS = 33, /* arg[0] = number; fds: slots. arg[0] = 0: refused, text */
    DLR_LOCAL_GO = 34,    /* all ranks restored: run */
    /* arg[0] = rank, arg[1] = 0 or errno, text = why; fd: its slot, or without one text
     * = path of its file
     */
    DLR_LOCAL_PEEKED = 35,
    DLR_LOCAL_BAD_REPORTED = 36, /* answer to DLR_LOCAL_BAD: the supervisor is told */
    /* in place of WELCOME, RELAYED or WATCHED: arg[1] = errno, text = why */
    DLR_LOCAL_REFUSED = 37,
    DLR_LOCAL_PARK = 38, /* round: it has ended */
    DLR_LOCAL_JOIN = 39, /* round, rank, arg[0] = task's pid, fds of DLR_LOCAL_RELAY */
    DLR_LOCAL_RELAYED = 40,   /* arg[0] = pid of the process that goes on */
    DLR_LOCAL_RELAY_END = 41, /* arg[0] = wait status: it has ended so */
    DLR_LOCAL_WATCHED = 42,   /* round, rank; fds: watch page, ring if there is one */

    /* agent -> data process */
    /* round; text = JSON, see docs/protocol.md, in parts (common/local/split.h): arg[0]
     * = which, arg[1] = of how many
     */
    DLR_LOCAL_D_CONFIG = 48,
    DLR_LOCAL_D_RESERVE = 49, /* rank, arg[0] = bytes, arg[1] = slots, arg[2] = number
                                 of the first: 0, or 8 for a copy that is fetched */
    /* rank, round, step, arg[0] = version's round, arg[1] = request id, arg[2] = 1:
     * paced, text = receiver's UCX address in hex
     */
    DLR_LOCAL_D_SEND = 50,
    DLR_LOCAL_D_LOAD = 51, /* rank, step, arg[0] = version's round, arg[1] = id,
                                 text = path of a file */
    DLR_LOCAL_D_SAVE = 52, /* same, the other way; arg[2] = bytes a second at most,
                                 0: no limit; arg[3] = how many D_SAVE that come right
                                 behind it are of the same file */
    /* arg[0] = version's round, step: mark, free older slots, but (arg[1] = 1) of
     * version (arg[2], arg[3]), where the rank has one more slot for it
     */
    DLR_LOCAL_D_COMMIT = 53,
    DLR_LOCAL_D_DROP = 54,  /* arg[0] = version's round, step: kill all newer */
    DLR_LOCAL_D_ABORT = 55, /* arg[0] = version's round, step: this one is DEAD */
    DLR_LOCAL_D_ADOPT = 56, /* D_LOAD of another run's file: the slot gets our key */
    /* rank, round, step, arg[0] = version's round (UINT32_MAX: every version), arg[1] =
     * id, text = "WORLD RANK*COEF ..": make this slot of those
     */
    DLR_LOCAL_D_PARITY = 57,
    DLR_LOCAL_D_PACE = 58, /* arg[0] = bytes per second of paced sends, 0 any */

    /* data process -> agent */
    DLR_LOCAL_D_HELLO = 64, /* text = UCX address in hex */
    /* rank, arg[0] = slots, arg[1] = errno, text; fds: slots */
    DLR_LOCAL_D_RESERVED = 65,
    /* rank, step, arg[0] = version's round, arg[1] = id, arg[2] = errno, text: SEND,
     * LOAD or SAVE ended; of a SAVE that went well text is its slice
     * (ckpt/base/file_slice.h)
     */
    DLR_LOCAL_D_DONE = 66,
    /* rank, step, arg[0] = version's round: a verified copy was received; arg[1] =
     * bytes, arg[2] = nanoseconds
     */
    DLR_LOCAL_D_COPIED = 67,
    /* rank, step, arg[0] = version's round: what is held of it does not have its sums
     * any more; text = why
     */
    DLR_LOCAL_D_BAD = 69,
    /* text = JSON {"uses", "mbps", "faster", "numa"}: the devices that copies go over,
     * and the NUMA nodes they are on
     */
    DLR_LOCAL_D_USES = 68,
};

struct dlr_local_msg {
    uint32_t magic;
    uint16_t version;
    uint16_t type; /* enum dlr_local_type */
    uint32_t round;
    int32_t rank;
    uint64_t step;
    uint64_t arg[4];
    uint32_t text_len; /* bytes of text that are sent, without a NUL */
    uint32_t pad;
    char text[DLR_LOCAL_TEXT];
};

/* A message of this type with everything else zero and rank -1. */
void dlr_local_init(struct dlr_local_msg *msg, enum dlr_local_type type);

/* Formats msg->text; a text that is too long is cut. */
void dlr_local_text(struct dlr_local_msg *msg, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Sends one message with nfds descriptors (still the caller's). Never raises SIGPIPE.
 * -EAGAIN when fd is non-blocking and full.
 */
int dlr_local_send(int fd, const struct dlr_local_msg *msg, const int *fds,
                   unsigned nfds);

/* Receives one message; descriptors (close-on-exec) become the caller's, *ret_nfds of
 * at most DLR_LOCAL_FDS. text is NUL-terminated. 1 on a message, 0 on end of file,
 * -EBADMSG for something that is not one (its descriptors are closed).
 * Foreign bytes: fuzz target local.
 */
int dlr_local_recv(int fd, struct dlr_local_msg *ret_msg, int ret_fds[DLR_LOCAL_FDS],
                   unsigned *ret_nfds);

/* Connects to a socket path; timeout_ms bounds connecting and each later send and
 * receive (0: non-blocking). *ret_fd is close-on-exec and the caller's. -EPERM when the
 * one who listens is not our own effective user: what he sends would be believed.
 */
int dlr_local_connect(const char *path, int64_t timeout_ms, int *ret_fd,
                      struct dlr_err *err);

/* Binds and listens at path, mode 0600, replacing a stale socket of our own uid. */
int dlr_local_listen(const char *path, int *ret_fd, struct dlr_err *err);

/* Uid and pid of the peer when it connected. */
int dlr_local_peer(int fd, unsigned *ret_uid, int *ret_pid);

#endif
