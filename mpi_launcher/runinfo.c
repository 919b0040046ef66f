/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/runinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/str.h"

static unsigned hash_of(char *const *argv)
{
    DLR_AUTO_FREE char *cwd = getcwd(NULL, 0);
    XXH64_hash_t h = cwd ? XXH64(cwd, strlen(cwd), 0) : 0;

    for (; *argv; argv++)
        h = XXH64(*argv, strlen(*argv) + 1, h);
    return (unsigned)(h ^ h >> 32);
}

/* Counts the lines equal to hash in the file and adds one; other sruns of the script wait. */
static int count_occurrence(const struct dlr_runinfo *info, unsigned hash,
                            unsigned *ret, struct dlr_err *err)
{
    DLR_AUTO_FCLOSE FILE *f = NULL;
    char path[DLR_RUN_PATH + 64];
    unsigned value, n = 0;

    snprintf(path, sizeof(path), "%s/runs-%u", info->job_dir, info->incarnation);
    f = fopen(path, "a+e");
    if (!f || flock(fileno(f), LOCK_EX) < 0)
        return dlr_fail(err, -errno, "cannot open '%s': %s", path, strerror(errno));
    rewind(f);
    while (fscanf(f, "%x", &value) == 1)
        n += value == hash;
    fprintf(f, "%08x\n", hash);
    if (fflush(f))
        return dlr_fail(err, -errno, "cannot write '%s': %s", path, strerror(errno));
    *ret = n;
    return 0;
}

static const char *home(void)
{
    const char *dir = getenv("HOME");
    const struct passwd *pw;

    if (dir && dir[0] == '/')
        return dir;
    pw = getpwuid(getuid());
    return pw ? pw->pw_dir : "/tmp";
}

static int copy_env(const char *name, const char *fallback, char *buf, size_t size,
                    struct dlr_err *err)
{
    const char *value = getenv(name);

    if (!value || !value[0])
        value = fallback;
    if (!value)
        return dlr_fail(err, -EINVAL, "%s is not set: not inside a Slurm job", name);
    if (dlr_format(buf, size, "%s", value) < 0 || strpbrk(value, "/ \n"))
        return dlr_fail(err, -EINVAL, "%s='%s' is not a name", name, value);
    return 0;
}

/* Whoever can write into it decides what is restored, and where the journal goes. */
static int check_ours(const char *path, struct dlr_err *err)
{
    struct stat st;

    if (lstat(path, &st) < 0)
        return dlr_fail(err, -errno, "cannot stat '%s': %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return dlr_fail(err, -ENOTDIR,
                        "'%s' is no directory: somebody has taken the name of the "
                        "job's state",
                        path);
    if (st.st_uid != geteuid())
        return dlr_fail(err, -EPERM,
                        "'%s' is of uid %u: somebody has taken the name of the job's "
                        "state; name another --dlrover-state-dir",
                        path, st.st_uid);
    if (st.st_mode & 022)
        return dlr_fail(err, -EPERM,
                        "'%s' can be written by others (mode %03o): take that away "
                        "with chmod go-w",
                        path, st.st_mode & 0777);
    return 0;
}

static int make_job_dir(struct dlr_runinfo *info, const char *state_dir,
                        struct dlr_err *err)
{
    int rc;

    if (state_dir[0])
        rc = dlr_format(info->job_dir, sizeof(info->job_dir), "%s/job-%s", state_dir,
                        info->job);
    else
        rc = dlr_format(info->job_dir, sizeof(info->job_dir), "%s/.dlrover/job-%s",
                        home(), info->job);
    if (rc < 0)
        return dlr_fail(err, rc, "the state directory's path is too long");
    rc = dlr_mkdirs(info->job_dir, 0700, err);
    return rc < 0 ? rc : check_ours(info->job_dir, err);
}

int dlr_runinfo_make(char *const *argv, const char *state_dir, const char *name,
                     struct dlr_runinfo *ret, struct dlr_err *err)
{
    const char *restarts = getenv("SLURM_RESTART_COUNT");
    unsigned hash = hash_of(argv), nth = 0;
    struct dlr_runinfo info = {0};
    int rc;

    if ((rc = copy_env("SLURM_JOB_ID", NULL, info.job, sizeof(info.job), err)) < 0 ||
        (rc = copy_env("SLURM_CLUSTER_NAME", "cluster", info.cluster,
                       sizeof(info.cluster), err)) < 0)
        return rc;
    if (restarts && dlr_parse_uint(restarts, 1u << 30, &info.incarnation) < 0)
        return dlr_fail(err, -EINVAL, "SLURM_RESTART_COUNT='%s' is not a number",
                        restarts);
    if ((rc = make_job_dir(&info, state_dir, err)) < 0)
        return rc;
    if (name)
        snprintf(info.name, sizeof(info.name), "%s", name);
    else if ((rc = count_occurrence(&info, hash, &nth, err)) < 0)
        return rc;
    else
        snprintf(info.name, sizeof(info.name), "%08x-%u", hash, nth);
    if (dlr_format(info.dir, sizeof(info.dir), "%s/%s", info.job_dir, info.name) < 0)
        return dlr_fail(err, -ENAMETOOLONG, "the state directory's path is too long");
    snprintf(info.memory, sizeof(info.memory), "/dev/shm/dlrover-%u-%s/%s", getuid(),
             info.job, info.name);
    snprintf(info.key, sizeof(info.key), "%s.%s.%s", info.cluster, info.job, info.name);
    if ((rc = dlr_mkdirs(info.dir, 0700, err)) < 0 ||
        (rc = check_ours(info.dir, err)) < 0)
        return rc;
    *ret = info;
    return 0;
}
