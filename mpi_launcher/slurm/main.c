/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover-slurm: the calls to slurmctld that supervisor, agents and plugin need, in a
 * process that may wait for it and that a requeue's SIGTERM does not stop.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/err.h"
#include "common/base/str.h"
#include "mpi_launcher/process/slurm_exit_status.h"
#include "mpi_launcher/run/run_info.h"
#include "mpi_launcher/slurm/api.h"
#include "mpi_launcher/slurm/batch_view.h"
#include "mpi_launcher/slurm/network.h"
#include "mpi_launcher/slurm/requeue.h"
#include "mpi_launcher/wire/heartbeat.h"

static void usage(FILE *out)
{
    fputs(
        "usage: dlrover-slurm requeue JOB EXCLUDE MIN-NODES MAX-NODES TIMEOUT "
        "[INCARNATION [DIR [lost|[ask-]memory[-anyway]]]]\n"
        "       dlrover-slurm ping\n"
        "       dlrover-slurm fate JOB\n"
        "       dlrover-slurm witness JOB NODE\n"
        "       dlrover-slurm alive JOB NODE,..\n"
        "       dlrover-slurm cancel-steps JOB SRUN-PID\n"
        "       dlrover-slurm queued JOB SRUN-PID\n"
        "       dlrover-slurm show SPARES STATE-DIR MOST GROUP [TOPOLOGY-FILE]\n"
        "       dlrover-slurm paths NODES TOPOLOGY-FILE\n"
        "Requeues a job without some nodes ('-': none; which, is kept beside the run's "
        "DIR; 'lost': no script is left that could go on; 'memory': with more of it, "
        "or "
        "not\n"
        "at all, which exits with 3; 'ask-': nothing is done but that),\n"
        "asks whether slurmctld answers, prints whether a job runs, is preempted or "
        "ends,\n"
        "exits with 3 when a node of a job is gone, with 4 when it is silent,\n"
        "prints which of a job's nodes may take a step ('-NODE': it has left the "
        "job),\n"
        "cancels the steps that an srun started,\n"
        "exits with 3 when it has none,\n"
        "prints what a batch script sees of this job ('': ~/.dlrover),\n"
        "or the switches above nodes ('': as Slurm has them). Called by "
        "dlrover-supervisor,\n"
        "dlrover-agent and the plugin.\n",
        out);
}

static int fail(const struct dlr_err *err)
{
    puts(err->text); /* the caller reads it from our stdout */
    return 1;
}

/* Nothing is left of the job that could end it: its nodes would stand idle until its
 * time limit. scancel's arguments are the same in every release, the call's are not.
 */
static int cancel(const char *job, const struct dlr_err *err)
{
    pid_t pid;

    printf("%s: the job is cancelled, since its script is lost\n", err->text);
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        execlp("scancel", "scancel", job, NULL);
        _exit(127);
    }
    waitpid(pid, NULL, 0);
    return 1;
}

