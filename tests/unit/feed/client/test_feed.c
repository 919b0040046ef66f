/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/open */
/* Feeds of programs with and without a checkpoint: which samples all ranks of a job read
 * over restarts at other sizes, and what is refused.
 */
#include "feed/client/feed.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/ckpt.h"
#include "feed/state.h"
#include "tests/unit/ckpt/standalone/standalone_dir.h"

#define RANKS 8
#define RECORDS 1000
#define BATCH 48
#define STEPS 60

static const struct dlr_feed_conf plain = {.name = "train",
                                           .seed = 7,
                                           .length = RECORDS,
                                           .global_batch = BATCH,
                                           .micro_batch = 4,
                                           .parts = 1};

static struct dlr_feed *open_feed(struct dlr_ckpt *ck, const struct dlr_feed_conf *conf)
{
    struct dlr_feed *feed = NULL;

    if (dlr_feed_open(ck, conf, &feed) < 0)
        fail_msg("%s", dlr_feed_error(NULL));
    return feed;
}

/* Appends the records of a rank's share of a step. */
static void read_share(struct dlr_feed *feed, uint64_t step, uint64_t *log, size_t *n)
{
    struct dlr_feed_step now;

    if (dlr_feed_step(feed, step, &now) < 0)
        fail_msg("%s", dlr_feed_error(feed));
    for (uint32_t m = now.first; m < now.first + now.count; m++) {
        const int got = dlr_feed_indices(feed, step, m, log + *n, BATCH);

        assert_true(got > 0);
        *n += (size_t)got;
    }
}

/* --- a job with a checkpoint --- */

struct rank {
    struct dlr_ckpt *ck;
    struct dlr_feed *feed;
};

/* What this program does at steps. */
static void change(struct dlr_feed *feed, uint64_t step)
{
    if (step == 20)
        assert_int_equal(dlr_feed_set_batch(feed, 20, 24, 2), 0);
    if (step == 41)
        assert_int_equal(dlr_feed_skip(feed, 41, 3), 0);
}

static uint64_t start(struct rank *ranks, unsigned world)
{
    uint64_t step = 0, of_rank = 0;

    for (unsigned r = 0; r < world; r++) {
        const struct dlr_ckpt_conf conf = {
            .dir = dir, .rank = (int)r, .world = (int)world, .every = 1};
        struct dlr_feed_conf feed = plain;

        feed.part = r;
        feed.parts = world;
        assert_int_equal(dlr_ckpt_open(&conf, &ranks[r].ck), 0);
        ranks[r].feed = open_feed(ranks[r].ck, &feed);
    }
    for (unsigned r = 0; r < world; r++) {
        if (dlr_ckpt_restore(ranks[r].ck, &of_rank) < 0)
            fail_msg("%s", dlr_ckpt_error(ranks[r].ck));
        assert_true(r == 0 || of_rank == step);
        step = of_rank;
    }
    return step;
}

static void stop(struct rank *ranks, unsigned world)
{
    for (unsigned r = 0; r < world; r++) {
        dlr_ckpt_close(ranks[r].ck);
        dlr_feed_close(ranks[r].feed);
    }
}

/* A life of so many ranks to this step, saved after each `every` steps only: what was read
 * behind the last save is read again by the next life, and is taken out of the log.
 */
static void live(unsigned world, uint64_t to, uint64_t every, uint64_t *log,
                 size_t *at_step)
{
    struct rank ranks[RANKS];
    uint64_t step = start(ranks, world);

    for (; step < to; step++) {
        size_t n = at_step[step];

        for (unsigned r = 0; r < world; r++) {
            change(ranks[r].feed, step);
            read_share(ranks[r].feed, step, log, &n);
        }
        at_step[step + 1] = n;
        for (unsigned r = 0; r < world && (step + 1) % every == 0; r++) {
            assert_int_equal(dlr_ckpt_begin(ranks[r].ck, step + 1, NULL), 1);
            assert_int_equal(dlr_ckpt_flush(ranks[r].ck), 0);
        }
    }
    stop(ranks, world);
}

