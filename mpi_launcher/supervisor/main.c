/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover-supervisor: one per run. Reads its words, opens what it needs, and then only
 * turns events into calls of the policy engine.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/install_path.h"
#include "common/base/log.h"
#include "common/base/open_files.h"
#include "common/base/str.h"
#include "mpi_launcher/journal/journal.h"
#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/slurm/api.h"
#include "mpi_launcher/step_plan/step_plan.h"
#include "mpi_launcher/supervisor/copies/redundancy.h"
#include "mpi_launcher/supervisor/dispatch.h"
#include "mpi_launcher/supervisor/ending/ending.h"
#include "mpi_launcher/supervisor/io/io.h"
#include "mpi_launcher/supervisor/io/outbox.h"
#include "mpi_launcher/supervisor/io/reactor.h"
#include "mpi_launcher/supervisor/io/state_files.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/failure_detector.h"
#include "mpi_launcher/supervisor/nodes/lost_nodes.h"
#include "mpi_launcher/supervisor/nodes/nodes.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/resize.h"
#include "mpi_launcher/supervisor/planning/step_of_run.h"
#include "mpi_launcher/supervisor/planning/verdicts.h"
#include "mpi_launcher/supervisor/rounds/first_cause.h"
#include "mpi_launcher/supervisor/rounds/rounds.h"
#include "mpi_launcher/supervisor/saved_state.h"
#include "mpi_launcher/supervisor/steps/agent_step.h"
#include "mpi_launcher/supervisor/steps/network.h"
#include "mpi_launcher/supervisor/steps/steps.h"
#include "mpi_launcher/supervisor/succession.h"
#include "mpi_launcher/supervisor/supervisor.h"
#include "mpi_launcher/supervisor/versions/versions.h"
#include "mpi_launcher/supervisor/will.h"
#include "mpi_launcher/wire/endpoint.h"

/* Given by the keeper: memory file, eventfd of mpi_launcher/keeper/child_exits.h. */
#define STATE_FD 9
#define BELL_FD 10
#define EXIT_REFUSED 2 /* bad words: nothing was started */
/* ms on top of dead time: an end of srun waits for its reason */
#define SUSPECT_EXTRA 500
/* for the last call of a requeue, and for slurmctld to be asked why */
#define REQUEUE_EXTRA_MS 60000
#define RENDEZVOUS_TRIES 2

/* --- signals ---------------------------------------------------------------------- */

static void take_signals(struct dlr_sup *s)
{
    struct signalfd_siginfo info;

    while (read(s->signal_fd, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo == SIGUSR1 || info.ssi_signo == SIGUSR2) {
            if (dlr_sup_signal_tasks(s->rounds, (int)info.ssi_signo))
                dlr_sup_warned(s->ending, (int)info.ssi_signo);
            continue;
        }
        if (info.ssi_signo == SIGPIPE)
            continue;
        dlr_sup_ending_signal(s->ending, (int)info.ssi_signo);
    }
}

static int on_signal(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_sup *s = arg;

    take_signals(s);
    return dlr_sup_is_over(s) ? -1 : 0;
}

/* --- the start -------------------------------------------------------------------- */

static void usage(FILE *out)
{
    fputs("usage: dlrover-supervisor [--OPTION=VALUE]... -- SRUN-ARGUMENT...\n"
          "Started by dlrover-keeper; not meant for people. It supervises one srun of "
          "a job.\n",
          out);
    dlr_opt_help(dlr_job_config_opts, "", out);
}

static int read_words(struct dlr_sup *s, int argc, char **argv, int *ret_srun_words,
                      struct dlr_err *err)
{
    int i;

    dlr_job_config_init(&s->conf);
    for (i = 1; i < argc && !dlr_streq(argv[i], "--"); i++) {
        const char *word = dlr_after(argv[i], "--");

        if (!word)
            return dlr_fail(err, -EINVAL, "unexpected argument '%s'", argv[i]);
        if (sscanf(word, DLR_SRUN_WORDS_OPTION "%d", ret_srun_words) == 1)
            continue;
        if (dlr_opt_set_word(dlr_job_config_opts, word, &s->conf, err) < 0)
            return -EINVAL;
    }
    return i + 1 < argc ? i + 1 : dlr_fail(err, -EINVAL, "no srun command after '--'");
}

