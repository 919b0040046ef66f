/* SPDX-License-Identifier: Apache-2.0 */
/* The slot: one snapshot of one rank at one version, the same bytes in node memory and
 * on the wire; its file on a disk is ckpt/persist/slot_file.h's.
 *
 *   0     state page (4 KiB): magic, size, slot's state. Never sent, not check-summed
 *   4096  meta block: head, region table, CRC32C of each data block; ends with its own
 *   CRC
 *   data_off (multiple of 4 KiB)  the regions' bytes without holes, larger items first
 *
 * Little endian. Written by one process at a time; the state word is atomic and is the
 * only thing several look at.
 */
#ifndef DLR_CKPT_SLOT_SLOT_H
#define DLR_CKPT_SLOT_SLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ckpt/base/version.h"
#include "ckpt/ckpt.h"
#include "ckpt/slot/replica_share.h"
#include "common/base/err.h"

#define DLR_SLOT_BLOCK (1u << 20) /* bytes under one CRC32C */

/* Ranks of slots are below world; from world on to this many times world they number
 * parity shards, of which a set has at most four.
 */
#define DLR_SLOT_OWNERS 5u

enum dlr_slot_state {
    DLR_SLOT_FREE = 0,
    DLR_SLOT_OPEN = 1,      /* being written */
    DLR_SLOT_SEALED = 2,    /* whole and check-summed */
    DLR_SLOT_COMMITTED = 3, /* and every rank's is, on two nodes */
    DLR_SLOT_DEAD = 4,      /* given up; contents mean nothing */
    DLR_SLOT_COPYING = 5,   /* a copy comes to a rank's own slot: no worker fills it */
};

struct dlr_slot; /* opaque: a mapped slot file */

/* Bytes a slot file needs for these regions (whole pages). */
uint64_t dlr_slot_size(const struct dlr_ckpt_region *regions, unsigned n);

/* Creates dirfd/name of size bytes, every page there and mapped, by several threads
 * (blocking: 1 to 2 GB/s in small pages, ten times that in huge ones), state FREE; an
 * existing file of that size or larger is adopted as it is. mode 0600. -ENOSPC, -ENOMEM
 * leave nothing behind.
 */
int dlr_slot_create(int dirfd, const char *name, uint64_t size, struct dlr_slot **ret,
                    struct dlr_err *err);

/* Maps a slot file by descriptor (which stays the caller's). Checks magic and size
 * against the file's; a shorter file is -EBADMSG, never a SIGBUS.
 */
int dlr_slot_map(int fd, bool writable, struct dlr_slot **ret, struct dlr_err *err);

/* Makes a slot to read of a meta block, which is checked and copied, and the file's
 * bytes from off on, which are its data. State SEALED; fd stays the caller's. The data
 * is memory of this process's own: dlr_slot_block() reads a block into it when it is
 * asked for first, since a mapped file that is cut, or on a file server that fails,
 * ends the process by a SIGBUS. For one thread.
 */
int dlr_slot_join(const void *meta, size_t bytes, int fd, uint64_t off,
                  struct dlr_slot **ret, struct dlr_err *err);
struct dlr_slot *dlr_slot_unmap(struct dlr_slot *slot); /* accepts NULL, returns NULL */
int dlr_slot_fd(const struct dlr_slot *slot);         /* -1 when mapped by descriptor */
uint64_t dlr_slot_bytes(const struct dlr_slot *slot); /* of the file */

enum dlr_slot_state dlr_slot_state(const struct dlr_slot *slot);
void dlr_slot_set_state(struct dlr_slot *slot, enum dlr_slot_state state);

/* FREE or DEAD becomes OPEN, the caller's; false when it is neither. */
bool dlr_slot_take(struct dlr_slot *slot);
/* The same of one in state was, which becomes COPYING. */
bool dlr_slot_take_for_copy(struct dlr_slot *slot, enum dlr_slot_state was);

/* What the meta block says; meaningful for SEALED and COMMITTED. */
struct dlr_slot_info {
    struct dlr_version version;
    int32_t rank;
    uint32_t world;
    uint64_t key;    /* dlr_slot_key() of cluster, job and run */
    uint64_t layout; /* hash of the region table */
    uint64_t data_bytes;
    uint32_t nregions, nblocks;
    struct dlr_share share; /* of REPLICATED regions, with the ranks of its node then */
};
int dlr_slot_info(const struct dlr_slot *slot, struct dlr_slot_info *ret);

/* Whether page 0 (the state) or 1 (of the head) can be read: to look at one that the
 * kernel has poisoned, or that was cut off, ends a process by a SIGBUS. True where the
 * kernel reads for nobody.
 */
bool dlr_slot_has_page(const struct dlr_slot *slot, unsigned i);

/* Both of them. */
bool dlr_slot_has_head(const struct dlr_slot *slot);

/* Sealed once, and its head has changed since: nobody can say what it holds. */
bool dlr_slot_damaged(const struct dlr_slot *slot);

/* Hash of the text "cluster.job.run" (xxHash64). */
uint64_t dlr_slot_key(const char *text);

/* The meta block as it stands, and block i of the data. Pointers into the mapping.
 * -EIO, -ENODATA and the like: a file's block cannot be read.
 */
void dlr_slot_meta(const struct dlr_slot *slot, const void **ret_meta,
                   size_t *ret_bytes);
int dlr_slot_block(const struct dlr_slot *slot, uint32_t i, void **ret_data,
                   size_t *ret_bytes, uint32_t *ret_crc);

/* Memory of blocks before i may go, in a slot whose blocks are read from a file when
 * they are asked for; that is done again if need be.
 */
void dlr_slot_pass(const struct dlr_slot *slot, uint32_t i);
bool dlr_slot_is_read(const struct dlr_slot *slot);

/* Checks a meta block that came from outside: magic, version, own CRC, every size and
 * offset against slot_bytes. -EBADMSG with text. Reads nothing outside meta[0..bytes).
 * Foreign bytes: fuzz target meta.
 */
int dlr_slot_check_meta(const void *meta, size_t bytes, uint64_t slot_bytes,
                        struct dlr_slot_info *ret_info, struct dlr_err *err);

/* Receiving side: copies a checked meta block in; state becomes OPEN. */
int dlr_slot_put_meta(struct dlr_slot *slot, const void *meta, size_t bytes,
                      struct dlr_err *err);

/* Verifies meta and every block. Blocking: reads all of it. -EBADMSG names block or
 * field.
 */
int dlr_slot_verify(const struct dlr_slot *slot, struct dlr_err *err);

/* The same, for a caller that tells others that it goes on: f(arg) is called with each
 * block; NULL: nobody is.
 */
struct dlr_alive {
    void (*f)(void *arg);
    void *arg;
};
int dlr_slot_verify_alive(const struct dlr_slot *slot, const struct dlr_alive *alive,
                          struct dlr_err *err);

#endif
