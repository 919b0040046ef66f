/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/open wrap=openat */
/* Without a job: ranks that go on from a version that they have not restored
 * themselves.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "tests/support/flip.h"
#include "tests/unit/ckpt/standalone/standalone_run.h"

static unsigned opens; /* of files that hold a rank's state, to read */

int __real_openat(int at, const char *name, int flags, mode_t mode);
int __wrap_openat(int at, const char *name, int flags, mode_t mode);

int __wrap_openat(int at, const char *name, int flags, mode_t mode)
{
    if (name[0] == 'r' && (flags & O_ACCMODE) == O_RDONLY)
        opens++;
    return __real_openat(at, name, flags, mode);
}

static void open_all(struct dlr_ckpt **ck, int world)
{
    for (int rank = 0; rank < world; rank++)
        ck[rank] = open_as("a", rank, world);
}

static void close_all(struct dlr_ckpt **ck, int world)
{
    for (int rank = 0; rank < world; rank++)
        dlr_ckpt_close(ck[rank]);
}

static void save_all(struct dlr_ckpt **ck, int world, uint64_t step)
{
    for (int rank = 0; rank < world; rank++)
        save(ck[rank], "a", rank, step);
}

static void assert_restored(struct dlr_ckpt *ck, uint64_t want)
{
    uint64_t step = 0;

    assert_int_equal(dlr_ckpt_restore(ck, &step), 1);
    assert_int_equal(step, want);
}

/* The versions that are whole, newest first, as text. */
static void assert_versions(const char *want)
{
    struct dlr_ckpt *ck = open_as("a", 0, 2);
    struct dlr_ckpt_version v[8];
    char text[64] = "";
    int n = dlr_ckpt_list(ck, v, 8);

    for (int i = 0; i < n; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%d ",
                 (int)v[i].step);
    dlr_ckpt_close(ck);
    assert_string_equal(text, want);
}

/* Runs f as another process, which ends as one that is killed does: nothing is closed.
 */
static void in_child(void (*f)(void))
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        f();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* --- rank 0 restores, and gives the others what it has ---------------------------- */

static void ranks_go_on_from_what_rank_0_restored(void **state)
{
    for (int first = 0; first < 2; first++) { /* which of them saves first */
        struct dlr_ckpt *ck[2];

        run("a", 2, 3, 4);
        open_all(ck, 2);
        assert_restored(ck[0], 4);
        save(ck[first], "a", first, 5);
        assert_versions("4 3 ");
        save(ck[!first], "a", !first, 5);
        save(ck[first], "a", first, 6);
        assert_true(there("r0-4.safetensors") && there("r1-4.safetensors"));
        save(ck[!first], "a", !first, 6);
        close_all(ck, 2);
        assert_versions("6 5 ");
        assert_int_equal(count(".aside"), 0);
        assert_string_equal(said, "");
        assert_restores("a", 2, 6);
        assert_int_equal(standalone_teardown(NULL), 0);
        assert_int_equal(setup(NULL), 0);
    }
}

static void rank_1_saves(void)
{
    struct dlr_ckpt *ck = open_as("a", 1, 2);

    save(ck, "a", 1, 5);
    save(ck, "a", 1, 6);
    dlr_ckpt_close(ck);
}

static void as_do_those_that_are_other_processes(void **state)
{
    struct dlr_ckpt *ck;

    run("a", 2, 3, 4);
    ck = open_as("a", 0, 2);
    assert_restored(ck, 4);
    save(ck, "a", 0, 5);
    in_child(rank_1_saves);
    save(ck, "a", 0, 6);
    dlr_ckpt_close(ck);
    assert_versions("6 5 ");
    assert_restores("a", 2, 6);
}

static void rank_0_goes_on(void)
{
    struct dlr_ckpt *ck = open_as("a", 0, 2);

    assert_restored(ck, 4);
    save(ck, "a", 0, 5);
}

/* Of start A only rank 0's step 5 is there. In start B nobody restores. */
static void what_a_start_before_has_said_is_not_believed(void **state)
{
    for (int first = 0; first < 2; first++) {
        struct dlr_ckpt *ck[2];

        run("a", 2, 3, 4);
        in_child(rank_0_goes_on);
        open_all(ck, 2);
        save(ck[first], "a", first, 5);
        assert_versions("4 3 "); /* nothing is of both starts */
        save(ck[!first], "a", !first, 5);
        close_all(ck, 2);
        assert_string_equal(said, "");
        assert_versions("5 4 3 ");
        assert_int_equal(standalone_teardown(NULL), 0);
        assert_int_equal(setup(NULL), 0);
    }
}

