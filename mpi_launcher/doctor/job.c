/* SPDX-License-Identifier: Apache-2.0 */
/* Inside a job: whether it is supervised, and what it has to work with on this node. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "common/config/job_config.h"
#include "common/config/settings.h"
#include "mpi_launcher/doctor/doctor.h"

#define OK DLR_DOCTOR_OK
#define NOTE DLR_DOCTOR_NOTE
#define SKIP DLR_DOCTOR_SKIP
#define PROBLEM DLR_DOCTOR_PROBLEM
#define LOW_BYTES (64ull << 20) /* journal and state of a long job take a few MiB */
#define SLOTS 2                 /* of a snapshot on each node that keeps it */

enum source { DEFAULT, SITE, ENVIRONMENT, OPTION };

struct wanted {
    const char *name;
    struct dlr_job_config *conf;
    bool found;
};

static int take_setting(void *arg, size_t row, const char *value, struct dlr_err *err)
{
    struct wanted *w = arg;

    if (dlr_streq(dlr_job_config_opts[row].name, w->name) &&
        dlr_opt_set(dlr_job_config_opts, w->name, value, w->conf, err) == 0)
        w->found = true;
    return 0;
}

/* Whether value, of the option called name or of --dlrover-set, is there and right. */
static bool take(const char *value, const char *name, bool is_set,
                 struct dlr_job_config *conf)
{
    struct wanted w = {name, conf, false};

    if (value && is_set)
        return dlr_settings_read(value, take_setting, &w, NULL) == 0 && w.found;
    return value && dlr_opt_set(dlr_job_config_opts, name, value, conf, NULL) == 0;
}

/* A setting as an srun here would get it, from plugstack.conf, the environment and what
 * Slurm keeps of the job's options. A bad value is no source.
 */
static enum source setting(const struct dlr_doctor *d, const char *name,
                           struct dlr_job_config *conf)
{
    char option[128], variable[128], bad[DLR_ERR_TEXT], *rest, *word;
    bool enable = dlr_streq(name, "enable");
    bool is_set = dlr_opt_find(dlr_job_config_opts, name) - dlr_job_config_opts >=
                  DLR_JOB_CONFIG_OPTIONS;
    const char *said = enable ? "" : is_set ? "set" : name;
    struct dlr_plugstack_line line;
    enum source from = DEFAULT;
    const char *value;
    unsigned count;

    dlr_format(option, sizeof(option),
               "SLURM_SPANK__SLURM_SPANK_OPTION_dlrover_dlrover%s%s", *said ? "_" : "",
               said);
    dlr_format(variable, sizeof(variable), "DLROVER%s%s", *said ? "_" : "", said);
    for (char *c = option; *c; c++)
        *c = *c == '-' ? '_' : *c;
    for (char *c = variable; *c; c++)
        *c = (char)(*c == '-' ? '_' : toupper((unsigned char)*c));
    if (dlr_doctor_plugin_line(d, &line, &count, bad, NULL) == 1)
        for (rest = line.words; (word = strsep(&rest, " "));)
            if ((value = dlr_after(word, name)) && *value == '=' &&
                dlr_opt_set(dlr_job_config_opts, name, value + 1, conf, NULL) == 0)
                from = SITE;
    if (take(getenv(variable), name, is_set, conf))
        from = ENVIRONMENT;
    if (take(getenv(option), name, is_set, conf))
        from = OPTION;
    return from;
}

void dlr_doctor_supervised(const struct dlr_doctor *d, struct dlr_doctor_result *ret)
{
    static const char *const by[] = {[DEFAULT] = "by default",
                                     [SITE] = "by the site's plugstack.conf",
                                     [ENVIRONMENT] = "by DLROVER in the environment",
                                     [OPTION] = "by the job's option --dlrover"};
    const char *round = getenv("DLROVER_ROUND"), *run = getenv("DLROVER_RUN");
    struct dlr_plugstack_line line;
    struct dlr_job_config conf;
    char bad[DLR_ERR_TEXT];
    enum source from;
    unsigned count;

    dlr_job_config_init(&conf);
    if (round) {
        dlr_doctor_say(ret, OK, "this is a task of round %.20s of run '%.100s'", round,
                       run ? run : "?");
        return;
    }
    if (dlr_doctor_plugin_line(d, &line, &count, bad, NULL) != 1) {
        dlr_doctor_say(ret, PROBLEM,
                       "no plugin is loaded on this host, so --dlrover is "
                       "unknown here: see 'plugstack'");
        return;
    }
    from = setting(d, "enable", &conf);
    setting(d, "spares", &conf);
    setting(d, "max-restarts", &conf);
    if (conf.enable)
        dlr_doctor_say(
            ret, OK,
            "an srun here is supervised, %s: %u spare nodes, up to %u restarts",
            by[from], conf.spares, conf.max_restarts.count);
    else
        dlr_doctor_say(
            ret, NOTE,
            "an srun here is not supervised, %s: '#SBATCH --dlrover=on' in the "
            "script, or 'salloc --dlrover=on', turns it on",
            by[from]);
}

static double mib(uint64_t bytes)
{
    return (double)bytes / (1u << 20);
}

