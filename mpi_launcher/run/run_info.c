/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/run/run_info.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/str.h"
#include "mpi_launcher/process/process_id.h"
#include "mpi_launcher/run/trusted_path.h"

extern char **environ;

static uint64_t hash_of(char *const *argv)
{
    DLR_AUTO_FREE char *cwd = getcwd(NULL, 0);
    XXH64_hash_t h = cwd ? XXH64(cwd, strlen(cwd), 0) : 0;

    for (; *argv; argv++)
        h = XXH64(*argv, strlen(*argv) + 1, h);
    return h;
}

/* Variables that shells, Slurm and scripts change from one try to the next. */
static bool is_passing(const char *var)
{
    static const char *const begins[] = {"_=",      "SHLVL=", "OLDPWD=", "SLURM",
                                         "DLROVER", "BASH_",  "MASTER_"};

    for (unsigned i = 0; i < sizeof(begins) / sizeof(*begins); i++)
        if (dlr_after(var, begins[i]))
            return true;
    return false;
}

/* A sweep says in a variable what its sruns differ in: the words alone do not tell a
 * second try from the next program. Their order does not matter.
 */
static uint64_t command_of(char *const *argv)
{
    uint64_t h = hash_of(argv);

    for (char **var = environ; *var; var++)
        if (!is_passing(*var))
            h += XXH64(*var, strlen(*var), 1);
    return h;
}

/* Sruns of the script that start at the same time come one after the other. A file
 * system without locks (Lustre may be mounted so) leaves that to chance.
 */
static int lock(FILE *f)
{
    if (flock(fileno(f), LOCK_EX) == 0 || errno == ENOSYS || errno == ENOLCK ||
        errno == EOPNOTSUPP)
        return 0;
    return -errno;
}

/* Counts the lines that begin with base; -EBUSY when the run of one is alive, 1 when
 * that is us: a supervisor that died early left it.
 */
static int count_lines(FILE *f, const char *base, pid_t keeper, unsigned *ret)
{
    struct dlr_procid id;
    char line[256];
    unsigned n = 0;

    rewind(f);
    while (fgets(line, sizeof(line), f)) {
        const char *rest = dlr_after(line, base);

        if (!rest || *rest != ' ')
            continue;
        *ret = n++;
        if (dlr_procid_parse(rest + 1, &id) == 0 && dlr_procid_alive(&id))
            return id.pid == keeper ? 1 : -EBUSY;
    }
    *ret = n;
    return 0;
}

static int is_busy(const struct dlr_run_want *want, struct dlr_err *err)
{
    if (want->asked[0])
        return dlr_fail(err, -EBUSY,
                        "run '%s' of this job is still running: give this srun a "
                        "--dlrover-name of its own",
                        want->asked);
    return dlr_fail(
        err, -EBUSY,
        "an srun with the same arguments is still running in this job: tell "
        "them apart with --dlrover-name=NAME, which must not change when "
        "the job is requeued");
}

/* How many runs of this incarnation had the same base before; adds this one. */
static int count_occurrence(const struct dlr_runinfo *info,
                            const struct dlr_run_want *want, const char *base,
                            unsigned *ret, struct dlr_err *err)
{
    DLR_AUTO_FCLOSE FILE *f = NULL;
    char path[DLR_RUN_PATH + 64], text[DLR_PROCID_TEXT];
    struct dlr_procid id = {.pid = want->keeper, .host = "-"};
    int rc;

    snprintf(path, sizeof(path), "%s/.runs-%u", info->job_dir, info->incarnation);
    f = fopen(path, "a+e");
    rc = f ? lock(f) : -errno;
    if (rc < 0)
        return dlr_fail(err, rc, "cannot open '%s': %s", path, strerror(-rc));
    rc = count_lines(f, base, want->keeper, ret);
    if (rc != 0)
        return rc < 0 ? is_busy(want, err) : 0;
    dlr_procid_of(want->keeper, &id);
    dlr_procid_show(&id, text);
    fprintf(f, "%s %s\n", base, text);
    if (fflush(f))
        return dlr_fail(err, -errno, "cannot write '%s': %s", path, strerror(errno));
    return 0;
}

