/* SPDX-License-Identifier: Apache-2.0 */
/* What a host has to offer: identity, memory, networks. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <munge.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "health/health.h"
#include "mpi_launcher/doctor/doctor.h"

#define OK DLR_DOCTOR_OK
#define NOTE DLR_DOCTOR_NOTE
#define SKIP DLR_DOCTOR_SKIP
#define PROBLEM DLR_DOCTOR_PROBLEM
#define CONF_MAX (1u << 20)
#define TMPFS 0x01021994

void dlr_doctor_munge(const struct dlr_doctor *d, struct dlr_doctor_result *ret)
{
    int64_t before = dlr_now_ms();
    char *cred = NULL;
    uid_t uid = (uid_t)-1;
    gid_t gid;
    munge_err_t rc = munge_encode(&cred, NULL, NULL, 0);

    if (rc == EMUNGE_SUCCESS)
        rc = munge_decode(cred, NULL, NULL, NULL, &uid, &gid);
    free(cred);
    if (rc != EMUNGE_SUCCESS)
        dlr_doctor_say(
            ret, PROBLEM,
            "%s: start munged ('systemctl start munge'); its key must be the "
            "same on all hosts",
            munge_strerror(rc));
    else if (uid != geteuid())
        dlr_doctor_say(ret, PROBLEM,
                       "a credential of uid %u came back as uid %u: "
                       "are user ids mapped here?",
                       (unsigned)geteuid(), (unsigned)uid);
    else
        dlr_doctor_say(ret, OK, "a credential was made and read in %lld ms",
                       (long long)(dlr_now_ms() - before));
}

/* --- memory ----------------------------------------------------------------------- */

static void from_health(const struct dlr_doctor *d, const char *name, const char *todo,
                        struct dlr_doctor_result *ret)
{
    struct dlr_health_env env;
    struct dlr_health_result one;

    dlr_health_env_init(&env);
    env.root = d->root;
    env.shm_need_bytes = d->need_bytes;
    if (dlr_health_run(&env, name, &one, 1, NULL) != 1)
        dlr_doctor_say(ret, SKIP, "no check '%s'", name);
    else if (one.verdict == DLR_HEALTH_SKIP)
        dlr_doctor_say(ret, SKIP, "%s", one.reason);
    else if (one.verdict == DLR_HEALTH_OK)
        dlr_doctor_say(ret, OK, "%s", one.reason);
    else
        dlr_doctor_say(ret, PROBLEM, "%s: %s", one.reason, todo);
}

void dlr_doctor_memory(const struct dlr_doctor *d, struct dlr_doctor_result *ret)
{
    from_health(d, "memory", "look at what uses it, or take the node out", ret);
}

void dlr_doctor_shm(const struct dlr_doctor *d, struct dlr_doctor_result *ret)
{
    struct statfs fs;

    if (statfs("/dev/shm", &fs) < 0 || (unsigned)fs.f_type != TMPFS) {
        dlr_doctor_say(ret, PROBLEM,
                       "/dev/shm is no tmpfs, so snapshots would not lie in "
                       "memory: mount one there");
        return;
    }
    from_health(
        d, "disk",
        "remove what earlier jobs left there ('ls -l /dev/shm'), or mount it "
        "larger ('mount -o remount,size=...'); a job takes four times the state of "
        "a node's ranks",
        ret);
}

static bool has_rdma(const struct dlr_doctor *d)
{
    DLR_AUTO_CLOSEDIR DIR *dir = NULL;
    char path[PATH_MAX];
    struct dirent *e;

    if (dlr_format(path, sizeof(path), "%s/sys/class/infiniband", d->root) == 0)
        dir = opendir(path);
    while (dir && (e = readdir(dir)))
        if (e->d_name[0] != '.')
            return true;
    return false;
}

/* Bytes that may be locked: what slurmd may, as jobs inherit it, else this process. */
static uint64_t lock_limit(const struct dlr_doctor *d, const char **ret_whose)
{
    static const char key[] = "\nMax locked memory";
    char pid[64], hard[32] = "";
    struct rlimit own;
    bool there = dlr_doctor_find_slurmd(d, pid);
    DLR_AUTO_FREE char *limits = there ? dlr_doctor_proc(d, pid, "limits") : NULL;
    const char *at = limits ? strstr(limits, key) : NULL;

    *ret_whose = "slurmd, and so a job,";
    if (at && sscanf(at + strlen(key), "%*s %31s", hard) == 1)
        return dlr_streq(hard, "unlimited") ? UINT64_MAX : strtoull(hard, NULL, 10);
    *ret_whose = "this shell";
    if (getrlimit(RLIMIT_MEMLOCK, &own) < 0 || own.rlim_max == RLIM_INFINITY)
        return UINT64_MAX;
    return own.rlim_max;
}

void dlr_doctor_memlock(const struct dlr_doctor *d, struct dlr_doctor_result *ret)
{
    const char *whose;
    uint64_t limit = lock_limit(d, &whose);

    if (limit == UINT64_MAX)
        dlr_doctor_say(ret, OK, "%s may lock any amount", whose);
    else if (has_rdma(d))
        dlr_doctor_say(
            ret, PROBLEM,
            "%s may lock %llu KiB, RDMA devices need more: "
            "LimitMEMLOCK=infinity for slurmd ('systemctl edit slurmd'), and "
            "in limits.conf where users log in",
            whose, (unsigned long long)limit >> 10);
    else
        dlr_doctor_say(ret, OK, "%s may lock %llu KiB; no RDMA device here needs more",
                       whose, (unsigned long long)limit >> 10);
}

