/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a slot file (man/dlr_ckpt.5.scd draws them), for the files that read and
 * write them. Little endian.
 */
#ifndef DLR_CKPT_SLOT_META_H
#define DLR_CKPT_SLOT_META_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "ckpt/slot/slot.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "slots are little endian and written as they lie in memory"
#endif

#define DLR_SLOT_MAGIC 0x31534c44u /* "DLS1" */
#define DLR_META_MAGIC 0x314d4c44u /* "DLM1" */
#define DLR_META_VERSION 1
#define DLR_META_PROGRAM_MAX 24 /* with the NUL */
#define DLR_SLOT_PAGE 4096u
#define DLR_SLOT_ALIGN 64u /* of a region in the data, at most */
#define DLR_META_REGIONS_MAX (1u << 20)
#define DLR_META_BYTES_MAX (1u << 30)
#define DLR_SLOT_DATA_MAX (UINT64_C(1) << 46)

struct dlr_slot_page {
    uint32_t magic;
    uint32_t version;
    uint64_t bytes; /* of the file */
    _Atomic uint32_t state;
    unsigned char zero[DLR_SLOT_PAGE - 20];
};
static_assert(sizeof(struct dlr_slot_page) == DLR_SLOT_PAGE, "on-disk layout");

/* The meta block: head, nregions entries, ndims shapes (u64: global, offset, local of
 * each region in turn), names (each with its NUL; padded with NULs to a multiple of 8),
 * nblocks CRC32C (u32), CRC32C of all that.
 */
struct dlr_meta_head {
    uint32_t magic;
    uint16_t version;
    uint16_t head_bytes;
    uint32_t meta_bytes; /* all of the block */
    uint32_t nregions;
    uint32_t nblocks;
    uint32_t ndims;
    uint32_t names_bytes;
    uint32_t round;
    int32_t rank;
    uint32_t world;
    uint64_t key;
    uint64_t layout;
    uint64_t step;
    uint64_t data_off; /* in the file */
    uint64_t data_bytes;
    uint64_t wall_ns;
    uint32_t seat, seats;               /* of struct dlr_share */
    char program[DLR_META_PROGRAM_MAX]; /* without a job: who has saved it */
    unsigned char zero[4];
    uint32_t crc; /* of the bytes before */
};
static_assert(sizeof(struct dlr_meta_head) == 128, "on-disk layout");

struct dlr_meta_entry {
    uint16_t name_bytes; /* without the NUL */
    uint8_t kind;
    uint8_t ndim;
    uint32_t item_size;
    char dtype[DLR_CKPT_DTYPE_MAX + 1];
    uint64_t off;   /* in the data: where the entry before it ends */
    uint64_t bytes; /* the box; what a BLOB has room for */
    uint64_t used;  /* of a BLOB: its length; else bytes */
};
static_assert(sizeof(struct dlr_meta_entry) == 48, "on-disk layout");

static inline uint64_t dlr_align_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

/* What a region's place in the data is a multiple of: the largest power of two that
 * divides its items; a BLOB lies anywhere. Larger ones come first, so none leaves a
 * hole before it.
 */
uint32_t dlr_region_align(const struct dlr_ckpt_region *region);

/* One region as it is read from a meta block. region.name points into the block,
 * region.dtype into this struct, region.addr is NULL.
 */
struct dlr_slot_region {
    struct dlr_ckpt_region region;
    char dtype[DLR_CKPT_DTYPE_MAX + 1];
    uint64_t off, bytes, used;
};

/* Walks the regions of a block that dlr_slot_check_meta() accepted. It keeps the head
 * it began with: the block may lie in memory that another process writes. -EBADMSG when
 * bytes is not the size the head says.
 */
struct dlr_meta_walk {
    const void *meta;
    struct dlr_meta_head head;
    uint32_t index, dim, name; /* what was passed of each part */
    uint64_t end;              /* of the data so far */
};
int dlr_meta_walk_init(struct dlr_meta_walk *walk, const void *meta, size_t bytes);

/* 1 for a region, 0 at the end, -EBADMSG for one that cannot be. */
int dlr_meta_next(struct dlr_meta_walk *walk, struct dlr_slot_region *ret);

/* Bytes of a region's box: -EINVAL when a field is out of range, -ERANGE when it is
 * beyond DLR_SLOT_DATA_MAX; text names what. Does not look at addr and stride.
 */
int dlr_region_bytes(const struct dlr_ckpt_region *region, uint64_t *ret_bytes,
                     struct dlr_err *err);

/* A slot in this process's own memory, state FREE: what is written to files when alone.
 * A forked child has none of it.
 */
int dlr_slot_anonymous(uint64_t size, struct dlr_slot **ret, struct dlr_err *err);

/* A slot for a block with this head, whose blocks dlr_slot_fetch() reads from off of
 * fd, which stays the caller's. It is this process's memory, and a forked child's too.
 * All of it is zeros, also the state page.
 */
int dlr_slot_over_file(const struct dlr_meta_head *head, int fd, uint64_t off,
                       struct dlr_slot **ret, struct dlr_err *err);

/* Faults every page of the mapping in, with at most so many threads (>= 1): memory
 * bandwidth and page clearing the first time, page tables in each further process.
 */
int dlr_slot_touch(struct dlr_slot *slot, unsigned threads);

/* Makes a block that was checked another run's: its key, the program's name (NULL: as
 * it is) and the sums over it.
 */
void dlr_slot_rekey(void *meta, size_t bytes, uint64_t key, const char *program);

void *dlr_slot_base(const struct dlr_slot *slot);

/* Whether this process may write to the pages that [off, off + bytes) touches; the
 * state page may be all the same. -errno: as before.
 */
int dlr_slot_allow(struct dlr_slot *slot, uint64_t off, uint64_t bytes, bool write);

/* Memory of the slot that this process cannot read (a page that the kernel has
 * poisoned, where a look ends the process) becomes pages of zeros, which can be written
 * again: [off, off + bytes) in whole pages, fd is its file. A state page among them is
 * one of a FREE slot.
 */
int dlr_slot_renew(struct dlr_slot *slot, int fd, uint64_t off, uint64_t bytes);

/* Block i is at data, if need be read from its file. 0 or -errno. */
int dlr_slot_fetch(const struct dlr_slot *slot, uint32_t i, void *data, size_t bytes);

#endif
