/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/standalone/retention.h"

#include <inttypes.h>

#include "ckpt/standalone/agreement.h"
#include "ckpt/standalone/lineage.h"
#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "common/base/str.h"

#define KEEP 2  /* versions that all ranks have */
#define ASIDE 2 /* files of each rank that stay of those that were set aside */

struct dlr_standalone_which
dlr_standalone_own_files(const struct dlr_standalone_own *own, uint64_t from,
                         uint64_t to)
{
    return (struct dlr_standalone_which){.rank = own->rank,
                                         .beyond = own->rank == 0 ? own->world : 0,
                                         .from = from,
                                         .to = to};
}

static void go_on_as(struct dlr_standalone_own *own, uint64_t step, uint64_t line)
{
    own->goes_on = true;
    own->from = step;
    own->line = line;
    own->since_ns = 0; /* the number tells all: a clock may be set back */
}

void dlr_standalone_lineage_go_on(struct dlr_standalone_own *own, uint64_t step,
                                  uint64_t parent, const char *program)
{
    go_on_as(own, step, dlr_standalone_line_after(parent, step));
    own->parent = parent;
    own->of_another = *program && *own->program && !dlr_streq(program, own->program);
    if (own->of_another && own->rank == 0)
        dlr_warn("step %" PRIu64 " was saved by '%s', and this is '%s', which goes on "
                 "from it: what '%s' has saved is set aside later, and not removed "
                 "(DLROVER_CKPT_DIR: a directory for each program)",
                 step, program, own->program, program);
}

/* By which number this start's files are known. Who begins with a step that is not
 * after what rank 0 restored has none of it.
 */
static int find_line(struct dlr_standalone_own *own, uint64_t key, uint64_t first,
                     struct dlr_err *err)
{
    uint64_t step, line;

    if (own->goes_on)
        return 0;
    if (own->world == 1) {
        own->since_ns = 0;
        return dlr_standalone_line_new(&own->line, err);
    }
    own->line = key;
    if (own->rank > 0 && dlr_standalone_line_said(own->dirfd, 0, &step, &line) &&
        first > step)
        go_on_as(own, step, line);
    return 0;
}

/* What is newer than what was restored is of another line of steps. Of what a program
 * does not restore, one of several ranks sets aside what is newer than its first step,
 * since its files are not told from that: a later start must not mix them. One rank's
 * files are told from others', and it leaves all there until it has a version of its
 * own.
 */
int dlr_standalone_begin(struct dlr_standalone_own *own, uint64_t key, uint64_t step,
                         struct dlr_err *err)
{
    struct dlr_standalone_which newer;
    int rc = find_line(own, key, step, err);

    if (rc < 0)
        return rc;
    newer =
        dlr_standalone_own_files(own, own->goes_on ? own->from + 1 : step, UINT64_MAX);
    own->begun = true;
    own->first = step;
    if (own->locked) /* else somebody may be writing them */
        rc = dlr_standalone_sweep(own->dirfd, own->rank, err);
    if (rc == 0 && (own->goes_on || own->world > 1))
        rc = dlr_standalone_set_aside(own->dirfd, &newer, err);
    return rc;
}

/* Whether the files of a version are of one line, and this rank's head. To look at all
 * of them is for rank 0, and for the rank whose file has made the version complete;
 * others look at their own and rank 0's.
 */
static bool is_one(const struct dlr_standalone_own *own, uint64_t step, bool all,
                   struct dlr_standalone_head *ret_first,
                   struct dlr_standalone_head *ret_mine)
{
    if (all && !dlr_standalone_same(own->dirfd, step, ret_first))
        return false;
    return dlr_standalone_head(own->dirfd, 0, step, ret_first) == 0 &&
           dlr_standalone_head(own->dirfd, own->rank, step, ret_mine) == 0 &&
           ret_first->line == ret_mine->line;
}

/* Its steps follow those of what it goes on from; else they have begun anew. */
static bool goes_on_after(const struct dlr_standalone_own *own)
{
    return own->goes_on && own->from < own->first;
}

/* Whether a version of which all ranks have a file is of this line, or of what it goes
 * on from.
 */
