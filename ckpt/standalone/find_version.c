/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/standalone/find_version.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/standalone/agreement.h"
#include "ckpt/standalone/files.h"
#include "common/base/cleanup.h"
#include "common/base/log.h"

/* While it is looked for. */
struct search {
    struct dlr_ckpt *ck;
    int dirfd;
    struct dlr_standalone_found *found;
};

static void doubt(struct dlr_standalone_found *found, const struct dlr_err *err)
{
    if (found->why.code == 0)
        found->why = *err;
}

/* What the head of rank 0's file says; one that cannot be read is remembered. */
static int look(const struct search *s, uint64_t step, uint32_t *ret_world)
{
    struct dlr_slot_info info;
    struct dlr_err err;
    int rc = dlr_standalone_map(s->dirfd, 0, step, NULL, &info, &err);

    if (rc == 0)
        *ret_world = info.world;
    else if (rc != -ENOENT)
        doubt(s->found, &err);
    return rc;
}

static int made_by(void *arg, uint64_t step, uint32_t *ret_world)
{
    return look(arg, step, ret_world);
}

static int check_file(void *arg, int rank, uint64_t step, uint32_t world,
                      const struct dlr_alive *alive)
{
    const struct search *s = arg;
    struct dlr_standalone_head first = {0};
    struct dlr_slot_info info;
    struct dlr_err err;
    int rc = dlr_standalone_check(s->dirfd, rank, step, alive, &info, &err);

    if (rc == 0)
        rc = dlr_standalone_head(s->dirfd, 0, step, &first);
    if (rc == 0 && (info.world != world || info.key != first.line))
        rc = dlr_fail(&err, -EBADMSG,
                      "rank %d's file of step %" PRIu64
                      " is of another start than rank 0's",
                      rank, step);
    if (rc < 0)
        doubt(s->found, &err);
    return rc;
}

static int set_aside(const struct search *s, int rank, uint64_t from)
{
    const struct dlr_standalone_which which = {
        .rank = rank, .from = from, .to = UINT64_MAX};
    struct dlr_err err;
    int rc = dlr_standalone_set_aside(s->dirfd, &which, &err);

    if (rc < 0)
        dlr_warn("%s", err.text);
    return rc;
}

/* What is newer was corrupt or of some ranks only. Were it still there when the first
 * of us writes the same step again, and all were killed then, files of two lines of
 * steps would make a version. All wait for rank 0's decision, so none has begun yet
 * (who gave up loses what it has saved since, of a version that not all have). Not
 * removed: a program may yet refuse to go on from an older version, or from none.
 */
static int settle(void *arg, uint64_t from)
{
    const struct search *s = arg;

    return from > 0 || s->ck->conf.fresh ? set_aside(s, -1, from) : 0;
}

/* The steps, newest first, of which every rank that made it has a file: what a start
 * has begun to write before this rank came is not among them. Their number.
 */
static int find_steps(struct search *s, uint64_t **ret_steps)
{
    struct dlr_err *err = &s->ck->err;
    DLR_AUTO_FREE uint64_t *all = NULL;
    DLR_AUTO_FREE uint64_t *steps = NULL; /* of a version that world ranks made */
    int n = dlr_standalone_complete(s->dirfd, 1, &all, err), out = 0, m = 0;
    uint32_t world = 0, made = 0;

    for (int i = 0; i < n; i++) {
        if (look(s, all[i], &made) < 0)
            continue;
        if (made != world) {
            free(DLR_STEAL(steps));
            m = dlr_standalone_complete(s->dirfd, (int)made, &steps, err);
            if (m < 0)
                return m;
            world = made;
        }
        for (int k = 0; k < m; k++)
            if (steps[k] == all[i])
                all[out++] = all[i];
    }
    *ret_steps = DLR_STEAL(all);
    return n < 0 ? n : out;
}

/* Reads the files of all ranks: each that does comes to the same without a word between
 * them.
 */
static void choose_alone(struct search *s, const uint64_t *steps, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        uint32_t world = 0;
        int rc = look(s, steps[i], &world);

        for (uint32_t rank = 0; rc == 0 && rank < world; rank++)
            rc = check_file(s, (int)rank, steps[i], world, NULL);
        if (rc < 0)
            continue; /* an older one may be whole */
        s->found->step = steps[i];
        s->found->world = world;
        return;
    }
}

/* Files that make no version: the first save of a start was cut short, or ranks do not
 * share the directory.
 */
static void say_incomplete(const struct search *s)
{
    DLR_AUTO_FREE struct dlr_standalone_file *files = NULL;
    int n = dlr_standalone_scan(s->dirfd, &files, NULL);

    for (int i = 0; i < n; i++)
        if (files[i].rank == s->ck->conf.rank) {
            dlr_warn("the files in '%s' make no version: other ranks have none of step "
                     "%" PRIu64 " (was its save cut short? do all ranks share the "
                     "directory?); nothing is restored",
                     s->ck->conf.dir, files[i].step);
            return;
        }
}

static int refuse(const struct search *s)
{
    const struct dlr_err *why = &s->found->why;

    return dlr_fail(&s->ck->err, -EBADMSG,
                    "no version in '%s' is whole: %s; DLROVER_CKPT_FRESH=on sets the "
                    "files aside and begins anew",
                    s->ck->conf.dir,
                    why->code ? why->text : "see the other ranks' lines");
}

