/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/open wrap=fcntl */
/* Without a job: ranks of two starts in one directory, none of which has restored; and
 * file systems without locks, where nobody can tell.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/standalone/launch_id.h"
#include "common/base/str.h"
#include "tests/unit/ckpt/standalone/standalone_run.h"

static int no_locks; /* errno of a lock that is asked for */

int __real_fcntl(int fd, int cmd, ...);
int __wrap_fcntl(int fd, int cmd, ...);
int __wrap_fcntl(int fd, int cmd, ...)
{
    va_list list;
    void *arg;

    va_start(list, cmd);
    arg = va_arg(list, void *);
    va_end(list);
    if (no_locks && (cmd == F_SETLK || cmd == F_GETLK)) {
        errno = no_locks;
        return -1;
    }
    return __real_fcntl(fd, cmd, arg);
}

static const char *const names[] = {"SLURM_JOB_ID",         "SLURM_STEP_ID",
                                    "SLURM_STEP_NUM_TASKS", "MASTER_PORT",
                                    "PMIX_NAMESPACE",       "OMPI_COMM_WORLD_SIZE"};

static int begin(void **state)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        unsetenv(names[i]);
    no_locks = 0;
    return setup(state);
}

/* --- by what they are told from each other ---------------------------------------- */

static const struct pair {
    const char *name, *a, *b;
    bool two;
} pairs[] = {
    {"nothing is known", "", "", false},
    {"two jobs", "SLURM_JOB_ID=5", "SLURM_JOB_ID=6", true},
    {"one of them by ssh", "SLURM_JOB_ID=5", "", false},
    {"two steps of two tasks", "SLURM_JOB_ID=5 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2",
     "SLURM_JOB_ID=5 SLURM_STEP_ID=1 SLURM_STEP_NUM_TASKS=2", true},
    {"an srun for each node",
     "SLURM_JOB_ID=5 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1 MASTER_PORT=29500",
     "SLURM_JOB_ID=5 SLURM_STEP_ID=1 SLURM_STEP_NUM_TASKS=1 MASTER_PORT=29500", false},
    {"two torchruns", "MASTER_PORT=29500", "MASTER_PORT=41234", true},
    {"two mpiruns", "PMIX_NAMESPACE=a@1 OMPI_COMM_WORLD_SIZE=2",
     "PMIX_NAMESPACE=b@1 OMPI_COMM_WORLD_SIZE=2", true},
    {"an mpirun for each node", "PMIX_NAMESPACE=a@1 OMPI_COMM_WORLD_SIZE=1",
     "PMIX_NAMESPACE=b@1 OMPI_COMM_WORLD_SIZE=1", false},
    {"what is no number", "MASTER_PORT=x SLURM_JOB_ID=-3", "MASTER_PORT=2", false},
};

static void set_all(const char *text)
{
    char copy[256], *word, *rest = copy;

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        unsetenv(names[i]);
    dlr_format(copy, sizeof(copy), "%s", text);
    while ((word = strsep(&rest, " ")))
        if (*word) {
            char *value = strchr(word, '=');

            *value = '\0';
            setenv(word, value + 1, 1);
        }
}

/* As it is read back. */
static struct dlr_standalone_start start_of(const char *text, int world)
{
    struct dlr_standalone_start start, again = {0};
    char line[DLR_STANDALONE_START_MAX];

    set_all(text);
    dlr_standalone_start_get(world, &start);
    dlr_standalone_start_text(&start, line);
    assert_int_equal(dlr_standalone_start_parse(line, &again), 0);
    return again;
}

