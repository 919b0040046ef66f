/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/open wrap=renameat,dlr_wall_ns,dlr_standalone_head */
/* Without a job: what a directory holds that is not this start's. Nothing of it is
 * lost, and nothing is passed over without a word.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/base/crc32c.h"
#include "ckpt/ckpt.h"
#include "ckpt/persist/slot_file.h"
#include "ckpt/slot/meta.h"
#include "ckpt/slot/write.h"
#include "ckpt/standalone/files.h"
#include "common/base/log.h"
#include "common/base/str.h"
#include "tests/support/flip.h"
#include "tests/unit/ckpt/standalone/standalone_run.h"

static bool full;       /* nothing can be set aside */
static int64_t back_ns; /* the clock was set back by so much */

int __real_renameat(int from, const char *old, int to, const char *name);
int __wrap_renameat(int from, const char *old, int to, const char *name);
static unsigned heads, unreadable; /* heads that were read; the one that cannot be */

int64_t __real_dlr_wall_ns(void);
int64_t __wrap_dlr_wall_ns(void);

int __wrap_renameat(int from, const char *old, int to, const char *name)
{
    if (!full || !strstr(name, ".aside"))
        return __real_renameat(from, old, to, name);
    errno = ENOSPC;
    return -1;
}

int64_t __wrap_dlr_wall_ns(void)
{
    return __real_dlr_wall_ns() - back_ns;
}

int __real_dlr_standalone_head(int dirfd, int rank, uint64_t step,
                               struct dlr_standalone_head *ret);
int __wrap_dlr_standalone_head(int dirfd, int rank, uint64_t step,
                               struct dlr_standalone_head *ret);

int __wrap_dlr_standalone_head(int dirfd, int rank, uint64_t step,
                               struct dlr_standalone_head *ret)
{
    return ++heads == unreadable ? -EIO
                                 : __real_dlr_standalone_head(dirfd, rank, step, ret);
}

static void put_back(const char *from, const char *to)
{
    char a[128], b[128];

    dlr_format(a, sizeof(a), "%s/%s", dir, from);
    dlr_format(b, sizeof(b), "%s/%s", dir, to);
    assert_int_equal(rename(a, b), 0);
}

/* --- what is there and not whole -------------------------------------------------- */

static const struct spoilt {
    const char *name;
    int world;
    off_t at; /* of a bit in every file */
    const char *part;
} spoilt[] = {
    {"the data", 1, 1500000, "block 1"},
    {"the data of two ranks", 2, 1500000, "block 1"},
    {"the head", 1, 300, "r0-2.safetensors"},
    {"the header's length", 1, 1, "r0-2.safetensors"},
};

static void files_of_which_none_is_whole_are_an_error(void **state)
{
    for (size_t i = 0; i < sizeof(spoilt) / sizeof(*spoilt); i++) {
        const struct spoilt *s = &spoilt[i];
        uint64_t step = 0;
        char why[256];

        print_message("row '%s'\n", s->name);
        run("a", s->world, 1, 2);
        for (int rank = 0; rank < s->world; rank++)
            for (int k = 1; k <= 2; k++) {
                char name[64];

                dlr_format(name, sizeof(name), "r%d-%d.safetensors", rank, k);
                flip_bit(dir, name, s->at);
            }
        for (int life = 0; life < 2; life++) /* nor after it was tried */
            for (int rank = 0; rank < s->world; rank++) {
                assert_int_equal(restore("a", rank, s->world, &step, why), -EBADMSG);
                print_message("  %s\n", why);
                assert_non_null(strstr(why, s->part));
                assert_non_null(strstr(why, "DLROVER_CKPT_FRESH=on"));
            }
        assert_int_equal(count("safetensors"), 2 * s->world);
        assert_int_equal(count("aside"), 0);
        assert_int_equal(standalone_teardown(NULL), 0);
        assert_int_equal(setup(NULL), 0);
    }
}

/* As rank 0 of world, with the head of that file damaged. */
static void assert_no_empty_list(int world, const char *name)
{
    struct dlr_ckpt_version v;
    struct dlr_ckpt *ck;

    run("a", world, 1, 1);
    flip_bit(dir, name, 300);
    ck = open_as("a", 0, world);
    assert_int_equal(dlr_ckpt_list(ck, &v, 1), -EBADMSG);
    dlr_ckpt_close(ck);
}

