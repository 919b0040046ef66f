/* SPDX-License-Identifier: Apache-2.0 */
/* Across the nodes of a job: one step, a task on each (probe.c), a line from each. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/doctor/doctor.h"

#define OK DLR_DOCTOR_OK
#define SKIP DLR_DOCTOR_SKIP
#define PROBLEM DLR_DOCTOR_PROBLEM
#define CLOCK_OFF_MS 1000
#define BACKLOG 4096
#define ANSWERS (4u << 20)

extern char **environ;

/* --- asking ----------------------------------------------------------------------- */

struct answers {
    int status;
    unsigned wanted;
    char text[ANSWERS];
};

struct question {
    char port[16];
    char file[PATH_MAX];
};
static struct question question; /* of the step that is being run */

void dlr_doctor_scrub_environment(void)
{
    for (size_t i = 0; environ[i];) {
        char name[256];
        const char *e = environ[i];
        bool ours = dlr_after(e, "DLROVER") || dlr_after(e, "PMI") ||
                    (dlr_after(e, "SLURM") && !dlr_after(e, "SLURM_CONF="));

        if (ours &&
            dlr_format(name, sizeof(name), "%.*s", (int)strcspn(e, "="), e) == 0)
            unsetenv(name);
        else
            i++;
    }
}

static unsigned count_nodes(const char *job)
{
    const char *const argv[] = {"scontrol", "show", "job", "-o", job, NULL};
    char text[16384];
    const char *at;

    if (dlr_doctor_capture(argv, text, sizeof(text)) != 0 ||
        !(at = strstr(text, " NumNodes=")))
        return 0;
    return (unsigned)strtoul(at + strlen(" NumNodes="), NULL, 10);
}

static void run_step(const struct dlr_doctor *d, void *ret)
{
    struct answers *a = ret;
    char job[64], nodes[32], tasks[32];
    // clang-format off
    const char *const argv[] = {
        "srun", job, nodes, tasks, "--ntasks-per-node=1", "--overlap", "--mem=0",
        "--mpi=none", "--cpu-bind=none", "--quiet", "--input=none", "--no-kill",
        "--wait=0", "--kill-on-bad-exit=0", "--unbuffered", "--job-name=dlrover-doctor",
        d->self, "doctor", "--probe", d->plugstack, d->plugin_dirs, d->release,
        question.port, question.file, NULL,
    };
    // clang-format on

    dlr_format(job, sizeof(job), "--jobid=%s", d->job);
    dlr_doctor_scrub_environment();
    a->wanted = count_nodes(d->job);
    dlr_format(nodes, sizeof(nodes), "--nodes=%u", a->wanted ? a->wanted : 1);
    dlr_format(tasks, sizeof(tasks), "--ntasks=%u", a->wanted ? a->wanted : 1);
    a->status = dlr_doctor_capture(argv, a->text, sizeof(a->text));
}

/* A port the nodes try to reach; the kernel takes their connections as they come. */
static int listen_here(const struct dlr_doctor *d, char *ret_port, size_t size)
{
    DLR_AUTO_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET};
    unsigned first = 0, last = 0;
    socklen_t len = sizeof(at);
    char range[64] = "";
    int rc = -1;

    if (d->config)
        dlr_doctor_config(d, "SrunPortRange", range, sizeof(range));
    sscanf(range, "%5u-%5u", &first, &last);
    for (unsigned port = first; port <= last && rc < 0; port++) {
        at.sin_port = htons((uint16_t)port);
        rc = bind(fd, (struct sockaddr *)&at, sizeof(at));
    }
    if (rc < 0 || listen(fd, BACKLOG) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) < 0)
        return -1;
    dlr_format(ret_port, size, "%u", (unsigned)ntohs(at.sin_port));
    return dlr_steal_fd(&fd);
}

struct touched {
    int rc;
    char path[PATH_MAX];
};

static void touch_file(const struct dlr_doctor *d, void *ret)
{
    struct touched *t = ret;
    char name[64];
    int fd = -1;

    dlr_format(name, sizeof(name), "nodes-%d", (int)getppid());
    t->rc = dlr_doctor_state_file(d, name, t->path, NULL);
    if (t->rc == 0)
        fd = open(t->path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0)
        t->path[0] = '\0';
    else
        close(fd);
}