static void starts_differ_where_launchers_say_so(void **state)
{
    for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
        struct dlr_standalone_start a = start_of(pairs[i].a, 2),
                                    b = start_of(pairs[i].b, 2);

        print_message("row '%s'\n", pairs[i].name);
        assert_int_equal(dlr_standalone_start_differs(&a, &b), pairs[i].two);
        assert_int_equal(dlr_standalone_start_differs(&b, &a), pairs[i].two);
        b = start_of(pairs[i].b, 3);
        assert_true(dlr_standalone_start_differs(&a, &b)); /* another number of ranks */
    }
    assert_int_equal(dlr_standalone_start_parse("", &(struct dlr_standalone_start){0}),
                     -EBADMSG);
}

static void programs_count_where_no_launcher_says_that_they_are_one_start(void **state)
{
    static const struct {
        struct dlr_standalone_start both;
        uint64_t a, b;
        bool two;
    } rows[] = {
        {{.job = -1, .step = -1, .port = -1}, 1, 2, true},
        {{.job = -1, .step = -1, .port = -1}, 1, 0, false},
        {{.job = 7, .step = -1, .port = -1}, 1, 2, true}, /* both in the background */
        {{.job = 7, .step = 0, .port = -1}, 1, 2, false},
        {{.job = -1, .step = -1, .port = 29500}, 1, 2, false},
        {{.job = -1, .step = -1, .port = -1, .space = 3}, 1, 2, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_standalone_start a = rows[i].both, b = rows[i].both;

        a.program = rows[i].a;
        b.program = rows[i].b;
        print_message("row %zu\n", i);
        assert_int_equal(dlr_standalone_start_differs(&a, &b), rows[i].two);
        assert_int_equal(dlr_standalone_start_differs(&b, &a), rows[i].two);
    }
}

#define WORDS(text) text, sizeof(text)

static const struct {
    const char *words;
    size_t bytes;
    const char *name;
} programs[] = {
    {WORDS("./train\0--lr\0001"), "train"},
    {WORDS("/usr/bin/python3\0-u\0/home/a/train.py\0--lr\0001"), "train.py"},
    {WORDS("python3.11\0-m\0pdb\0train.py"), "train.py"},
    {WORDS("python\0-m\0package.train\0--lr"), "package.train"},
    {WORDS("python3\0-c\0import it"), ""},
    {WORDS("python3\0-"), ""},
    {WORDS("python3"), ""},
    {WORDS("train: step 5 of 8"), ""}, /* it has named itself anew */
    {WORDS("a-name-that-is-longer-than-there-is-room"), "a-name-that-is-longer-t"},
    {WORDS(""), ""},
    {"cut off", 3, ""},
    {NULL, 0, ""},
};

static void a_program_is_called_as_its_script(void **state)
{
    for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
        char name[DLR_META_PROGRAM_MAX];

        dlr_standalone_program_of(programs[i].words, programs[i].bytes, name);
        assert_string_equal(name, programs[i].name);
    }
}

/* --- at once ---------------------------------------------------------------------- */

/* A rank of a start of its own as another process, which goes on from a version (0:
 * from nothing), saves a step and stays until it is killed.
 */
static pid_t live(const char *env, int rank, int world, uint64_t from, uint64_t step)
{
    int ready[2];
    pid_t pid;
    char c;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        struct dlr_ckpt *ck;

        prctl(PR_SET_PDEATHSIG, SIGKILL); /* with a test that has failed */
        set_all(env);
        ck = open_as("b", rank, world);
        if (from && dlr_ckpt_go_on(ck, from) < 0)
            _exit(1);
        save(ck, "b", rank, step);
        if (write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &c, 1), 1);
    close(ready[0]);
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static unsigned versions(int world)
{
    struct dlr_ckpt *ck = open_as("a", 0, world);
    struct dlr_ckpt_version v[8];
    int n = dlr_ckpt_list(ck, v, 8);

    dlr_ckpt_close(ck);
    assert_true(n >= 0);
    return (unsigned)n;
}

