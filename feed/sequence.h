/* SPDX-License-Identifier: Apache-2.0 */
/* Which samples each step of a run reads: a function of the seed, of what is read, and
 * of the changes that were made at steps. Never of who computes a step.
 */
#ifndef DLR_FEED_SEQUENCE_H
#define DLR_FEED_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "feed/mixture.h"
#include "feed/order.h"

#define DLR_SEQUENCE_CHANGES 200
#define DLR_SEQUENCE_BATCH_MAX (1u << 30)
#define DLR_SEQUENCE_STEP_MAX (UINT64_C(1) << 48)

enum dlr_ends {
    DLR_ENDS_SPAN, /* a batch may have samples of two epochs */
    DLR_ENDS_KEEP, /* an epoch's last batch may be short */
    DLR_ENDS_DROP, /* what would be a short batch is left out */
    DLR_ENDS_KINDS,
};

/* Records with numbers from 0 on. files and id tell one list of files from another that
 * has as many records; both 0 where there are no files.
 */
struct dlr_source {
    uint64_t length, files, id;
};

struct dlr_sequence_conf {
    uint64_t seed;
    struct dlr_order order;
    enum dlr_ends ends;
    uint32_t batch, micro; /* samples of a step, and of its parts */
    uint32_t sources;      /* 1, or up to DLR_MIXTURE_SOURCES, which are mixed */
    struct dlr_source source[DLR_MIXTURE_SOURCES];
    uint32_t parts[DLR_MIXTURE_SOURCES]; /* of several: dlr_mixture_parts() */
};

enum dlr_change_kind {
    DLR_CHANGE_BATCH = 1, /* batch and micro */
    DLR_CHANGE_PARTS,     /* parts */
    DLR_CHANGE_SKIP,      /* the samples of so many steps are left out */
    DLR_CHANGE_EXTEND,    /* source is what is read from the next epoch on */
    DLR_CHANGE_KINDS,
};

struct dlr_change {
    enum dlr_change_kind kind;
    uint64_t step; /* the first that it is about */
    uint32_t batch, micro;
    uint64_t skip;
    struct dlr_source source;
    uint32_t parts[DLR_MIXTURE_SOURCES];
};

struct dlr_sequence_step {
    uint64_t position; /* of its first sample in the run, left out ones included */
    uint32_t samples, batch, micro;
    uint32_t micro_batches; /* the last may be short, under DLR_ENDS_KEEP */
    uint64_t epoch;         /* of its first sample; 0 of a mixture */
    uint64_t record;        /* where in that epoch */
};

struct dlr_sequence; /* opaque; only changes change it */

/* -EINVAL: err names the field and its value. *ret: dlr_sequence_free(). */
int dlr_sequence_new(const struct dlr_sequence_conf *conf, struct dlr_sequence **ret,
                     struct dlr_err *err);
struct dlr_sequence *dlr_sequence_free(struct dlr_sequence *s);
const struct dlr_sequence_conf *dlr_sequence_conf(const struct dlr_sequence *s);

/* From change->step on. One that was made before, word for word, is made once, and one
 * that changes nothing is none. -EINVAL: it cannot be, or comes before one that was made; -ENOSPC: too many; -ENOTSUP: of a
 * mixture, or of one source.
 */
int dlr_sequence_change(struct dlr_sequence *s, const struct dlr_change *change,
                        struct dlr_err *err);
/* Whether such a change was made, or would change nothing. */
bool dlr_sequence_has(const struct dlr_sequence *s, const struct dlr_change *change);
/* What was changed so far, in that order. */
const struct dlr_change *dlr_sequence_changes(const struct dlr_sequence *s,
                                              unsigned *ret_n);
/* What a source is after all changes. */
const struct dlr_source *dlr_sequence_source(const struct dlr_sequence *s, unsigned i);

/* -ERANGE: no run has so many steps, or reads so many samples. */
int dlr_sequence_step(const struct dlr_sequence *s, uint64_t step,
                      struct dlr_sequence_step *ret);

/* The samples first to first + n - 1 of a step that the call above takes into ret, as numbers of the records of
 * all sources one after the other. How many there are. Any thread may call it.
 */
uint32_t dlr_sequence_indices(const struct dlr_sequence *s, uint64_t step,
                              uint32_t first, uint32_t n, uint64_t *ret);

#endif
