/* SPDX-License-Identifier: Apache-2.0 */
/* A sequence for programs: which part of each step is theirs, and a region that follows
 * the checkpoint's version.
 */
#include "feed/client/feed.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/ckpt.h"
#include "common/base/err.h"
#include "common/base/str.h"
#include "common/local/program_rank.h"
#include "feed/client/files.h"
#include "feed/state.h"

#define NAME_MAX_HERE 128
#define KEY_SAMPLES UINT64_C(0x73616d706c657300)
#define NEVER UINT64_MAX

struct dlr_feed {
    char name[NAME_MAX_HERE];
    unsigned part, parts;
    bool grown;
    struct dlr_sequence *sequence;
    struct dlr_feed_files files[DLR_MIXTURE_SOURCES];
    uint64_t asked;                           /* the newest step; NEVER: none */
    unsigned char state[DLR_FEED_STATE_MAX];  /* the region: a restore writes into it */
    unsigned char known[DLR_FEED_STATE_HEAD]; /* of the state that sequence is of */
    struct dlr_err err;
};

static _Thread_local struct dlr_err open_err;

static void keep_state(struct dlr_feed *feed)
{
    memset(feed->state, 0, sizeof(feed->state));
    dlr_feed_state_write(feed->sequence, feed->state, sizeof(feed->state));
    memcpy(feed->known, feed->state, sizeof(feed->known));
}

/* --- opening --- */

static int take_name(struct dlr_feed *feed, const char *name, struct dlr_err *err)
{
    name = name ? name : "feed";
    if (!*name || dlr_format(feed->name, sizeof(feed->name), "%s", name) < 0)
        return dlr_fail(err, -EINVAL, "name must have 1 to %d bytes",
                        NAME_MAX_HERE - 1);
    return 0;
}

static int take_parts(struct dlr_feed *feed, const struct dlr_feed_conf *conf,
                      struct dlr_err *err)
{
    int rank, world;
    int rc;

    feed->part = conf->part;
    feed->parts = conf->parts;
    if (conf->parts == 0) {
        rc = dlr_program_rank(&rank, &world, err);
        if (rc < 0)
            return rc;
        feed->part = (unsigned)rank;
        feed->parts = (unsigned)world;
    }
    if (feed->part >= feed->parts)
        return dlr_fail(err, -EINVAL, "part %u of %u parts cannot be", feed->part,
                        feed->parts);
    return 0;
}

static int check_parts(const struct dlr_feed *feed, uint32_t batch, uint32_t micro,
                       struct dlr_err *err)
{
    if (feed->parts > batch / micro)
        return dlr_fail(err, -EINVAL,
                        "%u parts, and global_batch %u has %u micro-batches of %u: at "
                        "most %u parts have something to do",
                        feed->parts, batch, batch / micro, micro, batch / micro);
    return 0;
}

static int take_ends(const char *text, enum dlr_ends *ret, struct dlr_err *err)
{
    static const char *const names[] = {"span", "keep", "drop"};

    for (unsigned i = 0; i < DLR_ENDS_KINDS; i++)
        if (dlr_streq(text ? text : "span", names[i])) {
            *ret = (enum dlr_ends)i;
            return 0;
        }
    return dlr_fail(err, -EINVAL, "ends '%s' is not span, keep or drop", text);
}

static int take_sources(struct dlr_feed *feed, const struct dlr_feed_conf *conf,
                        struct dlr_sequence_conf *ret, struct dlr_err *err)
{
    const struct dlr_feed_source plain = {.length = conf->length, .weight = 1},
                                 *source = conf->sources ? conf->source : &plain;
    double weights[DLR_MIXTURE_SOURCES];
    int rc = 0;

    ret->sources = conf->sources ? conf->sources : 1;
    if (ret->sources > DLR_MIXTURE_SOURCES)
        return dlr_fail(err, -EINVAL, "%u sources: 1 to %d can be", ret->sources,
                        DLR_MIXTURE_SOURCES);
    for (unsigned i = 0; rc == 0 && i < ret->sources; i++) {
        weights[i] = source[i].weight;
        rc = dlr_feed_files_take(&feed->files[i], &source[i], i, &ret->source[i], err);
    }
    if (rc == 0 && ret->sources > 1)
        rc = dlr_mixture_parts(weights, ret->sources, ret->parts, err);
    return rc;
}

