/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=mpi_launcher/policy */
/* Nodes that were lost: when they are looked at, and that the agents' srun does not try
 * them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "mpi_launcher/policy/rejoin.h"
#include "mpi_launcher/slurm/srun_io.h"

#define FIRST DLR_REJOIN_FIRST_MS

static void looks_become_rarer_and_begin_anew_with_each_loss(void **state)
{
    struct dlr_rejoin r = {0};
    int64_t now = 1000, last = now;

    assert_false(dlr_rejoin_due(&r, false, FIRST, now));
    assert_false(dlr_rejoin_due(&r, true, FIRST, now));
    assert_false(dlr_rejoin_due(&r, true, FIRST, now + FIRST - 1));
    for (int64_t pause = FIRST; pause <= DLR_REJOIN_MAX_MS; pause *= 2) {
        assert_true(dlr_rejoin_due(&r, true, FIRST, last + pause));
        assert_false(dlr_rejoin_due(&r, true, FIRST, last + 2 * pause - 1));
        last += pause;
    }
    assert_false(dlr_rejoin_due(&r, true, FIRST, last + DLR_REJOIN_MAX_MS - 1));
    assert_true(dlr_rejoin_due(&r, true, FIRST, last + DLR_REJOIN_MAX_MS));
    assert_false(dlr_rejoin_due(&r, false, FIRST, last + 2 * DLR_REJOIN_MAX_MS));
    assert_true(dlr_rejoin_due(&r, true, 0, last + 2 * DLR_REJOIN_MAX_MS));
}

static void who_has_left_the_job_is_not_looked_at(void **state)
{
    struct dlr_rejoin r = {0};

    dlr_rejoin_due(&r, true, FIRST, 0);
    dlr_rejoin_gone(&r);
    assert_false(dlr_rejoin_due(&r, true, FIRST, INT64_MAX / 2));
}

/* A process that reads from a connection and ends with what the read returned. */
static void start_reader(struct dlr_proc *ret, int *ret_peer)
{
    struct sockaddr_in here = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    DLR_AUTO_CLOSE int listener = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t size = sizeof(here);
    pid_t pid;
    char c;

    assert_int_equal(bind(listener, (struct sockaddr *)&here, sizeof(here)), 0);
    assert_int_equal(listen(listener, 1), 0);
    getsockname(listener, (struct sockaddr *)&here, &size);
    pid = fork();
    if (pid == 0) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);

        if (connect(fd, (struct sockaddr *)&here, sizeof(here)) < 0)
            _exit(9);
        _exit((int)read(fd, &c, 1));
    }
    *ret_peer = accept(listener, NULL, NULL);
    assert_int_equal(dlr_proc_adopt(pid, ret), 0);
}

static void a_connection_to_that_address_ends_and_no_other(void **state)
{
    DLR_AUTO_CLOSE int peer = -1;
    struct dlr_proc reader;
    int status;

    start_reader(&reader, &peer);
    assert_int_equal(dlr_srun_io_end(&reader, "127.0.0.2"), 0);
    assert_int_equal(dlr_srun_io_end(&reader, "127.0.0.1"), 1);
    status = dlr_proc_reap(&reader);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(looks_become_rarer_and_begin_anew_with_each_loss),
        cmocka_unit_test(who_has_left_the_job_is_not_looked_at),
        cmocka_unit_test(a_connection_to_that_address_ends_and_no_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
