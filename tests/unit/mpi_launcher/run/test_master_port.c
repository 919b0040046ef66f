/* SPDX-License-Identifier: Apache-2.0 */
/* MASTER_PORT: each run has its own, each round another, none that is taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mpi_launcher/run/master_port.h"

static void runs_and_rounds_have_ports_of_their_own(void **state)
{
    unsigned first = dlr_port_choose(42, "5d1c3a7e-0", 0);

    assert_in_range(first, DLR_PORT_FIRST, DLR_PORT_FIRST + DLR_PORT_SPAN - 1);
    assert_int_equal(dlr_port_choose(42, "5d1c3a7e-0", 0), first);
    assert_int_not_equal(dlr_port_choose(42, "5d1c3a7e-0", 1), first);
    assert_int_not_equal(dlr_port_choose(43, "5d1c3a7e-0", 0), first);
    assert_int_not_equal(dlr_port_choose(42, "5d1c3a7e-1", 0), first);
    assert_int_not_equal(dlr_port_choose(42, "train", 0), first);
}

static unsigned taken, asked;

static bool but_one(unsigned port)
{
    return port != taken;
}

static bool never(unsigned port)
{
    asked++;
    return false;
}

static void one_that_is_taken_is_passed_over(void **state)
{
    unsigned first = dlr_port_choose(42, "train", 0);

    taken = first;
    assert_int_equal(dlr_port_free_from(first, but_one), first + 1);
    assert_int_equal(dlr_port_free_from(first, never), first);
    assert_in_range(asked, 2, 1000); /* and the search ends */
    taken = DLR_PORT_FIRST + DLR_PORT_SPAN - 1;
    assert_int_equal(dlr_port_free_from(taken, but_one), DLR_PORT_FIRST);
}

static void what_somebody_listens_at_is_not_free(void **state)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t len = sizeof(any);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    unsigned port;

    assert_int_equal(bind(fd, (struct sockaddr *)&any, len), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&any, &len), 0);
    port = ntohs(any.sin_port);
    assert_false(dlr_port_is_free(port));
    close(fd);
    assert_true(dlr_port_is_free(port));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_and_rounds_have_ports_of_their_own),
        cmocka_unit_test(one_that_is_taken_is_passed_over),
        cmocka_unit_test(what_somebody_listens_at_is_not_free),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
