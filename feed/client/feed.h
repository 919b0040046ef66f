/* SPDX-License-Identifier: Apache-2.0 */
/* Which samples a training step reads: each sample once an epoch, on any number of ranks,
 * over every failure and restart.
 *
 * What step s reads is computed from the seed, the data's length and s. A version of the
 * checkpoint is of a step, so it says by that which samples it has seen: after a restore
 * at any number of ranks the program reads on where that version was. No rank asks
 * another, and nothing is kept but what was changed on the way.
 *
 *     struct dlr_feed_conf conf = {.length = n, .seed = 1, .global_batch = 1024,
 *                                  .micro_batch = 8};
 *     struct dlr_feed_step now;
 *     uint64_t index[8];
 *
 *     dlr_feed_open(ck, &conf, &feed);       // names a region: before the restore
 *     dlr_ckpt_restore(ck, &step);
 *     while (step < last) {
 *         if (dlr_feed_step(feed, step, &now) < 0)     // what is mine of this step
 *             die(dlr_feed_error(feed));
 *         for (uint32_t m = now.first; m < now.first + now.count; m++) {
 *             int n = dlr_feed_indices(feed, step, m, index, 8);
 *
 *             add_gradient(index, n, dlr_feed_key(feed, step, m));
 *         }
 *         sum_over_ranks(gradient);
 *         dlr_ckpt_fence(ck, NULL);
 *         update(gradient, 1.0 / now.samples);
 *         dlr_ckpt_begin(ck, ++step, NULL);
 *     }
 *
 * A step has global_batch samples in global_batch / micro_batch micro-batches, of which
 * each rank computes some in a row; ranks differ by one at most. Gradients are to be
 * summed and divided by the samples of the step, not averaged over ranks.
 *
 * dlr_feed_look(), dlr_feed_indices(), dlr_feed_key() and dlr_feed_locate() only read:
 * threads and forked children may call them, of any step and any micro-batch. No thread
 * may be in them during a change, the first dlr_feed_step() after a restore, or a load.
 * Changes are said by all ranks alike, of a step that was not asked for yet, between
 * fence and begin, or after the restore and before the first step: the restore drops one
 * that was said before it and that the version does not have. Said again, as a program
 * does that goes on from a version, they count once.
 * Functions return a negative errno on failure; dlr_feed_error() has a line of text.
 */
#ifndef DLROVER_FEED_H
#define DLROVER_FEED_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DLR_FEED_SOURCES 64

struct dlr_ckpt;
struct dlr_feed; /* opaque */

/* Records that are numbered from 0: length of them, or files with so many each. */
struct dlr_feed_source {
    uint64_t length; /* 0: of the files */
    size_t files;
    const uint64_t *records; /* of each file; copied */
    double weight;           /* of a mixture, in any unit */
};

/* Strings are copied. */
struct dlr_feed_conf {
    const char *name; /* NULL: "feed"; its region is "feed.NAME" */
    uint64_t seed;
    uint32_t global_batch; /* samples of a step */
    uint32_t micro_batch;  /* samples of a part of it; divides global_batch */
    const char
        *order; /* "full" (NULL), "blocks:B" or "blocks:BxK": blocks of B records,
                          K of them at a time, for files that are read in runs; "none" */
    const char
        *ends; /* "span" (NULL): a batch may have samples of two epochs; "keep": an
                         epoch's last batch may be short; "drop": it is left out */
    uint64_t length;  /* of the one source */
    unsigned sources; /* 0: length; 1: source; else a mixture of them */
    const struct dlr_feed_source *source;
    unsigned part, parts; /* parts 0: this rank of all. Ranks that compute one replica
                             between them say the same part */
    int grown; /* not 0: what is longer than in the version is read from the next epoch
                  on; else it is refused */
};

struct dlr_feed_step {
    uint64_t position; /* of its first sample in the run; what was skipped counts */
    uint64_t epoch; /* of that sample, and which of the epoch it is: 0 in a mixture */
    uint64_t record;
    uint32_t samples, micro_batch, micro_batches;
    uint32_t first, count; /* micro-batches of this part; 0 for some in a short step */
};

