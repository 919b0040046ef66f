/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin: its line, its file, what belongs to it, and the slurmd that has loaded
 * it.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "common/config/site_rules.h"
#include "mpi_launcher/doctor/doctor.h"
#include "mpi_launcher/doctor/mark.h"

#define PROC_MAX (4u << 20)
#define START_ROUNDED 2 /* seconds: /proc tells when a process started no better */

static void cleanup_stack(struct dlr_plugstack *stack)
{
    dlr_plugstack_done(stack);
}

/* By what it says of itself, else, when it says nothing, by its file's name. */
static bool is_ours(const char *path)
{
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    struct dlr_marks marks;

    return (dlr_marks_load(path, &marks, NULL) == 0 && marks.slurm[0]) ||
           strstr(base, "dlrover") != NULL;
}

int dlr_doctor_plugin_line(const struct dlr_doctor *d, struct dlr_plugstack_line *ret,
                           unsigned *ret_count, char *bad, struct dlr_err *err)
{
    DLR_CLEANUP(cleanup_stack) struct dlr_plugstack stack = {0};
    int rc = dlr_plugstack_load(d->root, d->plugstack, d->plugin_dirs, &stack, err);

    if (rc < 0)
        return rc;
    *ret_count = 0;
    dlr_format(bad, DLR_ERR_TEXT, "%s", stack.bad);
    for (size_t i = 0; i < stack.n; i++) {
        char path[PATH_MAX];

        if (dlr_format(path, sizeof(path), "%s%s", d->root, stack.lines[i].plugin) <
                0 ||
            !is_ours(path))
            continue;
        if ((*ret_count)++ == 0)
            *ret = stack.lines[i];
    }
    return *ret_count > 0;
}

/* --- the line --------------------------------------------------------------------- */

/* Words that only plugstack.conf may have: the table of spank/base/options.c. */
static bool is_sites(const char *word)
{
    static const char *const words[] = {"prefix", "libexec", "job-tmpfs",
                                        "job-tmpfs-size", "job-tmpfs-keep"};

    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        if (dlr_streq(word, words[i]))
            return true;
    return false;
}

/* The first of the line's words that the plugin would ignore, with why; "" when all are
 * good.
 */
static void bad_word(const char *words, char *ret, size_t size)
{
    struct dlr_site_rules rules = {0};
    struct dlr_job_config conf;
    char text[DLR_PLUGSTACK_LINE], *rest = text, *word;

    ret[0] = '\0';
    dlr_job_config_init(&conf);
    dlr_format(text, sizeof(text), "%s", words);
    while (!ret[0] && (word = strsep(&rest, " "))) {
        char *value = strchr(word, '=');
        struct dlr_err err = {0};
        int rc = 0;

        if (!*word)
            continue;
        if (value)
            *value++ = '\0';
        if (!value)
            rc = dlr_fail(&err, -EINVAL, "not NAME=VALUE");
        else if (dlr_site_rules_has(word))
            rc = dlr_site_rules_set(&rules, word, value, &err);
        else if (!is_sites(word))
            rc = dlr_opt_set(dlr_job_config_opts, word, value, &conf, &err);
        if (rc < 0)
            snprintf(ret, size, "'%.64s%s%.64s': %.300s", word, value ? "=" : "",
                     value ? value : "", err.text);
    }
}

static void no_line(const struct dlr_doctor *d, struct dlr_doctor_result *ret)
{
    char path[PATH_MAX], *slash;

    dlr_format(path, sizeof(path), "%s", d->self);
    slash = strstr(path, "/bin/dlrover");
    if (slash)
        *slash = '\0';
    dlr_doctor_say(
        ret, DLR_DOCTOR_PROBLEM,
        "'%.200s' has no line that loads the plugin: add 'optional "
        "%.200s/lib/slurm/spank_dlrover.so', or include the file that has it",
        d->plugstack, slash ? path : "/usr/local");
}

