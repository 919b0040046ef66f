/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/private_munged.h"

#include <fcntl.h>
#include <munge.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/str.h"

#define PROGRAM "/usr/sbin/munged"
#define TEMPLATE "/tmp/dlr-munge-XXXXXX"
#define START_MS 30000
#define KEY_BYTES 128

static char dir[64];
static pid_t pid;
static bool runs;

static void write_key(void)
{
    unsigned char key[KEY_BYTES];
    char path[128];
    int fd;

    dlr_format(path, sizeof(path), "%s/key", dir);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0)
        return;
    if (getrandom(key, sizeof(key), 0) == sizeof(key))
        (void)!write(fd, key, sizeof(key));
    close(fd);
}

static void run_munged(void)
{
    char args[5][160];
    static const char *const names[] = {"socket", "key-file", "pid-file", "log-file",
                                        "seed-file"};
    static const char *const files[] = {"socket", "key", "pid", "log", "seed"};
    int null_fd = open("/dev/null", O_RDWR);

    for (int i = 0; i < 5; i++)
        dlr_format(args[i], sizeof(args[i]), "--%s=%s/%s", names[i], dir, files[i]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(null_fd, 1);
    dup2(null_fd, 2);
    execl(PROGRAM, PROGRAM, "--foreground", "--force", "--num-threads=1", args[0],
          args[1], args[2], args[3], args[4], NULL);
    _exit(127);
}

static bool answers(void)
{
    munge_ctx_t ctx = munge_ctx_create();
    char *cred = NULL;
    bool good;

    munge_ctx_set(ctx, MUNGE_OPT_SOCKET, getenv("MUNGE_SOCKET"));
    good = munge_encode(&cred, ctx, "x", 1) == EMUNGE_SUCCESS;
    free(cred);
    munge_ctx_destroy(ctx);
    return good;
}

/* The socket's appearance is the event. */
static void wait_for_socket(int notify, const char *path)
{
    struct pollfd p = {.fd = notify, .events = POLLIN};
    char buf[4096];

    while (access(path, F_OK) != 0 && poll(&p, 1, START_MS) > 0)
        (void)!read(notify, buf, sizeof(buf));
}

void dlr_test_munged_start(void)
{
    char path[128];
    int notify;

    dlr_format(dir, sizeof(dir), TEMPLATE);
    if (access(PROGRAM, X_OK) != 0 || !mkdtemp(dir))
        return;
    chmod(dir, 0755);
    write_key();
    dlr_format(path, sizeof(path), "%s/socket", dir);
    setenv("MUNGE_SOCKET", path, 1);
    notify = inotify_init1(IN_CLOEXEC);
    inotify_add_watch(notify, dir, IN_CREATE);
    pid = fork();
    if (pid == 0)
        run_munged();
    wait_for_socket(notify, path);
    close(notify);
    runs = answers();
}

void dlr_test_munged_stop(void)
{
    char cmd[128];

    if (pid > 0) {
        kill(pid, SIGTERM);
        waitpid(pid, NULL, 0);
    }
    if (dir[0] && !dlr_streq(dir, TEMPLATE)) {
        dlr_format(cmd, sizeof(cmd), "rm -rf '%s'", dir);
        (void)!system(cmd);
    }
}

bool dlr_test_munged_runs(void)
{
    return runs;
}
