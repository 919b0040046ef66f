/* SPDX-License-Identifier: Apache-2.0 */
/* The name of a run: the same after a requeue, another for each srun of a script. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/str.h"
#include "mpi_launcher/process/process_id.h"
#include "mpi_launcher/run/run_info.h"

static char dir[64];
static char *train[] = {"srun", "train", "a b", NULL};
static char *other[] = {"srun", "train", "a", "b", NULL};

static int setup(void **state)
{
    snprintf(dir, sizeof(dir), "/tmp/dlr-runinfo-XXXXXX");
    assert_non_null(mkdtemp(dir));
    setenv("SLURM_JOB_ID", "42", 1);
    setenv("SLURM_CLUSTER_NAME", "blue", 1);
    setenv("HOME", dir, 1);
    unsetenv("SLURM_RESTART_COUNT");
    return 0;
}

static int teardown(void **state)
{
    char cmd[128];

    snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
    return system(cmd);
}

static int try(char **argv, const char *asked, const char *kept, pid_t keeper,
               struct dlr_runinfo *ret, struct dlr_err *err)
{
    struct dlr_run_want want = {
        .argv = argv, .state_dir = dir, .asked = asked, .kept = kept, .keeper = keeper};

    return dlr_runinfo_make(&want, ret, err);
}

/* A run that is over at once. */
static struct dlr_runinfo make(char **argv, const char *asked)
{
    struct dlr_runinfo info;
    struct dlr_err err;

    assert_int_equal(try(argv, asked, NULL, 0, &info, &err), 0);
    return info;
}

static void equal_sruns_are_counted_others_are_not_mixed_up(void **state)
{
    struct dlr_runinfo a0 = make(train, ""), b0 = make(other, "");
    struct dlr_runinfo a1 = make(train, "");

    assert_string_equal(strrchr(a0.name, '-'), "-0");
    assert_string_equal(strrchr(b0.name, '-'), "-0");
    assert_string_equal(strrchr(a1.name, '-'), "-1");
    assert_memory_equal(a0.name, a1.name, 8);
    assert_memory_not_equal(a0.name, b0.name, 8);
}

static void a_name_is_counted_whatever_the_words_are(void **state)
{
    assert_string_equal(make(train, "lm").name, "lm");
    assert_string_equal(make(other, "lm").name, "lm+1");
    assert_string_equal(make(train, "lm").name, "lm+2");
    assert_string_equal(make(train, "l").name, "l");
    assert_string_equal(strrchr(make(train, "").name, '-'), "-0");
}

static void names_are_the_same_after_a_requeue(void **state)
{
    struct dlr_runinfo first = make(train, ""), again;

    make(train, "lm");
    setenv("SLURM_RESTART_COUNT", "1", 1);
    again = make(train, "");
    assert_string_equal(again.name, first.name);
    assert_string_equal(again.dir, first.dir);
    assert_int_equal(again.incarnation, 1);
    assert_string_equal(make(train, "lm").name, "lm");
}

static void supervisor_started_again_is_no_new_occurrence(void **state)
{
    struct dlr_runinfo first = make(train, ""), again;

    assert_int_equal(try(train, "", first.name, getpid(), &again, NULL), 0);
    assert_string_equal(again.name, first.name);
    assert_string_equal(strrchr(make(train, "").name, '-'), "-1");
}

/* It died before it could tell the keeper its name. */
static void a_supervisor_that_died_early_gets_its_name_again(void **state)
{
    struct dlr_runinfo info;
    struct dlr_err err;

    make(train, "");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(try(train, "", NULL, getpid(), &info, &err), 0);
        assert_string_equal(strrchr(info.name, '-'), "-1");
    }
}

static void equal_runs_alive_at_once_are_refused(void **state)
{
    struct dlr_runinfo info;
    struct dlr_err err;
    pid_t alive = getppid();

    assert_int_equal(try(train, "", NULL, alive, &info, &err), 0);
    assert_int_equal(try(other, "", NULL, alive, &info, &err), 0);
    assert_int_equal(try(train, "lm", NULL, alive, &info, &err), 0);
    assert_int_equal(try(train, "", NULL, getpid(), &info, &err), -EBUSY);
    assert_string_equal(err.text,
                        "an srun with the same arguments is still running in this job: "
                        "tell them apart with --dlrover-name=NAME, which must not "
                        "change when the job is requeued");
    assert_int_equal(try(train, "lm", NULL, getpid(), &info, &err), -EBUSY);
    assert_string_equal(err.text, "run 'lm' of this job is still running: give this "
                                  "srun a --dlrover-name of its own");
    assert_int_equal(try(train, "lm2", NULL, getpid(), &info, &err), 0);
}