static void heads_that_cannot_be_read_are_no_empty_list(void **state)
{
    assert_no_empty_list(1, "r0-1.safetensors");
}

static void nor_are_those_of_which_another_ranks_head_cannot_be_read(void **state)
{
    assert_no_empty_list(2, "r1-1.safetensors");
}

static void a_word_begins_anew_and_what_was_there_stays(void **state)
{
    struct dlr_ckpt *ck;
    uint64_t step;

    run("a", 1, 1, 2);
    flip_bit(dir, "r0-1.safetensors", 1500000);
    flip_bit(dir, "r0-2.safetensors", 1500000);
    setenv("DLROVER_CKPT_FRESH", "on", 1);
    ck = open_as("a", 0, 1);
    assert_int_equal(dlr_ckpt_restore(ck, &step), 0);
    for (step = 1; step <= 6; step++)
        save(ck, "a", 0, step);
    dlr_ckpt_close(ck);
    assert_int_equal(count(".aside"), 2);
    assert_non_null(strstr(said, "block 1"));
    assert_restores("a", 1, 6); /* the word says nothing where something is whole */
}

static void going_back_to_an_older_version_is_said(void **state)
{
    run("a", 1, 1, 2);
    flip_bit(dir, "r0-2.safetensors", 1500000);
    assert_restores("a", 1, 1);
    assert_non_null(strstr(said, "rank 0's file of step 2: block 1"));
}

static void what_failed_verification_is_kept(void **state)
{
    struct dlr_ckpt *ck;
    uint64_t step;

    run("a", 1, 1, 2);
    flip_bit(dir, "r0-2.safetensors", 1500000);
    ck = open_as("a", 0, 1);
    assert_int_equal(dlr_ckpt_restore(ck, &step), 1);
    assert_int_equal(step, 1);
    for (step = 2; step < 9; step++)
        save(ck, "a", 0, step);
    dlr_ckpt_close(ck);
    put_back("r0-2.safetensors.aside-1", "r0-9.safetensors");
}

/* The very first save of all ranks was cut short: nothing is lost by beginning again.
 */
static void files_that_never_made_a_version_are_a_fresh_start(void **state)
{
    struct dlr_ckpt *ck = open_as("a", 0, 2);
    uint64_t step;
    char why[256];

    save(ck, "a", 0, 1);
    dlr_ckpt_close(ck);
    for (int rank = 0; rank < 2; rank++)
        assert_int_equal(restore("a", rank, 2, &step, why), 0);
    assert_non_null(strstr(said, "make no version"));
    assert_int_equal(count(".aside"), 1);
}

/* --- another program -------------------------------------------------------------- */

static void another_program_leaves_the_versions_until_its_own_is_whole(void **state)
{
    struct dlr_ckpt *y;
    uint64_t step;

    for (int later = 0; later < 2; later++) {
        run("x", 1, 7, 8);
        y = open_as("y", 0, 1);
        assert_true(there("r0-7.safetensors") && there("r0-8.safetensors"));
        if (later)
            dlr_ckpt_progress(y, 1);
        fill("y", 0, 2);
        assert_int_equal(dlr_ckpt_begin(y, 2, NULL), 1);
        dlr_ckpt_fence(y, NULL);
        for (step = 3; step < 20; step++)
            save(y, "y", 0, step);
        dlr_ckpt_close(y);
        assert_restores("y", 1, 19);
        for (int k = 17; k < 20; k++) {
            char name[64];

            dlr_format(name, sizeof(name), "r0-%d.safetensors", k);
            if (there(name))
                put_back(name, "of-y");
        }
        put_back("r0-7.safetensors.aside-1", "r0-7.safetensors");
        put_back("r0-8.safetensors.aside-1", "r0-8.safetensors");
        assert_restores("x", 1, 8);
        assert_int_equal(standalone_teardown(NULL), 0);
        assert_int_equal(setup(NULL), 0);
    }
}

static void what_could_not_be_set_aside_is_with_the_next_file(void **state)
{
    struct dlr_ckpt *y;

    run("x", 1, 7, 8);
    y = open_as("y", 0, 1);
    full = true;
    fill("y", 0, 1);
    assert_int_equal(dlr_ckpt_begin(y, 1, NULL), 1);
    assert_int_equal(dlr_ckpt_flush(y), -ENOSPC);
    full = false;
    save(y, "y", 0, 2);
    dlr_ckpt_close(y);
    assert_restores("y", 1, 2);
}

