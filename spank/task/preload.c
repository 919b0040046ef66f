/* SPDX-License-Identifier: Apache-2.0 */
#include "spank/task/preload.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/env.h"
#include "common/base/str.h"
#include "spank/task/program.h"

#define LIBRARY "libdlrover-mpi.so"
#define FIRST_LINE 256 /* of a script, as the kernel reads it */

void dlr_preload_own_loader(struct dlr_loader *ret)
{
    DLR_AUTO_CLOSE int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct dlr_program self;
    struct stat st;

    *ret = (struct dlr_loader){0};
    if (fd >= 0 && dlr_program_read(fd, &self) == 0 && stat(self.loader, &st) == 0)
        *ret = (struct dlr_loader){st.st_dev, st.st_ino};
}

/* A pipe or a device is not waited for. */
static int open_file(const char *path, int *ret_fd, struct stat *ret_st)
{
    DLR_AUTO_CLOSE int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, ret_st) < 0)
        return -errno;
    if (!S_ISREG(ret_st->st_mode))
        return -EINVAL;
    *ret_fd = dlr_steal_fd(&fd);
    return 0;
}

/* As execvp() goes through PATH. */
static int find_program(const char *name, const char *path, char ret[PATH_MAX])
{
    if (strchr(name, '/'))
        return dlr_format(ret, PATH_MAX, "%s", name);
    while (path) {
        size_t n = strcspn(path, ":");
        struct stat st;

        if (dlr_format(ret, PATH_MAX, "%.*s/%s", n ? (int)n : 1, n ? path : ".",
                       name) == 0 &&
            access(ret, X_OK) == 0 && stat(ret, &st) == 0 && S_ISREG(st.st_mode))
            return 0;
        path = path[n] ? path + n + 1 : NULL;
    }
    return -ENOENT;
}

/* "#!/usr/bin/python3 -u": what the kernel runs. -ENOENT: it is no script. */
static int read_interpreter(int fd, char ret[PATH_MAX])
{
    char line[FIRST_LINE] = "";
    ssize_t n = pread(fd, line, sizeof(line) - 1, 0);
    char *at = line + 2;

    if (n < 3 || line[0] != '#' || line[1] != '!')
        return -ENOENT;
    at += strspn(at, " \t");
    at[strcspn(at, " \t\n")] = '\0';
    return *at == '/' ? dlr_format(ret, PATH_MAX, "%s", at) : -ENOENT;
}

/* What the loader of path's program is told, by that of its interpreter for a script.
 */
static int read_program(char path[PATH_MAX], struct dlr_program *ret, struct stat *st,
                        struct dlr_err *err)
{
    DLR_AUTO_CLOSE int file = -1, interpreter = -1;
    int rc = open_file(path, &file, st), fd = file;

    if (rc < 0)
        return dlr_fail(err, rc, "cannot read '%s'", path);
    if (read_interpreter(file, path) == 0) {
        rc = open_file(path, &interpreter, st);
        if (rc < 0)
            return dlr_fail(err, rc, "cannot read the interpreter '%s'", path);
        fd = interpreter;
    }
    rc = dlr_program_read(fd, ret);
    return rc < 0 ? dlr_fail(err, rc, "'%s' is no program that a loader starts", path)
                  : 0;
}

/* What makes the loader, or a sanitizer, write a line or end the program. */
static int check_program(const struct dlr_loader *own, const struct dlr_program *p,
                         const struct stat *file, struct dlr_err *err)
{
    struct stat st;

    if (file->st_mode & (S_ISUID | S_ISGID))
        return dlr_fail(err, -EPERM, "the program runs with other rights");
    if (!own->ino || stat(p->loader, &st) < 0 || st.st_dev != own->dev ||
        st.st_ino != own->ino)
        return dlr_fail(err, -ENOEXEC, "its loader '%s' is not this node's", p->loader);
    if (p->sanitizer)
        return dlr_fail(err, -EBUSY, "a sanitizer must be loaded first");
    return 0;
}

static int check_library(const char *library, const char *preloaded,
                         struct dlr_err *err)
{
    DLR_AUTO_CLOSE int fd = -1;
    struct stat st;

    if (preloaded && strstr(preloaded, LIBRARY))
        return dlr_fail(err, -EEXIST, "the user preloads it himself");
    if (strpbrk(library, " :") || open_file(library, &fd, &st) < 0)
        return dlr_fail(err, -ENOENT, "'%s' cannot be preloaded", library);
    return 0;
}

int dlr_task_preload(const struct dlr_loader *own, const char *libexec,
                     const char *program, char *const env[], struct dlr_task_env *ret,
                     struct dlr_err *err)
{
    const char *watch = dlr_env_get(env, "DLROVER_WATCH"),
               *preloaded = dlr_env_get(env, "LD_PRELOAD");
    struct dlr_task_var *var = &ret->vars[ret->count];
    DLR_AUTO_FREE char *library = dlr_format_new("%s/" LIBRARY, libexec);
    char path[PATH_MAX];
    struct dlr_program p;
    struct stat st;
    int rc;

    if (!watch || !program || ret->count == DLR_TASK_VARS)
        return dlr_fail(err, -ENOENT, "nobody asks for it");
    if (!library)
        return dlr_fail(err, -ENOMEM, "out of memory");
    if (find_program(program, dlr_env_get(env, "PATH"), path) < 0)
        return dlr_fail(err, -ENOENT, "there is no program '%s'", program);
    rc = read_program(path, &p, &st, err);
    if (rc == 0)
        rc = check_program(own, &p, &st, err);
    if (rc < 0)
        return rc;
    if (!p.mpi && !dlr_streq(watch, "all"))
        return dlr_fail(err, -ENOENT, "'%s' is not linked with MPI", path);
    rc = check_library(library, preloaded, err);
    if (rc < 0)
        return rc;
    var->name = "LD_PRELOAD";
    var->value = dlr_format_new("%s%s%s", preloaded ? preloaded : "",
                                preloaded && *preloaded ? ":" : "", library);
    if (!var->value)
        return dlr_fail(err, -ENOMEM, "out of memory");
    ret->count++;
    return 0;
}
