/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs=dlrover-agent */
/* One process per node starts an agent for each order that comes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/install_path.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/host/host.h"

static int in, out; /* the host's stdin and stderr */
static pid_t host;

static int setup(void **state)
{
    char path[4096];
    int to[2], from[2];

    if (dlr_install_path_sibling("../dlrover-agent", path, sizeof(path)) < 0 ||
        pipe(to) < 0 || pipe(from) < 0)
        return -1;
    host = fork();
    if (host == 0) {
        dup2(to[0], 0);
        dup2(from[1], 2);
        closefrom(3);
        execl(path, path, "--host", "--version", NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    in = to[1];
    out = from[0];
    return 0;
}

static int teardown(void **state)
{
    close(out);
    return 0;
}

static void send_text(const char *text)
{
    assert_int_equal(dlr_write_all(in, text, strlen(text)), 0);
}

/* All that the host and its agents said until the last of them had ended. */
static void says(const char *want)
{
    char got[4096] = "";
    size_t used = 0;
    ssize_t n;
    int status;

    close(in);
    while ((n = read(out, got + used, sizeof(got) - 1 - used)) > 0)
        used += n;
    assert_int_equal(waitpid(host, &status, 0), host);
    assert_int_equal(status, 0);
    assert_string_equal(got, want);
}

#define AGENT "dlrover-agent " DLR_VERSION "\n"

static void the_first_agent_needs_no_order(void **state)
{
    says(AGENT);
}

static void each_order_starts_an_agent(void **state)
{
    DLR_AUTO_FREE char *order = dlr_host_order("lm", "c", (char *[]){"--version"}, 1);

    send_text(order);
    send_text(
        "{\"v\":2,\"t\":\"run\",\"run\":\"x\",\"cr"); /* srun cuts where it likes */
    send_text("ed\":\"\",\"words\":[\"--version\"]}\n");
    says(AGENT AGENT AGENT);
}

static void first_agent_speaks(void)
{
    char got[sizeof(AGENT)] = "";

    assert_int_equal(dlr_read_all(out, got, strlen(AGENT)), 0);
    assert_string_equal(got, AGENT);
}

static void a_line_too_long_is_passed_over(void **state)
{
    DLR_AUTO_FREE char *order = dlr_host_order("lm", "c", (char *[]){"--version"}, 1);
    DLR_AUTO_FREE char *line = malloc(2 * DLR_HOST_LINE + 10);

    first_agent_speaks();
    memset(line, 'x', 2 * DLR_HOST_LINE + 9);
    strcpy(line + 2 * DLR_HOST_LINE + 8, "\n");
    send_text(line);
    send_text(order);
    says("dlr: ignoring an order of more than 32768 bytes\n" AGENT);
}

static void sigterm_ends_it(void **state)
{
    int status;

    first_agent_speaks();
    kill(host, SIGUSR1);
    kill(host, SIGTERM);
    assert_int_equal(waitpid(host, &status, 0), host);
    assert_int_equal(status, 0);
    close(in);
}

static void orders_are_checked(void **state)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"{\"v\":2,\"t\":\"end\",\"run\":\"a\"}", NULL},
        {"{\"v\":2,\"t\":\"run\",\"run\":\"a\",\"cred\":\"\",\"words\":[\"--x=1\"]}",
         NULL},
        {"{\"v\":2,\"t\":\"end\"}", "an order for no run"},
        {"{\"v\":2,\"t\":\"end\",\"run\":\"\"}", "an order for no run"},
        {"{\"v\":2,\"t\":\"shutdown\",\"run\":\"a\"}", "an order of unknown kind"},
        {"{\"v\":2,\"t\":\"run\",\"run\":\"a\",\"words\":[\"--x\"]}",
         "an order of unknown kind"},
        {"{\"v\":2,\"t\":\"run\",\"run\":\"a\",\"cred\":\"\"}",
         "an order with 0 arguments"},
        {"{\"v\":2,\"t\":\"run\",\"run\":\"a\",\"cred\":\"\",\"words\":[\"/bin/sh\"]}",
         "an order with an argument that is no option"},
        {"{\"v\":2,\"t\":\"run\",\"run\":\"a\",\"cred\":\"\",\"words\":[7]}",
         "an order with an argument that is no option"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        DLR_AUTO_FREE const char **words = NULL;
        DLR_AUTO_JSON json_t *msg = NULL;
        const char *run, *cred;
        struct dlr_err err;
        int rc;

        print_message("%s\n", rows[i].text);
        assert_int_equal(dlr_msg_parse(rows[i].text, strlen(rows[i].text), &msg, &err),
                         0);
        rc = dlr_host_parse(msg, &run, &cred, &words, &err);
        assert_int_equal(rc, rows[i].why ? -EBADMSG : 0);
        if (rows[i].why)
            assert_string_equal(err.text, rows[i].why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_first_agent_needs_no_order, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(each_order_starts_an_agent, setup, teardown),
        cmocka_unit_test_setup_teardown(a_line_too_long_is_passed_over, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(sigterm_ends_it, setup, teardown),
        cmocka_unit_test(orders_are_checked),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
