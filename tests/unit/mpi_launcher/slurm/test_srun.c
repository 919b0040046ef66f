/* SPDX-License-Identifier: Apache-2.0 */
/* Environments, words and processes of sruns; "srun" is a shell here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/open_files.h"
#include "common/base/str.h"
#include "mpi_launcher/process/process_id.h"
#include "mpi_launcher/slurm/srun.h"

#define LIMIT_MS 30000

static const char *find(const struct dlr_env *env, const char *name)
{
    for (unsigned i = 0; i < env->n; i++) {
        const char *rest = dlr_after(env->list[i], name);

        if (rest && *rest == '=')
            return rest + 1;
    }
    return NULL;
}

/* --- environments ----------------------------------------------------------------- */

static const struct {
    const char *name;
    bool user, scrubbed; /* kept in the environment of a user's, of an internal step */
} vars[] = {
    {"PATH_OF_MINE", true, true},      {"SLURM_JOB_ID", true, true},
    {"SLURM_CONF", true, true},        {"SLURM_CPUS_PER_TASK", true, false},
    {"SLURM_MPI_TYPE", true, false},   {"SPANK_X", true, false},
    {"SBATCH_X", true, false},         {"PMIX_RANK", true, false},
    {"OMPI_MCA_x", true, false},       {"SLURM_NTASKS", false, false},
    {"SLURM_GPUS", false, false},      {"SLURM_NTASKS_PER_GPU", false, false},
    {"SLURM_HOSTFILE", false, false},  {"SLURM_JOB_NODELIST", false, false},
    {"SLURM_EXCLUSIVE", false, false}, {"DLROVER_SUPERVISED", false, false},
    {"SLURM_OPEN_MODE", true, false},  {"SLURM_EXPORT_ENV", false, false},
    {"SLURM_GRES", true, false},       {"SRUN_CPUS_PER_TASK", true, false},
    {"SLURM_NTASKS_X", true, false},   {"DLROVER_HEARTBEAT", true, true},
};

static void steps_keep_what_does_not_place_them(void **state)
{
    struct dlr_env user = {0}, scrubbed = {0};

    for (unsigned i = 0; i < sizeof(vars) / sizeof(*vars); i++)
        setenv(vars[i].name, "v", 1);
    assert_int_equal(dlr_env_copy(&user, false), 0);
    assert_int_equal(dlr_env_copy(&scrubbed, true), 0);
    for (unsigned i = 0; i < sizeof(vars) / sizeof(*vars); i++) {
        print_message("%s\n", vars[i].name);
        assert_int_equal(find(&user, vars[i].name) != NULL, vars[i].user);
        assert_int_equal(find(&scrubbed, vars[i].name) != NULL, vars[i].scrubbed);
        unsetenv(vars[i].name);
    }
    dlr_env_done(&user);
    dlr_env_done(&scrubbed);
}

static void variables_are_set_once(void **state)
{
    struct dlr_env env = {0};

    assert_int_equal(dlr_env_set(&env, "A", "%d", 1), 0);
    assert_int_equal(dlr_env_set(&env, "AB", "x"), 0);
    assert_int_equal(dlr_env_set(&env, "A", "%s", "a=b"), 0);
    assert_int_equal(env.n, 2);
    assert_string_equal(find(&env, "A"), "a=b");
    assert_string_equal(find(&env, "AB"), "x");
    assert_null(env.list[env.n]);
    dlr_env_done(&env);
}

/* Without it a peer's first message can reach a rank that is still in MPI_Init, and
 * kills it.
 */
static void an_internal_step_has_a_fence_too(void **state)
{
    static const struct {
        const char *own, *want;
    } rows[] = {{NULL, "ring"}, {"ring", "ring"}, {"tree", "tree"}};
    static const bool scrubbed[] = {false, true};

    for (unsigned i = 0; i < 2 * sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_env env = {0};

        unsetenv("SLURM_PMIX_FENCE");
        if (rows[i / 2].own)
            setenv("SLURM_PMIX_FENCE", rows[i / 2].own, 1);
        assert_int_equal(dlr_env_copy(&env, scrubbed[i % 2]), 0);
        assert_int_equal(dlr_srun_pmix_env(&env), 0);
        assert_string_equal(find(&env, "SLURM_PMIX_FENCE"), rows[i / 2].want);
        dlr_env_done(&env);
    }
    unsetenv("SLURM_PMIX_FENCE");
}