static int requeue(char **argv)
{
    struct dlr_requeue r = {.exclude = dlr_streq(argv[1], "-") ? "" : argv[1],
                            .incarnation = UINT32_MAX};
    struct dlr_err err = {0};
    const char *how = argv[5] && argv[6] && argv[7] ? argv[7] : "";
    char ours[4096], times[4096], memory[4096], said[DLR_REQUEUE_SAID];
    int rc;

    r.script_lost = dlr_streq(how, "lost");
    r.only_ask = dlr_after(how, "ask-") != NULL;
    how += r.only_ask ? strlen("ask-") : 0;
    r.memory_anyway = dlr_streq(how, "memory-anyway");
    if ((r.memory_anyway || dlr_streq(how, "memory")) &&
        dlr_format(memory, sizeof(memory), "%s/../.memory", argv[6]) == 0)
        r.memory_path = memory;
    if (argv[5] && argv[6] &&
        dlr_format(ours, sizeof(ours), "%s/../.excluded", argv[6]) == 0 &&
        dlr_format(times, sizeof(times), "%s/../.requeued", argv[6]) == 0) {
        r.ours_path = ours;
        r.times_path = times;
    }
    if (dlr_parse_uint(argv[0], UINT32_MAX, &r.job_id) < 0 ||
        dlr_parse_uint(argv[2], 1u << 24, &r.min_nodes) < 0 ||
        dlr_parse_uint(argv[3], 1u << 24, &r.max_nodes) < 0 ||
        dlr_parse_duration_ms(argv[4], &r.timeout_ms) < 0 ||
        (argv[5] && dlr_parse_uint(argv[5], UINT32_MAX, &r.incarnation) < 0)) {
        usage(stderr);
        return 2;
    }
    rc = dlr_requeue_job(&r, said, &err);
    if (rc == -ENOTSUP && r.script_lost)
        return cancel(argv[0], &err);
    if (rc < 0)
        return fail(&err), rc == -ENOSPC ? DLR_SLURM_NO_MEMORY : 1;
    if (said[0])
        printf("with %s%s%s\n", said, err.code ? ", but " : "",
               err.code ? err.text : "");
    else if (err.code)
        printf("but %s\n", err.text);
    return 0;
}

static int ping(void)
{
    struct dlr_err err = {0};

    return dlr_slurm_ping(&err) < 0 ? fail(&err) : 0;
}

static int fate(const char *text)
{
    struct dlr_slurm_job job;
    struct dlr_err err = {0};
    uint32_t id;

    if (dlr_parse_uint(text, UINT32_MAX, &id) < 0) {
        usage(stderr);
        return 2;
    }
    if (dlr_slurm_load_job(id, &job, &err) < 0)
        return fail(&err);
    printf("%s %lld\n", dlr_slurm_fate(&job), (long long)(job.limit - time(NULL)));
    return 0;
}

static int witness(char **argv)
{
    struct dlr_err err = {0};
    uint32_t job;
    int gone;

    if (dlr_parse_uint(argv[0], UINT32_MAX, &job) < 0) {
        usage(stderr);
        return 2;
    }
    gone = dlr_slurm_is_gone(job, argv[1], &err);
    return gone < 0 ? fail(&err) : gone;
}

static int alive(char **argv)
{
    struct dlr_err err = {0};
    uint32_t job;

    if (dlr_parse_uint(argv[0], UINT32_MAX, &job) < 0) {
        usage(stderr);
        return 2;
    }
    return dlr_slurm_alive(job, argv[1], stdout, &err) < 0 ? fail(&err) : 0;
}

/* Both take a job and the pid of an srun. */
static int steps_of(const char *verb, char **argv)
{
    struct dlr_err err = {0};
    unsigned job, pid;
    int n;

    if (dlr_parse_uint(argv[0], UINT32_MAX, &job) < 0 ||
        dlr_parse_uint(argv[1], 1u << 30, &pid) < 0) {
        usage(stderr);
        return 2;
    }
    if (dlr_streq(verb, "cancel-steps"))
        return dlr_slurm_cancel_steps_of(job, pid, &err) < 0 ? fail(&err) : 0;
    n = dlr_slurm_has_step_of(job, pid, &err);
    return n < 0 ? fail(&err) : (n ? 0 : DLR_SLURM_QUEUED);
}

/* The nodes of list with their paths; the caller frees them. NULL with text. */
static struct dlr_topo_node *read_nodes(const char *list, const char *file,
                                        unsigned *ret_n, struct dlr_network *ret,
                                        struct dlr_err *err)
{
    struct dlr_topo_node *nodes;
    char **names = NULL;
    unsigned n = 0;

    if (dlr_slurm_expand(list, &names, &n, err) < 0)
        return NULL;
    nodes = calloc(n, sizeof(*nodes));
    for (unsigned i = 0; nodes && i < n; i++)
        dlr_format(nodes[i].name, sizeof(nodes[i].name), "%s", names[i]);
    dlr_slurm_free_names(names, n);
    if (nodes && dlr_network_paths(file, nodes, n, ret) < 0) {
        free(nodes);
        nodes = NULL;
    }
    if (!nodes)
        dlr_fail(err, -ENOMEM, "no memory for %u nodes", n);
    *ret_n = n;
    return nodes;
}

