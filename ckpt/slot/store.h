/* SPDX-License-Identifier: Apache-2.0 */
/* A node's store: the slot files of one run in its memory directory, of own and of
 * partners' ranks alike. Names: r<rank>.s<k>.
 */
#ifndef DLR_CKPT_SLOT_STORE_H
#define DLR_CKPT_SLOT_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "ckpt/slot/slot.h"

#define DLR_STORE_SLOTS 2 /* per rank */
/* number of the slot of a copy that is here to be read, not to be kept */
#define DLR_STORE_FETCHED 8
/* of an own rank: one more for --dlrover-persist, one for vetted-every */
#define DLR_STORE_SLOTS_MAX 4

struct dlr_store_item {
    int32_t rank;
    uint32_t slot; /* k */
    enum dlr_slot_state state;
    struct dlr_slot_info info;
};

/* Lists the SEALED and COMMITTED slots of key found in dir ("/dev/shm/..."). With
 * verify each byte is checked now and what fails is left out (and counted in *ret_bad).
 * Blocking. *ret_items is a heap array owned by the caller; its length is returned. A
 * missing directory is an empty store.
 */
int dlr_store_list(const char *dir, uint64_t key, bool verify,
                   struct dlr_store_item **ret_items, unsigned *ret_bad,
                   struct dlr_err *err);

/* Writes "r<rank>.s<k>". */
int dlr_store_name(int32_t rank, unsigned slot, char *buf, size_t size);

/* Bytes of memory that the slot files of an open store take. */
uint64_t dlr_store_used(int dirfd);

/* Removes every file of the store and the directory. Never follows links out of it;
 * only files of our own uid. 0 also when it is gone already.
 */
int dlr_store_remove(const char *dir, struct dlr_err *err);

#endif
