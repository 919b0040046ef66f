/* SPDX-License-Identifier: Apache-2.0 */
/* The hooks, called as Slurm calls them. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "common/config/job_config.h"
#include "common/local/message.h"
#include "tests/unit/spank/fake_spank.h"

#define MESSAGE_LIMIT_MS 30000
#define NO_JOB 3000000000u /* Slurm has no such ids */

static int reset(void **state)
{
    static const char *const names[] = {
        "DLROVER",      "DLROVER_SPARES", "DLROVER_MAX_RESTARTS", "SBATCH_NO_KILL",
        "SLURM_JOB_ID", "SBATCH_REQUEUE", "DLROVER_SUPERVISED",   "SBATCH_OPEN_MODE",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        unsetenv(names[i]);
    return 0;
}

static void init(spank_context_t context, int ac, char *av[])
{
    fake_reset(context);
    assert_int_equal(slurm_spank_init(NULL, ac, av), 0);
}

static void
what_people_need_and_one_for_the_rest_are_options_in_every_context(void **state)
{
    static const spank_context_t contexts[] = {S_CTX_LOCAL, S_CTX_REMOTE,
                                               S_CTX_ALLOCATOR, S_CTX_SLURMD};

    for (size_t i = 0; i < sizeof(contexts) / sizeof(*contexts); i++) {
        init(contexts[i], 0, NULL);
        assert_string_equal(fake.options[0].name, "dlrover");
        assert_string_equal(fake.options[0].arginfo, "on|off");
        assert_string_equal(fake.options[1].name, "dlrover-spares");
        assert_string_equal(
            fake.options[1].usage,
            "nodes of the allocation kept warm to replace lost ones (default 0)");
        for (unsigned row = 0; row < fake.noptions; row++)
            assert_int_equal(fake.options[row].val, row);
        assert_int_equal(fake.noptions, DLR_JOB_CONFIG_OPTIONS + 1);
        assert_string_equal(fake.options[DLR_JOB_CONFIG_OPTIONS - 1].name,
                            "dlrover-state-dir");
        assert_string_equal(fake.options[DLR_JOB_CONFIG_OPTIONS].name, "dlrover-set");
        assert_string_equal(fake.options[DLR_JOB_CONFIG_OPTIONS].arginfo,
                            "KEY=VALUE,...");
        assert_string_equal(fake.log, "");
    }
}

/* What is there to install must not say what is not so. */
static void sample_and_manual_name_every_option_with_its_default(void **state)
{
    DLR_AUTO_FREE char *sample = NULL;
    DLR_AUTO_FREE char *manual = NULL;
    size_t size;

    if (dlr_file_load(AT_FDCWD, "etc/plugstack.conf.d/dlrover.conf", 1 << 16, &sample,
                      &size, NULL) < 0 ||
        dlr_file_load(AT_FDCWD, "man/spank_dlrover.8.scd", 1 << 16, &manual, &size,
                      NULL) < 0)
        skip(); /* not started in the root of the sources */
    for (const struct dlr_opt *opt = dlr_job_config_opts; opt->name; opt++) {
        char line[512];
        size_t row = (size_t)(opt - dlr_job_config_opts);

        dlr_format(line, sizeof(line), "\n#   %s=%s", opt->name, opt->value);
        sprintf(line + strlen(line), "%*s %s\n", (int)(31 - strlen(line)), "",
                opt->help);
        if (!strstr(sample, line))
            print_error("the sample has no line '%s'\n", line + 1);
        assert_non_null(strstr(sample, line));
        if (row == 0)
            dlr_format(line, sizeof(line), "\n*--dlrover*=");
        else
            dlr_format(line, sizeof(line),
                       "\n*%s%s*=", row < DLR_JOB_CONFIG_OPTIONS ? "--dlrover-" : "",
                       opt->name);
        assert_non_null(strstr(manual, line));
    }
}

static void a_bad_option_is_one_line_and_stops_the_command(void **state)
{
    static const struct {
        const char *name, *value, *text;
    } rows[] = {
        {"dlrover-spares", "x",
         "error: dlrover: --dlrover-spares: bad value 'x': must be a whole number from "
         "0 "
         "to 4294967295\n"},
        {"dlrover", "maybe",
         "error: dlrover: --dlrover: bad value 'maybe': must be 'on' or 'off'\n"},
        {"dlrover", "(null)",
         "error: dlrover: --dlrover needs a value: --dlrover=on|off\n"},
        {"dlrover-spares", NULL,
         "error: dlrover: --dlrover-spares needs a value: --dlrover-spares=N\n"},
        {"dlrover-set", "heartbeat",
         "error: dlrover: --dlrover-set: heartbeat needs a value: "
         "heartbeat=TIME[:MISSED]\n"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        init(S_CTX_LOCAL, 0, NULL);
        assert_int_equal(fake_option(rows[i].name, rows[i].value, 0), -1);
        assert_string_equal(fake.log, rows[i].text);
    }
}

static void on_a_node_no_option_fails(void **state)
{
    init(S_CTX_REMOTE, 1, (char *[]){"nonsense"});
    assert_int_equal(fake_option("dlrover-spares", "x", 1), 0);
    assert_int_equal(fake_option("dlrover", NULL, 1), 0);
    assert_string_equal(fake.log, "");
}

static void a_bad_word_of_the_site_is_said_and_ignored(void **state)
{
    init(S_CTX_LOCAL, 3, (char *[]){"spares=many", "colour", "enable=on"});
    assert_string_equal(
        fake.log,
        "error: dlrover: ignoring 'spares=many' in plugstack.conf: bad value 'many': "
        "must "
        "be a whole number from 0 to 4294967295\n"
        "error: dlrover: ignoring 'colour' in plugstack.conf: not NAME=VALUE\n");
}

static void a_bad_variable_is_said_and_ignored(void **state)
{
    setenv("DLROVER_MAX_RESTARTS", "-1", 1);
    init(S_CTX_LOCAL, 0, NULL);
    assert_string_equal(fake.log,
                        "error: dlrover: ignoring DLROVER_MAX_RESTARTS in the "
                        "environment: bad value '-1': must be N[/TIME], a whole "
                        "number and a time above 0 and up to 24 days, such as '3', "
                        "'10/1h' or '5/30m'\n");
}

static void an_option_in_the_script_reaches_the_allocator(void **state)
{
    init(S_CTX_ALLOCATOR, 0, NULL);
    assert_null(getenv("SBATCH_NO_KILL"));
    assert_int_equal(fake_option("dlrover-spares", "1", 0), 0);
    assert_null(getenv("SBATCH_NO_KILL"));
    assert_int_equal(fake_option("dlrover", "on", 0), 0);
    assert_string_equal(getenv("SBATCH_NO_KILL"), "set");
    assert_string_equal(getenv("SBATCH_REQUEUE"), "");
    assert_string_equal(getenv("SBATCH_OPEN_MODE"), "append");
    assert_int_equal(slurm_spank_init_post_opt(NULL, 0, NULL), 0);
    assert_null(getenv("SBATCH_NO_KILL"));
}

/* Slurm keeps the last one of several: the job's sruns have to know them all. */
static void several_lists_of_settings_are_kept_as_one(void **state)
{
    init(S_CTX_ALLOCATOR, 0, NULL);
    assert_int_equal(fake_option("dlrover-set", "pace=auto,checks=none", 0), 0);
    assert_int_equal(fake_option("dlrover-set", "heartbeat=1s,checks=all", 0), 0);
    assert_int_equal(slurm_spank_init_post_opt(NULL, 0, NULL), 0);
    assert_string_equal(fake.kept_name, "_SLURM_SPANK_OPTION_dlrover_dlrover_set");
    assert_string_equal(fake.kept, "heartbeat=1s:5,checks=all,pace=auto");
    assert_string_equal(getenv(fake.kept_name), fake.kept);
    unsetenv(fake.kept_name);
    assert_string_equal(fake.log, "");
}

static void a_job_without_a_spare_is_told_once(void **state)
{
    init(S_CTX_ALLOCATOR, 0, NULL);
    fake_option("dlrover", "on", 0);
    for (int component = 0; component < 2; component++)
        assert_int_equal(slurm_spank_init_post_opt(NULL, 0, NULL), 0);
    assert_string_equal(
        fake.log,
        "info: dlrover: no spare node: a node that is lost sends the job back to the "
        "queue. Ask for one node more and --dlrover-spares=1, or allow fewer "
        "(--dlrover-nodes=MIN); --dlrover-spares=0 ends this line\n");
    assert_string_equal(fake.kept, "");
}

static void the_environment_and_the_site_reach_the_allocator(void **state)
{
    setenv("DLROVER", "on", 1);
    init(S_CTX_ALLOCATOR, 0, NULL);
    assert_string_equal(getenv("SBATCH_NO_KILL"), "set");
    slurm_spank_init_post_opt(NULL, 0, NULL);
    setenv("DLROVER", "off", 1);
    init(S_CTX_ALLOCATOR, 1, (char *[]){"enable=on"});
    assert_null(getenv("SBATCH_NO_KILL"));
    unsetenv("DLROVER");
    init(S_CTX_ALLOCATOR, 1, (char *[]){"enable=on"});
    assert_string_equal(getenv("SBATCH_NO_KILL"), "set");
    slurm_spank_init_post_opt(NULL, 0, NULL);
}

static void srun_says_why_it_runs_alone(void **state)
{
    init(S_CTX_LOCAL, 1, (char *[]){"libexec=/nowhere"});
    fake_option("dlrover", "on", 0);
    assert_int_equal(slurm_spank_init_post_opt(NULL, 0, NULL), 0);
    assert_string_equal(fake.log,
                        "info: dlrover: supervision needs an allocation (sbatch "
                        "or salloc); running without\n");
    setenv("SLURM_JOB_ID", "12", 1);
    fake.log[0] = '\0';
    assert_int_equal(slurm_spank_init_post_opt(NULL, 0, NULL), 0);
    assert_string_equal(fake.log,
                        "error: dlrover: cannot run '/nowhere/dlrover-keeper': No "
                        "such file or directory: running without supervision\n");
    setenv("DLROVER_SUPERVISED", "12.0.x", 1);
    fake.log[0] = '\0';
    assert_int_equal(slurm_spank_init_post_opt(NULL, 0, NULL), 0);
    assert_string_equal(fake.log, "");
}

/* An agent's socket and the environment of a round that names it. */
struct agent {
    int fd, peer;
    uint32_t job;
    char job_dir[64], dir[80], path[96];
    char var[128];
    char *env[8];
};

static void agent_start(struct agent *a)
{
    static char round[] = "DLROVER_ROUND=4", nodes[] = "DLROVER_ROUND_NODES=n2,n1",
                tasks[] = "DLROVER_TASKS=1,1", port[] = "DLROVER_MASTER_PORT=2900",
                self[] = "SLURMD_NODENAME=n1";

    *a = (struct agent){.fd = -1, .peer = -1, .job = NO_JOB + getpid()};
    dlr_format(a->job_dir, sizeof(a->job_dir), "/dev/shm/dlrover-%u-%u", geteuid(),
               a->job);
    dlr_format(a->dir, sizeof(a->dir), "%s/run", a->job_dir);
    assert_int_equal(mkdir(a->job_dir, 0700) | mkdir(a->dir, 0700), 0);
    dlr_format(a->path, sizeof(a->path), "%s/agent.sock", a->dir);
    dlr_format(a->var, sizeof(a->var), "DLROVER_AGENT_SOCKET=%s", a->path);
    assert_int_equal(dlr_local_listen(a->path, &a->fd, NULL), 0);
    a->env[0] = round;
    a->env[1] = nodes;
    a->env[2] = tasks;
    a->env[3] = port;
    a->env[4] = self;
    a->env[5] = a->var;
}

static void agent_stop(struct agent *a)
{
    close(a->fd);
    if (a->peer >= 0)
        close(a->peer);
    unlink(a->path);
    rmdir(a->dir);
    rmdir(a->job_dir);
}

/* The step's job, as Slurm says it. */
static void enter(struct agent *a)
{
    fake.job_env = a->env;
    fake.job = a->job;
    fake.uid = geteuid();
}

static void expect(struct agent *a, enum dlr_local_type type, int rank, uint64_t arg)
{
    struct pollfd pfd = {.fd = a->peer < 0 ? a->fd : a->peer, .events = POLLIN};
    struct dlr_local_msg msg;
    int fds[DLR_LOCAL_FDS];
    unsigned nfds;

    assert_int_equal(poll(&pfd, 1, MESSAGE_LIMIT_MS), 1);
    if (a->peer < 0) {
        a->peer = accept(a->fd, NULL, NULL);
        pfd.fd = a->peer;
        assert_int_equal(poll(&pfd, 1, MESSAGE_LIMIT_MS), 1);
    }
    assert_int_equal(dlr_local_recv(a->peer, &msg, fds, &nfds), 1);
    assert_int_equal(msg.type, type);
    assert_int_equal(msg.round, 4);
    assert_int_equal(msg.rank, rank);
    assert_int_equal(msg.arg[0], arg);
}

/* Slurm copies and frees a job's environment between hooks: nothing may point into it.
 */
static void scrub(struct agent *a)
{
    memset(a->var, 'x', sizeof(a->var) - 1);
    fake.job_env = NULL;
}

/* Before plugins that take their time for the user: once is enough. */
static void a_step_is_told_when_slurmstepd_begins_and_once(void **state)
{
    struct agent a;
    struct pollfd pfd = {.events = POLLIN};

    agent_start(&a);
    init(S_CTX_REMOTE, 0, NULL);
    enter(&a);
    assert_int_equal(slurm_spank_init_post_opt(NULL, 0, NULL), 0);
    expect(&a, DLR_LOCAL_STEPD, -1, 0);
    assert_int_equal(slurm_spank_user_init(NULL, 0, NULL), 0);
    pfd.fd = a.fd;
    assert_int_equal(poll(&pfd, 1, 0), 0);
    agent_stop(&a);
}

static void a_step_of_a_round_is_told_to_the_agent(void **state)
{
    struct agent a;

    agent_start(&a);
    init(S_CTX_REMOTE, 0, NULL);
    enter(&a);
    fake.rank = 1;
    fake.pid = 4711;
    fake.status = 9;
    assert_int_equal(slurm_spank_user_init(NULL, 0, NULL), 0);
    scrub(&a);
    assert_int_equal(slurm_spank_task_post_fork(NULL, 0, NULL), 0);
    assert_int_equal(slurm_spank_task_exit(NULL, 0, NULL), 0);
    expect(&a, DLR_LOCAL_STEPD, -1, 0);
    expect(&a, DLR_LOCAL_TASK, 1, 4711);
    expect(&a, DLR_LOCAL_EXIT, 1, 9);
    agent_stop(&a);
}

/* Whatever is written behind an option: one line says what is wrong, and steers no
 * terminal.
 */
static void hostile_option_text_becomes_one_plain_line(void **state)
{
    static char endless[1 << 20];
    static const char *const texts[] = {
        "%n%n%s%s",     "a\nslurm_error: forged", "\033[2J\033]0;title\a",
        "\xff\xfe\x80", "'\"`$(reboot)",          "\",\"enable\":\"on",
        endless,
    };

    memset(endless, 'x', sizeof(endless) - 1);
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        for (unsigned row = 0; row <= DLR_JOB_CONFIG_OPTIONS; row++) {
            enum dlr_opt_type type = dlr_job_config_opts[row].type;

            init(S_CTX_LOCAL, 0, NULL);
            if (row < DLR_JOB_CONFIG_OPTIONS && type == DLR_OPT_WORD &&
                texts[i] == texts[0])
                continue; /* an honest word */
            assert_int_equal(fake.options[row].cb(row, texts[i], 0), -1);
            assert_ptr_equal(strchr(fake.log, '\n'), fake.log + strlen(fake.log) - 1);
            for (const char *c = fake.log; c[1]; c++)
                assert_true((unsigned char)*c >= ' ' && *c != 0x7f);
            assert_int_equal(fake.options[row].cb(row, texts[i], 1),
                             0); /* in slurmstepd */
        }
    }
}

/* What the user writes into the step's environment opens nothing but his own job's
 * socket.
 */
static void only_the_jobs_own_socket_is_connected_to(void **state)
{
    static const char *const forms[][2] = {
        /* before and behind the name of the job's directory */
        {"/dev/shm/", "/../x/agent.sock"},    {"/dev/shm/", "/run/other"},
        {"/dev/shm/", "/agent.sock"},         {"/dev/shm/", "1/run/agent.sock"},
        {"/tmp/", "/run/agent.sock"},         {"", "/run/agent.sock"},
        {"/dev/shm/", "/run/agent.sock%n%s"},
    };
    struct agent a;

    agent_start(&a);
    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
        dlr_format(a.var, sizeof(a.var), "DLROVER_AGENT_SOCKET=%s%s%s", forms[i][0],
                   strrchr(a.job_dir, '/') + 1, forms[i][1]);
        init(S_CTX_REMOTE, 0, NULL);
        enter(&a);
        assert_int_equal(slurm_spank_user_init(NULL, 0, NULL), 0);
        assert_non_null(strstr(fake.log, "is no socket of this job's agent"));
    }
    agent_stop(&a);
}