static int open_nodes(struct dlr_sup *s, struct dlr_err *err)
{
    const char *list = dlr_sup_of_allocation("DLROVER_ALL_NODES", "SLURM_JOB_NODELIST");
    const char *here = getenv("SLURMD_NODENAME");
    char **names = NULL;
    unsigned n = 0;
    int rc;

    if (!list)
        return dlr_fail(err, -EINVAL,
                        "SLURM_JOB_NODELIST is not set: not inside a job");
    rc = dlr_slurm_expand(list, &names, &n, err);
    if (rc == 0)
        rc = dlr_sup_nodes_open(s->nodes, names, n, here, err);
    dlr_slurm_free_names(names, n);
    return rc;
}

static int open_control(struct dlr_sup *s, struct dlr_err *err)
{
    char host[256] = "localhost";
    unsigned first = 0, last = 0;
    int rc = dlr_sup_identity_make(s->nodes, s->state_fd, err);

    if (rc < 0)
        return rc;
    if (s->address[0]) /* a supervisor before us had this port: agents still call it */
        first = last = strtoul(strrchr(s->address, ':') + 1, NULL, 10);
    else if (getenv("SLURM_SRUN_PORT_RANGE"))
        sscanf(getenv("SLURM_SRUN_PORT_RANGE"), "%u-%u", &first, &last);
    dlr_endpoint_prepare();
    rc = dlr_sup_outbox_open(s->io, dlr_sup_identity(s->nodes), first, last,
                             s->members->n, err);
    if (rc < 0)
        return rc;
    gethostname(host, sizeof(host) - 1);
    return dlr_format(s->address, sizeof(s->address), "%s:%u", host,
                      dlr_sup_outbox_port(s->io));
}

/* The agents' connections, with none of them twice: a limit that is too low is told
 * before anything is started.
 */
static int open_descriptors(struct dlr_sup *s, struct dlr_err *err)
{
    return dlr_open_files_check(dlr_open_files_raise(), s->members->n, err);
}

static enum dlr_policy_on policy_on(enum dlr_failure_action action)
{
    switch (action) {
    case DLR_FAILURE_REQUEUES:
        return DLR_ON_REQUEUE;
    case DLR_FAILURE_STOPS:
        return DLR_ON_STOP;
    default:
        return DLR_ON_RESTART;
    }
}

static int open_policy(struct dlr_sup *s, struct dlr_err *err)
{
    int64_t dead = dlr_job_config_dead_ms(&s->conf);
    struct dlr_policy_conf pc = {
        .nnodes = s->members->n,
        .nplaces = dlr_sup_full_places(s->planning),
        .group = s->conf.group,
        .min_places = s->conf.nodes.min,
        .max_restarts = s->conf.max_restarts.count,
        .restarts_ms = s->conf.max_restarts.per_ms,
        .rendezvous_tries = RENDEZVOUS_TRIES,
        .agent_timeout_ms = s->conf.agent_timeout_ms,
        .start_timeout_ms = s->conf.start_timeout_ms,
        .batch = dlr_sup_batch(s->nodes)[0],
        .tolerant = s->step->tolerant,
        .limit_ms = s->step->limit_ms,
        .rendezvous_timeout_ms = s->conf.rendezvous_timeout_ms,
        .transfer_timeout_ms = s->conf.transfer_timeout_ms,
        .end_timeout_ms = s->conf.end_timeout_ms,
        .persist_timeout_ms = s->conf.persist_timeout_ms,
        .requeue_timeout_ms = s->conf.requeue_timeout_ms + REQUEUE_EXTRA_MS,
        .controller_timeout_ms = s->conf.controller_timeout_ms,
        .suspect_ms = dead + SUSPECT_EXTRA,
    };

    pc.on_node = policy_on(dlr_failure_rules_node(&s->conf.on));
    for (int code = 1; code < 256; code++)
        pc.on_exit[code] = policy_on(dlr_failure_rules_exit(&s->conf.on, code));
    return dlr_policy_new(&pc, &dlr_sup_policy_ops, s, &s->policy, err);
}

static int open_journal(struct dlr_sup *s, struct dlr_err *err)
{
    char path[DLR_RUN_PATH + 32];

    snprintf(path, sizeof(path), "%s/events.jsonl", s->info.dir);
    return dlr_sup_journal_open(s->io, s->state_fd, path, err);
}

