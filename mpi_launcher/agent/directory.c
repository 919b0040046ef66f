/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/agent/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ckpt/slot/store.h"
#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "common/base/node_memory.h"
#include "common/base/str.h"
#include "common/local/message.h"

#define LEAVE_MS 5000 /* an agent before this one may take to end */

static int choose_place(struct dlr_agent_self *self, char *foreign_memory_name,
                        size_t size, struct dlr_err *err)
{
    struct dlr_agent_conf *conf = &self->conf;
    char usual[DLR_OPT_TEXT];
    bool other;
    int rc;

    memcpy(usual, conf->memory, sizeof(usual));
    rc = dlr_memory_claim(usual, conf->memory, sizeof(conf->memory), &other, err);
    if (rc == 0 && other) {
        dlr_warn("%s: '%s' is not ours: somebody has taken the name; using '%s'",
                 self->node, usual, conf->memory);
        dlr_format(foreign_memory_name, size, "%s", usual);
    }
    return rc;
}

/* An agent that was told to end takes the memory with it: its successor must not have
 * begun to use it by then.
 */
static int wait_for_other(const char *path, struct dlr_err *err)
{
    DLR_AUTO_CLOSE int sock = -1;
    DLR_AUTO_CLOSE int pidfd = -1;
    struct pollfd p = {.events = POLLIN};
    char name[DLR_OPT_TEXT + 16];
    unsigned uid;
    int pid = -1;

    dlr_format(name, sizeof(name), "%s/agent.sock", path);
    if (dlr_local_connect(name, 0, &sock, NULL) < 0 ||
        dlr_local_peer(sock, &uid, &pid) < 0)
        return 0; /* nobody listens */
    pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0)
        return 0; /* has just ended */
    p.fd = pidfd;
    if (poll(&p, 1, LEAVE_MS) == 0)
        return dlr_fail(err, -EBUSY, "another agent, pid %d, keeps '%s'", pid, path);
    return 0;
}

/* /dev/shm is everybody's: a name there may be taken by somebody else, or be a link. */
static int check_ours(int fd, const char *path, struct dlr_err *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return dlr_fail(err, -errno, "cannot stat '%s': %s", path, strerror(errno));
    if (st.st_uid != geteuid())
        return dlr_fail(err, -EPERM,
                        "'%s' belongs to uid %u: somebody has taken the name", path,
                        st.st_uid);
    if ((st.st_mode & 077) != 0)
        return dlr_fail(err, -EPERM, "'%s' has mode %03o, not 700", path,
                        st.st_mode & 0777);
    return 0;
}

static int open_level(int parent, const char *name, const char *path, int *ret_fd,
                      struct dlr_err *err)
{
    DLR_AUTO_CLOSE int fd = -1;
    int rc;

    if (mkdirat(parent, name, 0700) < 0 && errno != EEXIST)
        return dlr_fail(err, -errno, "cannot make '%s': %s", path, strerror(errno));
    fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return dlr_fail(err, -errno, "cannot open '%s': %s", path, strerror(errno));
    rc = check_ours(fd, path, err);
    if (rc < 0)
        return rc;
    *ret_fd = dlr_steal_fd(&fd);
    return 0;
}

static int open_both(int top_fd, const char *job_name, const char *job,
                     const char *run_name, const char *run, int *ret_fd,
                     struct dlr_err *err)
{
    DLR_AUTO_CLOSE int job_fd = -1;
    int rc = open_level(top_fd, job_name, job, &job_fd, err);

    return rc < 0 ? rc : open_level(job_fd, run_name, run, ret_fd, err);
}

/* Never through a link. */
static int open_memory(const char *path, int *ret_fd, struct dlr_err *err)
{
    char top[DLR_OPT_TEXT], job[DLR_OPT_TEXT];
    DLR_AUTO_CLOSE int top_fd = -1;
    const char *run = strrchr(path, '/');
    char *slash;
    int rc;

    if (path[0] != '/' || !run[1] || dlr_format(job, sizeof(job), "%s", path) < 0)
        return dlr_fail(err, -EINVAL, "'%s' is no path of a memory directory", path);
    job[run - path] = '\0';
    memcpy(top, job, sizeof(top));
    slash = strrchr(top, '/');
    if (!slash || slash == top || !slash[1])
        return dlr_fail(err, -EINVAL, "'%s' is no path of a memory directory", path);
    *slash = '\0';
    top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (top_fd < 0)
        return dlr_fail(err, -errno, "cannot open '%s': %s", top, strerror(errno));
    rc = open_both(top_fd, slash + 1, job, run + 1, path, ret_fd, err);
    /* An agent that ends may have removed the upper one, empty, in between. */
    return rc != -ENOENT
               ? rc
               : open_both(top_fd, slash + 1, job, run + 1, path, ret_fd, err);
}

int dlr_agent_memory_take(struct dlr_agent_self *self, char *foreign_memory_name,
                          size_t size, struct dlr_err *err)
{
    const char *memory = self->conf.memory;
    int rc = choose_place(self, foreign_memory_name, size, err);

    rc = rc < 0 ? rc : wait_for_other(memory, err);
    return rc < 0 ? rc : open_memory(memory, &self->dir_fd, err);
}

void dlr_agent_memory_remove(const char *path, bool contents)
{
    char job[DLR_OPT_TEXT], aside[DLR_OPT_TEXT];
    const char *run = strrchr(path, '/');
    const char *path_gone = path;
    struct dlr_err err;

    /* Aside first: a successor finds all of it, with who keeps it, or nothing. */
    if (contents && dlr_format(aside, sizeof(aside), "%s.gone", path) == 0 &&
        rename(path, aside) == 0)
        path_gone = aside;
    if (!contents)
        rmdir(path);
    else if (dlr_store_remove(path_gone, &err) < 0)
        dlr_error("cannot remove '%s': %s", path_gone, err.text);
    if (run && dlr_format(job, sizeof(job), "%.*s", (int)(run - path), path) == 0)
        rmdir(job); /* another run of the job may still use it */
}