static void two_starts_at_once_make_no_version_of_both(void **state)
{
    for (int rank = 0; rank < 2; rank++) { /* who comes later */
        struct dlr_ckpt *ck;
        pid_t b = live("MASTER_PORT=2", !rank, 2, 0, 1);

        set_all("MASTER_PORT=1");
        ck = open_as("a", rank, 2);
        fill("a", rank, 1);
        assert_int_equal(dlr_ckpt_begin(ck, 1, NULL), -EBUSY);
        assert_non_null(strstr(dlr_ckpt_error(ck), rank ? "as rank 0" : "as rank 1"));
        dlr_ckpt_close(ck);
        end(b);
        assert_int_equal(versions(2), 0);
        set_all("MASTER_PORT=1"); /* when nobody else is there */
        run("a", 2, 1, 1);
        assert_restores("a", 2, 1);
        assert_int_equal(standalone_teardown(NULL), 0);
        assert_int_equal(begin(NULL), 0);
    }
}

static void ranks_of_one_start_meet(void **state)
{
    struct dlr_ckpt *ck;
    pid_t b = live("MASTER_PORT=1 SLURM_JOB_ID=7", 1, 2, 0, 1);

    set_all("MASTER_PORT=1");
    ck = open_as("b", 0, 2);
    save(ck, "b", 0, 1);
    end(b);
    dlr_ckpt_close(ck);
    assert_restores("b", 2, 1);
}

/* --- one after the other ---------------------------------------------------------- */

/* Start A saved step 3 and was killed; of start B, which begins as A did, one rank has
 * when it is killed.
 */
static void a_start_that_is_killed_leaves_no_version_of_two(void **state)
{
    for (int rank = 0; rank < 2; rank++)
        for (uint64_t from = 0; from <= 2; from += 2) {
            pid_t of[2];

            run("b", 2, 1, 2);
            setenv("DLROVER_CKPT_AGREE_MS", "100", 1); /* ranks come at once */
            for (int r = 0; r < 2; r++)
                of[r] = live("", r, 2, from, 3);
            for (int r = 0; r < 2; r++)
                end(of[r]);
            assert_int_equal(versions(2), 3 - (from > 0)); /* two stay of a line */
            end(live("", rank, 2, from, 3));
            assert_int_equal(versions(2), 2 - (from > 0));
            assert_int_equal(count("-3.safetensors.aside"), 2);
            assert_int_equal(standalone_teardown(NULL), 0);
            assert_int_equal(begin(NULL), 0);
        }
}

static char other[80]; /* this program, under another name */