/* What is not restored is told, and told from nothing. */
static int tell(const struct search *s, unsigned n)
{
    const struct dlr_err *why = &s->found->why;

    if (s->found->world > 0) {
        if (why->code)
            dlr_warn("%s; step %" PRIu64 " is restored", why->text, s->found->step);
        return 0;
    }
    if (n == 0 && !why->code) {
        say_incomplete(s);
        return 0;
    }
    if (!s->ck->conf.fresh)
        return refuse(s);
    dlr_warn("%s; DLROVER_CKPT_FRESH=on: nothing is restored",
             why->code ? why->text : "no version is whole");
    return 0;
}

/* 1, 0: as dlr_agreement_choose(); -ENOTSUP where ranks do not talk. */
static int agree(struct search *s, const uint64_t *steps, unsigned n)
{
    const struct dlr_client_conf *conf = &s->ck->conf;
    const struct dlr_agreement with = {s->dirfd,       conf->rank, conf->world,
                                       conf->agree_ms, made_by,    check_file,
                                       settle,         s};
    struct dlr_standalone_found *found = s->found;
    struct dlr_err err;
    int rc;

    if (n == 0 || with.world == 1 || with.limit_ms == 0)
        return -ENOTSUP; /* with n == 0 nor will others find anything */
    rc = dlr_agreement_choose(&with, steps, n, &found->step, &found->world, &err);
    if (rc < 0)
        dlr_warn("reading the files of all ranks: %s", err.text);
    if (rc <= 0)
        found->world = 0;
    return rc;
}

/* All files of what was found are of one line: that of the first whose head can be read
 * now.
 */
static int find_line(const struct search *s)
{
    struct dlr_standalone_found *found = s->found;
    struct dlr_standalone_head head;
    int rc = -ENOENT;

    for (uint32_t rank = 0; rc < 0 && rank < found->world; rank++)
        rc = dlr_standalone_head(s->dirfd, (int)rank, found->step, &head);
    if (rc < 0)
        return dlr_fail(&s->ck->err, rc,
                        "no file of step %" PRIu64 " in '%s' can be read again: %s",
                        found->step, s->ck->conf.dir, strerror(-rc));
    found->line = head.line;
    memcpy(found->program, head.program, sizeof(found->program));
    return 0;
}

int dlr_standalone_choose(struct dlr_ckpt *ck, int dirfd,
                          struct dlr_standalone_found *found)
{
    struct search s = {ck, dirfd, found};
    DLR_AUTO_FREE uint64_t *steps = NULL;
    int n, rc;

    *found = (struct dlr_standalone_found){0};
    n = find_steps(&s, &steps);
    if (n < 0)
        return n;
    rc = agree(&s, steps, (unsigned)n);
    if (rc < 0)
        choose_alone(&s, steps, (unsigned)n);
    if (tell(&s, (unsigned)n) < 0)
        return ck->err.code;
    /* Where nobody decides: of what others have nobody knows whether it is old. Alone
     * it is done when the program begins.
     */
    if (rc < 0 && ck->conf.world > 1)
        set_aside(&s, ck->conf.rank, found->world > 0 ? found->step + 1 : 0);
    rc = found->world > 0 ? find_line(&s) : 0;
    found->chosen = rc == 0;
    return rc;
}

int dlr_standalone_open_rank(int dirfd, const struct dlr_standalone_found *found,
                             int rank, struct dlr_slot **ret, struct dlr_err *err)
{
    struct dlr_slot_info info;

    return dlr_standalone_map(dirfd, rank, found->step, ret, &info, err);
}

/* Rank 0 looks at the heads of all, the others at their own and rank 0's: each at all
 * would be the square.
 */
static bool same_heads(const struct search *s, uint64_t step)
{
    const int rank = s->ck->conf.rank;
    struct dlr_standalone_head first, own;

    if (rank == 0)
        return dlr_standalone_same(s->dirfd, step, &first);
    if (dlr_standalone_head(s->dirfd, 0, step, &first) < 0)
        return false;
    return (uint32_t)rank >= first.world ||
           (dlr_standalone_head(s->dirfd, rank, step, &own) == 0 &&
            own.line == first.line && own.world == first.world);
}

/* Whether the files of a version, which are all there, belong together. Those that do
 * not are remembered: restore refuses them, too.
 */
static bool belongs(const struct search *s, uint64_t step)
{
    struct dlr_err err;

    if (same_heads(s, step))
        return true;
    dlr_fail(&err, -EBADMSG,
             "the head of a rank's file of step %" PRIu64
             " is corrupt, or of another start than rank 0's",
             step);
    doubt(s->found, &err);
    return false;
}

int dlr_standalone_versions(struct dlr_ckpt *ck, int dirfd,
                            struct dlr_ckpt_version *ret, unsigned max)
{
    struct dlr_standalone_found found = {0};
    struct search s = {ck, dirfd, &found};
    DLR_AUTO_FREE uint64_t *steps = NULL;
    int n = find_steps(&s, &steps);
    uint32_t world = 0;
    unsigned out = 0;

    for (int i = 0; i < n && out < max; i++) {
        struct dlr_slot_info own;

        if (look(&s, steps[i], &world) < 0 || !belongs(&s, steps[i]))
            continue;
        if (dlr_standalone_map(dirfd, ck->conf.rank, steps[i], NULL, &own, NULL) < 0 ||
            own.world != world)
            own.data_bytes = 0;
        ret[out++] = (struct dlr_ckpt_version){0, steps[i], own.data_bytes, world};
    }
    if (n >= 0 && out == 0 && max > 0 && tell(&s, 0) < 0)
        return ck->err.code;
    return n < 0 ? n : (int)out;
}
