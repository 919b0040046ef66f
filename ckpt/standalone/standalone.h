/* SPDX-License-Identifier: Apache-2.0 */
/* What the two halves of the back end without a job share. */
#ifndef DLR_CKPT_STANDALONE_STANDALONE_H
#define DLR_CKPT_STANDALONE_STANDALONE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ckpt/client/client.h"
#include "ckpt/standalone/find_version.h"
#include "ckpt/standalone/retention.h"
#include "ckpt/standalone/save_interval.h"
#include "ckpt/standalone/write_behind.h"

struct standalone {
    struct dlr_standalone_own own;
    int lock_fd; /* -1: not taken, or there are no locks */
    bool locked;
    struct dlr_write_behind *behind;
    /* of the snapshot under way, until it is handed on; or NULL */
    struct dlr_slot **slot;
    struct dlr_save_interval save_interval;
    uint64_t waited_ns; /* in begins, for a slot */
    uint64_t step;      /* of that snapshot */
    /* the one under way is not written if it is from there on */
    _Atomic uint64_t last_bad;
    struct dlr_standalone_found found;
    bool wait_reported;
};

extern const struct dlr_backend dlr_backend_standalone;

/* Takes the lock of this rank's files, once: before anything is renamed or written. */
int dlr_standalone_take_directory(struct dlr_ckpt *ck);

/* Calls of the back end: see ckpt/client/client.h. */
int dlr_standalone_list(struct dlr_ckpt *ck, struct dlr_ckpt_version *ret,
                        unsigned max);
int dlr_standalone_offer(struct dlr_ckpt *ck, uint32_t *ret_world);
int dlr_standalone_restore(struct dlr_ckpt *ck, uint64_t *ret_step);
int dlr_standalone_go_on(struct dlr_ckpt *ck, uint64_t step);
int dlr_standalone_peek(struct dlr_ckpt *ck, int rank, struct dlr_slot **ret_slot);

#endif
