/* SPDX-License-Identifier: Apache-2.0 */
/* What Slurm's configuration means for a supervised job. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "mpi_launcher/doctor/doctor.h"

#define ENOUGH_PORTS 60 /* four sruns live in a run, each takes a few for its I/O */
#define VALUE 1024

#define OK DLR_DOCTOR_OK
#define NOTE DLR_DOCTOR_NOTE
#define SKIP DLR_DOCTOR_SKIP
#define PROBLEM DLR_DOCTOR_PROBLEM

/* The value of a key, "" when it has none; false, with a result, without a
 * configuration.
 */
static bool look_up(const struct dlr_doctor *d, const char *key, char buf[VALUE],
                    struct dlr_doctor_result *ret)
{
    buf[0] = '\0';
    if (!d->config) {
        dlr_doctor_say(ret, SKIP,
                       "the configuration is not known, slurmctld does not "
                       "answer");
        return false;
    }
    dlr_doctor_config(d, key, buf, VALUE);
    return true;
}

void dlr_doctor_slurmctld(const struct dlr_doctor *d, struct dlr_doctor_result *ret)
{
    struct dlr_doctor_result munge;
    char release[VALUE] = "";
    size_t line;

    if (d->config_rc == -ENOENT) {
        dlr_doctor_say(ret, PROBLEM,
                       "scontrol is not in PATH: install Slurm's commands");
        return;
    }
    dlr_doctor_munge(d, &munge);
    if (d->config_rc < 0 && munge.verdict == PROBLEM) {
        dlr_doctor_say(ret, SKIP, "cannot be asked without munge");
        return;
    }
    if (d->config_rc < 0) {
        dlr_doctor_say(
            ret, PROBLEM,
            "'scontrol show config' %s: is slurmctld up, is slurm.conf right "
            "on this host, does munged run?",
            d->config_rc == -ETIMEDOUT ? "does not end" : "fails");
        return;
    }
    dlr_doctor_config(d, "SLURM_VERSION", release, sizeof(release));
    line = strcspn(release, ".");
    line += release[line] ? 1 + strcspn(release + line + 1, ".") : 0;
    if (d->release[0] && strncmp(release, d->release, line) != 0)
        dlr_doctor_say(
            ret, NOTE,
            "slurmctld is of release %s, the commands here of %s: the plugin "
            "has to fit the latter",
            release, d->release);
    else
        dlr_doctor_say(ret, OK, "release %s answers", release);
}

void dlr_doctor_pmix(const struct dlr_doctor *d, struct dlr_doctor_result *ret)
{
    static const char *const argv[] = {"srun", "--mpi=list", NULL};
    char text[4096];
    int status = dlr_doctor_capture(argv, text, sizeof(text));

    if (status < 0)
        dlr_doctor_say(ret, SKIP, "srun cannot be run: %s", strerror(-status));
    else if (!strstr(text, "pmix"))
        dlr_doctor_say(ret, PROBLEM,
                       "'srun --mpi=list' has no pmix, which the rendezvous needs: "
                       "install Slurm's mpi/pmix plugin and libpmix on all nodes");
    else
        dlr_doctor_say(ret, OK, "'srun --mpi=list' has pmix");
}

void dlr_doctor_proctrack(const struct dlr_doctor *d, struct dlr_doctor_result *ret)
{
    char value[VALUE];

    if (!look_up(d, "ProctrackType", value, ret))
        return;
    if (dlr_streq(value, "proctrack/pgid"))
        dlr_doctor_say(ret, PROBLEM,
                       "ProctrackType=%s loses processes that start a session, and a "
                       "round cannot be ended: set proctrack/cgroup",
                       value);
    else if (!dlr_streq(value, "proctrack/cgroup"))
        dlr_doctor_say(ret, OK, "ProctrackType=%s (proctrack/cgroup is safer)", value);
    else
        dlr_doctor_say(ret, OK, "ProctrackType=%s", value);
}

/* Mounts pass from one mount namespace to another from Linux 5.2 on. */
static bool shows_in_containers(const struct dlr_doctor *d)
{
    DLR_AUTO_FREE char *release = dlr_doctor_proc(d, "sys/kernel", "osrelease");
    unsigned major = 0, minor = 0;

    if (release)
        sscanf(release, "%3u.%3u", &major, &minor);
    return major > 5 || (major == 5 && minor >= 2);
}

void dlr_doctor_container(const struct dlr_doctor *d, struct dlr_doctor_result *ret)
{
    char value[VALUE];
    const char *name = dlr_doctor_config(d, "NamespaceType", value, sizeof(value))
                           ? "NamespaceType" /* from 25.11 on */
                           : "JobContainerType";

    if (!look_up(d, name, value, ret))
        return;
    if (!strstr(value, "tmpfs"))
        dlr_doctor_say(ret, OK, "%s=%s", name, value[0] ? value : "none");
    else if (shows_in_containers(d))
        dlr_doctor_say(
            ret, OK,
            "%s=%s: the job's tmpfs in /run/dlrover is mounted in its container, too",
            name, value);
    else
        dlr_doctor_say(
            ret, NOTE,
            "%s=%s: before Linux 5.2 the job's tmpfs in /run/dlrover is "
            "not seen in its container; if its Dirs= holds /dev/shm, snapshots lie in "
            "the job's own and end with it",
            name, value);
}