static void
a_job_that_is_killed_and_resized_reads_what_an_undisturbed_one_does(void **state)
{
    static const struct {
        unsigned world;
        uint64_t to;
    } lives[] = {{8, 13}, {6, 22}, {5, 29}, {3, 43}, {8, 51}, {1, STEPS}};
    static uint64_t calm[STEPS * BATCH], log[STEPS * BATCH];
    size_t calm_at[STEPS + 1] = {0}, at[STEPS + 1] = {0};

    live(4, STEPS, 20, calm, calm_at);
    standalone_teardown(NULL);
    assert_int_equal(standalone_setup(NULL), 0);
    for (unsigned i = 0; i < sizeof(lives) / sizeof(lives[0]); i++)
        live(lives[i].world, lives[i].to, 3, log, at);
    assert_int_equal(at[20], 20 * BATCH);
    assert_int_equal(at[STEPS], 20 * BATCH + 40 * 24);
    assert_memory_equal(at, calm_at, sizeof(at));
    assert_memory_equal(log, calm, at[STEPS] * sizeof(*log));
}

static struct dlr_ckpt *open_ckpt(void)
{
    const struct dlr_ckpt_conf conf = {.dir = dir, .world = 1, .every = 1};
    struct dlr_ckpt *ck = NULL;

    assert_int_equal(dlr_ckpt_open(&conf, &ck), 0);
    return ck;
}

/* Leaves a version of step 5 with a change. */
static void save_five(const struct dlr_feed_conf *conf)
{
    struct dlr_ckpt *ck = open_ckpt();
    struct dlr_feed *feed = open_feed(ck, conf);
    uint64_t step;

    assert_int_equal(dlr_ckpt_restore(ck, &step), 0);
    assert_int_equal(dlr_feed_skip(feed, 2, 10), 0);
    assert_int_equal(dlr_ckpt_begin(ck, 5, NULL), 1);
    dlr_ckpt_close(ck);
    dlr_feed_close(feed);
}

/* What the first step after a restore of that version says. */
static int restore_five(const struct dlr_feed_conf *conf, char *text, size_t size)
{
    struct dlr_ckpt *ck = open_ckpt();
    struct dlr_feed *feed = open_feed(ck, conf);
    struct dlr_feed_step now = {0};
    uint64_t step = 0, index[BATCH];
    int rc;

    assert_int_equal(dlr_ckpt_restore(ck, &step), 1);
    assert_int_equal(step, 5);
    assert_int_equal(dlr_feed_indices(feed, 5, 0, index, BATCH), -ESTALE);
    assert_int_equal(dlr_feed_key(feed, 5, 0), 0);
    assert_int_equal(dlr_feed_look(feed, 5, &now), -ESTALE);
    rc = dlr_feed_step(feed, 5, &now);
    dlr_format(text, size, "%s", dlr_feed_error(feed));
    if (rc == 0)
        assert_int_equal(now.position, 15 * BATCH);
    dlr_ckpt_close(ck);
    dlr_feed_close(feed);
    return rc;
}

static const uint64_t files[] = {300, 0, 500, 200, 77},
                      other_files[] = {300, 100, 400, 200, 77};

static void a_feed_that_is_not_the_versions_is_refused_with_both_values(void **state)
{
    static const struct dlr_feed_source from_files = {.files = 4, .records = files},
                                        halves[] = {{.length = 600, .weight = 1},
                                                    {.length = 400, .weight = 1}};
    static const struct {
        struct dlr_feed_conf conf;
        const char *said;
    } rows[] = {
        {{.seed = 8}, "seed 7 in the version, 8 here"},
        {{.order = "blocks:16"}, "order full in the version, blocks:16x1 here"},
        {{.ends = "drop"}, "ends span in the version, drop here"},
        {{.global_batch = 64}, "global_batch at the start: 48 in the version, 64 here"},
        {{.micro_batch = 8}, "micro_batch at the start: 4 in the version, 8 here"},
        {{.length = 999}, "source 0: 1000 records in the version, 999 here"},
        {{.length = 1001},
         "source 0: 1000 records in the version, 1001 here, and it was not said that "
         "it "
         "may have grown"},
        {{.sources = 1, .source = &from_files},
         "source 0: 0 files in the version, 4 here with other numbers of records"},
        {{.sources = 2, .source = halves}, "sources: 1 in the version, 2 here"},
    };
    char text[256], want[256];

    save_five(&plain);
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct dlr_feed_conf *row = &rows[i].conf;
        struct dlr_feed_conf conf = plain;

        conf.seed = row->seed ? row->seed : conf.seed;
        conf.order = row->order;
        conf.ends = row->ends;
        conf.global_batch = row->global_batch ? row->global_batch : BATCH;
        conf.micro_batch = row->micro_batch ? row->micro_batch : 4;
        conf.length = row->length ? row->length : RECORDS;
        conf.sources = row->sources;
        conf.source = row->source;
        assert_int_equal(restore_five(&conf, text, sizeof(text)), -EBADMSG);
        dlr_format(want, sizeof(want), "feed 'train': %s", rows[i].said);
        assert_string_equal(text, want);
    }
    assert_int_equal(restore_five(&plain, text, sizeof(text)), 0);
}

