/* SPDX-License-Identifier: Apache-2.0 */
/* The tmpfs that each job has on its nodes: whether root can mount it here, and what it
 * is like.
 */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/node_memory.h"
#include "common/base/str.h"
#include "mpi_launcher/doctor/doctor.h"

#define OK DLR_DOCTOR_OK
#define NOTE DLR_DOCTOR_NOTE
#define PROBLEM DLR_DOCTOR_PROBLEM
#define MAY_MOUNT 21 /* CAP_SYS_ADMIN */

/* The value of a word of plugstack.conf, the last one's; value as it is when there is
 * none.
 */
static void read_word(const char *words, const char *name, char *value, size_t size)
{
    size_t n = strlen(name);

    for (const char *at = words; (at = strstr(at, name)); at += n)
        if ((at == words || at[-1] == ' ') && at[n] == '=')
            dlr_format(value, size, "%.*s", (int)strcspn(at + n + 1, " "), at + n + 1);
}

/* Only when /proc says so: another user's status can be read, a hidden process cannot.
 */
static bool may_not_mount(const struct dlr_doctor *d, const char *pid)
{
    static const char key[] = "\nCapEff:";
    DLR_AUTO_FREE char *status = dlr_doctor_proc(d, pid, "status");
    const char *at = status ? strstr(status, key) : NULL;

    return at && !(strtoull(at + strlen(key), NULL, 16) >> MAY_MOUNT & 1);
}

static bool apart(const struct dlr_doctor *d, const char *pid)
{
    char path[PATH_MAX], its[64] = "", ours[64] = "";

    return dlr_format(path, sizeof(path), "%s/proc/%s/ns/mnt", d->root, pid) == 0 &&
           readlink(path, its, sizeof(its) - 1) > 0 &&
           dlr_format(path, sizeof(path), "%s/proc/self/ns/mnt", d->root) == 0 &&
           readlink(path, ours, sizeof(ours) - 1) > 0 && !dlr_streq(its, ours);
}

/* Jobs that have one here, and those of them that are gone. */
static void count(const char *dir, unsigned *ret_jobs, unsigned *ret_kept)
{
    DLR_AUTO_CLOSEDIR DIR *at = opendir(dir);
    struct dirent *e;

    *ret_jobs = *ret_kept = 0;
    while (at && (e = readdir(at))) {
        if (e->d_name[0] == '.')
            continue;
        if (strstr(e->d_name, ".kept"))
            ++*ret_kept;
        else
            ++*ret_jobs;
    }
}

static void say_usual(const char *dir, const char *size, const char *keep,
                      bool is_apart, struct dlr_doctor_result *ret)
{
    unsigned jobs, kept;

    count(dir, &jobs, &kept);
    dlr_doctor_say(
        ret, is_apart ? NOTE : OK,
        "job-tmpfs-size=%s of a job's memory, job-tmpfs-keep=%s; %u here, %u "
        "of them for requeued jobs%s",
        size, keep, jobs, kept,
        is_apart ? "; slurmd mounts in a namespace of its own, so a shell "
                   "outside of jobs does not see them"
                 : "");
}

void dlr_doctor_tmpfs(const struct dlr_doctor *d, struct dlr_doctor_result *ret)
{
    char bad[DLR_ERR_TEXT], path[PATH_MAX], pid[64];
    char on[32] = "on", size[64] = "100%", keep[32] = "off";
    struct dlr_plugstack_line line;
    struct dlr_err err = {0};
    bool slurmd = dlr_doctor_find_slurmd(d, pid);
    unsigned lines;
    struct stat st;

    if (dlr_doctor_plugin_line(d, &line, &lines, bad, &err) <= 0) {
        dlr_doctor_say(ret, DLR_DOCTOR_SKIP, "the plugin is not in plugstack.conf");
        return;
    }
    read_word(line.words, "job-tmpfs", on, sizeof(on));
    read_word(line.words, "job-tmpfs-size", size, sizeof(size));
    read_word(line.words, "job-tmpfs-keep", keep, sizeof(keep));
    dlr_format(path, sizeof(path), "%s" DLR_MEMORY_OWN, d->root);
    if (dlr_streq(on, "off"))
        dlr_doctor_say(ret, NOTE,
                       "job-tmpfs=off: snapshots lie in /dev/shm, where any user can "
                       "fill the room; take the argument out of plugstack.conf");
    else if (lstat(path, &st) == 0 &&
             (!S_ISDIR(st.st_mode) || st.st_uid != 0 || (st.st_mode & 022)))
        dlr_doctor_say(ret, PROBLEM,
                       DLR_MEMORY_OWN
                       " is not a directory of root's alone, so nothing is mounted in "
                       "it: 'chown root:root " DLR_MEMORY_OWN
                       "; chmod 755 " DLR_MEMORY_OWN "', or remove it");
    else if (slurmd && may_not_mount(d, pid))
        dlr_doctor_say(
            ret, PROBLEM,
            "slurmd (pid %s) may not mount (no CAP_SYS_ADMIN), so snapshots "
            "lie in /dev/shm: look at CapabilityBoundingSet= of its unit, or "
            "at how its container is run",
            pid);
    else
        say_usual(path, size, keep, slurmd && apart(d, pid), ret);
}
