/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover-stderr: passes a task's stderr on, byte for byte and at once, and tells the
 * agent the last lines when the task has ended. Started by the plugin: see
 * spank/task/stderr_tap.h.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/local/message.h"
#include "spank/task/stderr_tap.h"
#include "spank/task/tail.h"

#define PIECE 65536

struct args {
    const char *socket;
    unsigned round, rank;
};

static void usage(FILE *out)
{
    fputs("usage: dlrover-stderr --socket=PATH --round=N --rank=N\n"
          "Started by the plugin between a task and its stderr; not meant for people.\n"
          "It copies stdin to stdout and tells the agent at PATH the last lines.\n",
          out);
}

static int parse(char *const argv[], struct args *ret)
{
    bool round = false, rank = false;

    for (size_t i = 1; argv[i]; i++) {
        const char *value;

        if ((value = dlr_after(argv[i], "--socket=")))
            ret->socket = value;
        else if ((value = dlr_after(argv[i], "--round=")))
            round = dlr_parse_uint(value, UINT32_MAX, &ret->round) == 0;
        else if ((value = dlr_after(argv[i], "--rank=")))
            rank = dlr_parse_uint(value, INT32_MAX, &ret->rank) == 0;
        else
            return -EINVAL;
    }
    return ret->socket && round && rank ? 0 : -EINVAL;
}

/* Writes all of it. False when nobody reads any more; the task must not notice that. */
static bool pass_on(const char *buf, size_t size)
{
    while (size) {
        ssize_t n = write(STDOUT_FILENO, buf, size);

        if (n >= 0) {
            buf += n;
            size -= n;
        } else if (errno == EAGAIN) {
            struct pollfd pfd = {.fd = STDOUT_FILENO, .events = POLLOUT};

            if (poll(&pfd, 1, -1) < 0 &&
                errno != EINTR) /* as the task itself would wait */
                return false;
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

static void copy(struct dlr_tail *tail)
{
    static char buf[PIECE];
    bool open = true;

    for (;;) {
        ssize_t n = read(STDIN_FILENO, buf, sizeof(buf));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        open = open && pass_on(buf, n);
        dlr_tail_add(tail, buf, n);
    }
}

/* Non-blocking: an agent that is gone or stuck must not keep the step from ending. */
static void tell_agent(const struct args *args, const struct dlr_tail *tail)
{
    DLR_AUTO_CLOSE int fd = -1;
    struct dlr_local_msg msg;
    char text[DLR_TAIL_BYTES + 1];

    if (dlr_tail_text(tail, text) == 0 ||
        dlr_local_connect(args->socket, 0, &fd, NULL) < 0)
        return;
    dlr_local_init(&msg, DLR_LOCAL_STDERR);
    msg.round = args->round;
    msg.rank = args->rank;
    dlr_local_text(&msg, "%s", text);
    dlr_local_send(fd, &msg, NULL, 0);
}

int main(int argc, char *argv[])
{
    static struct dlr_tail tail;
    struct args args = {0};
    uint32_t rank;

    if (argc == 2 && dlr_streq(argv[1], "--help")) {
        usage(stdout);
        return 0;
    }
    if (argc == 2 && dlr_streq(argv[1], "--version")) {
        puts("dlrover-stderr " DLR_VERSION);
        return 0;
    }
    if (parse(argv, &args) < 0) {
        usage(stderr);
        return 2;
    }
    for (int sig = 1; sig < NSIG; sig++)
        signal(sig, SIG_IGN);
    copy(&tail);
    tell_agent(&args, &tail);
    close(STDOUT_FILENO);
    rank = args.rank;
    /* Without the plugin's pipe there is nobody to tell. */
    return write(DLR_STDERR_TAP_DONE_FD, &rank, sizeof(rank)) == sizeof(rank) ? 0 : 1;
}