/* What a user can put in place of the socket: nothing of it is followed or waited for.
 */
static void links_fifos_and_files_in_place_of_the_socket_are_refused(void **state)
{
    static const mode_t types[] = {0 /* a link */, S_IFIFO | 0600, S_IFREG | 0600};
    char real[sizeof(((struct agent *)0)->path) + 8];
    struct agent a;

    agent_start(&a);
    dlr_format(real, sizeof(real), "%s.real", a.path);
    assert_int_equal(rename(a.path, real), 0);
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
        if (types[i])
            assert_int_equal(mknod(a.path, types[i], 0), 0);
        else
            assert_int_equal(symlink(real, a.path), 0);
        init(S_CTX_REMOTE, 0, NULL);
        enter(&a);
        assert_int_equal(slurm_spank_user_init(NULL, 0, NULL), 0);
        assert_non_null(strstr(fake.log, "Socket operation on non-socket"));
        unlink(a.path);
    }
    unlink(real);
    agent_stop(&a);
}

/* A job of another user than the one whose agent is there. */
static void connect_to_nothing(void)
{
    struct agent a;
    struct pollfd pfd = {.events = POLLIN};
    uid_t me = geteuid();

    agent_start(&a);
    init(S_CTX_REMOTE, 0, NULL);
    enter(&a);
    /* root becomes the job's user for this, and finds the memory of another */
    fake.uid++;
    assert_int_equal(slurm_spank_user_init(NULL, 0, NULL), 0);
    pfd.fd = a.fd;
    assert_int_equal(poll(&pfd, 1, 0), 0);
    assert_non_null(strstr(fake.log, "no word to the agent"));
    assert_int_equal(geteuid(), me);
    agent_stop(&a);
}

