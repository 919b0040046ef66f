/* SPDX-License-Identifier: Apache-2.0 */
/* What each round reads of a pipe: all of it, from the beginning. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "mpi_launcher/supervisor/rounds/stdin_spool.h"

#define LIMIT 300000

static int in[2], spool;

static int setup(void **state)
{
    spool = memfd_create("spool", MFD_CLOEXEC);
    return spool < 0 || pipe2(in, O_CLOEXEC) < 0;
}

static int teardown(void **state)
{
    close(in[0]);
    if (in[1] >= 0)
        close(in[1]);
    close(spool);
    while (wait(NULL) > 0) /* feeders are ours: subreaper */
        ;
    return 0;
}

static void come(const char *text)
{
    assert_int_equal(dlr_write_all(in[1], text, strlen(text)), 0);
}

static void end(void)
{
    close(in[1]);
    in[1] = -1;
}

static int round_begins(void)
{
    struct dlr_err err;
    int fd = -1;

    assert_int_equal(dlr_spool_feed(in[0], spool, LIMIT, &fd, &err), 0);
    return fd;
}

static void reads(int fd, const char *text)
{
    char got[64] = "";

    assert_int_equal(dlr_read_all(fd, got, strlen(text)), 0);
    assert_string_equal(got, text);
}

static void is_at_end(int fd)
{
    char byte;

    assert_int_equal(read(fd, &byte, 1), 0);
    close(fd);
}

static void each_round_reads_all_of_it(void **state)
{
    int first = round_begins(), second, third;

    come("one two");
    reads(first, "one two");
    close(first);
    second = round_begins();
    reads(second, "one two");
    come(" three");
    reads(second, " three");
    end();
    is_at_end(second);
    third = round_begins();
    reads(third, "one two three");
    is_at_end(third);
}

static void a_round_that_reads_nothing_takes_nothing_away(void **state)
{
    int first = round_begins(), second;

    close(first);
    come("all");
    end();
    second = round_begins();
    reads(second, "all");
    is_at_end(second);
}

static void the_next_round_waits_until_the_last_ones_srun_is_gone(void **state)
{
    int first = round_begins(), second;
    struct pollfd pfd = {.events = POLLIN};

    come("x");
    reads(first, "x"); /* so it has its turn */
    pfd.fd = second = round_begins();
    assert_int_equal(poll(&pfd, 1, 0), 0);
    close(first);
    reads(second, "x");
    end();
    is_at_end(second);
}

/* More than a pipe takes at once, with a reader that takes its time. */
static void long_input_is_the_same_for_all(void **state)
{
    DLR_AUTO_FREE char *data = malloc(LIMIT);
    DLR_AUTO_FREE char *got = malloc(LIMIT);
    int fd;

    for (int i = 0; i < LIMIT; i++)
        data[i] = (char)(i * 7 + i / 1000);
    if (fork() == 0)
        _exit(dlr_write_all(in[1], data, LIMIT) < 0);
    end();
    for (int i = 0; i < 3; i++) {
        fd = round_begins();
        assert_int_equal(dlr_read_all(fd, got, i == 0 ? LIMIT / 2 : LIMIT), 0);
        assert_memory_equal(got, data, i == 0 ? LIMIT / 2 : LIMIT);
        if (i)
            is_at_end(fd);
        else
            close(fd);
    }
}

static void beyond_the_limit_one_round_has_all_and_the_next_is_told(void **state)
{
    DLR_AUTO_FREE char *got = malloc(LIMIT + 1);
    struct dlr_err err;
    int fd = round_begins();

    if (fork() == 0) {
        memset(got, 'x', LIMIT + 1);
        _exit(dlr_write_all(in[1], got, LIMIT + 1) < 0);
    }
    end();
    assert_int_equal(dlr_read_all(fd, got, LIMIT + 1), 0);
    is_at_end(fd);
    assert_int_equal(dlr_spool_feed(in[0], spool, LIMIT, &fd, &err), -ENOSPC);
    assert_string_equal(err.text, "more than 300000 bytes have come");
}

static void pipes_and_sockets_are_read_once_files_are_not(void **state)
{
    DLR_AUTO_CLOSE int null = open("/dev/null", O_RDONLY);

    assert_true(dlr_spool_is_for(in[0]));
    assert_false(dlr_spool_is_for(spool));
    assert_false(dlr_spool_is_for(null));
    assert_false(dlr_spool_is_for(-1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_round_reads_all_of_it, setup, teardown),
        cmocka_unit_test_setup_teardown(a_round_that_reads_nothing_takes_nothing_away,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            the_next_round_waits_until_the_last_ones_srun_is_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(long_input_is_the_same_for_all, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            beyond_the_limit_one_round_has_all_and_the_next_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(pipes_and_sockets_are_read_once_files_are_not,
                                        setup, teardown),
    };

    prctl(PR_SET_CHILD_SUBREAPER, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