static void many_words_stay_in_order(void **state)
{
    struct dlr_words words = {0};

    for (int i = 0; i < 300; i++)
        assert_int_equal(dlr_words_add(&words, "%d", i), 0);
    assert_int_equal(words.n, 300);
    assert_string_equal(words.list[299], "299");
    assert_null(words.list[300]);
    dlr_words_done(&words);
}

/* --- processes -------------------------------------------------------------------- */

static int run(const char *script, int in, int out)
{
    char *argv[] = {"sh", "-c", (char *)script, NULL}, *envp[] = {"A=b", NULL};
    struct dlr_proc proc = {0};
    struct pollfd pfd = {.events = POLLIN};
    struct dlr_err err;

    assert_int_equal(dlr_proc_start(argv, envp, in, out, 2, &proc, &err), 0);
    pfd.fd = proc.pidfd;
    assert_int_equal(poll(&pfd, 1, LIMIT_MS), 1);
    assert_int_equal(dlr_procid_parent(proc.pid), getpid());
    return dlr_proc_reap(&proc);
}

/* srun gives the program the limit that it has itself. */
static void process_has_the_users_limit_of_open_files(void **state)
{
    struct rlimit before, users = {.rlim_cur = 100};

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    users.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &users), 0);
    dlr_open_files_raise();
    assert_int_equal(run("test $(ulimit -Sn) = 100", -1, -1), 0);
    dlr_open_files_restore();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void process_starts_with_clean_signals_descriptors_and_session(void **state)
{
    sigset_t all, before;
    int fd = open("/dev/null", O_RDONLY), status; /* not close-on-exec */
    char script[1024];

    /* The shell reads the masks itself: to start a program it blocks signals. 32 and 33
     * are the C library's: whatever make starts has them ignored.
     */
    snprintf(script, sizeof(script),
             "test \"$A\" = b || exit 10; test -e /proc/$$/fd/%d && exit 11\n"
             "while read -r key mask; do case $key$mask in\n"
             "    SigBlk:0000000000000000 | SigIgn:0000000[01][08]0000000) ;;\n"
             "    SigBlk:*) exit 12 ;;\n"
             "    SigIgn:*) exit 13 ;;\n"
             "esac; done </proc/$$/status\n"
             "read -r stat </proc/$$/stat; set -- $stat; test $6 = $$ || exit 14",
             fd);
    sigfillset(&all);
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_SETMASK, &all, &before);
    status = run(script, -1, -1);
    sigprocmask(SIG_SETMASK, &before, NULL);
    signal(SIGPIPE, SIG_DFL);
    close(fd);
    assert_int_equal(status, 0);
}

static void missing_descriptors_are_dev_null(void **state)
{
    assert_int_equal(run("read -r line && exit 1; echo x && exit 0", -1, -1), 0);
}

static void exit_and_signal_are_told(void **state)
{
    int status = run("exit 3", -1, -1);

    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    status = run("kill -9 $$", -1, -1);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void missing_program_is_127(void **state)
{
    char *argv[] = {"no-such-program-here", NULL}, *envp[] = {NULL};
    struct dlr_proc proc = {0};
    struct dlr_err err;

    assert_int_equal(dlr_proc_start(argv, envp, -1, -1, -1, &proc, &err), 0);
    assert_int_equal(WEXITSTATUS(dlr_proc_reap(&proc)), 127);
    assert_int_equal(proc.pid, 0);
    assert_int_equal(proc.pidfd, -1);
}

static void process_that_is_gone_is_not_adopted(void **state)
{
    struct dlr_proc proc = {0};
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
    assert_int_equal(dlr_proc_adopt(pid, &proc), -ESRCH);
    assert_int_equal(dlr_procid_parent(pid), -ESRCH);
    assert_int_equal(proc.pid, 0);
    dlr_proc_kill(&proc, SIGKILL); /* nobody */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_keep_what_does_not_place_them),
        cmocka_unit_test(variables_are_set_once),
        cmocka_unit_test(an_internal_step_has_a_fence_too),
        cmocka_unit_test(many_words_stay_in_order),
        cmocka_unit_test(process_has_the_users_limit_of_open_files),
        cmocka_unit_test(process_starts_with_clean_signals_descriptors_and_session),
        cmocka_unit_test(missing_descriptors_are_dev_null),
        cmocka_unit_test(exit_and_signal_are_told),
        cmocka_unit_test(missing_program_is_127),
        cmocka_unit_test(process_that_is_gone_is_not_adopted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
