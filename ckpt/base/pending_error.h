/* SPDX-License-Identifier: Apache-2.0 */
/* The first failure in a thread beside the program that the program has not taken yet.
 * The owner's lock protects it, but for the look whether there is one.
 */
#ifndef DLR_CKPT_BASE_PENDING_ERROR_H
#define DLR_CKPT_BASE_PENDING_ERROR_H

#include <stdatomic.h>

#include "common/base/err.h"

struct dlr_untaken {
    atomic_bool is; /* there is one */
    struct dlr_err err;
};

/* rc: its code, with text in err. */
static inline void dlr_untaken_note(struct dlr_untaken *u, int rc,
                                    const struct dlr_err *err)
{
    if (atomic_load(&u->is))
        return;
    u->err = *err;
    u->err.code = rc;
    atomic_store(&u->is, true);
}

static inline bool dlr_untaken_is(const struct dlr_untaken *u)
{
    return atomic_load_explicit(&u->is, memory_order_acquire);
}

/* Its code with its text; 0: there is none. */
static inline int dlr_untaken_take(struct dlr_untaken *u, struct dlr_err *err)
{
    if (!atomic_exchange(&u->is, false))
        return 0;
    *err = u->err;
    return u->err.code;
}

#endif