/* Names of this form are given to runs that nobody has named. */
static bool looks_given(const char *name)
{
    size_t n = strspn(name, "0123456789abcdef");

    return n == 8 && name[n] == '-' && name[n + 1] &&
           !name[n + 1 + strspn(name + n + 1, "0123456789")];
}

static int name_nth(const struct dlr_run_want *want, const char *base, unsigned nth,
                    char *buf, size_t size)
{
    if (want->asked[0] && !nth)
        return dlr_format(buf, size, "%s", base);
    return dlr_format(buf, size, "%s%c%u", base, want->asked[0] ? '+' : '-', nth);
}

/* The run with that number of these words; -ENOENT: there is none. */
static int look_at(const struct dlr_run_want *want, struct dlr_runinfo *info,
                   const char *base, unsigned number, struct dlr_tries_run *ret,
                   struct dlr_err *err)
{
    char dir[sizeof(info->dir)];

    if (name_nth(want, base, number, info->name, sizeof(info->name)) < 0 ||
        dlr_format(dir, sizeof(dir), "%s/%s", info->job_dir, info->name) < 0)
        return dlr_fail(err, -ENAMETOOLONG, "the state directory's path is too long");
    return want->past(info, dir, ret, err);
}

/* It is the newest try of this run, or the next. Sruns of which no state is known (they
 * were refused) count as tries, too.
 */
static void take_try(struct dlr_runinfo *info, const struct dlr_tries_run *run,
                     unsigned nth)
{
    if (!run->again)
        info->before = run->before;
    if (info->place == DLR_TRIES_REPORTED)
        info->told = dlr_tries_code(&run->before, nth);
    else if (info->before.n < nth)
        dlr_tries_add(&info->before, run->ended ? run->code : DLR_TRIES_ENDED,
                      nth - info->before.n);
}

/* The nth srun of these words in this incarnation belongs to one of the runs that have
 * been, or begins a new one.
 */
static int find_run(const struct dlr_run_want *want, struct dlr_runinfo *info,
                    const char *base, unsigned nth, struct dlr_err *err)
{
    struct dlr_tries_run run, next = {0};
    int rc = look_at(want, info, base, 0, &next, err);

    for (unsigned number = 0; rc == 0; number++) {
        run = next;
        rc = look_at(want, info, base, number + 1, &next, err);
        if (rc < 0 && rc != -ENOENT)
            return rc;
        info->place = dlr_tries_find(&run, nth, rc == 0);
        if (info->place != DLR_TRIES_LATER) {
            info->anew = false;
            take_try(info, &run, nth);
            return name_nth(want, base, number, info->name, sizeof(info->name));
        }
        info->anew = !run.same && !(run.ended && run.code == 0);
        nth -= (run.again ? 0 : run.before.n) + 1;
    }
    if (rc != -ENOENT)
        return rc;
    info->place = DLR_TRIES_NEWEST;
    take_try(info, &(struct dlr_tries_run){0}, nth);
    return 0;
}

static int name_run(const struct dlr_run_want *want, struct dlr_runinfo *info,
                    struct dlr_err *err)
{
    uint64_t hash = hash_of(want->argv);
    char base[sizeof(info->name)];
    unsigned nth = 0;
    int rc;