static void what_has_grown_is_read_from_the_next_epoch_on(void **state)
{
    static const struct dlr_feed_source short_list = {.files = 4, .records = files},
                                        long_list = {.files = 5, .records = files},
                                        other = {.files = 5, .records = other_files};
    struct dlr_feed_conf conf = plain;
    char text[256];

    conf.sources = 1;
    conf.source = &short_list;
    save_five(&conf);
    conf.grown = 1;
    conf.source = &other;
    assert_int_equal(restore_five(&conf, text, sizeof(text)), -EBADMSG);
    assert_string_equal(
        text, "feed 'train': source 0: its first 4 files are not those of the version");
    conf.source = &long_list;
    assert_int_equal(restore_five(&conf, text, sizeof(text)), 0);

    struct dlr_feed *feed = open_feed(NULL, &plain);
    const struct dlr_feed_source more = {.length = 1500};
    unsigned char seen[1500] = {0};
    uint64_t log[BATCH], read = 0;

    assert_int_equal(dlr_feed_extend(feed, 3, &more), 0);
    for (uint64_t step = 0; read < RECORDS + 1500; step++) {
        size_t n = 0;

        read_share(feed, step, log, &n);
        for (size_t i = 0; i < n && read < RECORDS + 1500; i++, read++) {
            assert_true(read >= RECORDS || log[i] < RECORDS);
            assert_int_equal(seen[log[i]]++, read >= RECORDS && log[i] < RECORDS);
        }
    }
    dlr_feed_close(feed);
}

/* --- without one --- */

static void every_number_of_parts_has_each_micro_batch_once(void **state)
{
    for (unsigned parts = 1; parts <= BATCH / 4; parts++) {
        uint32_t next = 0, least = BATCH, most = 0;

        for (unsigned part = 0; part < parts; part++) {
            struct dlr_feed_conf conf = plain;
            struct dlr_feed_step now;

            conf.part = part;
            conf.parts = parts;
            struct dlr_feed *feed = open_feed(NULL, &conf);

            assert_int_equal(dlr_feed_step(feed, 1, &now), 0);
            assert_int_equal(now.first, next);
            next += now.count;
            least = now.count < least ? now.count : least;
            most = now.count > most ? now.count : most;
            dlr_feed_close(feed);
        }
        assert_int_equal(next, BATCH / 4);
        assert_true(least >= 1 && most - least <= 1);
    }
}

static void what_a_feed_cannot_be_is_refused_by_name(void **state)
{
    static const struct dlr_feed_source two[] = {{.length = 9, .weight = 1},
                                                 {.length = 9, .weight = -1}},
                                        wrong = {
                                            .length = 9, .files = 4, .records = files};
    static const struct {
        struct dlr_feed_conf conf;
        const char *said;
    } rows[] = {
        {{.global_batch = 8, .micro_batch = 1}, "source 0 has no records"},
        {{.length = 9, .global_batch = 8, .micro_batch = 3},
         "micro_batch 3 does not divide global_batch 8"},
        {{.length = 9, .global_batch = 8, .micro_batch = 1, .order = "any"},
         "order 'any' is not full, blocks:B, blocks:BxK or none"},
        {{.length = 9, .global_batch = 8, .micro_batch = 1, .ends = "pad"},
         "ends 'pad' is not span, keep or drop"},
        {{.length = 9, .global_batch = 8, .micro_batch = 2, .part = 2, .parts = 2},
         "part 2 of 2 parts cannot be"},
        {{.global_batch = 8, .micro_batch = 2, .sources = 2, .source = two},
         "weight 1 is -1: it must be 0 or more"},
        {{.global_batch = 8, .micro_batch = 2, .sources = 65, .source = two},
         "65 sources: 1 to 64 can be"},
        {{.global_batch = 8, .micro_batch = 2, .sources = 1, .source = &wrong},
         "source 0: length is 9, its files have 1000 records"},
    };
    char want[256];

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_feed_conf conf = rows[i].conf;
        struct dlr_feed *feed = NULL;

        conf.parts = conf.parts ? conf.parts : 1;
        assert_int_equal(dlr_feed_open(NULL, &conf, &feed), -EINVAL);
        dlr_format(want, sizeof(want), "feed 'feed': %s", rows[i].said);
        assert_string_equal(dlr_feed_error(NULL), want);
    }
}