static void run_another(void)
{
    char self[256];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    int status;
    pid_t pid;

    assert_true(n > 0);
    self[n] = '\0';
    dlr_format(other, sizeof(other), "%s/another", dir);
    assert_int_equal(symlink(self, other), 0);
    pid = fork();
    if (pid == 0) {
        execl(other, other, dir, NULL);
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void what_another_program_has_saved_is_told_and_not_removed(void **state)
{
    struct dlr_ckpt *ck;
    uint64_t step = 0;

    run_another();
    for (int life = 0; life < 2; life++) {
        ck = open_as("a", 0, 1);
        assert_int_equal(dlr_ckpt_restore(ck, &step), 1);
        for (int i = 0; i < 3; i++)
            save(ck, "a", 0, ++step);
        dlr_ckpt_close(ck);
        assert_non_null(strstr(said, "step 2 was saved by 'another', and this is "
                                     "'test_ckpt_starts', which goes on from it"));
        assert_null(strstr(said, "step 5 "));
    }
    assert_restores("a", 1, 8);
    assert_int_equal(count("-1.safetensors.aside"), 1);
    assert_int_equal(count("-2.safetensors.aside"), 1);
    assert_int_equal(count(".aside"), 2);
}

/* As a program that binds two models and gives no directory to either. */
static void of_two_checkpoints_of_one_process_the_later_one_saves(void **state)
{
    struct dlr_ckpt *a = open_as("a", 0, 1), *b = open_as("b", 0, 1);

    save(a, "a", 0, 1);
    save(b, "b", 0, 1);
    fill("a", 0, 2);
    assert_int_equal(dlr_ckpt_begin(a, 2, NULL), -EBUSY);
    assert_non_null(
        strstr(dlr_ckpt_error(a), "another checkpoint that this program opened"));
    save(b, "b", 0, 2);
    dlr_ckpt_close(a);
    save(b, "b", 0, 3);
    dlr_ckpt_close(b);
    assert_restores("b", 1, 3);
    assert_int_equal(count("-1.safetensors.aside"), 1);
}

/* --- without locks ---------------------------------------------------------------- */

static const int codes[] = {ENOLCK, ENOSYS, EOPNOTSUPP};

/* Two programs save as rank 0, in turn: each keeps what it has. */
static void without_locks_nothing_of_another_program_is_removed(void **state)
{
    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
        struct dlr_ckpt *a, *b;
        unsigned files;

        no_locks = codes[i];
        a = open_as("a", 0, 1);
        b = open_as("b", 0, 1);
        for (uint64_t step = 1; step <= 4; step++) {
            save(a, "a", 0, 10 * step);
            save(b, "b", 0, 10 * step + 1);
        }
        files = count("1.safetensors");
        assert_true(files >= 2);
        for (uint64_t step = 5; step <= 8; step++)
            save(a, "a", 0, 10 * step);
        assert_int_equal(count("1.safetensors"), files);
        dlr_ckpt_close(a);
        dlr_ckpt_close(b);
        assert_int_equal(count("0.safetensors") - count("0.safetensors.aside"), 2);
        assert_int_equal(standalone_teardown(NULL), 0);
        assert_int_equal(begin(NULL), 0);
    }
}

/* In a process that has said nothing so far. */
static void assert_said_once(int error, const char *what)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        char *at;

        no_locks = error;
        run("a", 2, 1, 4);
        at = strstr(said, what);
        _exit(at && !strstr(at + 1, what) ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void without_locks_one_line_says_so(void **state)
{
    char path[128];

    assert_said_once(ENOLCK, "file system has no locks");
    for (int rank = 0; rank < 2;
         rank++) { /* or another user's, in a directory of all */
        dlr_format(path, sizeof(path), "%s/.lock-%d", dir, rank);
        unlink(path);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    assert_said_once(0, "lock cannot be opened");
}

/* What goes on from a version removes that, as with locks. */
static void without_locks_a_line_removes_its_own(void **state)
{
    struct dlr_ckpt *ck;
    uint64_t step;

    no_locks = ENOLCK;
    run("a", 1, 1, 3);
    ck = open_as("a", 0, 1);
    assert_int_equal(dlr_ckpt_restore(ck, &step), 1);
    for (step = 4; step <= 7; step++)
        save(ck, "a", 0, step);
    dlr_ckpt_close(ck);
    assert_int_equal(count("safetensors"), 2);
    assert_restores("a", 1, 7);
}

int main(int argc, char **argv)
{
    if (argc > 1) { /* run_another() */
        dlr_format(dir, sizeof(dir), "%s", argv[1]);
        run("a", 1, 1, 2);
        return 0;
    }
#define T(f) cmocka_unit_test_setup_teardown(f, begin, standalone_teardown)
    const struct CMUnitTest tests[] = {
        T(without_locks_one_line_says_so), /* to a process that has not said it */
        T(starts_differ_where_launchers_say_so),
        T(programs_count_where_no_launcher_says_that_they_are_one_start),
        T(a_program_is_called_as_its_script),
        T(two_starts_at_once_make_no_version_of_both),
        T(ranks_of_one_start_meet),
        T(a_start_that_is_killed_leaves_no_version_of_two),
        T(what_another_program_has_saved_is_told_and_not_removed),
        T(of_two_checkpoints_of_one_process_the_later_one_saves),
        T(without_locks_nothing_of_another_program_is_removed),
        T(without_locks_a_line_removes_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