/* Whatever it has saved when rank 0 saves. */
static void a_rank_whose_first_step_is_not_later_has_none_of_it(void **state)
{
    struct dlr_ckpt *ck[2];

    run("a", 2, 1, 2); /* then on, in another line than what begins from nothing */
    open_all(ck, 2);
    for (int rank = 0; rank < 2; rank++)
        assert_restored(ck[rank], 2);
    for (uint64_t step = 3; step < 5; step++)
        save_all(ck, 2, step);
    close_all(ck, 2);
    open_all(ck, 2);
    assert_restored(ck[0], 4);
    for (uint64_t step = 4; step < 6; step++)
        save(ck[1], "a", 1, step);
    save(ck[0], "a", 0, 5);
    close_all(ck, 2);
    assert_true(there("r0-5.safetensors") && there("r1-5.safetensors"));
    assert_versions("3 ");
}

/* Of a version that one rank made, another is the last to save, and has nothing of it.
 */
static void what_fewer_ranks_have_made_goes_too(void **state)
{
    struct dlr_ckpt *ck[2];

    run("a", 1, 3, 4);
    open_all(ck, 2);
    assert_restored(ck[0], 4);
    for (uint64_t step = 5; step < 9; step++)
        save_all(ck, 2, step);
    close_all(ck, 2);
    assert_versions("8 7 ");
    assert_false(there("r0-4.safetensors"));
}

/* Rank 0 and another are of one line, the third is not. */
static void nothing_goes_while_one_of_several_is_of_another_line(void **state)
{
    for (int odd = 1; odd < 3; odd++) {
        struct dlr_ckpt *ck[3];

        run("a", 3, 3, 4);
        open_all(ck, 3);
        save(ck[odd], "a", odd, 5);
        assert_restored(ck[0], 4);
        save(ck[0], "a", 0, 5);
        save(ck[3 - odd], "a", 3 - odd, 5);
        for (uint64_t step = 6; step < 9; step++)
            save_all(ck, 3, step);
        close_all(ck, 3);
        assert_restores("a", 3, 4);
        assert_int_equal(standalone_teardown(NULL), 0);
        assert_int_equal(setup(NULL), 0);
    }
}

/* It takes the weights and counts its own steps. */
static void steps_that_begin_anew_after_a_restore_are_what_is_restored(void **state)
{
    for (int world = 1; world <= 2; world++)
        for (uint64_t first = 1; first <= 9; first += 8) { /* the same name */
            struct dlr_ckpt *ck[2];

            run("a", world, 8, 9);
            open_all(ck, world);
            for (int rank = 0; rank < world; rank++)
                assert_restored(ck[rank], 9);
            for (uint64_t step = first; step < first + 3; step++)
                save_all(ck, world, step);
            close_all(ck, world);
            assert_restores("a", world, first + 2);
            assert_int_equal(count("-9.safetensors.aside"), world);
            assert_int_equal(standalone_teardown(NULL), 0);
            assert_int_equal(setup(NULL), 0);
        }
}

/* Y has one version beside X's when it is started again, and again. */
static void nothing_of_another_program_is_removed_after_a_restart(void **state)
{
    run("x", 1, 7, 8);
    run("y", 1, 20, 20);
    for (uint64_t from = 20; from < 22; from++) {
        struct dlr_ckpt *y = open_as("y", 0, 1);
        uint64_t step = 0;

        assert_int_equal(dlr_ckpt_restore(y, &step), 1);
        assert_int_equal(step, from);
        save(y, "y", 0, from + 1);
        dlr_ckpt_close(y);
    }
    assert_restores("y", 1, 22);
    assert_int_equal(count("-8.safetensors.aside"), 1);
    assert_int_equal(count("-7.safetensors.aside"), 1);
    assert_int_equal(count(".aside"), 2); /* nothing of Y's */
}

/* --- what the program has read itself --------------------------------------------- */

static void what_a_program_has_read_itself_goes_on(void **state)
{
    for (int all = 0; all < 2; all++) { /* or rank 0 for all */
        struct dlr_ckpt *ck[2];

        run("a", 2, 3, 5);
        open_all(ck, 2);
        for (int rank = 0; rank <= all; rank++)
            assert_int_equal(dlr_ckpt_go_on(ck[rank], 4), 0);
        save_all(ck, 2, 5);
        assert_versions("5 4 ");
        assert_int_equal(count("-5.safetensors.aside"), 2);
        save_all(ck, 2, 6);
        close_all(ck, 2);
        assert_versions("6 5 ");
        assert_int_equal(count(".aside"), 2);
        assert_restores("a", 2, 6);
        assert_int_equal(standalone_teardown(NULL), 0);
        assert_int_equal(setup(NULL), 0);
    }
}