static void a_step_that_was_asked_for_keeps_its_samples(void **state)
{
    struct dlr_feed *feed = open_feed(NULL, &plain);
    struct dlr_feed_step ahead;
    uint64_t log[BATCH];
    size_t n = 0;

    read_share(feed, 9, log, &n);
    assert_int_equal(dlr_feed_set_batch(feed, 9, 24, 4), -EINVAL);
    assert_string_equal(
        dlr_feed_error(feed),
        "feed 'train': a change at step 9, and step 9 was asked for already");
    assert_int_equal(dlr_feed_look(feed, 77, &ahead), 0);
    assert_int_equal(ahead.samples, BATCH);
    assert_int_equal(dlr_feed_set_batch(feed, 10, 24, 4), 0);
    assert_int_equal(dlr_feed_look(feed, 77, &ahead), 0);
    assert_int_equal(ahead.samples, 24);
    n = 0;
    read_share(feed, 12, log, &n);
    assert_int_equal(n, 24);
    assert_int_equal(dlr_feed_set_batch(feed, 10, 24, 4), 0); /* said again */
    assert_int_equal(dlr_feed_set_weights(feed, 13, (const double[]){1}, 1), -ENOTSUP);
    assert_int_equal(dlr_feed_set_batch(feed, 13, 0, 0), -EINVAL);
    dlr_feed_close(feed);
}

static void
a_run_whose_batch_grew_goes_on_at_more_parts_than_it_began_with(void **state)
{
    unsigned char bytes[DLR_FEED_STATE_MAX];
    struct dlr_feed_conf conf = plain;
    struct dlr_feed *small = open_feed(NULL, &plain), *large;
    struct dlr_feed_step now;
    int size;

    assert_int_equal(dlr_feed_set_batch(small, 100, 96, 4), 0);
    size = dlr_feed_save(small, bytes, sizeof(bytes));
    conf.parts = 20;
    large = open_feed(NULL, &conf);
    assert_int_equal(dlr_feed_step(large, 150, &now), -EINVAL);
    assert_string_equal(dlr_feed_error(large),
                        "feed 'train': 20 parts, and global_batch 48 has 12 "
                        "micro-batches of 4: at most 12 parts have something to do");
    assert_int_equal(dlr_feed_load(large, 150, bytes, (size_t)size), 0);
    assert_int_equal(dlr_feed_set_batch(large, 0, 48, 4), 0); /* both said again */
    assert_int_equal(dlr_feed_set_batch(large, 100, 96, 4), 0);
    assert_int_equal(dlr_feed_set_batch(large, 120, 48, 4), -EINVAL);
    assert_string_equal(
        dlr_feed_error(large),
        "feed 'train': a change at step 120, and step 149 was asked for already");
    assert_int_equal(dlr_feed_step(large, 150, &now), 0);
    assert_int_equal(now.samples, 96);
    dlr_feed_close(small);
    dlr_feed_close(large);
}

static void what_has_grown_wants_the_restored_step_before_a_change(void **state)
{
    struct dlr_feed_conf conf = plain;
    struct dlr_feed_step now;
    struct dlr_ckpt *ck;
    struct dlr_feed *feed;
    uint64_t step;

    save_five(&plain);
    conf.length = RECORDS + 500;
    conf.grown = 1;
    ck = open_ckpt();
    feed = open_feed(ck, &conf);
    assert_int_equal(dlr_ckpt_restore(ck, &step), 1);
    assert_int_equal(dlr_feed_skip(feed, 40, 1), -EINVAL);
    assert_string_equal(
        dlr_feed_error(feed),
        "feed 'train': dlr_feed_step() of the restored step comes first");
    assert_int_equal(dlr_feed_step(feed, step, &now), 0);
    assert_int_equal(dlr_feed_skip(feed, 40, 1), 0);
    dlr_ckpt_close(ck);
    dlr_feed_close(feed);
}

