/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/standalone/agreement.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/random.h>
#include <unistd.h>

#include "ckpt/base/crc32c.h"
#include "ckpt/standalone/vote.h"
#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/str.h"

/* Nothing tells that another node has written to a shared directory. */
#define LOOK_MS 100
#define BEATS 8 /* words of one that works, within the limit */
#define NAME_ROOM 32

struct talk {
    const struct dlr_agreement *a;
    struct dlr_vote own;
    uint64_t *heard; /* of rank 0: [world], 0: nothing yet */
    uint32_t *beats; /* of rank 0: [world], of the last words */
    int64_t said_ms; /* the last word */
    int watch;       /* of the directory, -1: there is none */
    unsigned limit_ms;
    int64_t deadline_ms;
};

/* --- words ------------------------------------------------------------------------ */

static void name_of(uint32_t rank, const char *end, char buf[NAME_ROOM])
{
    dlr_format(buf, NAME_ROOM, ".agree-%" PRIu32 "%s", rank, end);
}

/* A word is replaced as a whole and need not outlive a crash: then nobody waits for it.
 */
static int say(struct talk *t, enum dlr_vote_verdict verdict)
{
    size_t list = dlr_vote_list(t->own.rank, t->own.world, verdict);
    size_t bytes = sizeof(t->own) + list;
    DLR_AUTO_FREE char *text = malloc(bytes + sizeof(uint32_t));
    DLR_AUTO_CLOSE int fd = -1;
    char name[NAME_ROOM], other[NAME_ROOM];
    uint32_t crc;
    int rc;

    if (!text)
        return -ENOMEM;
    t->own.verdict = verdict;
    t->own.beat++;
    t->said_ms = dlr_now_ms();
    memcpy(text, &t->own, sizeof(t->own));
    if (list > 0)
        memcpy(text + sizeof(t->own), t->heard, list);
    crc = dlr_crc32c(0, text, bytes);
    memcpy(text + bytes, &crc, sizeof(crc));
    name_of(t->own.rank, "", name);
    name_of(t->own.rank, ".new", other);
    fd = openat(t->a->dirfd, other, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    rc = dlr_write_all(fd, text, bytes + sizeof(crc));
    if (rc == 0 && renameat(t->a->dirfd, other, t->a->dirfd, name) < 0)
        rc = -errno;
    return rc;
}

/* The same word again, when it is time. One that cannot be said costs no more than the
 * others' time.
 */
static void say_again(void *arg)
{
    struct talk *t = arg;

    if (dlr_now_ms() - t->said_ms >= t->a->limit_ms / BEATS)
        say(t, t->own.verdict);
}

/* What rank says, if it is one of as many as we are; its place in a decision is
 * *ret_heard.
 */
static bool listen_to(const struct talk *t, uint32_t rank, struct dlr_vote *ret,
                      uint64_t *ret_heard)
{
    const size_t most =
        sizeof(*ret) + (size_t)t->own.world * sizeof(uint64_t) + sizeof(uint32_t);
    DLR_AUTO_FREE char *text = NULL;
    char name[NAME_ROOM];
    size_t bytes;

    name_of(rank, "", name);
    return dlr_file_load_own(t->a->dirfd, name, most, &text, &bytes, NULL) == 0 &&
           dlr_vote_parse(text, bytes, rank, t->own.world, t->own.rank, ret,
                          ret_heard) == 0;
}

/* Removes the words of ranks from `from` on; one that stays costs nobody anything. */
static void remove_words(int dirfd, uint32_t from)
{
    DLR_AUTO_CLOSE int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DLR_AUTO_CLOSEDIR DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir)
        return;
    dlr_steal_fd(&fd);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        char name[NAME_ROOM], other[NAME_ROOM];
        uint32_t rank;

        if (sscanf(entry->d_name, ".agree-%10" SCNu32, &rank) != 1 || rank < from)
            continue;
        name_of(rank, "", name);
        name_of(rank, ".new", other);
        if (dlr_streq(entry->d_name, name) || dlr_streq(entry->d_name, other))
            unlinkat(dirfd, entry->d_name, 0);
    }
}