static void a_clock_that_is_set_back_makes_no_file_anothers(void **state)
{
    struct dlr_ckpt *ck = open_as("x", 0, 1);

    back_ns = 3600ll * 1000000000;
    for (uint64_t step = 1; step <= 6; step++)
        save(ck, "x", 0, step);
    back_ns = 0;
    dlr_ckpt_close(ck);
    assert_int_equal(count("safetensors"), 2);
}

/* Of two ranks: one has saved, the other is killed before it has. */
static void nothing_is_lost_by_one_of_two_ranks(void **state)
{
    struct dlr_ckpt *y;

    run("x", 2, 7, 8);
    y = open_as("y", 0, 2);
    save(y, "y", 0, 1);
    save(y, "y", 0, 7); /* the same name */
    dlr_ckpt_close(y);
    put_back("r0-7.safetensors.aside-1", "r0-7.safetensors");
    put_back("r0-8.safetensors.aside-1", "r0-8.safetensors");
    assert_restores("x", 2, 8);
}

static void a_run_that_does_not_restore_wins_once_it_is_whole(void **state)
{
    run("x", 2, 7, 8);
    run("x", 2, 1, 2);
    assert_restores("x", 2, 2);
    assert_int_equal(count("-8.safetensors.aside"), 2);
}

static void space_for_what_is_set_aside_is_bounded(void **state)
{
    for (unsigned life = 0; life < 6; life++) {
        run("x", 2, 10 - life, 14 - life);
        assert_true(count(".aside") <= 4); /* two of each rank */
    }
    assert_int_equal(count("safetensors"),
                     4 + 5); /* rank 0 cannot know what rank 1 has */
    assert_restores("x", 2, 9);
}

static void fewer_ranks_set_aside_what_more_have_left(void **state)
{
    run("x", 3, 7, 8);
    run("x", 1, 1, 3);
    assert_int_equal(count("r2-7.safetensors.aside"), 1);
    assert_restores("x", 1, 3);
}

/* A file as a library wrote it that knew no lines: its key is that of the word "alone".
 */
static void save_without_line(uint64_t step)
{
    const struct dlr_ckpt_region region = {.name = "x",
                                           .dtype = "u32",
                                           .item_size = 4,
                                           .ndim = 1,
                                           .global_shape = {N},
                                           .local_shape = {N},
                                           .addr = data};
    const struct dlr_slot_owner owner = {.key = dlr_slot_key("alone"), .world = 1};
    const struct dlr_slot_file_how how = {0};
    struct dlr_slot_file_part part = {0};
    struct dlr_slot_plan *plan;
    struct dlr_slot *slot;
    char name[64];
    int dirfd = open(dir, O_RDONLY | O_DIRECTORY);

    fill("x", 0, step);
    assert_int_equal(dlr_slot_plan_new(&region, 1, &owner, &plan, NULL), 0);
    assert_int_equal(dlr_slot_anonymous(dlr_slot_plan_bytes(plan), &slot, NULL), 0);
    assert_int_equal(dlr_slot_begin(slot, plan, (struct dlr_version){0, step}, NULL),
                     0);
    memcpy(dlr_slot_data(slot, plan, 0), data, sizeof(data));
    for (uint32_t i = 0; i < dlr_slot_plan_blocks(plan); i++) {
        size_t bytes;
        uint32_t crc;
        void *block;

        dlr_slot_set_crc(slot, plan, i, 0);
        dlr_slot_seal(slot, plan);
        assert_int_equal(dlr_slot_block(slot, i, &block, &bytes, &crc), 0);
        dlr_slot_set_crc(slot, plan, i, dlr_crc32c(0, block, bytes));
    }
    dlr_slot_seal(slot, plan);
    part.slot = slot;
    dlr_format(name, sizeof(name), "r0-%d.safetensors", (int)step);
    assert_int_equal(dlr_slot_file_write(&part, 1, dirfd, name, 0600, &how, NULL), 0);
    dlr_slot_unmap(slot);
    dlr_slot_plan_free(plan);
    close(dirfd);
}

static void files_without_a_line_are_an_older_one(void **state)
{
    uint64_t step;
    struct dlr_ckpt *ck;

    save_without_line(7);
    save_without_line(8);
    ck = open_as("x", 0, 1);
    assert_int_equal(dlr_ckpt_restore(ck, &step), 1);
    assert_int_equal(step, 8);
    assert_true(holds("x", 0, 8));
    save(ck, "x", 0, 9);
    dlr_ckpt_close(ck);
    assert_true(there("r0-8.safetensors")); /* one of the two that stay */
    assert_restores("x", 1, 9);
}