static void records_are_found_in_their_files(void **state)
{
    static const struct dlr_feed_source sources[] = {
        {.files = 5, .records = files, .weight = 3},
        {.length = 50, .weight = 1},
    };
    static const struct {
        uint64_t index;
        struct dlr_feed_place place;
    } rows[] = {
        {0, {0, 0, 0}},     {299, {0, 0, 299}}, {300, {0, 2, 0}},
        {799, {0, 2, 499}}, {800, {0, 3, 0}},   {1000, {0, 4, 0}},
        {1076, {0, 4, 76}}, {1077, {1, 0, 0}},  {1126, {1, 0, 49}},
    };
    struct dlr_feed_conf conf = plain;
    struct dlr_feed_place place;

    conf.sources = 2;
    conf.source = sources;
    struct dlr_feed *feed = open_feed(NULL, &conf);

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(dlr_feed_locate(feed, rows[i].index, &place), 0);
        assert_int_equal(place.source, rows[i].place.source);
        assert_int_equal(place.file, rows[i].place.file);
        assert_int_equal(place.record, rows[i].place.record);
    }
    assert_int_equal(dlr_feed_locate(feed, 1127, &place), -ENOENT);
    assert_int_equal(dlr_feed_set_weights(feed, 4, (const double[]){1, 1}, 2), 0);
    assert_int_equal(dlr_feed_set_weights(feed, 2, (const double[]){3, 1}, 2), 0);
    assert_int_equal(dlr_feed_set_weights(feed, 4, (const double[]){1}, 1), -EINVAL);
    assert_int_equal(dlr_feed_extend(feed, 4, &sources[1]), -ENOTSUP);
    dlr_feed_close(feed);
}

static void keys_are_of_samples_and_not_of_ranks(void **state)
{
    struct dlr_feed_conf conf = plain;
    struct dlr_feed *a = open_feed(NULL, &conf);

    conf.parts = 3;
    conf.part = 1;
    struct dlr_feed *b = open_feed(NULL, &conf);

    assert_int_equal(dlr_feed_key(a, 5, 2), dlr_feed_key(b, 5, 2));
    assert_true(dlr_feed_key(a, 5, 2) != dlr_feed_key(a, 5, 3));
    assert_true(dlr_feed_key(a, 5, 0) != dlr_feed_key(a, 6, 0));
    /* the same samples in larger pieces */
    assert_int_equal(dlr_feed_set_batch(b, 0, BATCH, 8), 0);
    assert_int_equal(dlr_feed_key(a, 5, 2), dlr_feed_key(b, 5, 1));
    assert_int_equal(dlr_feed_key(a, 5, BATCH), 0);
    dlr_feed_close(a);
    dlr_feed_close(b);
}

static void asking_for_what_is_not_there_is_answered(void **state)
{
    struct dlr_feed *feed = open_feed(NULL, &plain);
    struct dlr_feed_step now;
    uint64_t index[BATCH];

    assert_int_equal(dlr_feed_indices(feed, 0, 12, index, BATCH), -ENOENT);
    assert_int_equal(dlr_feed_indices(feed, 0, 0, index, 3), -ENOSPC);
    assert_int_equal(dlr_feed_indices(feed, UINT64_MAX, 0, index, BATCH), -ERANGE);
    assert_int_equal(dlr_feed_step(feed, UINT64_MAX, &now), -ERANGE);
    assert_int_equal(dlr_feed_step(feed, 3, &now), 0); /* and backwards */
    assert_int_equal(dlr_feed_step(feed, 1, &now), 0);
    dlr_feed_close(NULL);
    dlr_feed_close(feed);
}