/* --- waiting ---------------------------------------------------------------------- */

static void wait_from_now(struct talk *t)
{
    t->deadline_ms = dlr_now_ms() + t->limit_ms;
}

/* NFS says "no such file" from memory until it looks at the directory again, which may
 * take acdirmax (60 s); it looks when one is opened (nfs(5): "Directory entry caching",
 * "Close-to-open cache consistency").
 */
static void forget_names(int dirfd)
{
    int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0)
        close(fd);
}

/* Until something may have been said. False when the limit is over. */
static bool wait_for_words(struct talk *t)
{
    char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    struct pollfd p = {t->watch, POLLIN, 0};
    int64_t left = t->deadline_ms - dlr_now_ms();

    if (left <= 0)
        return false;
    poll(&p, 1, left < LOOK_MS ? (int)left : LOOK_MS);
    while (t->watch >= 0 && read(t->watch, events, sizeof(events)) > 0)
        ;
    forget_names(t->a->dirfd);
    return true;
}

/* Without it they look each LOOK_MS, as they do for what other nodes write. */
static int watch(int dirfd)
{
    DLR_AUTO_CLOSE int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    char path[32];

    dlr_format(path, sizeof(path), "/proc/self/fd/%d", dirfd);
    if (fd < 0 || inotify_add_watch(fd, path, IN_MOVED_TO) < 0)
        return -1;
    return dlr_steal_fd(&fd);
}

/* The files of a version that a rank of this world looks at, while others learn that
 * this one goes on.
 */
static bool check_share(struct talk *t, uint32_t rank)
{
    const struct dlr_alive alive = {say_again, t};

    for (uint64_t r = rank; r < t->own.made_by; r += (uint32_t)t->a->world)
        if (t->a->check(t->a->arg, (int)r, t->own.step, t->own.made_by, &alive) < 0)
            return false;
    return true;
}

/* --- rank 0 ----------------------------------------------------------------------- */

/* Takes the answers that have come. How many ranks have not answered; *ret_sound
 * becomes false with the first that found something corrupt.
 */
static unsigned take_answers(struct talk *t, bool *answered, bool *ret_sound)
{
    uint64_t nothing;
    unsigned left = 0;
    struct dlr_vote w;

    for (uint32_t k = 1; k < (uint32_t)t->a->world; k++) {
        if (answered[k])
            continue;
        left++;
        if (!listen_to(t, k, &w, &nothing) || w.asked != t->own.nonce ||
            w.step != t->own.step || w.beat == t->beats[k])
            continue;
        t->beats[k] = w.beat;
        wait_from_now(t);
        if (w.verdict == DLR_VOTE_READING)
            continue;
        answered[k] = true;
        left--;
        t->heard[k] = w.nonce;
        *ret_sound = *ret_sound && w.verdict == DLR_VOTE_SOUND;
    }
    return left;
}

/* Whether all files of the version asked about are right. */
static int ask_all(struct talk *t, bool *ret_sound)
{
    DLR_AUTO_FREE bool *answered = calloc((size_t)t->a->world, sizeof(*answered));
    int rc = answered ? say(t, DLR_VOTE_ASKED) : -ENOMEM;
    bool sound;

    if (rc < 0)
        return rc;
    memset(t->beats, 0, (size_t)t->a->world * sizeof(*t->beats));
    sound = t->own.made_by > 0 && check_share(t, 0);
    wait_from_now(t);
    while (take_answers(t, answered, &sound) > 0 && wait_for_words(t))
        say_again(t);
    for (uint32_t k = 1; sound && k < (uint32_t)t->a->world; k++) {
        if (answered[k])
            continue;
        rc = say(t, DLR_VOTE_ASKED); /* those that wait see that it goes on */
        if (rc < 0)
            return rc;
        sound = check_share(t, k);
    }
    *ret_sound = sound;
    return 0;
}