static bool is_ours(const struct dlr_standalone_own *own, uint64_t step, bool all,
                    bool *ret_line)
{
    struct dlr_standalone_head first, mine;

    if (!is_one(own, step, all, &first, &mine))
        return false;
    *ret_line = first.line == own->line && mine.wall_ns >= own->since_ns;
    return *ret_line || (goes_on_after(own) && step <= own->from);
}

/* This rank's files of other lines. */
static struct dlr_standalone_which other_files(const struct dlr_standalone_own *own,
                                               uint64_t from, uint64_t to)
{
    struct dlr_standalone_which which = dlr_standalone_own_files(own, from, to);

    which.others = true;
    which.line = own->line;
    which.since_ns = own->since_ns;
    return which;
}

/* What would be restored in place of this line makes way: the first version of it is
 * whole. What it goes on from does, too, where its steps have begun anew.
 */
static int take_over(struct dlr_standalone_own *own, struct dlr_err *err)
{
    const struct dlr_standalone_which which = other_files(own, own->first, UINT64_MAX);
    int rc = goes_on_after(own) ? 0 : dlr_standalone_set_aside(own->dirfd, &which, err);

    own->took_over = rc == 0; /* else with the next file */
    return rc;
}

static bool is_known(const uint64_t kin[DLR_STANDALONE_KIN], unsigned n, uint64_t line)
{
    for (unsigned i = 0; i < n; i++)
        if (kin[i] == line)
            return true;
    return false;
}

/* The lines that this one goes on from, one from the other: the version that it went on
 * from is there for as long as others of that line are.
 */
static int find_kin(const struct dlr_standalone_own *own,
                    uint64_t kin[DLR_STANDALONE_KIN], struct dlr_err *err)
{
    DLR_AUTO_FREE struct dlr_standalone_file *files = NULL;
    int count = dlr_standalone_scan(own->dirfd, &files, err);
    unsigned n = 0;

    kin[n++] = own->line;
    for (unsigned k = 0; k < n; k++)
        for (int i = 0; i < count && n < DLR_STANDALONE_KIN; i++) {
            struct dlr_standalone_head head;

            if ((files[i].rank == own->rank || files[i].rank == 0) &&
                dlr_standalone_head(own->dirfd, files[i].rank, files[i].step, &head) ==
                    0 &&
                dlr_standalone_line_after(head.line, files[i].step) == kin[k] &&
                !is_known(kin, n, head.line))
                kin[n++] = head.line;
        }
    return count < 0 ? count : 0;
}

/* Those that others than this program's starts have saved. */
static int set_others_aside(const struct dlr_standalone_own *own, uint64_t from,
                            uint64_t to, struct dlr_err *err)
{
    struct dlr_standalone_which others = other_files(own, from, to);
    int rc = 0;

    if (own->goes_on && own->cleared)
        return 0;
    if (own->goes_on && !own->of_another)
        rc = find_kin(own, others.kin, err);
    return rc < 0 ? rc : dlr_standalone_set_aside(own->dirfd, &others, err);
}

/* This rank's files of steps in [from, to) go; another program's are set aside. */
static int drop(const struct dlr_standalone_own *own, uint64_t from, uint64_t to,
                struct dlr_err *err)
{
    struct dlr_standalone_which which = dlr_standalone_own_files(own, from, to);
    int rc = set_others_aside(own, from, to, err);

    which.of_lines = !own->locked;
    which.line = own->line;
    which.parent = own->of_another ? own->line : own->parent;
    if (rc == 0 && own->locked)
        rc = dlr_standalone_retire(own->dirfd, own->rank, from, to, err);
    if (rc == 0)
        rc = dlr_standalone_remove(own->dirfd, &which, err);
    if (!own->locked)
        return rc;
    return rc < 0
               ? rc
               : dlr_standalone_prune(own->dirfd, which.rank, which.beyond, ASIDE, err);
}

/* Whether it is of our line and of a start that was killed: it was sealed before this
 * one was there. Of ranks that come one after the other the first may have ended well
 * before the last one begins.
 */