static void bytes_are_the_state_and_spoilt_ones_are_refused(void **state)
{
    unsigned char bytes[DLR_FEED_STATE_MAX], spoilt[DLR_FEED_STATE_MAX];
    struct dlr_feed *a = open_feed(NULL, &plain), *b = open_feed(NULL, &plain);
    struct dlr_feed_step of_a, of_b;
    int size;

    assert_int_equal(dlr_feed_set_batch(a, 3, 24, 4), 0);
    assert_int_equal(dlr_feed_skip(a, 4, 7), 0);
    size = dlr_feed_save(a, bytes, sizeof(bytes));
    assert_int_equal(size, 144);
    assert_int_equal(dlr_feed_save(a, bytes, (size_t)size - 1), -ENOSPC);
    for (int i = 0; i < size; i++) {
        memcpy(spoilt, bytes, (size_t)size);
        spoilt[i] ^= 0x10;
        assert_true(dlr_feed_load(b, 9, spoilt, (size_t)size) < 0);
        assert_true(dlr_feed_load(b, 9, bytes, (size_t)i) < 0);
    }
    memcpy(spoilt, bytes, (size_t)size);
    spoilt[8] = 2;
    assert_int_equal(dlr_feed_load(b, 9, spoilt, (size_t)size), -EPROTO);
    assert_string_equal(dlr_feed_error(b), "feed 'train': the state of the feed has "
                                           "version 2, this library reads 1");
    assert_int_equal(dlr_feed_step(b, 9, &of_b), 0);
    assert_int_equal(of_b.position, 9 * BATCH); /* as it was */
    assert_int_equal(dlr_feed_load(b, 9, bytes, (size_t)size), 0);
    assert_int_equal(dlr_feed_step(a, 9, &of_a), 0);
    assert_int_equal(dlr_feed_step(b, 9, &of_b), 0);
    assert_memory_equal(&of_a, &of_b, sizeof(of_a));
    dlr_feed_close(a);
    dlr_feed_close(b);
}

static void more_changes_than_a_version_carries_are_refused(void **state)
{
    struct dlr_feed_source sources[DLR_FEED_SOURCES];
    double weights[DLR_FEED_SOURCES];
    struct dlr_feed_conf conf = plain;
    uint64_t step = 0;
    int rc = 0;

    for (unsigned i = 0; i < DLR_FEED_SOURCES; i++) {
        sources[i] = (struct dlr_feed_source){.length = 10, .weight = 1};
        weights[i] = 1;
    }
    conf.sources = DLR_FEED_SOURCES;
    conf.source = sources;
    struct dlr_feed *feed = open_feed(NULL, &conf);
    struct dlr_feed_step now;

    while (rc == 0) {
        weights[0] += 1;
        rc = dlr_feed_set_weights(feed, ++step, weights, DLR_FEED_SOURCES);
    }
    assert_int_equal(rc, -ENOSPC);
    assert_string_equal(dlr_feed_error(feed), "feed 'train': too many changes");
    assert_true(step > 40);
    assert_int_equal(dlr_feed_step(feed, step, &now), 0);
    dlr_feed_close(feed);
}

int main(int argc, char **argv)
{
#define WITH_DIR(test)                                                                 \
    cmocka_unit_test_setup_teardown(test, standalone_setup, standalone_teardown)
    const struct CMUnitTest tests[] = {
        WITH_DIR(a_job_that_is_killed_and_resized_reads_what_an_undisturbed_one_does),
        WITH_DIR(a_feed_that_is_not_the_versions_is_refused_with_both_values),
        WITH_DIR(what_has_grown_is_read_from_the_next_epoch_on),
        cmocka_unit_test(every_number_of_parts_has_each_micro_batch_once),
        cmocka_unit_test(what_a_feed_cannot_be_is_refused_by_name),
        cmocka_unit_test(a_step_that_was_asked_for_keeps_its_samples),
        cmocka_unit_test(
            a_run_whose_batch_grew_goes_on_at_more_parts_than_it_began_with),
        WITH_DIR(what_has_grown_wants_the_restored_step_before_a_change),
        cmocka_unit_test(records_are_found_in_their_files),
        cmocka_unit_test(keys_are_of_samples_and_not_of_ranks),
        cmocka_unit_test(asking_for_what_is_not_there_is_answered),
        cmocka_unit_test(bytes_are_the_state_and_spoilt_ones_are_refused),
        cmocka_unit_test(more_changes_than_a_version_carries_are_refused),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