/* "NAME=value" lines for the environment of the batch script. */
static int show(char **argv)
{
    struct dlr_batch_view_in in = {
        .job = getenv("SLURM_JOB_ID"),
        .list = getenv("SLURM_JOB_NODELIST"),
        .tasks = getenv("SLURM_TASKS_PER_NODE"),
        .cpus = getenv("SLURM_JOB_CPUS_PER_NODE"),
        .ntasks = getenv("SLURM_NTASKS"),
    };
    const char *restarts = getenv("SLURM_RESTART_COUNT");
    DLR_AUTO_FREE struct dlr_topo_node *nodes = NULL;
    bool again = restarts && !dlr_streq(restarts, "0");
    struct dlr_network network;
    struct dlr_err err = {0};
    char dir[DLR_RUN_PATH];
    unsigned spares, most;

    if (dlr_parse_uint(argv[0], 1u << 24, &spares) < 0 ||
        dlr_parse_uint(argv[2], UINT32_MAX, &most) < 0 ||
        dlr_parse_uint(argv[3], UINT32_MAX, &in.group) < 0 || !in.job || !in.list) {
        usage(stderr);
        return 2;
    }
    in.nodes = nodes =
        read_nodes(in.list, argv[4] ? argv[4] : "", &in.n, &network, &err);
    if (!nodes || dlr_runinfo_job_dir(argv[1], in.job, dir, sizeof(dir), &err) < 0)
        return 1;
    if (dlr_batch_view_places(in.n, spares, most, again ? dlr_batch_view_load(dir) : 0,
                              &in.nplaces) < 0 ||
        dlr_batch_view_write(&in, stdout, &err) < 0)
        return 1;
    printf(DLR_KILL_WAIT "=%u\n", dlr_slurm_kill_wait());
    if (!again)
        dlr_batch_view_save(dir, in.nplaces);
    return 0;
}

static int paths(char **argv)
{
    DLR_AUTO_FREE struct dlr_topo_node *nodes = NULL;
    struct dlr_network network;
    struct dlr_err err = {0};
    unsigned n;

    nodes = read_nodes(argv[0], argv[1], &n, &network, &err);
    if (!nodes)
        return fail(&err);
    dlr_network_write(&network, nodes, n, stdout);
    return 0;
}

int main(int argc, char **argv)
{
    struct dlr_err err = {0};

    signal(SIGTERM, SIG_IGN);
    if (dlr_slurm_check_library(&err) < 0)
        return fail(&err);
    if (argc == 2 && dlr_streq(argv[1], "--help")) {
        usage(stdout);
        return 0;
    }
    if (argc == 2 && dlr_streq(argv[1], "--version")) {
        puts("dlrover-slurm " DLR_VERSION);
        return 0;
    }
    if (argc >= 7 && argc <= 10 && dlr_streq(argv[1], "requeue"))
        return requeue(argv + 2);
    if (argc == 2 && dlr_streq(argv[1], "ping"))
        return ping();
    if (argc == 3 && dlr_streq(argv[1], "fate"))
        return fate(argv[2]);
    if (argc == 4 && dlr_streq(argv[1], "witness"))
        return witness(argv + 2);
    if (argc == 4 && dlr_streq(argv[1], "alive"))
        return alive(argv + 2);
    if (argc == 4 &&
        (dlr_streq(argv[1], "cancel-steps") || dlr_streq(argv[1], "queued")))
        return steps_of(argv[1], argv + 2);
    if ((argc == 6 || argc == 7) && dlr_streq(argv[1], "show"))
        return show(argv + 2);
    if (argc == 4 && dlr_streq(argv[1], "paths"))
        return paths(argv + 2);
    usage(stderr);
    return 2;
}
