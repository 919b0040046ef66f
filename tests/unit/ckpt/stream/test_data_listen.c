/* SPDX-License-Identifier: Apache-2.0 */
/* Whose connections a library of the data process gets to see. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/stream/listen.h"

static struct sockaddr_in at;
static int listener;

static int call(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
        _exit(1);
    return fd;
}

/* Another process of this host, which has ended: its connection stays in the queue. */
static void call_of_another(void)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        call();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static int answer(void)
{
    return accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

static int listen_somewhere(void **state)
{
    socklen_t size = sizeof(at);

    at = (struct sockaddr_in){.sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return listener < 0 || bind(listener, (struct sockaddr *)&at, sizeof(at)) < 0 ||
           listen(listener, 8) < 0 ||
           getsockname(listener, (struct sockaddr *)&at, &size) < 0;
}

static int close_it(void **state)
{
    return close(listener);
}

/* A copy made of parts of which one lies here comes from this process, too. */
static void of_this_host_a_process_hears_itself(void **state)
{
    int ours, got;

    dlr_listen_admit(false, NULL, 0);
    call_of_another();
    assert_int_equal(answer(), -1);
    assert_int_equal(errno, EAGAIN);
    ours = call();
    got = answer();
    assert_true(got >= 0);
    assert_int_equal(answer(), -1);
    close(got);
    close(ours);
}

static void others_are_heard_when_that_is_said(void **state)
{
    int got;

    dlr_listen_admit(true, NULL, 0);
    call_of_another();
    got = answer();
    assert_true(got >= 0);
    close(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(of_this_host_a_process_hears_itself,
                                        listen_somewhere, close_it),
        cmocka_unit_test_setup_teardown(others_are_heard_when_that_is_said,
                                        listen_somewhere, close_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