static int take_conf(struct dlr_feed *feed, const struct dlr_feed_conf *conf,
                     struct dlr_err *err)
{
    struct dlr_sequence_conf own = {
        .seed = conf->seed, .batch = conf->global_batch, .micro = conf->micro_batch};
    int rc = take_name(feed, conf->name, err);

    if (rc == 0)
        rc = take_parts(feed, conf, err);
    if (rc == 0)
        rc = dlr_order_parse(conf->order, &own.order, err);
    if (rc == 0)
        rc = take_ends(conf->ends, &own.ends, err);
    if (rc == 0)
        rc = take_sources(feed, conf, &own, err);
    if (rc == 0)
        rc = dlr_sequence_new(&own, &feed->sequence, err);
    if (rc < 0)
        return rc;
    feed->grown = conf->grown != 0;
    feed->asked = NEVER;
    keep_state(feed);
    return 0;
}

int dlr_feed_add(struct dlr_feed *feed, struct dlr_ckpt *ck)
{
    char name[NAME_MAX_HERE + 8];
    int rc;

    dlr_format(name, sizeof(name), "feed.%s", feed->name);
    rc = dlr_ckpt_add_array(ck, name, DLR_CKPT_REPLICATED, "u8", 1, feed->state,
                            sizeof(feed->state));
    return rc < 0 ? dlr_fail(&feed->err, rc, "%s", dlr_ckpt_error(ck)) : 0;
}

int dlr_feed_open(struct dlr_ckpt *ck, const struct dlr_feed_conf *conf,
                  struct dlr_feed **ret_feed)
{
    struct dlr_feed *feed = calloc(1, sizeof(*feed));
    int rc;

    if (!feed)
        return dlr_fail(&open_err, -ENOMEM, "no memory for a feed");
    rc = take_conf(feed, conf, &feed->err);
    if (rc == 0 && ck)
        rc = dlr_feed_add(feed, ck);
    if (rc < 0) {
        dlr_fail(&open_err, rc, "feed '%s': %s", feed->name, feed->err.text);
        dlr_feed_close(feed);
        return rc;
    }
    *ret_feed = feed;
    return 0;
}

const char *dlr_feed_error(const struct dlr_feed *feed)
{
    return feed ? feed->err.text : open_err.text;
}

void dlr_feed_close(struct dlr_feed *feed)
{
    for (unsigned i = 0; feed && i < DLR_MIXTURE_SOURCES; i++)
        dlr_feed_files_free(&feed->files[i]);
    if (feed)
        dlr_sequence_free(feed->sequence);
    free(feed);
}

/* --- a state that somebody has saved --- */

/* What is longer here than there begins with what is there, and is read from the epoch
 * after step on; NEVER: nobody has said which step was restored.
 */
static int grow(const struct dlr_feed *feed, struct dlr_sequence *stored, uint64_t step,
                struct dlr_err *err)
{
    const struct dlr_source *old = dlr_sequence_source(stored, 0),
                            *here = dlr_sequence_source(feed->sequence, 0);
    const struct dlr_change change = {
        .kind = DLR_CHANGE_EXTEND, .step = step, .source = *here};

    if (!feed->grown)
        return dlr_fail(err, -EBADMSG,
                        "source 0: %" PRIu64 " records in the version, %" PRIu64
                        " here, and it was not said that it may have grown",
                        old->length, here->length);
    if (old->files &&
        (dlr_feed_files_id(&feed->files[0], old->files) != old->id ||
         dlr_feed_files_records(&feed->files[0], old->files) != old->length))
        return dlr_fail(err, -EBADMSG,
                        "source 0: its first %" PRIu64
                        " files are not those of the version",
                        old->files);
    if (step == NEVER)
        return dlr_fail(err, -EINVAL,
                        "dlr_feed_step() of the restored step comes first");
    return dlr_sequence_change(stored, &change, err);
}

static int take_state(struct dlr_feed *feed, uint64_t step, const void *bytes,
                      size_t size)
{
    struct dlr_sequence *stored = NULL;
    struct dlr_err why = {0};
    int rc = dlr_feed_state_read(bytes, size, &stored, &why);

    if (rc == 0)
        rc = dlr_feed_state_compare(stored, feed->sequence, &why);
    if (rc > 0)
        rc = grow(feed, stored, step, &why);
    if (rc < 0) {
        dlr_sequence_free(stored);
        return dlr_fail(&feed->err, rc, "feed '%s': %s", feed->name, why.text);
    }
    dlr_sequence_free(feed->sequence);
    feed->sequence = stored;
    feed->asked = NEVER;
    keep_state(feed);
    return 0;
}