/* --- RemoveIPC -------------------------------------------------------------------- */

/* 1, 0, or -1 for a line that says nothing of it. */
static int remove_ipc_line(const char *line)
{
    const char *value = dlr_after(line + strspn(line, " \t"), "RemoveIPC");

    if (!value)
        return -1;
    value += strspn(value, " \t");
    if (*value != '=')
        return -1;
    value += 1 + strspn(value + 1, " \t");
    return strcasecmp(value, "yes") == 0 || strcasecmp(value, "true") == 0 ||
           strcasecmp(value, "on") == 0 || dlr_streq(value, "1");
}

static void remove_ipc_file(const char *path, int *value, int *built_in)
{
    DLR_AUTO_FREE char *text = NULL;
    char *rest, *line;
    size_t size;

    if (dlr_file_load(AT_FDCWD, path, CONF_MAX, &text, &size, NULL) < 0)
        return;
    rest = text;
    while ((line = strsep(&rest, "\n"))) {
        size_t end = strlen(line);
        int got;

        while (end && (line[end - 1] == ' ' || line[end - 1] == '\r'))
            line[--end] = '\0';
        if ((got = remove_ipc_line(line)) >= 0)
            *value = got;
        else if (line[0] == '#' && (got = remove_ipc_line(line + 1)) >= 0)
            *built_in = got;
    }
}

static int is_conf(const struct dirent *e)
{
    size_t n = strlen(e->d_name);

    return n > 5 && dlr_streq(e->d_name + n - 5, ".conf");
}

int dlr_doctor_remove_ipc(const char *root, int *ret_default)
{
    /* systemd's order: the main file of the first place that has it, then drop-ins */
    static const char *const places[] = {"/etc/systemd", "/run/systemd",
                                         "/usr/lib/systemd"};
    int value = -1, built_in = -1;
    char path[PATH_MAX];

    for (size_t i = 0; i < 3; i++)
        if (dlr_format(path, sizeof(path), "%s%s/logind.conf", root, places[i]) == 0 &&
            access(path, F_OK) == 0) {
            remove_ipc_file(path, &value, &built_in);
            break;
        }
    for (size_t i = 3; i-- > 0;) {
        struct dirent **names = NULL;
        char dir[PATH_MAX - 300];
        int n = -1;

        if (dlr_format(dir, sizeof(dir), "%s%s/logind.conf.d", root, places[i]) == 0)
            n = scandir(dir, &names, is_conf, alphasort);
        for (int k = 0; k < n; k++) {
            if (dlr_format(path, sizeof(path), "%s/%s", dir, names[k]->d_name) == 0)
                remove_ipc_file(path, &value, &built_in);
            free(names[k]);
        }
        free(names);
    }
    *ret_default = built_in;
    return value < 0 ? -ENOENT : value;
}

void dlr_doctor_ipc(const struct dlr_doctor *d, struct dlr_doctor_result *ret)
{
    static const char todo[] =
        "when a user logs out, logind removes what his jobs have in "
        "/dev/shm: set RemoveIPC=no in /etc/systemd/logind.conf and "
        "restart systemd-logind";
    char path[PATH_MAX];
    int built_in, value = dlr_doctor_remove_ipc(d->root, &built_in);
    bool runs = dlr_format(path, sizeof(path), "%s/run/systemd/seats", d->root) == 0 &&
                access(path, F_OK) == 0;

    if (value == 1)
        dlr_doctor_say(ret, PROBLEM, "RemoveIPC=yes: %s", todo);
    else if (value == 0)
        dlr_doctor_say(ret, OK, "RemoveIPC=no");
    else if (!runs)
        dlr_doctor_say(ret, OK, "systemd-logind does not run here");
    else if (built_in == 0)
        dlr_doctor_say(ret, OK, "RemoveIPC is not set, and no by default here");
    else
        dlr_doctor_say(ret, PROBLEM, "RemoveIPC is not set, which is yes: %s", todo);
}

/* --- networks --------------------------------------------------------------------- */

void dlr_doctor_ucx(const struct dlr_doctor *d, struct dlr_doctor_result *ret)
{
    static const char *const argv[] = {"ucx_info", "-d", NULL};
    DLR_AUTO_FREE char *text = malloc(CONF_MAX);
    char seen[512] = "", transport[64] = "";
    char *rest = text, *line;
    size_t used = 0;
    int status = text ? dlr_doctor_capture(argv, text, CONF_MAX) : -ENOMEM;

    if (status != 0) {
        dlr_doctor_say(ret, SKIP, "ucx_info cannot be run (package ucx-utils)");
        return;
    }
    while ((line = strsep(&rest, "\n"))) {
        char device[64];

        if (sscanf(line, "# Transport: %63s", transport) == 1)
            continue;
        if (sscanf(line, "# Device: %63s", device) != 1 ||
            dlr_streq(device, "memory") || dlr_streq(device, "lo") ||
            dlr_streq(transport, "self") ||
            used + strlen(transport) + strlen(device) + 4 > sizeof(seen))
            continue;
        used += (size_t)sprintf(seen + used, "%s%s/%s", used ? ", " : "", transport,
                                device);
    }
    if (!seen[0])
        dlr_doctor_say(ret, PROBLEM,
                       "UCX finds no network device: is there one besides "
                       "lo, does UCX_TLS or UCX_NET_DEVICES exclude it?");
    else
        dlr_doctor_say(ret, OK, "%s", seen);
}