static int open_signals(struct dlr_sup *s)
{
    static const int sigs[] = {SIGINT,  SIGTERM, SIGHUP, SIGQUIT,
                               SIGUSR1, SIGUSR2, SIGPIPE};
    sigset_t set;

    sigemptyset(&set);
    for (unsigned i = 0; i < sizeof(sigs) / sizeof(*sigs); i++)
        sigaddset(&set, sigs[i]);
    s->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (s->signal_fd < 0)
        return -errno;
    return dlr_sup_watch(s->io, s->signal_fd, on_signal, s);
}

static void block_signals(void)
{
    sigset_t set;

    sigfillset(&set);
    sigdelset(&set, SIGSEGV);
    sigdelset(&set, SIGABRT);
    sigdelset(&set, SIGBUS);
    sigdelset(&set, SIGFPE);
    sigdelset(&set, SIGILL);
    sigprocmask(SIG_SETMASK, &set, NULL);
}

/* A round goes on: its holders were chosen before it was known who shares parity. */
static int adopt_places(struct dlr_sup *s, struct dlr_err *err)
{
    int rc = dlr_sup_resize_adopted(s->planning, err);

    if (rc == 0 && dlr_sup_sets(s->copies)->rows > 0 &&
        dlr_sup_holders_make(s->copies) < 0)
        rc = dlr_fail(err, -ENOMEM, "out of memory");
    return rc;
}

/* What was right when the run began ends none that has gone on since. */
static int open_rules(struct dlr_sup *s, struct dlr_err *err)
{
    bool goes_on = s->took_over || s->resume_round > 0;
    int rc =
        goes_on && dlr_sup_file_hangs(s->io) ? 0 : dlr_sup_users_rules(s->rounds, err);

    if (rc == 0 || !goes_on)
        return rc;
    dlr_user_line(s->io, "%s; the run goes on without these rules", err->text);
    return 0;
}

static int prepare(struct dlr_sup *s, int argc, char **argv, int srun_words,
                   struct dlr_err *err)
{
    pid_t holder = s->state_fd >= 0 ? getppid() : getpid();
    int rc;

    dlr_sup_stdin_start(s->rounds);
    if ((rc = dlr_sup_inject_check(err)) < 0 || (rc = open_nodes(s, err)) < 0 ||
        (rc = open_descriptors(s, err)) < 0 ||
        (rc = dlr_sup_read_step(s->planning, argc, argv, srun_words, err)) < 0 ||
        (rc = dlr_sup_fork_server_start(s->io, err)) < 0)
        return rc;
    dlr_user_output_start(s->io);
    if ((rc = dlr_sup_load_state(s, err)) < 0 || (rc = open_rules(s, err)) < 0 ||
        (rc = dlr_sup_plan_step(s->planning, holder, s->took_over, err)) < 0 ||
        (rc = dlr_sup_redundancy_check(s->copies, err)) < 0 ||
        (rc = dlr_sup_group_check(s->planning, err)) < 0 ||
        (rc = dlr_sup_resize_check(s->planning, err)) < 0 ||
        (rc = dlr_sup_vetted_check(s->versions, err)) < 0 ||
        (dlr_sup_adopt_wanted(s->rounds) && (rc = adopt_places(s, err)) < 0) ||
        (rc = open_control(s, err)) < 0 || (rc = open_policy(s, err)) < 0 ||
        (rc = dlr_sup_engines_open(s, err)) < 0)
        return rc;
    dlr_sup_will_open(s);
    return open_journal(s, err);
}

static void tell_start(struct dlr_sup *s, int argc, char **argv)
{
    json_t *nodes = json_array(), *words = json_array();

    for (unsigned i = 0; i < s->members->n; i++)
        json_array_append_new(nodes, json_string(s->members->list[i].node.name));
    for (int i = 0; i < argc; i++)
        json_array_append_new(words, json_string(argv[i]));
    dlr_journal_note(
        dlr_sup_journal(s->io), "start",
        "s:s,s:s,s:i,s:i,s:I,s:o,s:i,s:i,s:i,s:o,s:i,s:i,s:i,s:s", "job", s->info.job,
        "run", s->info.name, "incarnation", s->info.incarnation, "generation",
        s->generation, "round", (json_int_t)s->resume_round, "nodes", nodes, "places",
        s->step->nplaces, "spares", s->members->n - s->step->nplaces, "world",
        s->step->world, "argv", words, "beat_ms", s->conf.beat.every_ms, "dead_ms",
        (int)dlr_job_config_dead_ms(&s->conf), "max_restarts",
        s->conf.max_restarts.count, "version", DLR_VERSION);
    dlr_sup_inject_tell(s->planning);
}

