/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "spank/command/allocator.h"
#include "spank/command/cmdline.h"
#include "spank/command/handover.h"
#include "spank/command/open_mode.h"
#include "spank/command/task_count.h"

#define MAX_WORDS 12

static int scan_gives(const char *const *words, int want)
{
    int got = dlr_allocator_scan((char *const *)words);

    if (got != want)
        print_error("%s %s ...: %d instead of %d\n", words[0], words[1], got, want);
    return got == want;
}

static void scan_finds_the_option_and_nothing_behind_the_script(void **state)
{
    static const struct {
        int want;
        const char *words[MAX_WORDS];
    } rows[] = {
        {-1, {"sbatch", NULL}},
        {-1, {"sbatch", "job.sh", NULL}},
        {1, {"sbatch", "--dlrover=on", "job.sh", NULL}},
        {1, {"sbatch", "--dlrover", "on", "job.sh", NULL}},
        {0, {"sbatch", "--dlrover=on", "--dlrover=off", "job.sh", NULL}},
        {1, {"sbatch", "--dlrover=off", "--dlrover", "yes", "job.sh", NULL}},
        {-1, {"sbatch", "job.sh", "--dlrover=on", NULL}},
        {1, {"sbatch", "-N", "5", "--dlrover=on", "job.sh", NULL}},
        {1, {"sbatch", "-N5", "-J", "a b", "--dlrover=on", NULL}},
        {1, {"sbatch", "--nodes", "5", "--dlrover=on", "job.sh", NULL}},
        {1, {"sbatch", "--hold", "--dlrover=on", "job.sh", NULL}},
        {-1, {"sbatch", "--hold", "job.sh", "--dlrover=on", NULL}},
        {-1, {"sbatch", "-vH", "job.sh", "--dlrover=on", NULL}},
        {1, {"sbatch", "-vHN", "5", "--dlrover=on", NULL}},
        {-1, {"sbatch", "--exclusive", "job.sh", "--dlrover=on", NULL}},
        {-1, {"sbatch", "-N", "--dlrover=on", "job.sh", NULL}},
        {-1, {"sbatch", "--comment", "--dlrover=on", "job.sh", NULL}},
        {-1, {"sbatch", "--", "--dlrover=on", NULL}},
        {1, {"sbatch", "--wrap", "srun x", "--dlrover=on", NULL}},
        {-1, {"sbatch", "--dlrover=maybe", "job.sh", NULL}},
        {-1, {"sbatch", "--dlrover", NULL}},
        {-1, {"sbatch", "--dlrover-spares=1", "job.sh", NULL}},
        {1, {"salloc", "--no-shell", "-k", "--dlrover=1", "bash", NULL}},
        {-1, {NULL}},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        assert_true(scan_gives(rows[i].words, rows[i].want));
}

static int clean(void **state)
{
    unsetenv("SBATCH_NO_KILL");
    unsetenv("SBATCH_REQUEUE");
    unsetenv("SBATCH_NO_REQUEUE");
    unsetenv("SBATCH_OPEN_MODE");
    unsetenv("SALLOC_NO_KILL");
    return 0;
}

static void assert_set(const char *no_kill, const char *requeue, const char *mode)
{
    const char *const names[] = {"SBATCH_NO_KILL", "SBATCH_REQUEUE",
                                 "SBATCH_OPEN_MODE"};
    const char *const want[] = {no_kill, requeue, mode};

    for (size_t i = 0; i < 3; i++) {
        if (want[i])
            assert_string_equal(getenv(names[i]), want[i]);
        else
            assert_null(getenv(names[i]));
    }
}

static void an_option_of_the_script_sets_and_takes_back(void **state)
{
    struct dlr_allocator alloc = {0};

    dlr_allocator_start(&alloc, DLR_ALLOCATOR_UNKNOWN, false);
    assert_set(NULL, NULL, NULL);
    dlr_allocator_option(&alloc, true);
    dlr_allocator_option(&alloc, true); /* Slurm may call twice */
    assert_set("set", "", "append");
    assert_string_equal(getenv("SALLOC_NO_KILL"), "set");
    dlr_allocator_option(&alloc, false);
    assert_set(NULL, NULL, NULL);
    dlr_allocator_option(&alloc, true);
    dlr_allocator_end(&alloc); /* the job must not inherit them */
    assert_set(NULL, NULL, NULL);
}

static void the_command_line_has_the_last_word(void **state)
{
    struct dlr_allocator alloc = {0};

    dlr_allocator_start(&alloc, 0, true);
    dlr_allocator_option(&alloc, true); /* from an #SBATCH line */
    assert_set(NULL, NULL, NULL);
    dlr_allocator_start(&alloc, 1, false);
    dlr_allocator_option(&alloc, false);
    assert_set("set", "", "append");
    dlr_allocator_end(&alloc);
}

static void write_script(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void an_open_mode_is_the_users_where_he_says_it(void **state)
{
    static const struct {
        bool want;
        const char *script; /* NULL: no such file */
        const char *words[6];
        size_t own;
    } rows[] = {
        {false,
         "#!/bin/sh\n#SBATCH -N2\nsrun --open-mode=append x\n",
         {"sbatch", "@"},
         1},
        {true, "#!/bin/sh\n#SBATCH -N2 --open-mode=append\n", {"sbatch", "@"}, 1},
        {true, "#SBATCH --open-mode append", {"sbatch", "@"}, 1},
        {false, "#SBATCH -N2\n# --open-mode=append", {"sbatch", "@"}, 1},
        {true, "", {"sbatch", "--open-mode=append", "@"}, 2},
        {true, "", {"sbatch", "--open", "append", "@"}, 3},
        {false, "", {"sbatch", "-N2", "@", "--open-mode=append"}, 2},
        {false, NULL, {"sbatch", "--wrap=srun x"}, 2},
        {false, NULL, {"sbatch", "--wrap", "srun x"}, 3},
        {true, NULL, {"sbatch", "@"}, 1}, /* who knows */
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char path[] = "/tmp/dlr-script-XXXXXX", *words[6] = {NULL};
        int fd = mkstemp(path);

        assert_true(fd >= 0);
        close(fd);
        for (size_t w = 0; w < 6 && rows[i].words[w]; w++)
            words[w] =
                dlr_streq(rows[i].words[w], "@") ? path : (char *)rows[i].words[w];
        if (rows[i].script)
            write_script(path, rows[i].script);
        else
            unlink(path);
        if (dlr_open_mode_said(words, rows[i].own) != rows[i].want)
            fail_msg("row %zu", i);
        unlink(path);
    }
}

static void what_the_user_has_set_stays(void **state)
{
    struct dlr_allocator alloc = {0};

    setenv("SBATCH_NO_REQUEUE", "1", 1);
    setenv("SBATCH_OPEN_MODE", "truncate", 1);
    dlr_allocator_start(&alloc, DLR_ALLOCATOR_UNKNOWN, true);
    assert_set("set", NULL, "truncate");
    assert_null(dlr_allocator_end(&alloc));
    assert_set(NULL, NULL, "truncate");
}

static void an_srun_is_handed_over_once_and_only_inside_an_allocation(void **state)
{
    static const struct {
        bool enable, asked;
        const char *job, *supervised;
        enum dlr_handover want;
    } rows[] = {
        {false, false, "12", NULL, DLR_HANDOVER_NO},
        {false, true, "12", NULL, DLR_HANDOVER_NO},
        {true, true, "12", NULL, DLR_HANDOVER_YES},
        {true, false, "12", NULL, DLR_HANDOVER_YES},
        {true, true, NULL, NULL, DLR_HANDOVER_NOWHERE},
        {true, true, "", NULL, DLR_HANDOVER_NOWHERE},
        {true, false, NULL, NULL, DLR_HANDOVER_NO}, /* a site's default is no request */
        {true, true, "12", "12.0.run", DLR_HANDOVER_NO},
        {true, true, "12", "123.0.run", DLR_HANDOVER_YES},
        {true, true, "123", "12.0.run", DLR_HANDOVER_YES},
        {true, true, "12", "", DLR_HANDOVER_YES},
        {true, true, "12", "12", DLR_HANDOVER_YES},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_spank_conf conf;

        dlr_options_init(&conf);
        conf.job.enable = rows[i].enable;
        conf.by[0] = rows[i].asked ? DLR_BY_OPTION : DLR_BY_SITE;
        assert_int_equal(dlr_handover_decide(&conf, rows[i].job, rows[i].supervised),
                         rows[i].want);
    }
}

static void the_keeper_is_told_every_setting_and_sruns_own_words(void **state)
{
    char *const srun[] = {"srun", "-n2", "", "a b", NULL};
    struct dlr_spank_conf conf;
    size_t rows = 0;
    char **argv = NULL;

    while (dlr_job_config_opts[rows].name)
        rows++;
    dlr_options_init(&conf);
    dlr_options_site(&conf, 2, (char *[]){"prefix=/opt/x", "spares=2"}, NULL);
    assert_int_equal(dlr_handover_argv(&conf, srun, &argv, NULL), 0);
    assert_string_equal(argv[0], "/opt/x/libexec/dlrover/dlrover-keeper");
    assert_string_equal(argv[1], "--enable=off");
    assert_string_equal(argv[2], "--spares=2");
    assert_string_equal(argv[rows + 1], "--");
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(argv[rows + 2 + i], srun[i]);
    assert_null(argv[rows + 6]);
    dlr_handover_free(argv);
}

static void a_keeper_that_is_not_there_is_named(void **state)
{
    struct dlr_err err = {0};
    char *const argv[] = {"/nowhere/dlrover-keeper", NULL};

    assert_int_equal(dlr_handover_exec(argv, argv + 1, &err), -ENOENT);
    assert_string_equal(
        err.text, "cannot run '/nowhere/dlrover-keeper': No such file or directory");
}

/* newer sruns have it ignored before they ask us */
static void the_keeper_does_not_ignore_what_srun_ignores_for_itself(void **state)
{
    static char script[] = "for s in TTIN HUP; do kill -$s $$; done; exit 3";
    char *const argv[] = {"/bin/sh", "-c", script, NULL};
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        setpgid(0, 0);
        signal(SIGTTIN, SIG_IGN);
        signal(SIGHUP, SIG_IGN);
        dlr_handover_exec(argv, argv + 3, NULL);
        _exit(1);
    }
    setpgid(pid, pid);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTTIN);
    kill(pid, SIGCONT);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

static void an_srun_that_leaves_its_number_of_tasks_to_slurm_is_known(void **state)
{
    static const struct {
        const char *env, *words[MAX_WORDS];
        enum dlr_taskcount want;
    } rows[] = {
        {NULL, {"srun", "prog", "-c", "2"}, DLR_TASKCOUNT_SAID},
        {NULL, {"srun", "-c", "2", "prog"}, DLR_TASKCOUNT_LEFT},
        {NULL, {"srun", "-lc2", "prog"}, DLR_TASKCOUNT_LEFT},
        {NULL, {"srun", "--cpus-per-t=2", "-N1", "prog"}, DLR_TASKCOUNT_LEFT},
        {NULL, {"srun", "--tres-per-task=cpu=2", "prog"}, DLR_TASKCOUNT_LEFT},
        {NULL, {"srun", "--cpus-per-gpu=2", "prog"}, DLR_TASKCOUNT_SAID},
        {"SLURM_CPUS_PER_TASK=2", {"srun", "prog"}, DLR_TASKCOUNT_LEFT},
        {"SLURM_CPUS_PER_TASK=2", {"srun", "prog", "-n"}, DLR_TASKCOUNT_LEFT},
        {"SLURM_CPUS_PER_TASK=2", {"srun", "-n1", "prog"}, DLR_TASKCOUNT_SAID},
        {"SLURM_NTASKS=2", {"srun", "-c2", "prog"}, DLR_TASKCOUNT_SAID},
        {NULL, {"srun", "-c2", "--ntasks=4", "prog"}, DLR_TASKCOUNT_SAID},
        {NULL, {"srun", "-c2", "--ntasks-per-core=1", "prog"}, DLR_TASKCOUNT_LEFT},
        {NULL, {"srun", "-c2", "--ntasks-per-node=4", "prog"}, DLR_TASKCOUNT_SAID},
        {NULL, {"srun", "-c2", "--overlap", "prog"}, DLR_TASKCOUNT_SAID},
        {NULL, {"srun", "--relative=0", "-c2", "prog"}, DLR_TASKCOUNT_SAID},
        {NULL, {"srun", "-r1", "-c2", "prog"}, DLR_TASKCOUNT_SAID},
        {NULL, {"srun", "-c2", "-w", "n1", "prog"}, DLR_TASKCOUNT_PLACED},
        {NULL, {"srun", "-c2", "--exclude=n1", "prog"}, DLR_TASKCOUNT_PLACED},
        {NULL, {"srun", "-c2", "--exclusive", "prog"}, DLR_TASKCOUNT_LEFT},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char *const *words = (char *const *)rows[i].words;
        char *const env[] = {(char *)rows[i].env, NULL};
        int n = 0;

        while (!dlr_streq(words[n], "prog"))
            n++;
        if (dlr_taskcount_read(words, n, env) != rows[i].want)
            fail_msg("row %zu", i);
    }
}

static void an_srun_that_slurm_counts_tasks_for_says_from_which_node(void **state)
{
    char *const srun[] = {"srun", "-c2", "prog", "a b", NULL};
    char **argv = dlr_taskcount_words(srun);

    assert_string_equal(argv[0], "srun");
    assert_string_equal(argv[1], "--relative=0");
    for (size_t i = 1; i < 4; i++)
        assert_string_equal(argv[i + 1], srun[i]);
    assert_null(argv[5]);
    free(argv);
}

static void words_are_cut_at_each_nul(void **state)
{
    char text[] = "srun\0\0a b\0";
    char **argv = dlr_cmdline_split(text, sizeof(text) - 1);

    assert_string_equal(argv[0], "srun");
    assert_string_equal(argv[1], "");
    assert_string_equal(argv[2], "a b");
    assert_null(argv[3]);
    free(argv);
}

static void an_unended_last_word_and_an_empty_text_are_fine(void **state)
{
    char text[] = "a\0b", none[1] = "";
    char **argv = dlr_cmdline_split(text, 3), **empty = dlr_cmdline_split(none, 0);

    assert_string_equal(argv[1], "b");
    assert_null(argv[2]);
    assert_null(empty[0]);
    free(argv);
    free(empty);
}

static void a_job_submitted_by_a_task_knows_nothing_of_its_round(void **state)
{
    struct dlr_allocator alloc = {0};

    setenv("RANK", "3", 1);
    dlr_allocator_start(&alloc, 0, false);
    assert_string_equal(getenv("RANK"), "3"); /* somebody else's */
    setenv("DLROVER_ROUND", "1", 1);
    setenv("DLROVER_AGENT_SOCKET", "/s", 1);
    dlr_allocator_start(&alloc, 0, false);
    assert_null(getenv("RANK"));
    assert_null(getenv("DLROVER_AGENT_SOCKET"));
    assert_null(getenv("DLROVER_ROUND"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_submitted_by_a_task_knows_nothing_of_its_round),
        cmocka_unit_test(scan_finds_the_option_and_nothing_behind_the_script),
        cmocka_unit_test_setup(an_option_of_the_script_sets_and_takes_back, clean),
        cmocka_unit_test_setup(the_command_line_has_the_last_word, clean),
        cmocka_unit_test_setup(what_the_user_has_set_stays, clean),
        cmocka_unit_test(an_open_mode_is_the_users_where_he_says_it),
        cmocka_unit_test(an_srun_is_handed_over_once_and_only_inside_an_allocation),
        cmocka_unit_test(the_keeper_is_told_every_setting_and_sruns_own_words),
        cmocka_unit_test(a_keeper_that_is_not_there_is_named),
        cmocka_unit_test(the_keeper_does_not_ignore_what_srun_ignores_for_itself),
        cmocka_unit_test(an_srun_that_leaves_its_number_of_tasks_to_slurm_is_known),
        cmocka_unit_test(an_srun_that_slurm_counts_tasks_for_says_from_which_node),
        cmocka_unit_test(words_are_cut_at_each_nul),
        cmocka_unit_test(an_unended_last_word_and_an_empty_text_are_fine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