static void judge_line(const struct dlr_plugstack_line *line, unsigned count,
                       const char *bad, struct dlr_doctor_result *ret)
{
    char word[DLR_ERR_TEXT];

    bad_word(line->words, word, sizeof(word));
    if (line->required)
        dlr_doctor_say(
            ret, DLR_DOCTOR_PROBLEM,
            "%.300s:%u loads the plugin as 'required', so that one that does "
            "not load stops every command and drains nodes: write 'optional'",
            line->conf, line->line);
    else if (count > 1)
        dlr_doctor_say(ret, DLR_DOCTOR_PROBLEM,
                       "%u lines load the plugin and Slurm takes the first, %.300s:%u: "
                       "remove the others",
                       count, line->conf, line->line);
    else if (word[0])
        dlr_doctor_say(ret, DLR_DOCTOR_PROBLEM,
                       "%.200s:%u: the plugin ignores %s: see spank_dlrover(8)",
                       line->conf, line->line, word);
    else if (bad[0])
        dlr_doctor_say(ret, DLR_DOCTOR_PROBLEM,
                       "Slurm cannot read %s: a line is 'optional FILE WORDS', "
                       "'required FILE WORDS' or 'include FILE'",
                       bad);
    else
        dlr_doctor_say(ret, DLR_DOCTOR_OK, "%.300s:%u loads '%.300s'%s%.300s",
                       line->conf, line->line, line->plugin,
                       line->words[0] ? " with " : "", line->words);
}

void dlr_doctor_plugstack(const struct dlr_doctor *d, struct dlr_doctor_result *ret)
{
    struct dlr_plugstack_line line;
    char bad[DLR_ERR_TEXT];
    struct dlr_err err = {0};
    unsigned count;
    int rc = dlr_doctor_plugin_line(d, &line, &count, bad, &err);

    if (rc < 0) {
        dlr_doctor_say(ret, DLR_DOCTOR_PROBLEM, "%s: users must be able to read it",
                       err.text);
        return;
    }
    if (rc == 0) {
        no_line(d, ret);
        return;
    }
    judge_line(&line, count, bad, ret);
}

/* --- the file --------------------------------------------------------------------- */

static bool find_plugin(const struct dlr_doctor *d, struct dlr_plugstack_line *ret,
                        struct dlr_doctor_result *result)
{
    char bad[DLR_ERR_TEXT];
    unsigned count;

    if (dlr_doctor_plugin_line(d, ret, &count, bad, NULL) == 1)
        return true;
    dlr_doctor_say(result, DLR_DOCTOR_SKIP, "no line loads the plugin");
    return false;
}

void dlr_doctor_plugin(const struct dlr_doctor *d, struct dlr_doctor_result *ret)
{
    struct dlr_plugstack_line line;
    struct dlr_marks marks;
    struct dlr_err err = {0};
    char path[PATH_MAX];

    if (!find_plugin(d, &line, ret))
        return;
    dlr_format(path, sizeof(path), "%s%s", d->root, line.plugin);
    if (dlr_marks_load(path, &marks, &err) < 0 || !marks.slurm[0]) {
        dlr_doctor_say(
            ret, DLR_DOCTOR_PROBLEM,
            "Slurm cannot load '%.300s'%s%.300s: install the plugin there, or "
            "correct %.200s:%u",
            line.plugin, err.text[0] ? ": " : "", err.text, line.conf, line.line);
        return;
    }
    if (!d->release[0])
        dlr_doctor_say(ret, DLR_DOCTOR_SKIP,
                       "'%.300s' is for Slurm %s; 'srun --version' does not say which "
                       "one this is",
                       line.plugin, marks.slurm);
    else if (!dlr_after(d->release, marks.slurm) ||
             isdigit((unsigned char)d->release[strlen(marks.slurm)]))
        dlr_doctor_say(
            ret, DLR_DOCTOR_PROBLEM,
            "'%.300s' was built for Slurm %s and loads into no other, this is "
            "%s: install the build for this release",
            line.plugin, marks.slurm, d->release);
    else
        dlr_doctor_say(ret, DLR_DOCTOR_OK, "'%.300s' is for Slurm %s, this is %s",
                       line.plugin, marks.slurm, d->release);
}

/* --- what belongs to it ----------------------------------------------------------- */

static void find_libexec(const struct dlr_plugstack_line *line, char *ret, size_t size)
{
    char text[DLR_PLUGSTACK_LINE], *rest = text, *word;
    const char *value;

    dlr_format(ret, size, "%s", DLR_LIBEXECDIR);
    dlr_format(text, sizeof(text), "%s", line->words);
    while ((word = strsep(&rest, " "))) {
        if ((value = dlr_after(word, "libexec=")))
            dlr_format(ret, size, "%s", value);
        if ((value = dlr_after(word, "prefix=")))
            dlr_format(ret, size, "%s/libexec/dlrover", value);
    }
}