static void remove_file(const struct dlr_doctor *d, void *ret)
{
    unlink(question.file);
}

void dlr_doctor_ask_nodes(struct dlr_doctor *d)
{
    int64_t limit =
        d->limit_ms > DLR_DOCTOR_NODES_MS ? d->limit_ms : DLR_DOCTOR_NODES_MS;
    struct answers *a = calloc(1, sizeof(*a));
    DLR_AUTO_CLOSE int fd = -1;
    struct touched touched = {0};
    char none;

    if (!a)
        return;
    if (dlr_doctor_bounded(touch_file, d, &touched, sizeof(touched), d->limit_ms,
                           "the state directory") < 0)
        touched.path[0] = '\0';
    dlr_format(question.file, sizeof(question.file), "%s",
               touched.path[0] ? touched.path : "/nonexistent");
    fd = listen_here(d, question.port, sizeof(question.port));
    d->nodes_from_ns = dlr_wall_ns();
    d->nodes_rc = dlr_doctor_bounded(run_step, d, a, sizeof(*a), limit, "the nodes");
    d->nodes_to_ns = dlr_wall_ns();
    if (d->nodes_rc == 0 && a->status < 0)
        d->nodes_rc = a->status;
    d->nodes_wanted = a->wanted;
    d->nodes = d->nodes_rc == 0 ? strdup(a->text) : NULL;
    if (touched.path[0])
        dlr_doctor_bounded(remove_file, d, &none, sizeof(none), d->limit_ms,
                           "the state directory");
    free(a);
}

/* --- judging ---------------------------------------------------------------------- */

/* The next node's answer, or NULL; *at moves on. The caller's. */
static json_t *next_answer(const char **at)
{
    while ((*at = strstr(*at, DLR_DOCTOR_MARK))) {
        const char *text = *at + strlen(DLR_DOCTOR_MARK);
        size_t len = strcspn(text, "\n");
        json_t *j = json_loadb(text, len, 0, NULL);

        *at = text + len;
        if (j && json_string_value(json_object_get(j, "node")))
            return j;
        json_decref(j);
    }
    return NULL;
}

static bool asked(const struct dlr_doctor *d, struct dlr_doctor_result *ret)
{
    if (d->nodes)
        return true;
    if (d->nodes_rc == -EALREADY)
        dlr_doctor_say(ret, SKIP, "asked by the first task of a step only");
    else
        dlr_doctor_say(ret, SKIP, "the nodes were not asked: see 'nodes'");
    return false;
}

void dlr_doctor_nodes(const struct dlr_doctor *d, struct dlr_doctor_result *ret)
{
    char first[600] = "";
    unsigned heard = 0, bad = 0;
    const char *at = d->nodes;
    json_t *j, *p;
    size_t i;

    if (!d->nodes && d->nodes_rc != -EALREADY) {
        dlr_doctor_say(ret, PROBLEM,
                       "a step over the nodes does not come back (%s): does "
                       "'srun --overlap hostname' work in this job?",
                       strerror(-d->nodes_rc));
        return;
    }
    if (!asked(d, ret))
        return;
    while ((j = next_answer(&at))) {
        const char *node = json_string_value(json_object_get(j, "node")),
                   *version = json_string_value(json_object_get(j, "version"));

        heard++;
        if (!dlr_streq(version, DLR_VERSION) && bad++ == 0)
            snprintf(first, sizeof(first),
                     "%s has version %s, this host %s: install the "
                     "same on both",
                     node, version ? version : "?", DLR_VERSION);
        json_array_foreach(json_object_get(j, "problems"), i, p) if (bad++ == 0)
            snprintf(first, sizeof(first), "%s: %s: %s", node,
                     json_string_value(json_object_get(p, "check")),
                     json_string_value(json_object_get(p, "text")));
        json_decref(j);
    }
    if (heard < d->nodes_wanted || !heard)
        dlr_doctor_say(ret, PROBLEM,
                       "%u of %u nodes answered: is '%.200s' there on each? srun says "
                       "'%.*s'",
                       heard, d->nodes_wanted, d->self, (int)strcspn(d->nodes, "\n"),
                       dlr_after(d->nodes, DLR_DOCTOR_MARK) ? "" : d->nodes);
    else if (bad > 1)
        dlr_doctor_say(ret, PROBLEM, "%s (and %u more)", first, bad - 1);
    else if (bad)
        dlr_doctor_say(ret, PROBLEM, "%s", first);
    else
        dlr_doctor_say(ret, OK, "%u nodes have version %s and pass", heard,
                       DLR_VERSION);
}