static void a_process_that_is_not_the_jobs_user_connects_to_nothing(void **state)
{
    connect_to_nothing();
    if (geteuid() != 0)
        return;
    assert_int_equal(seteuid(NO_JOB), 0); /* who cannot become the job's user either */
    connect_to_nothing();
    assert_int_equal(seteuid(0), 0);
}

static void a_full_socket_does_not_hold_the_step_up(void **state)
{
    struct agent a;
    int fds[128];
    unsigned n = 0;

    agent_start(&a);
    assert_int_equal(listen(a.fd, 1), 0);
    while (n < 128 && dlr_local_connect(a.path, 0, &fds[n], NULL) == 0)
        n++;
    assert_in_range(n, 1, 127);
    init(S_CTX_REMOTE, 0, NULL);
    enter(&a);
    assert_int_equal(slurm_spank_user_init(NULL, 0, NULL), 0);
    assert_non_null(strstr(fake.log, "Resource temporarily unavailable"));
    while (n > 0)
        close(fds[--n]);
    agent_stop(&a);
}

static void a_task_of_a_round_gets_its_environment(void **state)
{
    struct agent a;

    agent_start(&a);
    init(S_CTX_REMOTE, 1, (char *[]){"libexec=/nowhere"});
    enter(&a);
    fake.rank = 1;
    fake.world = 2;
    slurm_spank_user_init(NULL, 0, NULL);
    assert_int_equal(slurm_spank_task_init(NULL, 0, NULL), 0);
    assert_string_equal(fake_var("RANK"), "1");
    assert_string_equal(fake_var("MASTER_ADDR"), "n2");
    assert_string_equal(fake_var("SLURM_JOB_NODELIST"), "n2,n1");
    assert_string_equal(fake_var("DLROVER_ROUND_NODES"), "-");
    agent_stop(&a);
}