int dlr_feed_save(const struct dlr_feed *feed, void *ret, size_t room)
{
    return dlr_feed_state_write(feed->sequence, ret, room);
}

int dlr_feed_load(struct dlr_feed *feed, uint64_t step, const void *bytes, size_t size)
{
    int rc = take_state(feed, step, bytes, size);

    if (rc == 0 && step > 0)
        feed->asked = step - 1; /* what was read before is not changed any more */
    return rc;
}

/* A restore has written another state than the one that sequence is of. */
static bool is_restored(const struct dlr_feed *feed)
{
    return memcmp(feed->state, feed->known, sizeof(feed->known)) != 0;
}

/* --- steps --- */

static int find_share(const struct dlr_feed *feed, uint64_t step,
                      struct dlr_feed_step *ret, struct dlr_err *err)
{
    struct dlr_sequence_step s;
    uint64_t first, end;
    int rc;

    if (dlr_sequence_step(feed->sequence, step, &s) < 0)
        return dlr_fail(err, -ERANGE, "step %" PRIu64 " is more than any run has",
                        step);
    rc = check_parts(feed, s.batch, s.micro, err);
    if (rc < 0)
        return rc;
    first = (uint64_t)s.micro_batches * feed->part / feed->parts;
    end = (uint64_t)s.micro_batches * (feed->part + UINT64_C(1)) / feed->parts;
    *ret = (struct dlr_feed_step){
        .position = s.position,
        .epoch = s.epoch,
        .record = s.record,
        .samples = s.samples,
        .micro_batch = s.micro,
        .micro_batches = s.micro_batches,
        .first = (uint32_t)first,
        .count = (uint32_t)(end - first),
    };
    return 0;
}

int dlr_feed_step(struct dlr_feed *feed, uint64_t step, struct dlr_feed_step *ret)
{
    struct dlr_err why;
    int rc = 0;

    if (is_restored(feed))
        rc = take_state(feed, step, feed->state, sizeof(feed->state));
    if (rc < 0)
        return rc;
    rc = find_share(feed, step, ret, &why);
    if (rc < 0)
        return dlr_fail(&feed->err, rc, "feed '%s': %s", feed->name, why.text);
    if (feed->asked == NEVER || step > feed->asked)
        feed->asked = step;
    return 0;
}

int dlr_feed_look(const struct dlr_feed *feed, uint64_t step, struct dlr_feed_step *ret)
{
    return is_restored(feed) ? -ESTALE : find_share(feed, step, ret, NULL);
}

/* The samples of a micro-batch, by their place in the step; -errno. */
static int find_samples(const struct dlr_feed *feed, uint64_t step,
                        uint32_t micro_batch, struct dlr_sequence_step *ret,
                        uint32_t *ret_n)
{
    int rc = dlr_sequence_step(feed->sequence, step, ret);
    uint32_t first;

    if (rc < 0)
        return rc;
    if (micro_batch >= ret->micro_batches)
        return -ENOENT;
    first = micro_batch * ret->micro;
    *ret_n = ret->samples - first < ret->micro ? ret->samples - first : ret->micro;
    return 0;
}

int dlr_feed_indices(const struct dlr_feed *feed, uint64_t step, uint32_t micro_batch,
                     uint64_t *ret, size_t room)
{
    struct dlr_sequence_step s;
    uint32_t n;
    int rc;

    if (is_restored(feed))
        return -ESTALE;
    rc = find_samples(feed, step, micro_batch, &s, &n);
    if (rc < 0)
        return rc;
    if (n > room)
        return -ENOSPC;
    return (int)dlr_sequence_indices(feed->sequence, step, micro_batch * s.micro, n,
                                     ret);
}

uint64_t dlr_feed_key(const struct dlr_feed *feed, uint64_t step, uint32_t micro_batch)
{
    struct dlr_sequence_step s;
    uint32_t n;

    if (is_restored(feed) || find_samples(feed, step, micro_batch, &s, &n) < 0)
        return 0;
    return dlr_permute_mix(dlr_sequence_conf(feed->sequence)->seed ^ KEY_SAMPLES,
                           s.position + (uint64_t)micro_batch * s.micro);
}

int dlr_feed_locate(const struct dlr_feed *feed, uint64_t index,
                    struct dlr_feed_place *ret)
{
    const unsigned sources = dlr_sequence_conf(feed->sequence)->sources;