/* How far outside of the time of the step this is. */
static int64_t off_ms(const struct dlr_doctor *d, int64_t ns)
{
    if (ns < d->nodes_from_ns)
        return (ns - d->nodes_from_ns) / 1000000;
    return ns > d->nodes_to_ns ? (ns - d->nodes_to_ns) / 1000000 : 0;
}

void dlr_doctor_clock(const struct dlr_doctor *d, struct dlr_doctor_result *ret)
{
    int64_t worst_ms = 0;
    const char *at = d->nodes;
    char node[256] = "";
    json_t *j;

    if (!asked(d, ret))
        return;
    while ((j = next_answer(&at))) {
        int64_t off = off_ms(d, json_integer_value(json_object_get(j, "ns")));

        if (llabs(off) > llabs(worst_ms)) {
            worst_ms = off;
            dlr_format(node, sizeof(node), "%s",
                       json_string_value(json_object_get(j, "node")));
        }
        json_decref(j);
    }
    if (llabs(worst_ms) > CLOCK_OFF_MS)
        dlr_doctor_say(
            ret, PROBLEM,
            "%s is %.1f s %s this host: keep clocks with chrony or ntpd; munge "
            "and Slurm refuse credentials of hosts that are minutes apart",
            node, (double)llabs(worst_ms) / 1000, worst_ms > 0 ? "ahead of" : "behind");
    else
        dlr_doctor_say(ret, OK, "all within %.1f s of this host's",
                       (double)(d->nodes_to_ns - d->nodes_from_ns) / 1e9 +
                           (double)llabs(worst_ms) / 1000);
}

/* The nodes whose answer says no to key: their number and the first ones' names. */
static unsigned who_says_no(const struct dlr_doctor *d, const char *key, char *names,
                            size_t size)
{
    const char *at = d->nodes;
    size_t used = 0;
    unsigned n = 0;
    json_t *j;

    names[0] = '\0';
    while ((j = next_answer(&at))) {
        if (!json_is_true(json_object_get(j, key)) && n++ < 8 && used < size)
            used +=
                (size_t)snprintf(names + used, size - used, "%s%s", used ? ", " : "",
                                 json_string_value(json_object_get(j, "node")));
        json_decref(j);
    }
    return n;
}

void dlr_doctor_network(const struct dlr_doctor *d, struct dlr_doctor_result *ret)
{
    char names[512];

    if (!asked(d, ret))
        return;
    if (who_says_no(d, "reach", names, sizeof(names)))
        dlr_doctor_say(ret, PROBLEM,
                       "%s cannot connect to port %s here, as agents have to: does a "
                       "firewall stand between? SrunPortRange in slurm.conf names the "
                       "ports to open",
                       names, question.port);
    else
        dlr_doctor_say(ret, OK, "every node can connect to this host");
}

void dlr_doctor_shared(const struct dlr_doctor *d, struct dlr_doctor_result *ret)
{
    char names[512];

    if (!asked(d, ret))
        return;
    if (dlr_streq(question.file, "/nonexistent"))
        dlr_doctor_say(ret, SKIP, "the state directory cannot be written: see 'state'");
    else if (who_says_no(d, "state", names, sizeof(names)))
        dlr_doctor_say(
            ret, PROBLEM,
            "%s do not see what this host writes into '%.*s': it must be on a "
            "file system that all nodes share (--dlrover-state-dir)",
            names, (int)(strrchr(question.file, '/') - question.file), question.file);
    else
        dlr_doctor_say(ret, OK, "every node sees it");
}
