/* SPDX-License-Identifier: Apache-2.0 */
/* A commit state machine whose orders and decisions are looked at. Its inside is looked
 * at too, so this includes its source.
 */
#ifndef DLR_TESTS_CKPT_COMMIT_COMMIT_RIG_H
#define DLR_TESTS_CKPT_COMMIT_COMMIT_RIG_H

#include "ckpt/commit/commit.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define SEEN_MAX 32

struct seen {
    unsigned saves, commits, aborts;
    uint64_t ordered[SEEN_MAX]; /* the first steps */
    struct dlr_version save, commit, abort;
    int64_t took_ms;
    char why[64];
};

static inline void on_save(void *arg, struct dlr_version v)
{
    struct seen *s = arg;

    if (s->saves < SEEN_MAX)
        s->ordered[s->saves] = v.step;
    s->saves++;
    s->save = v;
}

static inline void on_commit(void *arg, struct dlr_version v, int64_t took_ms)
{
    struct seen *s = arg;

    s->commits++;
    s->commit = v;
    s->took_ms = took_ms;
}

static inline void on_abort(void *arg, struct dlr_version v, const char *why)
{
    struct seen *s = arg;

    s->aborts++;
    s->abort = v;
    snprintf(s->why, sizeof(s->why), "%s", why);
}

static const struct dlr_commit_ops seen_ops = {on_save, on_commit, on_abort};

struct rig {
    struct seen seen;
    struct dlr_commit *c;
};

static inline void rig_up_conf(struct rig *r, unsigned world,
                               const struct dlr_commit_conf *conf)
{
    memset(&r->seen, 0, sizeof(r->seen));
    assert_int_equal(dlr_commit_new(conf, &seen_ops, &r->seen, &r->c, NULL), 0);
    assert_int_equal(dlr_commit_round(r->c, 7, world, NULL), 0);
}

static inline void rig_up_open(struct rig *r, unsigned world, unsigned copies,
                               unsigned open_max)
{
    struct dlr_commit_conf conf = {
        .copies = copies, .decide_ms = 1000, .open_max = open_max};

    rig_up_conf(r, world, &conf);
}

/* One version at a time. */
static inline void rig_up(struct rig *r, unsigned world, unsigned copies)
{
    rig_up_open(r, world, copies, 1);
}

static inline void all_ready(struct rig *r, bool copies)
{
    for (unsigned i = 0; i < r->c->world; i++) {
        dlr_commit_ready(r->c, 7, i, 0, 0);
        if (copies)
            dlr_commit_ready(r->c, 7, i, 1, 0);
    }
}

/* Every rank seals this step, and with copies has it copied. */
static inline void all_save_step(struct rig *r, uint64_t step, bool copies,
                                 int64_t now_ms)
{
    struct dlr_version v = {.round = r->c->round, .step = step};

    for (unsigned i = 0; i < r->c->world; i++) {
        dlr_commit_sealed(r->c, i, v, v.step, now_ms);
        if (copies)
            dlr_commit_copied(r->c, i, 1, v, now_ms + 3);
    }
}

static inline void all_save(struct rig *r, bool copies, int64_t now_ms)
{
    all_save_step(r, r->seen.save.step, copies, now_ms);
}

#endif