    for (unsigned i = 0; i < sources; i++) {
        const uint64_t length = dlr_sequence_source(feed->sequence, i)->length;

        if (index < length) {
            ret->source = i;
            dlr_feed_files_find(&feed->files[i], index, &ret->file, &ret->record);
            return 0;
        }
        index -= length;
    }
    return -ENOENT;
}

/* --- changes --- */

/* A step that ranks have begun has its samples. */
static int check_asked(const struct dlr_feed *feed, uint64_t step, struct dlr_err *err)
{
    if (feed->asked == NEVER || step > feed->asked)
        return 0;
    return dlr_fail(err, -EINVAL,
                    "a change at step %" PRIu64 ", and step %" PRIu64
                    " was asked for already",
                    step, feed->asked);
}

/* 1: it was made, 0: it is so already. */
static int change(struct dlr_feed *feed, const struct dlr_change *c)
{
    struct dlr_err why = {0};
    int rc = is_restored(feed)
                 ? take_state(feed, NEVER, feed->state, sizeof(feed->state))
                 : 0;

    if (rc < 0)
        return rc;
    if (dlr_sequence_has(feed->sequence, c))
        return 0;
    rc = check_asked(feed, c->step, &why);
    if (rc == 0 && c->kind == DLR_CHANGE_BATCH && c->micro && c->batch % c->micro == 0)
        rc = check_parts(feed, c->batch, c->micro, &why);
    if (rc == 0 && dlr_feed_state_size(feed->sequence, c) > sizeof(feed->state))
        rc = dlr_fail(&why, -ENOSPC, "too many changes");
    if (rc == 0)
        rc = dlr_sequence_change(feed->sequence, c, &why);
    if (rc < 0)
        return dlr_fail(&feed->err, rc, "feed '%s': %s", feed->name, why.text);
    keep_state(feed);
    return 1;
}

int dlr_feed_set_batch(struct dlr_feed *feed, uint64_t step, uint32_t global_batch,
                       uint32_t micro_batch)
{
    const struct dlr_change c = {.kind = DLR_CHANGE_BATCH,
                                 .step = step,
                                 .batch = global_batch,
                                 .micro = micro_batch};
    const int rc = change(feed, &c);

    return rc < 0 ? rc : 0;
}

int dlr_feed_set_weights(struct dlr_feed *feed, uint64_t step, const double *weights,
                         unsigned n)
{
    struct dlr_change c = {.kind = DLR_CHANGE_PARTS, .step = step};
    const unsigned sources = dlr_sequence_conf(feed->sequence)->sources;
    struct dlr_err why;
    int rc;

    if (sources == 1)
        return dlr_fail(&feed->err, -ENOTSUP, "feed '%s': one source has no weights",
                        feed->name);
    if (n != sources)
        return dlr_fail(&feed->err, -EINVAL, "feed '%s': %u weights of %u sources",
                        feed->name, n, sources);
    rc = dlr_mixture_parts(weights, n, c.parts, &why);
    if (rc < 0)
        return dlr_fail(&feed->err, rc, "feed '%s': %s", feed->name, why.text);
    rc = change(feed, &c);
    return rc < 0 ? rc : 0;
}

int dlr_feed_skip(struct dlr_feed *feed, uint64_t step, uint64_t steps)
{
    const struct dlr_change c = {.kind = DLR_CHANGE_SKIP, .step = step, .skip = steps};
    int rc = steps ? change(feed, &c) : 0;

    return rc < 0 ? rc : 0;
}

int dlr_feed_extend(struct dlr_feed *feed, uint64_t step,
                    const struct dlr_feed_source *source)
{
    struct dlr_change c = {.kind = DLR_CHANGE_EXTEND, .step = step};
    struct dlr_feed_files files, *old = &feed->files[0];
    struct dlr_err why;
    int rc = dlr_feed_files_take(&files, source, 0, &c.source, &why);

    if (rc == 0 && dlr_sequence_conf(feed->sequence)->sources == 1 &&
        (files.n < old->n || (old->n == 0 && files.n > 0) ||
         dlr_feed_files_id(&files, old->n) != dlr_feed_files_id(old, old->n)))
        rc = dlr_fail(&why, -EINVAL,
                      "what it grows to does not begin with its %zu files", old->n);
    if (rc < 0)
        dlr_fail(&feed->err, rc, "feed '%s': %s", feed->name, why.text);
    else
        rc = change(feed, &c);
    if (rc > 0) {
        dlr_feed_files_free(old);
        *old = files;
        files = (struct dlr_feed_files){0};
    }
    dlr_feed_files_free(&files);
    return rc < 0 ? rc : 0;
}