/* The agents of a supervisor that died go on; its workers do when all is in order. */
static void take_over(struct dlr_sup *s)
{
    dlr_sup_steps_adopt(s->steps);
    dlr_sup_rounds_take_over(s->rounds, BELL_FD,
                             s->script_lost
                                 ? "the host of the batch script is silent"
                                 : "the supervisor died and was started again");
}

static void bar_nodes(struct dlr_sup *s)
{
    for (unsigned i = 0; i < s->members->n; i++)
        if (dlr_step_plan_bars(s->step, i))
            dlr_policy_lost_before(s->policy, i);
}

static int run(struct dlr_sup *s)
{
    int64_t now = dlr_sup_now();

    dlr_sup_loop_start(s->io, DLR_SUP_TICK_MS);
    if (open_signals(s) < 0)
        return 1;
    dlr_sup_rounds_start(s->rounds, now);
    dlr_failure_detector_start(s->nodes, now);
    dlr_policy_resume(s->policy, s->resume_round, s->resume_restarts, now);
    bar_nodes(s);
    dlr_sup_load_lost(s->nodes);
    dlr_sup_succession_begin(s, now);
    if (s->succession) /* where we listen: the agent that started us looks */
        dlr_sup_save_takeover_state(s);
    dlr_sup_network_start(s->steps);
    if (s->took_over)
        take_over(s);
    take_signals(s); /* one that came before us may end the run before it begins */
    if (!dlr_sup_has_ended(s) && !dlr_sup_adopting(s->rounds))
        dlr_policy_start(s->policy, now);
    if (!dlr_sup_has_ended(s))
        dlr_joint_requeue_start(s->ending);
    if (!dlr_sup_is_over(s))
        dlr_sup_loop_run(s->io);
    return dlr_sup_ending_code(s->ending);
}

int main(int argc, char **argv)
{
    static struct dlr_sup sup = {.state_fd = -1, .generation = 1};
    struct dlr_sup *s = &sup;
    struct dlr_err err;
    int first, code, srun_words = 0;

    if (argc == 2 && dlr_streq(argv[1], "--help")) {
        usage(stdout);
        return 0;
    }
    if (argc == 2 && dlr_streq(argv[1], "--version")) {
        puts("dlrover-supervisor " DLR_VERSION);
        return 0;
    }
    s->argv = argv;
    dlr_process_keep_secrets();
    dlr_process_keep_code();
    block_signals();
    if (fcntl(STATE_FD, F_SETFD, FD_CLOEXEC) == 0)
        s->state_fd = STATE_FD;
    fcntl(BELL_FD, F_SETFD, FD_CLOEXEC);
    if (!dlr_sup_engines_new(s))
        return EXIT_REFUSED;
    first = read_words(s, argc, argv, &srun_words, &err);
    if (first < 0 || prepare(s, argc - first, argv + first, srun_words, &err) < 0) {
        dlr_user_line(s->io, "%s", err.text);
        dlr_user_output_end(s->io);
        return EXIT_REFUSED;
    }
    if (s->ended_before) {
        if (s->took_over) { /* the agents' farewell may have been lost, and the line */
            dlr_shared_agent_step_end_run(s->steps);
            dlr_sup_end_tell(s->ending);
        } else
            dlr_user_line(s->io,
                          "this srun ended with code %d before the job was requeued",
                          dlr_sup_ending_code(s->ending));
        code = dlr_sup_ending_code(s->ending);
    } else {
        tell_start(s, argc - first, argv + first);
        code = run(s);
    }
    dlr_sup_journal_close(s->io, 5000);
    dlr_user_output_end(s->io);
    dlr_sup_outbox_close(s->io);
    dlr_sup_will_free(s);
    dlr_sup_engines_free(s);
    return code; /* what is logged from now on still takes the engine's way */
}