static void rank_0_is_refused(void)
{
    struct dlr_ckpt *ck = open_as("a", 0, 1);

    assert_int_equal(dlr_ckpt_go_on(ck, 2), -EBUSY);
}

static void what_is_not_there_is_nothing_to_go_on_from(void **state)
{
    struct dlr_ckpt *ck;

    run("a", 1, 1, 2);
    ck = open_as("a", 0, 1);
    assert_int_equal(dlr_ckpt_go_on(ck, 7), -ENOENT);
    assert_non_null(strstr(dlr_ckpt_error(ck), "no version of step 7"));
    in_child(rank_0_is_refused);
    flip_bit(dir, "r0-1.safetensors", 300);
    assert_int_equal(dlr_ckpt_go_on(ck, 1), -EBADMSG);
    save(ck, "a", 0, 3);
    assert_int_equal(dlr_ckpt_go_on(ck, 2), -EBUSY);
    dlr_ckpt_close(ck);
}

/* --- how much ranks look at ------------------------------------------------------- */

static void
looking_at_versions_grows_with_the_ranks_and_not_with_their_square(void **state)
{
    enum { WORLD = 16 };
    struct dlr_ckpt *ck[WORLD];

    open_all(ck, WORLD);
    for (uint64_t step = 1; step <= 4; step++) {
        opens = 0;
        save_all(ck, WORLD, step);
    }
    close_all(ck, WORLD);
    print_message("%u opens for a save of %d ranks\n", opens, WORLD);
    assert_true(opens <= 12 * WORLD);
    assert_true(count("safetensors") <= 3 * WORLD);
    assert_versions("4 3 ");
}

/* All ranks ask at their start. */
static void so_does_a_list_that_each_rank_asks_for(void **state)
{
    enum { WORLD = 16, VERSIONS = 2 };
    struct dlr_ckpt *ck[WORLD];

    open_all(ck, WORLD);
    for (uint64_t step = 1; step <= VERSIONS; step++)
        save_all(ck, WORLD, step);
    close_all(ck, WORLD);
    open_all(ck, WORLD);
    opens = 0;
    for (int rank = 0; rank < WORLD; rank++) {
        struct dlr_ckpt_version v[8];

        assert_int_equal(dlr_ckpt_list(ck[rank], v, 8), VERSIONS);
        for (int i = 0; i < VERSIONS; i++) {
            assert_int_equal(v[i].step, VERSIONS - i);
            assert_int_equal(v[i].world, WORLD);
            assert_int_equal(v[i].bytes, sizeof(data));
        }
    }
    close_all(ck, WORLD);
    print_message("%u opens for the lists of %d ranks\n", opens, WORLD);
    assert_true(opens <= 6 * WORLD * VERSIONS);
}

/* A rank that lacks a file, or whose own is of another start, has none of it either. */
static void a_list_of_any_rank_leaves_out_what_is_no_version(void **state)
{
    for (int rank = 0; rank < 3; rank++) {
        struct dlr_ckpt_version v[8];
        struct dlr_ckpt *ck;
        char path[128];

        run("a", 3, 1, 2);
        dlr_format(path, sizeof(path), "%s/r1-2.safetensors", dir);
        assert_int_equal(unlink(path), 0);
        if (rank < 2)
            flip_bit(dir, rank ? "r1-1.safetensors" : "r2-1.safetensors", 300);
        ck = open_as("a", rank, 3);
        assert_int_equal(dlr_ckpt_list(ck, v, 8), rank < 2 ? -EBADMSG : 1);
        dlr_ckpt_close(ck);
        assert_int_equal(standalone_teardown(NULL), 0);
        assert_int_equal(setup(NULL), 0);
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, standalone_teardown)
    const struct CMUnitTest tests[] = {
        T(ranks_go_on_from_what_rank_0_restored),
        T(as_do_those_that_are_other_processes),
        T(what_a_start_before_has_said_is_not_believed),
        T(a_rank_whose_first_step_is_not_later_has_none_of_it),
        T(what_fewer_ranks_have_made_goes_too),
        T(nothing_goes_while_one_of_several_is_of_another_line),
        T(steps_that_begin_anew_after_a_restore_are_what_is_restored),
        T(nothing_of_another_program_is_removed_after_a_restart),
        T(what_a_program_has_read_itself_goes_on),
        T(what_is_not_there_is_nothing_to_go_on_from),
        T(looking_at_versions_grows_with_the_ranks_and_not_with_their_square),
        T(so_does_a_list_that_each_rank_asks_for),
        T(a_list_of_any_rank_leaves_out_what_is_no_version),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