/* Whether the file is there and of this version; says what is wrong otherwise. */
static bool good_file(const char *path, bool program, struct dlr_doctor_result *ret)
{
    struct dlr_marks marks;
    struct dlr_err err = {0};

    if (dlr_marks_load(path, &marks, &err) < 0 || (program && access(path, X_OK) < 0)) {
        dlr_doctor_say(
            ret, DLR_DOCTOR_PROBLEM,
            "%s%s: install the suite whole, or set prefix= in plugstack.conf",
            err.text[0] ? err.text : path,
            err.text[0] ? "" : " cannot be run by this user");
        return false;
    }
    if (dlr_streq(marks.version, DLR_VERSION))
        return true;
    dlr_doctor_say(
        ret, DLR_DOCTOR_PROBLEM,
        "'%.300s' is of version %s, this command of %s: install both together", path,
        marks.version[0] ? marks.version : "unknown", DLR_VERSION);
    return false;
}

/* Whether it runs with the libslurm of this host; a job would find out when it has to
 * be requeued.
 */
static bool finds_libslurm(const char *libexec, struct dlr_doctor_result *ret)
{
    char path[PATH_MAX], text[512] = "";
    const char *const argv[] = {path, "--version", NULL};

    if (dlr_format(path, sizeof(path), "%s/dlrover-slurm", libexec) < 0 ||
        dlr_doctor_capture(argv, text, sizeof(text)) == 0)
        return true;
    dlr_doctor_say(
        ret, DLR_DOCTOR_PROBLEM,
        "no job can be requeued, '%.*s': build the suite with LDFLAGS=-L and "
        "the folder of this Slurm's libslurm.so, and leave that where it is",
        (int)strcspn(text, "\n"), text);
    return false;
}

void dlr_doctor_programs(const struct dlr_doctor *d, struct dlr_doctor_result *ret)
{
    static const char *const names[] = {
        "dlrover-keeper", "dlrover-supervisor", "dlrover-agent",
        "dlrover-data",   "dlrover-rendezvous", "dlrover-slurm",
        "dlrover-stderr", "dlrover-relay",      "dlrover-gpu",
    };
    struct dlr_plugstack_line line;
    char libexec[PATH_MAX], path[PATH_MAX], *cut;

    if (!find_plugin(d, &line, ret))
        return;
    find_libexec(&line, libexec, sizeof(libexec));
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (dlr_format(path, sizeof(path), "%s%s/%s", d->root, libexec, names[i]) < 0 ||
            !good_file(path, true, ret))
            return;
    dlr_format(path, sizeof(path), "%s%s", d->root, line.plugin);
    if (access(path, F_OK) == 0 && !good_file(path, false, ret))
        return;
    dlr_format(path, sizeof(path), "%s%s", d->root, libexec);
    if ((cut = strstr(path, "/libexec/dlrover"))) {
        dlr_format(cut, (size_t)(path + sizeof(path) - cut), "/lib/libdlrover.so.0");
        if (access(path, F_OK) == 0 && !good_file(path, false, ret))
            return;
    }
    if (!d->root[0] && !finds_libslurm(libexec, ret))
        return;
    dlr_doctor_say(ret, DLR_DOCTOR_OK, "version %s, in '%.300s'", DLR_VERSION, libexec);
}

/* --- slurmd ----------------------------------------------------------------------- */

char *dlr_doctor_proc(const struct dlr_doctor *d, const char *pid, const char *name)
{
    char path[PATH_MAX], *text = NULL;
    size_t size;

    if (dlr_format(path, sizeof(path), "%s/proc/%s/%s", d->root, pid, name) < 0 ||
        dlr_file_load(AT_FDCWD, path, PROC_MAX, &text, &size, NULL) < 0)
        return NULL;
    return text;
}