/* ck: its version carries what was changed; before dlr_ckpt_restore(). NULL: the program
 * keeps that (dlr_feed_save()), or changes nothing. -EINVAL: the text names the field.
 * *ret_feed: dlr_feed_close(), after ck is closed.
 */
int dlr_feed_open(struct dlr_ckpt *ck, const struct dlr_feed_conf *conf,
                  struct dlr_feed **ret_feed);

/* Names the region of feed again: after dlr_ckpt_clear(). As dlr_ckpt_add(). */
int dlr_feed_add(struct dlr_feed *feed, struct dlr_ckpt *ck);

/* What this part has to do in a step; any step, in any order. The first after a restore
 * compares what is read here with what the version has read: -EBADMSG, with both values.
 * -EINVAL: more parts than micro-batches; -ERANGE: no run has so many steps.
 */
int dlr_feed_step(struct dlr_feed *feed, uint64_t step, struct dlr_feed_step *ret);

/* The same of a step to come, for whoever reads ahead: it may still be changed. Without a
 * text; -ESTALE: dlr_feed_step() comes first, after a restore.
 */
int dlr_feed_look(const struct dlr_feed *feed, uint64_t step,
                  struct dlr_feed_step *ret);

/* The records of a micro-batch of a step into ret: how many. Those of a mixture are
 * numbered through all sources. -ENOSPC: more than room; -ENOENT: no such micro-batch;
 * -ERANGE, -ESTALE: as above.
 */
int dlr_feed_indices(const struct dlr_feed *feed, uint64_t step, uint32_t micro_batch,
                     uint64_t *ret, size_t room);

/* A seed for random numbers of a micro-batch (dropout, augmentation): the same whoever
 * computes it. 0 where there is none.
 */
uint64_t dlr_feed_key(const struct dlr_feed *feed, uint64_t step, uint32_t micro_batch);

/* Where a record is: its source, and there its file, 0 where there are none, and its
 * number in that. -ENOENT: there is no such record.
 */
struct dlr_feed_place {
    unsigned source;
    size_t file;
    uint64_t record;
};
int dlr_feed_locate(const struct dlr_feed *feed, uint64_t index,
                    struct dlr_feed_place *ret);

/* From step on: another batch; other weights of a mixture, whose sources go on where they
 * are; the samples of so many steps left out; from the epoch after step, source in place
 * of a shorter one that it begins with. -EINVAL: the text says why not, an earlier change
 * of a later step among it; -ENOTSUP: not of one source, or only of one; -ENOSPC: there
 * were too many changes. After a restore of data that has grown (grown), dlr_feed_step()
 * of the restored step comes before any of them: else -EINVAL.
 */
int dlr_feed_set_batch(struct dlr_feed *feed, uint64_t step, uint32_t global_batch,
                       uint32_t micro_batch);
int dlr_feed_set_weights(struct dlr_feed *feed, uint64_t step, const double *weights,
                         unsigned n);
int dlr_feed_skip(struct dlr_feed *feed, uint64_t step, uint64_t steps);
int dlr_feed_extend(struct dlr_feed *feed, uint64_t step,
                    const struct dlr_feed_source *source);

/* For a program that has its own checkpoints: what a version carries, as bytes; how many
 * they are. -ENOSPC: more than room; 16,384 always do.
 */
int dlr_feed_save(const struct dlr_feed *feed, void *ret, size_t room);

/* Takes them back, for steps from step on; those before are not changed any more.
 * -EBADMSG as dlr_feed_step(), and where these are no such bytes; -EPROTO: of a later
 * release. Foreign bytes: fuzz target feed.
 */
int dlr_feed_load(struct dlr_feed *feed, uint64_t step, const void *bytes, size_t size);

/* The last failure's text: of feed, or of dlr_feed_open() in this thread when it is NULL.
 * Never NULL.
 */
const char *dlr_feed_error(const struct dlr_feed *feed);

/* Accepts NULL. */
void dlr_feed_close(struct dlr_feed *feed);

#ifdef __cplusplus
}
#endif
#endif