/* Where an srun here would keep its state; "" without a home. */
static void find_state_dir(const struct dlr_doctor *d, char ret[PATH_MAX])
{
    struct dlr_job_config conf;

    dlr_format(ret, PATH_MAX, "%s", d->state_dir);
    dlr_job_config_init(&conf);
    if (!d->state_given && setting(d, "state-dir", &conf) != DEFAULT &&
        conf.state_dir[0])
        dlr_format(ret, PATH_MAX, "%s", conf.state_dir);
}

int dlr_doctor_state_file(const struct dlr_doctor *d, const char *name,
                          char path[PATH_MAX], struct dlr_err *err)
{
    char dir[PATH_MAX];
    int rc;

    find_state_dir(d, dir);
    if (!dir[0])
        return dlr_fail(err, -ENOENT, "neither a state directory nor HOME is set");
    rc = dlr_mkdirs(dir, 0700, err);
    if (rc == 0)
        rc = dlr_format(path, PATH_MAX, "%s/.doctor-%s", dir, name);
    return rc;
}

void dlr_doctor_state(const struct dlr_doctor *d, struct dlr_doctor_result *ret)
{
    static const char words[] = "dlrover doctor was here\n";
    DLR_AUTO_CLOSE int fd = -1;
    int64_t before = dlr_now_ms();
    struct dlr_err err = {0};
    struct statvfs st;
    char path[PATH_MAX], name[32];
    int rc;

    dlr_format(name, sizeof(name), "%d", (int)getpid());
    rc = dlr_doctor_state_file(d, name, path, &err);
    if (rc == 0) {
        fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
        if (fd < 0 || dlr_write_all(fd, words, sizeof(words) - 1) < 0 || fsync(fd) < 0)
            rc = dlr_fail(&err, -errno, "cannot write '%.300s': %s", path,
                          strerror(errno));
        if (fd >= 0)
            unlink(path);
    }
    if (rc == 0 && fstatvfs(fd, &st) < 0)
        rc = dlr_fail(&err, -errno, "statvfs '%.300s': %s", path, strerror(errno));
    if (rc < 0)
        dlr_doctor_say(ret, PROBLEM, "%s: choose another with --dlrover-state-dir",
                       err.text);
    else if ((uint64_t)st.f_bavail * st.f_frsize < LOW_BYTES)
        dlr_doctor_say(ret, PROBLEM,
                       "'%.300s' has %.0f MiB free: make room, or choose another with "
                       "--dlrover-state-dir",
                       path, mib((uint64_t)st.f_bavail * st.f_frsize));
    else
        dlr_doctor_say(ret, OK, "'%.*s' was written in %lld ms, %.0f MiB are free",
                       (int)(strrchr(path, '/') - path), path,
                       (long long)(dlr_now_ms() - before),
                       mib((uint64_t)st.f_bavail * st.f_frsize));
}

/* What Slurm lets the job have on this node, 0 when it has not said. */
static uint64_t job_memory(void)
{
    const char *node = getenv("SLURM_MEM_PER_NODE"), *cpu = getenv("SLURM_MEM_PER_CPU"),
               *cpus = getenv("SLURM_CPUS_ON_NODE");

    if (node)
        return strtoull(node, NULL, 10) << 20;
    if (cpu && cpus)
        return (strtoull(cpu, NULL, 10) * strtoull(cpus, NULL, 10)) << 20;
    return 0;
}

void dlr_doctor_budget(const struct dlr_doctor *d, struct dlr_doctor_result *ret)
{
    uint64_t limit = job_memory(), room, least;
    struct dlr_job_config conf;
    struct statvfs st;
    unsigned copies;
    char given[64] = "no limit of Slurm's is known";

    dlr_job_config_init(&conf);
    setting(d, "checkpoint", &conf);
    setting(d, "persist", &conf);
    setting(d, "redundancy", &conf);
    copies = SLOTS * (1 + conf.redundancy.copies);
    if (conf.persist_every.ms != DLR_EVERY_AUTO &&
        (conf.persist_every.steps || conf.persist_every.ms))
        copies++; /* one that may be on its way to the disk; auto does without */
    if (!conf.checkpoint) {
        dlr_doctor_say(ret, OK, "--dlrover-set=checkpoint=off: no memory is taken");
        return;
    }
    if (statvfs("/dev/shm", &st) < 0) {
        dlr_doctor_say(ret, PROBLEM, "/dev/shm: %s", strerror(errno));
        return;
    }
    room = (uint64_t)st.f_bavail * st.f_frsize;
    least = limit && limit < room ? limit : room;
    if (limit)
        snprintf(given, sizeof(given), "the job may use %.0f MiB", mib(limit));
    if (d->need_bytes > least)
        dlr_doctor_say(
            ret, PROBLEM,
            "%s here and /dev/shm has %.0f MiB free, but %.0f MiB are needed: "
            "ask for more --mem, or spread the job over more nodes",
            given, mib(room), mib(d->need_bytes));
    else
        dlr_doctor_say(
            ret, OK,
            "%s here and /dev/shm has %.0f MiB free: at most %.0f MiB of state "
            "on a node, as %u times of it is taken beside the program itself",
            given, mib(room), mib(least / copies), copies);
}