/* --- mixed versions --------------------------------------------------------------- */

/* Start B's rank 0 has gone back and saved step 3 again when its rank 1 comes and finds
 * its own of start A.
 */
static void no_version_is_of_two_starts(void **state)
{
    struct dlr_ckpt *ck;
    uint64_t step;

    run("a", 2, 2, 3);
    flip_bit(dir, "r0-3.safetensors", 1500000);
    ck = open_as("a", 0, 2);
    assert_int_equal(dlr_ckpt_restore(ck, &step), 1);
    assert_int_equal(step, 2);
    save(ck, "a", 0, 3);
    dlr_ckpt_close(ck);
    ck = open_as("a", 1, 2);
    assert_int_equal(dlr_ckpt_restore(ck, &step), 1);
    assert_int_equal(step, 2);
    save(ck, "a", 1, 3); /* as rank 0 did in this start */
    dlr_ckpt_close(ck);
    assert_restores("a", 2, 3);
}

/* It loads the state when the others have begun: their files are of no line that goes
 * on from it.
 */
static void ranks_of_which_one_restores_late_are_told(void **state)
{
    struct dlr_ckpt *ck[2];
    uint64_t step;

    run("a", 2, 1, 2);
    for (int rank = 0; rank < 2; rank++)
        ck[rank] = open_as("a", rank, 2);
    save(ck[1], "a", 1, 3);
    assert_int_equal(dlr_ckpt_restore(ck[0], &step), 1);
    save(ck[0], "a", 0, 3);
    for (step = 4; step < 6; step++)
        for (int rank = 0; rank < 2; rank++)
            save(ck[rank], "a", rank, step);
    for (int rank = 0; rank < 2; rank++)
        dlr_ckpt_close(ck[rank]);
    assert_non_null(strstr(said, "step 3 and later ones cannot be restored"));
    assert_restores("a", 2, 2);
}

/* Rank 1's next file made it superfluous between rank 0's two looks, of which the first
 * saw its name.
 */
static void a_file_that_is_removed_meanwhile_is_no_other_start(void **state)
{
    struct dlr_ckpt *ck[2];
    char path[128];

    for (int rank = 0; rank < 2; rank++)
        ck[rank] = open_as("a", rank, 2);
    for (uint64_t step = 1; step < 4; step++)
        for (int rank = 0; rank < 2; rank++)
            save(ck[rank], "a", rank, step);
    dlr_format(path, sizeof(path), "%s/r1-2.safetensors", dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("gone", path), 0);
    save(ck[0], "a", 0, 4);
    assert_int_equal(unlink(path), 0);
    for (int rank = 0; rank < 2; rank++)
        dlr_ckpt_close(ck[rank]);
    assert_string_equal(said, "");
    assert_restores("a", 2, 3);
}

/* What was read well a moment ago is not read at the last look: it must not go on under
 * another number.
 */
static void a_head_that_is_not_read_again_makes_no_other_line(void **state)
{
    struct dlr_ckpt *ck[2];
    uint64_t step = 0;
    unsigned all;
    char why[256];

    run("a", 2, 1, 2);
    heads = 0;
    assert_int_equal(restore("a", 0, 2, &step, why), 1);
    all = heads;
    for (int rank = 0; rank < 2; rank++) {
        ck[rank] = open_as("a", rank, 2);
        heads = 0;
        unreadable = rank == 0 ? all : 0;
        assert_int_equal(dlr_ckpt_restore(ck[rank], &step), 1);
        assert_int_equal(step, 2);
    }
    unreadable = 0;
    for (int rank = 0; rank < 2; rank++)
        save(ck[rank], "a", rank, 3);
    for (int rank = 0; rank < 2; rank++)
        dlr_ckpt_close(ck[rank]);
    assert_restores("a", 2, 3);
}

/* --- two at once ------------------------------------------------------------------ */