/* sbatch's is ours, for the script's own output. */
static void a_script_without_a_view_has_the_users_open_mode(void **state)
{
    char mode[] = "SLURM_OPEN_MODE=a", kept[] = "SLURM_SPANK_DLROVER_OPEN_MODE=-";
    char *env[] = {mode, kept, NULL};

    init(S_CTX_REMOTE, 1, (char *[]){"libexec=/nowhere"});
    assert_int_equal(fake_option("dlrover", "on", 1), 0);
    fake.job_env = env;
    fake.step = 0xfffffffbu; /* the batch script's */
    assert_int_equal(slurm_spank_task_init(NULL, 0, NULL), 0);
    assert_non_null(strstr(fake.log, "/nowhere/dlrover-slurm did not answer"));
    assert_string_equal(fake_var("SLURM_OPEN_MODE"), "-");
}

static void a_task_that_does_not_fit_the_map_says_so_and_runs(void **state)
{
    struct agent a;

    agent_start(&a);
    init(S_CTX_REMOTE, 1, (char *[]){"libexec=/nowhere"});
    enter(&a);
    fake.world = 2; /* rank 0 on n1, the map says n2 */
    slurm_spank_user_init(NULL, 0, NULL);
    assert_int_equal(slurm_spank_task_init(NULL, 0, NULL), 0);
    assert_int_equal(fake.nvars, 0);
    assert_non_null(strstr(fake.log,
                           "error: dlrover: rank 0 runs on n1, the rank map says "
                           "n2: the environment is Slurm's\n"));
    agent_stop(&a);
}