static bool is_left(const struct dlr_standalone_own *own, int rank, uint64_t step)
{
    struct dlr_standalone_head head;

    return dlr_standalone_head(own->dirfd, rank, step, &head) == 0 &&
           head.line == own->line && head.wall_ns < own->opened_ns &&
           dlr_standalone_was_killed(own->dirfd, rank);
}

static int part_from(const struct dlr_standalone_own *own, int rank, uint64_t step,
                     struct dlr_err *err)
{
    const struct dlr_standalone_which which = {
        .rank = rank, .from = step, .to = step + 1};

    if (!is_left(own, rank, step))
        return 0;
    dlr_warn("rank %d's file of step %" PRIu64 " is of a start before this one: it is "
             "set aside",
             rank, step);
    return dlr_standalone_set_aside(own->dirfd, &which, err);
}

int dlr_standalone_part(struct dlr_standalone_own *own, uint64_t step,
                        struct dlr_err *err)
{
    DLR_AUTO_FREE struct dlr_standalone_file *files = NULL;
    int n, rc = 0;

    if (own->world == 1 || own->settled || !own->locked || !own->together)
        return 0;
    if (own->rank > 0)
        return part_from(own, 0, step, err);
    n = dlr_standalone_scan(own->dirfd, &files, err);
    for (int i = 0; rc == 0 && i < n; i++)
        if (files[i].step == step && files[i].rank > 0)
            rc = part_from(own, files[i].rank, step, err);
    return n < 0 ? n : rc;
}

/* Older files that make no version any more, since another rank has removed its own. */
static int follow(const struct dlr_standalone_own *own, uint64_t to,
                  struct dlr_err *err)
{
    DLR_AUTO_FREE struct dlr_standalone_file *files = NULL;
    int n = dlr_standalone_scan(own->dirfd, &files, err), rc = n < 0 ? n : 0;

    for (int i = 0; rc == 0 && i < n; i++) {
        const uint64_t step = files[i].step;
        struct dlr_standalone_head head;

        if (files[i].rank == own->rank && step < to &&
            dlr_standalone_head(own->dirfd, own->rank, step, &head) == 0 &&
            !dlr_standalone_all(own->dirfd, head.world, step))
            rc = drop(own, step, step + 1, err);
    }
    return rc;
}

/* All ranks have saved step, and one after it, and it is none: not all go on from the
 * same.
 */
static void tell_mixed(struct dlr_standalone_own *own, uint64_t step)
{
    struct dlr_standalone_head head;

    if (own->told_mixed || own->world == 1 || step < own->first ||
        dlr_standalone_same(own->dirfd, step, &head) ||
        !dlr_standalone_all(own->dirfd, (uint32_t)own->world, step))
        return; /* or one has gone since, for a version that another rank made whole */
    own->told_mixed = true;
    dlr_warn("step %" PRIu64 " and later ones cannot be restored: the ranks' files are "
             "of different starts (all ranks restore, or none, or rank 0 before the "
             "others begin)",
             step);
}

int dlr_standalone_drop_old(struct dlr_standalone_own *own, uint64_t written,
                            struct dlr_err *err)
{
    DLR_AUTO_FREE uint64_t *steps = NULL;
    int n = dlr_standalone_complete(own->dirfd, own->world, &steps, err), rc = 0;
    bool last = n > 0 && steps[0] == written, all = last || own->rank == 0;
    unsigned whole = 0;

    for (int i = 0; rc == 0 && i < n && whole < KEEP; i++) {
        bool of_line = false;

        if (!is_ours(own, steps[i], all, &of_line)) {
            if (i > 0)
                tell_mixed(own, steps[i]);
            continue;
        }
        whole++;
        own->settled = own->settled || (of_line && whole == KEEP);
        if (of_line && own->words) {
            dlr_agreement_forget(own->dirfd); /* all ranks have gone on from it */
            own->words = false;
        }
        if (of_line && !own->took_over)
            rc = take_over(own, err);
        if (rc == 0 && whole == KEEP) {
            rc = all ? drop(own, 0, steps[i], err) : follow(own, steps[i], err);
            own->cleared = rc == 0 && all && of_line;
        }
    }
    return n < 0 ? n : rc;
}