void dlr_doctor_task(const struct dlr_doctor *d, struct dlr_doctor_result *ret)
{
    char value[VALUE], bad_exit[VALUE];

    if (!look_up(d, "TaskPlugin", value, ret) ||
        !look_up(d, "KillOnBadExit", bad_exit, ret))
        return;
    dlr_doctor_say(
        ret, OK, "TaskPlugin=%s%s, KillOnBadExit=%s%s", value,
        strstr(value, "cgroup")
            ? " (with ConstrainRAMSpace snapshots count against a job's --mem)"
            : "",
        bad_exit, dlr_streq(bad_exit, "1") ? " (agents are started without)" : "");
}

void dlr_doctor_topology(const struct dlr_doctor *d, struct dlr_doctor_result *ret)
{
    char value[VALUE], width[VALUE];

    if (!look_up(d, "TopologyPlugin", value, ret) ||
        !look_up(d, "TreeWidth", width, ret))
        return;
    if (dlr_streq(value, "topology/tree") || dlr_streq(value, "topology/block"))
        dlr_doctor_say(ret, OK, "TopologyPlugin=%s, TreeWidth=%s", value, width);
    else
        dlr_doctor_say(
            ret, NOTE,
            "TopologyPlugin=%s: no switch is known, so ranks are not placed by "
            "switch and copies may lie under the same one",
            value[0] ? value : "none");
}

void dlr_doctor_prolog(const struct dlr_doctor *d, struct dlr_doctor_result *ret)
{
    char value[VALUE];
    unsigned major = 0, minor = 0, micro = 0;

    if (!look_up(d, "PrologFlags", value, ret))
        return;
    sscanf(d->release, "%3u.%3u.%3u", &major, &minor, &micro);
    /* fixed in 23.02.6: before, the death of one node ended the extern step on all */
    if (strcasestr(value, "contain") && major > 0 &&
        major * 10000 + minor * 100 + micro < 230206)
        dlr_doctor_say(
            ret, NOTE,
            "PrologFlags=%s: before Slurm 23.02.6 the death of a node ends the "
            "extern step on the job's other nodes, so shells that "
            "pam_slurm_adopt put there are lost",
            value);
    else
        dlr_doctor_say(ret, OK, "PrologFlags=%s", value[0] ? value : "none");
}

void dlr_doctor_requeue(const struct dlr_doctor *d, struct dlr_doctor_result *ret)
{
    char value[VALUE], auth[VALUE], timeout[VALUE];
    const char *expire;
    int delay = 120; /* Slurm's default */

    if (!look_up(d, "JobRequeue", value, ret) || !look_up(d, "AuthInfo", auth, ret) ||
        !look_up(d, "SlurmdTimeout", timeout, ret))
        return;
    if ((expire = strstr(auth, "cred_expire=")))
        delay = atoi(expire + strlen("cred_expire="));
    dlr_doctor_say(
        ret, OK,
        "JobRequeue=%s (jobs ask for it themselves); a requeued job starts %d s "
        "later (cred_expire), a dead node leaves it within SlurmdTimeout=%s",
        value, delay + 1, timeout);
}

/* --- ports ------------------------------------------------------------------------ */

static int can_listen(unsigned port)
{
    DLR_AUTO_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, 1) < 0)
        return -errno;
    return 0;
}

void dlr_doctor_ports(const struct dlr_doctor *d, struct dlr_doctor_result *ret)
{
    char range[VALUE] = "";
    unsigned first = 0, last = 0, open_ports = 0;

    if (d->config)
        dlr_doctor_config(d, "SrunPortRange", range, sizeof(range));
    if (sscanf(range, "%5u-%5u", &first, &last) != 2 || !first || last > 65535) {
        int rc = can_listen(0);

        if (rc < 0)
            dlr_doctor_say(ret, PROBLEM, "cannot listen on any port: %s",
                           strerror(-rc));
        else
            dlr_doctor_say(ret, OK,
                           "no SrunPortRange: any port the kernel gives; a "
                           "firewall between nodes must let them through");
        return;
    }
    for (unsigned port = first; port <= last && open_ports < ENOUGH_PORTS; port++)
        open_ports += can_listen(port) == 0;
    if (open_ports < ENOUGH_PORTS)
        dlr_doctor_say(ret, PROBLEM,
                       "SrunPortRange=%s has %u free ports here, %u are wanted for the "
                       "sruns of a run: make it wider",
                       range, open_ports, ENOUGH_PORTS);
    else
        dlr_doctor_say(ret, OK, "SrunPortRange=%s has ports free", range);
}