static void two_programs_at_once_are_refused(void **state)
{
    struct dlr_ckpt *ck = open_as("x", 0, 1);
    uint64_t step = 0;
    char why[256];
    int status;
    pid_t pid;

    save(ck, "x", 0, 1);
    pid = fork();
    if (pid == 0) {
        struct dlr_ckpt *other = NULL;
        char text[64];

        if (try_open("x", 0, 1, &other) < 0)
            _exit(2);
        dlr_format(text, sizeof(text), "another program (process %d) saves", getppid());
        if (dlr_ckpt_restore(other, &step) != -EBUSY ||
            !dlr_after(dlr_ckpt_error(other), text) ||
            !strstr(dlr_ckpt_error(other), "remove '.lock-0'"))
            _exit(3);
        if (dlr_ckpt_begin(other, 2, NULL) != -EBUSY)
            _exit(4);
        dlr_ckpt_fence(other, NULL);
        dlr_ckpt_close(other);
        _exit(there("r0-2.safetensors") ? 5 : 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    save(ck, "x", 0, 2);
    dlr_ckpt_close(ck);
    assert_int_equal(restore("x", 0, 1, &step, why), 1);
    assert_int_equal(step, 2);
}

/* How another process's begin and mark_bad as rank 0 end, 0: not. */
static void assert_refused_elsewhere(void)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        struct dlr_ckpt *other = NULL;

        if (try_open("x", 0, 1, &other) < 0)
            _exit(2);
        if (dlr_ckpt_mark_bad(other, 1) != -EBUSY)
            _exit(3);
        _exit(dlr_ckpt_begin(other, 9, NULL) == -EBUSY ? 0 : 4);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(there("r0-1.safetensors"));
}

/* The kernel gives up all locks of a file when a process closes one descriptor of it.
 */
static void a_second_handle_that_is_closed_leaves_the_lock(void **state)
{
    struct dlr_ckpt *ck = open_as("x", 0, 1), *second = open_as("x", 0, 1);
    uint64_t step;

    save(ck, "x", 0, 1);
    assert_refused_elsewhere();
    assert_int_equal(dlr_ckpt_restore(second, &step), 1);
    dlr_ckpt_close(second);
    assert_refused_elsewhere();
    dlr_ckpt_close(ck);
    assert_restores("x", 1, 1);
}

/* It was forked beside the library (a data loader) and outlives the program. */
static void a_child_that_is_left_is_no_program(void **state)
{
    int ready[2], end[2], status;
    char c;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(end), 0);
    pid = fork();
    if (pid == 0) {
        struct dlr_ckpt *ck = NULL;

        if (try_open("x", 0, 1, &ck) < 0 || dlr_ckpt_begin(ck, 1, NULL) != 1)
            _exit(2);
        dlr_ckpt_fence(ck, NULL);
        if (fork() == 0) {
            close(end[1]);
            if (write(ready[1], "x", 1) != 1 || read(end[0], &c, 1) != 0)
                _exit(1);
            _exit(0);
        }
        close(end[1]);
        if (read(end[0], &c, 1) != 0)
            _exit(3);
        _exit(0);
    }
    assert_int_equal(read(ready[0], &c, 1), 1);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    run("x", 1, 2, 3);
    assert_restores("x", 1, 3);
    for (int i = 0; i < 2; i++) {
        close(ready[i]);
        close(end[i]);
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, standalone_teardown)
    const struct CMUnitTest tests[] = {
        T(files_of_which_none_is_whole_are_an_error),
        T(heads_that_cannot_be_read_are_no_empty_list),
        T(nor_are_those_of_which_another_ranks_head_cannot_be_read),
        T(a_word_begins_anew_and_what_was_there_stays),
        T(going_back_to_an_older_version_is_said),
        T(what_failed_verification_is_kept),
        T(files_that_never_made_a_version_are_a_fresh_start),
        T(another_program_leaves_the_versions_until_its_own_is_whole),
        T(what_could_not_be_set_aside_is_with_the_next_file),
        T(a_clock_that_is_set_back_makes_no_file_anothers),
        T(nothing_is_lost_by_one_of_two_ranks),
        T(a_run_that_does_not_restore_wins_once_it_is_whole),
        T(space_for_what_is_set_aside_is_bounded),
        T(fewer_ranks_set_aside_what_more_have_left),
        T(files_without_a_line_are_an_older_one),
        T(no_version_is_of_two_starts),
        T(ranks_of_which_one_restores_late_are_told),
        T(a_file_that_is_removed_meanwhile_is_no_other_start),
        T(a_head_that_is_not_read_again_makes_no_other_line),
        T(two_programs_at_once_are_refused),
        T(a_second_handle_that_is_closed_leaves_the_lock),
        T(a_child_that_is_left_is_no_program),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