static void an_agent_that_is_gone_stops_nothing(void **state)
{
    struct agent a;

    agent_start(&a);
    agent_stop(&a);
    init(S_CTX_REMOTE, 0, NULL);
    enter(&a);
    fake.rank = 1;
    assert_int_equal(slurm_spank_user_init(NULL, 0, NULL), 0);
    assert_int_equal(slurm_spank_task_post_fork(NULL, 0, NULL), 0);
    assert_int_equal(slurm_spank_task_exit(NULL, 0, NULL), 0);
    assert_null(strstr(fake.log, "error"));
}

static void the_epilog_removes_the_jobs_memory(void **state)
{
    char dir[64], path[96];

    fake_reset(S_CTX_JOB_SCRIPT);
    fake.uid = getuid();
    fake.gid = getgid();
    fake.job = 3000000000u + (unsigned)getpid();
    dlr_format(dir, sizeof(dir), "/dev/shm/dlrover-%u-%u", fake.uid, fake.job);
    dlr_format(path, sizeof(path), "%s/p0", dir);
    assert_int_equal(slurm_spank_job_epilog(NULL, 0, NULL), 0); /* nothing there */
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(close(open(path, O_CREAT | O_WRONLY, 0600)), 0);
    assert_int_equal(slurm_spank_job_epilog(NULL, 0, NULL), 0);
    assert_int_equal(access(dir, F_OK), -1);
    assert_string_equal(fake.log, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_script_without_a_view_has_the_users_open_mode),
        cmocka_unit_test(
            what_people_need_and_one_for_the_rest_are_options_in_every_context),
        cmocka_unit_test(sample_and_manual_name_every_option_with_its_default),
        cmocka_unit_test(a_bad_option_is_one_line_and_stops_the_command),
        cmocka_unit_test(on_a_node_no_option_fails),
        cmocka_unit_test(a_bad_word_of_the_site_is_said_and_ignored),
        cmocka_unit_test_setup(a_bad_variable_is_said_and_ignored, reset),
        cmocka_unit_test_setup(an_option_in_the_script_reaches_the_allocator, reset),
        cmocka_unit_test_setup(several_lists_of_settings_are_kept_as_one, reset),
        cmocka_unit_test_setup(a_job_without_a_spare_is_told_once, reset),
        cmocka_unit_test_setup(the_environment_and_the_site_reach_the_allocator, reset),
        cmocka_unit_test_setup(srun_says_why_it_runs_alone, reset),
        cmocka_unit_test(a_step_is_told_when_slurmstepd_begins_and_once),
        cmocka_unit_test(a_step_of_a_round_is_told_to_the_agent),
        cmocka_unit_test(a_task_of_a_round_gets_its_environment),
        cmocka_unit_test(hostile_option_text_becomes_one_plain_line),
        cmocka_unit_test(only_the_jobs_own_socket_is_connected_to),
        cmocka_unit_test(links_fifos_and_files_in_place_of_the_socket_are_refused),
        cmocka_unit_test(a_process_that_is_not_the_jobs_user_connects_to_nothing),
        cmocka_unit_test(a_full_socket_does_not_hold_the_step_up),
        cmocka_unit_test(a_task_that_does_not_fit_the_map_says_so_and_runs),
        cmocka_unit_test(an_agent_that_is_gone_stops_nothing),
        cmocka_unit_test(the_epilog_removes_the_jobs_memory),
    };

    return cmocka_run_group_tests(tests, reset, NULL);
}