static void names_that_are_given_to_others_are_refused(void **state)
{
    struct dlr_runinfo info;
    struct dlr_err err;

    assert_int_equal(try(train, "0123abcd-7", NULL, 0, &info, &err), -EINVAL);
    assert_string_equal(err.text, "--dlrover-name: '0123abcd-7' looks like the name of "
                                  "a run without one: choose another");
    assert_string_equal(make(train, "0123abcd-7x").name, "0123abcd-7x");
    assert_string_equal(make(train, "0123abcd").name, "0123abcd");
}

static void sruns_at_once_get_different_names(void **state)
{
    struct dlr_runinfo last;

    for (int i = 0; i < 7; i++)
        if (fork() == 0) {
            make(train, "");
            _exit(0);
        }
    for (int i = 0, status; i < 7; i++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    last = make(train, "");
    assert_string_equal(strrchr(last.name, '-'), "-7");
}

/* --- tries ------------------------------------------------------------------------ */

static struct {
    const char *name;
    struct dlr_tries_run run;
} known[4];

static int look_up(const struct dlr_runinfo *info, const char *run_dir,
                   struct dlr_tries_run *ret, struct dlr_err *err)
{
    for (unsigned i = 0; i < 4 && known[i].name; i++)
        if (dlr_streq(strrchr(run_dir, '/') + 1, known[i].name)) {
            *ret = known[i].run;
            return 0;
        }
    return -ENOENT;
}

/* before: codes of the tries before the newest, which ended with code, or -1 from
 * outside.
 */
static void knows(const char *name, const char *before, int code, bool same)
{
    struct dlr_tries_run run = {
        .ended = code >= 0, .code = code >= 0 ? (unsigned)code : 0, .same = same};
    unsigned i = 0;

    for (; *before; before++)
        if (*before != ' ')
            dlr_tries_add(&run.before, (unsigned)(*before - '0'), 1);
    while (known[i].name)
        i++;
    known[i].name = name;
    known[i].run = run;
}

/* The nth of equal sruns that are named "lm". */
static struct dlr_runinfo nth_of(unsigned nth)
{
    struct dlr_run_want want = {
        .argv = train, .state_dir = dir, .asked = "lm", .past = look_up};
    struct dlr_runinfo info;
    struct dlr_err err;

    for (unsigned i = 0; i <= nth; i++)
        assert_int_equal(dlr_runinfo_make(&want, &info, &err), 0);
    return info;
}

static void one_that_failed_is_tried_again_and_one_that_did_not_is_done(void **state)
{
    static const struct {
        const char *before;
        int code;
        bool same;
        unsigned nth;
        const char *name;
        enum dlr_tries_place place;
        const char *now; /* the tries before it; or the code that is told */
    } rows[] = {
        {"", 5, true, 1, "lm", DLR_TRIES_NEXT, "5"},
        {"5 5", 6, true, 3, "lm", DLR_TRIES_NEXT, "556"},
        {"", -1, true, 1, "lm", DLR_TRIES_NEXT, "143"},
        {"", 0, true, 1, "lm+1", DLR_TRIES_NEWEST, ""},
        {"5", 0, true, 2, "lm+1", DLR_TRIES_NEWEST, ""},
        {"", 5, false, 1, "lm+1", DLR_TRIES_NEWEST, ""},
        /* after a requeue */
        {"5 6", -1, true, 0, "lm", DLR_TRIES_REPORTED, "5"},
        {"5 6", -1, true, 1, "lm", DLR_TRIES_REPORTED, "6"},
        {"5 6", -1, true, 2, "lm", DLR_TRIES_NEWEST, "56"},
        {"5 6", 0, true, 2, "lm", DLR_TRIES_NEWEST, "56"},
        /* two sruns of which nothing is known: they were refused */
        {NULL, 0, false, 2, "lm", DLR_TRIES_NEWEST, "143143"},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char now[64] = "";
        struct dlr_runinfo info;

        memset(known, 0, sizeof(known));
        if (rows[i].before)
            knows("lm", rows[i].before, rows[i].code, rows[i].same);
        setup(NULL);
        info = nth_of(rows[i].nth);
        if (info.place == DLR_TRIES_REPORTED)
            snprintf(now, sizeof(now), "%u", info.told);
        for (unsigned n = 0; n < info.before.n && info.place != DLR_TRIES_REPORTED; n++)
            snprintf(now + strlen(now), sizeof(now) - strlen(now), "%u",
                     dlr_tries_code(&info.before, n));
        print_message("row %u: %s %d %s\n", i, info.name, info.place, now);
        assert_string_equal(info.name, rows[i].name);
        assert_int_equal(info.place, rows[i].place);
        assert_string_equal(now, rows[i].now);
        assert_int_equal(info.anew, rows[i].before && !rows[i].same);
        teardown(NULL);
    }
    setup(NULL);
}

/* A loop whose first turn took two tries: each srun of it finds its own run again. */
static void
after_a_requeue_each_srun_finds_the_run_and_the_try_that_it_was(void **state)
{
    static const struct {
        const char *name;
        enum dlr_tries_place place;
    } want[] = {{"lm", DLR_TRIES_REPORTED},
                {"lm", DLR_TRIES_NEWEST},
                {"lm+1", DLR_TRIES_NEWEST},
                {"lm+2", DLR_TRIES_NEWEST},
                {"lm+2", DLR_TRIES_NEXT}};

    memset(known, 0, sizeof(known));
    knows("lm", "5", 0, true);
    knows("lm+1", "", 5, false);
    knows("lm+2", "", 7, true);
    for (unsigned i = 0; i < sizeof(want) / sizeof(*want); i++) {
        struct dlr_runinfo info = nth_of(0); /* one more each time */

        assert_string_equal(info.name, want[i].name);
        assert_int_equal(info.place, want[i].place);
    }
}

static void a_job_that_was_over_and_is_run_again_is_told_nothing(void **state)
{
    memset(known, 0, sizeof(known));
    knows("lm", "5 5", 0, true);
    known[0].run.again = true;
    assert_int_equal(nth_of(0).place, DLR_TRIES_NEWEST);
    assert_int_equal(nth_of(0).place, DLR_TRIES_NEWEST); /* the next one, lm+1 */
}

/* What a shell changes by itself is no other environment. */
static void another_environment_is_another_command(void **state)
{
    uint64_t plain = make(train, "").command;

    setenv("SHLVL", "7", 1);
    setenv("SLURM_STEP_ID", "3", 1);
    setenv("MASTER_PORT", "29501", 1);
    assert_true(make(train, "").command == plain);
    setenv("SEED", "2", 1);
    assert_true(make(train, "").command != plain);
    unsetenv("SEED");
    assert_true(make(train, "").command == plain);
    assert_true(make(other, "").command != plain);
}

static void many_tries_take_no_room(void **state)
{
    struct dlr_tries t = {0};

    for (unsigned i = 0; i < 100; i++)
        dlr_tries_add(&t, i % 2, 1);
    assert_int_equal(t.n, 100);
    assert_int_equal(dlr_tries_code(&t, 0), 0);
    assert_int_equal(dlr_tries_code(&t, 31), 1);
    assert_int_equal(dlr_tries_code(&t, 99), 1); /* told as the last that had room */
}

static void a_pid_that_is_another_process_by_now_is_not_the_run(void **state)
{
    struct dlr_procid id, other_id;
    char text[DLR_PROCID_TEXT];

    assert_int_equal(dlr_procid_of(getpid(), &id), 0);
    dlr_procid_show(&id, text);
    assert_int_equal(dlr_procid_parse(text, &other_id), 0);
    assert_true(dlr_procid_alive(&other_id));
    other_id.start--;
    assert_false(dlr_procid_alive(&other_id));
    strcpy(id.host, "elsewhere");
    assert_false(dlr_procid_alive(&id));
    assert_int_equal(dlr_procid_parse("1 2 host", &id), -EBADMSG);
    assert_int_equal(dlr_procid_parse("77", &id), -EBADMSG);
}

/* The home directory shows the runs whose state is elsewhere. */
static void a_link_leads_to_another_state_directory(void **state)
{
    char link[128], target[512] = "", job_dir[128];
    struct dlr_runinfo info;
    struct dlr_run_want want = {.argv = train, .state_dir = "", .asked = "x"};

    snprintf(link, sizeof(link), "%s/.dlrover/job-42", dir);
    snprintf(job_dir, sizeof(job_dir), "%s/job-42", dir);
    info = make(train, "");
    assert_true(readlink(link, target, sizeof(target) - 1) > 0);
    assert_string_equal(target, job_dir);
    make(train, "");
    assert_int_equal(unlink(link), 0);
    assert_int_equal(symlink("/nowhere", link), 0); /* an older job's */
    make(train, "");
    memset(target, 0, sizeof(target));
    assert_true(readlink(link, target, sizeof(target) - 1) > 0);
    assert_string_equal(target, job_dir);
    assert_int_equal(dlr_runinfo_make(&want, &info, NULL), 0);
    assert_int_equal(readlink(link, target, sizeof(target)),
                     -1); /* it is there itself */
}

static void places_are_the_runs_own_and_private(void **state)
{
    struct dlr_runinfo info = make(train, "");
    char path[512];
    struct stat st;

    snprintf(path, sizeof(path), "%s/job-42/%s", dir, info.name);
    assert_string_equal(info.dir, path);
    assert_int_equal(stat(info.dir, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    snprintf(path, sizeof(path), "/dev/shm/dlrover-%u-42/%s", getuid(), info.name);
    assert_string_equal(info.memory, path);
    snprintf(path, sizeof(path), "blue.42.%s", info.name);
    assert_string_equal(info.key, path);
}

/* In a state directory that others may write, anybody can make the job's name first. */
static void a_taken_state_directory_is_refused(void **state)
{
    struct dlr_runinfo info;
    char path[128], want[256];
    struct dlr_err err;

    snprintf(path, sizeof(path), "%s/job-42", dir);
    assert_int_equal(symlink("/tmp", path), 0);
    assert_int_equal(try(train, "", NULL, 0, &info, &err), -ENOTDIR);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chmod(path, 0777), 0);
    assert_int_equal(try(train, "", NULL, 0, &info, &err), -EPERM);
    snprintf(want, sizeof(want),
             "'%s' can be written by others (mode 777): take that away with chmod go-w",
             path);
    assert_string_equal(err.text, want);
    if (getuid() == 0) {
        assert_int_equal(chmod(path, 0700) | chown(path, 1, 1), 0);
        assert_int_equal(try(train, "", NULL, 0, &info, &err), -EPERM);
        assert_non_null(strstr(err.text, "is of uid 1: somebody has taken the name"));
    }
}

/* Who can rename what lies above it can put another job's state there. */
static void what_is_above_the_state_counts_too(void **state)
{
    struct dlr_runinfo info;
    char lab[128], sub[160];
    struct dlr_err err;
    struct dlr_run_want want = {.argv = train, .state_dir = sub, .asked = ""};

    snprintf(lab, sizeof(lab), "%s/lab", dir);
    snprintf(sub, sizeof(sub), "%s/states", lab);
    assert_int_equal(mkdir(lab, 0700) | chmod(lab, 0777), 0);
    assert_int_equal(dlr_runinfo_make(&want, &info, &err), -EPERM);
    assert_non_null(strstr(err.text, "/lab', in which the job's state would be, can be "
                                     "written by others (mode 0777)"));
    assert_int_equal(chmod(lab, 01777), 0);
    assert_int_equal(dlr_runinfo_make(&want, &info, &err), 0);
}

static void bad_environments_are_named(void **state)
{
    static const struct {
        const char *name, *value, *text;
    } rows[] = {
        {"SLURM_JOB_ID", NULL, "SLURM_JOB_ID is not set: not inside a Slurm job"},
        {"SLURM_JOB_ID", "../x", "SLURM_JOB_ID='../x' is not a name"},
        {"SLURM_RESTART_COUNT", "-1", "SLURM_RESTART_COUNT='-1' is not a number"},
    };
    struct dlr_runinfo info;
    struct dlr_err err;

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        print_message("%s\n", rows[i].text);
        setenv("SLURM_JOB_ID", "42", 1);
        if (rows[i].value)
            setenv(rows[i].name, rows[i].value, 1);
        else
            unsetenv(rows[i].name);
        assert_int_equal(try(train, "", NULL, 0, &info, &err), -EINVAL);
        assert_string_equal(err.text, rows[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(equal_sruns_are_counted_others_are_not_mixed_up,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(names_are_the_same_after_a_requeue, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(supervisor_started_again_is_no_new_occurrence,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_name_is_counted_whatever_the_words_are, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            a_supervisor_that_died_early_gets_its_name_again, setup, teardown),
        cmocka_unit_test_setup_teardown(equal_runs_alive_at_once_are_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(names_that_are_given_to_others_are_refused,
                                        setup, teardown),
        cmocka_unit_test(a_pid_that_is_another_process_by_now_is_not_the_run),
        cmocka_unit_test_setup_teardown(a_link_leads_to_another_state_directory, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(sruns_at_once_get_different_names, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(places_are_the_runs_own_and_private, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_taken_state_directory_is_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_is_above_the_state_counts_too, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(bad_environments_are_named, setup, teardown),
        cmocka_unit_test_teardown(
            one_that_failed_is_tried_again_and_one_that_did_not_is_done, teardown),
        cmocka_unit_test_setup_teardown(
            after_a_requeue_each_srun_finds_the_run_and_the_try_that_it_was, setup,
            teardown),
        cmocka_unit_test_setup_teardown(
            a_job_that_was_over_and_is_run_again_is_told_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(another_environment_is_another_command, setup,
                                        teardown),
        cmocka_unit_test(many_tries_take_no_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