bool dlr_doctor_find_slurmd(const struct dlr_doctor *d, char ret_pid[64])
{
    DLR_AUTO_CLOSEDIR DIR *dir = NULL;
    char path[PATH_MAX];
    struct dirent *e;

    if (dlr_format(path, sizeof(path), "%s/proc", d->root) == 0)
        dir = opendir(path);
    while (dir && (e = readdir(dir))) {
        DLR_AUTO_FREE char *comm = isdigit((unsigned char)e->d_name[0])
                                       ? dlr_doctor_proc(d, e->d_name, "comm")
                                       : NULL;

        if (comm && (dlr_streq(comm, "slurmd\n") || dlr_after(comm, "slurmd-")))
            return dlr_format(ret_pid, 64, "%s", e->d_name) == 0;
    }
    return false;
}

/* Seconds since the epoch when the process was started, 0 when /proc does not say. */
static int64_t started_s(const struct dlr_doctor *d, const char *pid)
{
    DLR_AUTO_FREE char *stat_text = dlr_doctor_proc(d, pid, "stat");
    DLR_AUTO_FREE char *boot = dlr_doctor_proc(d, ".", "stat");
    char *at = stat_text ? strrchr(stat_text, ')') : NULL;
    const char *btime = boot ? strstr(boot, "\nbtime ") : NULL;
    unsigned long long ticks = 0;

    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (!at || !btime || sscanf(at, " %20llu", &ticks) != 1)
        return 0;
    return strtoll(btime + strlen("\nbtime "), NULL, 10) +
           (int64_t)(ticks / (unsigned long long)sysconf(_SC_CLK_TCK));
}

/* Whether slurmd has the file mapped: 1, 0, or -1 when this user does not see. Of a
 * file that was replaced the kernel adds "(deleted)". Inodes are not compared:
 * overlayfs shows others.
 */
static int maps_plugin(const struct dlr_doctor *d, const char *pid, const char *path)
{
    DLR_AUTO_FREE char *maps = dlr_doctor_proc(d, pid, "maps");
    char *rest = maps, *line;
    bool seen = false;

    while (maps && (line = strsep(&rest, "\n"))) {
        const char *file = strchr(line, '/');

        if (file && dlr_streq(file, path))
            return 1;
        seen |= file != NULL;
    }
    return seen ? 0 : -1;
}

void dlr_doctor_slurmd(const struct dlr_doctor *d, struct dlr_doctor_result *ret)
{
    static const char todo[] =
        "so jobs leave their memory on this node: restart slurmd "
        "('systemctl restart slurmd'; jobs go on)";
    struct dlr_plugstack_line line;
    char path[PATH_MAX], real[PATH_MAX], pid[64];
    struct stat st;
    int64_t since;
    bool older;
    int maps;

    if (!find_plugin(d, &line, ret))
        return;
    dlr_doctor_plugin(d, ret);
    if (ret->verdict == DLR_DOCTOR_PROBLEM) {
        dlr_doctor_say(ret, DLR_DOCTOR_SKIP, "slurmd cannot load the plugin");
        return;
    }
    if (!dlr_doctor_find_slurmd(d, pid)) {
        dlr_doctor_say(ret, DLR_DOCTOR_SKIP,
                       "no slurmd runs here, or none this user sees");
        return;
    }
    dlr_format(path, sizeof(path), "%s%s", d->root, line.plugin);
    if (stat(path, &st) < 0) {
        dlr_doctor_say(ret, DLR_DOCTOR_SKIP, "the plugin's file is not there");
        return;
    }
    maps = maps_plugin(d, pid, realpath(path, real) ? real : path);
    since = started_s(d, pid);
    older = since && since + START_ROUNDED < st.st_ctime;
    if (maps == 0 || (maps > 0 && older))
        dlr_doctor_say(ret, DLR_DOCTOR_PROBLEM,
                       "slurmd (pid %s) has not loaded the plugin as it is now, %s",
                       pid, todo);
    else if (maps < 0 && older)
        dlr_doctor_say(
            ret, DLR_DOCTOR_PROBLEM,
            "slurmd (pid %s) was started before the plugin was installed, %s", pid,
            todo);
    else if (maps < 0 && !since)
        dlr_doctor_say(ret, DLR_DOCTOR_SKIP, "/proc does not say when slurmd started");
    else
        dlr_doctor_say(ret, DLR_DOCTOR_OK, "slurmd (pid %s) %s, the epilog included",
                       pid,
                       maps > 0 ? "has loaded the plugin"
                                : "was started since the plugin was installed");
}