static int lead(struct talk *t, const uint64_t *steps, unsigned n)
{
    int rc;

    remove_words(t->a->dirfd, t->own.world); /* the world was larger before */
    for (unsigned i = 0; i < n; i++) {
        bool sound = false;

        t->own.step = steps[i];
        if (t->a->made_by(t->a->arg, steps[i], &t->own.made_by) < 0)
            t->own.made_by = 0; /* asked all the same: a decision names who was heard */
        rc = ask_all(t, &sound);
        if (rc < 0)
            return rc;
        if (sound) {
            rc = t->a->settle(t->a->arg, steps[i] + 1);
            rc = rc < 0 ? rc : say(t, DLR_VOTE_SOUND);
            return rc < 0 ? rc : 1;
        }
    }
    rc = t->a->settle(t->a->arg, 0);
    return rc < 0 ? rc : say(t, DLR_VOTE_NONE);
}

/* --- the others ------------------------------------------------------------------- */

static int answer(struct talk *t, const struct dlr_vote *question)
{
    t->own.asked = question->nonce;
    t->own.step = question->step;
    t->own.made_by = question->made_by;
    t->own.verdict = DLR_VOTE_READING; /* which is said when it takes long */
    t->said_ms = dlr_now_ms();
    return say(t, check_share(t, t->own.rank) ? DLR_VOTE_SOUND : DLR_VOTE_UNSOUND);
}

static int follow(struct talk *t)
{
    uint64_t heard;
    struct dlr_vote w, last = {0};

    wait_from_now(t);
    do {
        if (!listen_to(t, 0, &w, &heard) || memcmp(&w, &last, sizeof(w)) == 0)
            continue;
        last = w;
        if (heard == t->own.nonce) {
            t->own.step = w.step;
            t->own.made_by = w.made_by;
            return w.verdict == DLR_VOTE_SOUND;
        }
        if (w.verdict == DLR_VOTE_ASKED &&
            (w.nonce != t->own.asked || w.step != t->own.step)) {
            int rc = answer(t, &w);

            if (rc < 0)
                return rc;
        }
        wait_from_now(t);
    } while (wait_for_words(t));
    return -ETIMEDOUT;
}

static int talk(struct talk *t, const uint64_t *steps, unsigned n)
{
    char name[NAME_ROOM];
    int rc;

    if (getrandom(&t->own.nonce, sizeof(t->own.nonce), 0) != sizeof(t->own.nonce))
        return -EIO;
    t->own.nonce |= 1; /* 0 is nobody's */
    /* Those that have answered must not give rank 0 up while it waits for one that does
     * not come.
     */
    t->limit_ms = t->own.rank == 0 ? t->a->limit_ms / 2 : t->a->limit_ms;
    if (t->own.rank == 0)
        return lead(t, steps, n);
    rc = follow(t);
    name_of(t->own.rank, "", name);
    unlinkat(t->a->dirfd, name,
             0); /* it was for rank 0, which has decided or is gone */
    return rc;
}

int dlr_agreement_choose(const struct dlr_agreement *a, const uint64_t *steps,
                         unsigned n, uint64_t *ret_step, uint32_t *ret_world,
                         struct dlr_err *err)
{
    DLR_AUTO_FREE uint64_t *heard = calloc((size_t)a->world, sizeof(*heard));
    DLR_AUTO_FREE uint32_t *beats = calloc((size_t)a->world, sizeof(*beats));
    DLR_AUTO_CLOSE int fd = watch(a->dirfd);
    struct talk t = {.a = a,
                     .own = {.magic = DLR_VOTE_MAGIC,
                             .rank = (uint32_t)a->rank,
                             .world = (uint32_t)a->world},
                     .heard = heard,
                     .beats = beats,
                     .watch = fd};
    int rc = heard && beats ? talk(&t, steps, n) : -ENOMEM;

    if (rc == -ETIMEDOUT)
        return dlr_fail(err, rc, "no vote of rank 0 within %u ms", a->limit_ms);
    if (rc < 0)
        return dlr_fail(err, rc, "cannot talk to the other ranks: %s", strerror(-rc));
    *ret_step = t.own.step;
    *ret_world = t.own.made_by;
    return rc;
}

void dlr_agreement_forget(int dirfd)
{
    remove_words(dirfd, 0);
}