    info->place = DLR_TRIES_NEWEST;
    info->command = command_of(want->argv);
    if (want->kept)
        return dlr_format(info->name, sizeof(info->name), "%s", want->kept);
    if (looks_given(want->asked))
        return dlr_fail(err, -EINVAL,
                        "--dlrover-name: '%s' looks like the name of a run without "
                        "one: choose another",
                        want->asked);
    rc = want->asked[0]
             ? dlr_format(base, sizeof(base), "%s", want->asked)
             : dlr_format(base, sizeof(base), "%08x", (unsigned)(hash ^ hash >> 32));
    rc = rc < 0 ? rc : count_occurrence(info, want, base, &nth, err);
    if (rc < 0)
        return rc;
    return want->past ? find_run(want, info, base, nth, err)
                      : name_nth(want, base, nth, info->name, sizeof(info->name));
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

static int check_above(const char *path, struct dlr_err *err)
{
    const struct passwd *pw = getpwuid(geteuid());
    struct dlr_trusted_user user = {.uid = geteuid(), .gid = getegid(), .name = ""};
    char name[256] = "";

    if (pw && dlr_format(name, sizeof(name), "%s", pw->pw_name) == 0) {
        user.gid = pw->pw_gid;
        user.name = name;
    }
    user.home = home();
    return dlr_trusted_path(path, &user, err);
}

/* `dlrover status` looks in the home directory, where nothing says which directory a
 * site has set in plugstack.conf. A link that cannot be made is no reason not to run.
 */
static void leave_link(const char *job, const char *job_dir)
{
    char dir[DLR_RUN_PATH], link[DLR_RUN_PATH + 64], old[DLR_RUN_PATH];
    ssize_t n;

    if (dlr_format(dir, sizeof(dir), "%s/.dlrover", home()) < 0 ||
        dlr_format(link, sizeof(link), "%s/job-%s", dir, job) < 0 ||
        dlr_mkdirs(dir, 0700, NULL) < 0)
        return;
    n = readlink(link, old, sizeof(old) - 1);
    old[n > 0 ? n : 0] = '\0';
    if (dlr_streq(link, job_dir) || dlr_streq(old, job_dir))
        return;
    if (n > 0) /* of an older job with this number */
        unlink(link);
    if (symlink(job_dir, link) < 0)
        dlr_debug("cannot link '%s': %s", link, strerror(errno));
}

static void remove_link(const char *path)
{
    struct stat st;

    if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && st.st_uid == geteuid())
        unlink(path);
}

static int job_path(const char *state_dir, const char *job, char *buf, size_t size,
                    struct dlr_err *err)
{
    int rc = state_dir[0] ? dlr_format(buf, size, "%s/job-%s", state_dir, job)
                          : dlr_format(buf, size, "%s/.dlrover/job-%s", home(), job);

    return rc < 0 ? dlr_fail(err, rc, "the state directory's path is too long") : 0;
}

int dlr_runinfo_job_dir(const char *state_dir, const char *job, char *buf, size_t size,
                        struct dlr_err *err)
{
    int rc = job_path(state_dir, job, buf, size, err);

    if (rc < 0)
        return rc;
    if (!state_dir[0]) /* of an srun of this job with another directory */
        remove_link(buf);
    rc = dlr_mkdirs(buf, 0700, err);
    if (rc == 0)
        rc = check_ours(buf, err);
    if (rc == 0)
        rc = check_above(buf, err);
    if (rc == 0 && state_dir[0])
        leave_link(job, buf);
    return rc;
}

int dlr_runinfo_make(const struct dlr_run_want *want, struct dlr_runinfo *ret,
                     struct dlr_err *err)
{
    const char *restarts = getenv("SLURM_RESTART_COUNT");
    struct dlr_runinfo info = {0};
    int rc;

    if ((rc = copy_env("SLURM_JOB_ID", NULL, info.job, sizeof(info.job), err)) < 0 ||
        (rc = copy_env("SLURM_CLUSTER_NAME", "cluster", info.cluster,
                       sizeof(info.cluster), err)) < 0)
        return rc;
    if (restarts && dlr_parse_uint(restarts, 1u << 30, &info.incarnation) < 0)
        return dlr_fail(err, -EINVAL, "SLURM_RESTART_COUNT='%s' is not a number",
                        restarts);
    rc = want->kept ? job_path(want->state_dir, info.job, info.job_dir,
                               sizeof(info.job_dir), err)
                    : dlr_runinfo_job_dir(want->state_dir, info.job, info.job_dir,
                                          sizeof(info.job_dir), err);
    if (rc < 0 || (rc = name_run(want, &info, err)) < 0)
        return rc;
    if (dlr_format(info.dir, sizeof(info.dir), "%s/%s", info.job_dir, info.name) < 0)
        return dlr_fail(err, -ENAMETOOLONG, "the state directory's path is too long");
    snprintf(info.memory, sizeof(info.memory), "/dev/shm/dlrover-%u-%s/%s", getuid(),
             info.job, info.name);
    snprintf(info.key, sizeof(info.key), "%s.%s.%s", info.cluster, info.job, info.name);
    if (!want->kept && ((rc = dlr_mkdirs(info.dir, 0700, err)) < 0 ||
                        (rc = check_ours(info.dir, err)) < 0))
        return rc;
    *ret = info;
    return 0;
}
