/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/cli/base/find_run.h"

#include <dirent.h>
#include <errno.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"

#define JOURNAL "events.jsonl"
#define JOB_DIR "job-"

static int check_name(const char *what, const char *name, struct dlr_err *err)
{
    if (!name)
        return 0;
    if (!name[0] || name[0] == '.' || strchr(name, '/') || strlen(name) >= DLR_CLI_NAME)
        return dlr_fail(err, -EINVAL, "'%.64s' is not the name of a %s", name, what);
    return 0;
}

static int state_dir(const char *given, char *buf, size_t size, struct dlr_err *err)
{
    const char *home = getenv("HOME");
    int rc;

    if (!given)
        given = getenv("DLROVER_STATE_DIR");
    if (given && given[0]) {
        rc = dlr_format(buf, size, "%s", given);
    } else {
        if (!home || home[0] != '/') {
            const struct passwd *pw = getpwuid(getuid());

            home = pw ? pw->pw_dir : "/tmp";
        }
        rc = dlr_format(buf, size, "%s/.dlrover", home);
    }
    if (rc < 0)
        return dlr_fail(err, rc, "the state directory's path is too long");
    return 0;
}

static int64_t mtime_ns(const char *path)
{
    struct stat st;

    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
        return -1;
    return st.st_mtim.tv_sec * 1000000000ll + st.st_mtim.tv_nsec;
}

/* The newest journal of one job into ret, when it is newer than *newest. */
static void look_in_job(const char *base, const char *job, const char *run,
                        struct dlr_cli_run *ret, int64_t *newest)
{
    char dir[PATH_MAX], path[PATH_MAX];
    DLR_AUTO_CLOSEDIR DIR *d = NULL;
    unsigned runs = 0;
    bool here = false;
    struct dirent *e;

    if (dlr_format(dir, sizeof(dir), "%s/" JOB_DIR "%s", base, job) < 0 ||
        !(d = opendir(dir)))
        return;
    while ((e = readdir(d))) {
        int64_t when;

        if (e->d_name[0] == '.' ||
            dlr_format(path, sizeof(path), "%s/%s/" JOURNAL, dir, e->d_name) < 0 ||
            (when = mtime_ns(path)) < 0)
            continue;
        runs++;
        if (when <= *newest || (run && !dlr_streq(run, e->d_name)))
            continue;
        *newest = when;
        here = true;
        dlr_format(ret->job, sizeof(ret->job), "%s", job);
        dlr_format(ret->run, sizeof(ret->run), "%s", e->d_name);
        dlr_format(ret->journal, sizeof(ret->journal), "%s", path);
    }
    if (here)
        ret->others = runs - 1;
}

static int look_in_all(const char *base, const char *run, struct dlr_cli_run *ret,
                       int64_t *newest, struct dlr_err *err)
{
    DLR_AUTO_CLOSEDIR DIR *d = opendir(base);
    struct dirent *e;

    if (!d)
        return dlr_fail(err, -ENOENT, "cannot read the state directory '%s': %s", base,
                        strerror(errno));
    while ((e = readdir(d))) {
        const char *job = dlr_after(e->d_name, JOB_DIR);

        if (job && job[0])
            look_in_job(base, job, run, ret, newest);
    }
    return 0;
}

int dlr_cli_find(const struct dlr_cli_where *where, struct dlr_cli_run *ret,
                 struct dlr_err *err)
{
    const char *job = where->job ? where->job : getenv("SLURM_JOB_ID");
    struct dlr_cli_run found = {0};
    int64_t newest = -1;
    int rc;

    if ((rc = check_name("job", job, err)) < 0 ||
        (rc = check_name("run", where->run, err)) < 0 ||
        (rc = state_dir(where->state_dir, found.state_dir, sizeof(found.state_dir),
                        err)) < 0)
        return rc;
    if (job)
        look_in_job(found.state_dir, job, where->run, &found, &newest);
    else
        rc = look_in_all(found.state_dir, where->run, &found, &newest, err);
    if (rc < 0)
        return rc;
    if (newest < 0)
        return dlr_fail(err, -ENOENT,
                        "no journal: looked for '%.300s/" JOB_DIR "%s/%s/" JOURNAL
                        "' (--state-dir names another place)",
                        found.state_dir, job ? job : "*",
                        where->run ? where->run : "*");
    *ret = found;
    return 0;
}

bool dlr_cli_where_set(struct dlr_cli_where *where, const char *name, const char *value,
                       int *ret_rc, struct dlr_err *err)
{
    *ret_rc = 0;
    if (!name && where->job)
        *ret_rc =
            dlr_fail(err, -EINVAL, "one job at a time: '%.64s' is one too many", value);
    else if (!name)
        where->job = value;
    else if (dlr_streq(name, "run"))
        where->run = value;
    else if (dlr_streq(name, "state-dir"))
        where->state_dir = value;
    else
        return false;
    return true;
}
