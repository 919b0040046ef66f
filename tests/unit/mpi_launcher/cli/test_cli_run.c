/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover status and events as they are run: journals that grow, are replaced, are not
 * there; words that are wrong.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "mpi_launcher/cli/base/cli.h"
#include "mpi_launcher/cli/base/find_run.h"
#include "mpi_launcher/journal/reader.h"
#include "mpi_launcher/journal/run_view.h"

#define LIMIT_MS 30000 /* for a child to say or do what is expected */

static char dir[64]; /* the state directory of a test */

/* --- reader ----------------------------------------------------------------------- */

static void append(const char *path, const char *text)
{
    FILE *f = fopen(path, "ae");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int next(struct dlr_cli_reader *r, const char *want)
{
    struct dlr_err err;
    size_t size = 0;
    char *line = NULL;
    int rc = dlr_cli_reader_next(r, &line, &size, &err);

    if (rc == 1 && want) {
        assert_string_equal(line, want);
        assert_int_equal(size, strlen(want));
    }
    return rc;
}

static void half_a_line_waits_for_its_rest(void **state)
{
    struct dlr_cli_reader r;
    char path[128];

    snprintf(path, sizeof(path), "%s/half", dir);
    append(path, "one\ntw");
    dlr_cli_reader_init(&r, path);
    assert_int_equal(next(&r, "one"), 1);
    assert_int_equal(next(&r, NULL), 0);
    append(path, "o\n\n");
    assert_int_equal(next(&r, "two"), 1);
    assert_int_equal(next(&r, ""), 1);
    assert_int_equal(next(&r, NULL), 0);
    dlr_cli_reader_done(&r);
}

static void a_file_that_was_replaced_is_read_from_its_start(void **state)
{
    struct dlr_cli_reader r;
    char path[128], other[128];

    snprintf(path, sizeof(path), "%s/first", dir);
    snprintf(other, sizeof(other), "%s/second", dir);
    append(path, "one\ntwo\n");
    append(other, "three\nfour and more\n");
    dlr_cli_reader_init(&r, path);
    assert_int_equal(next(&r, "one"), 1);
    assert_int_equal(next(&r, "two"), 1);
    assert_int_equal(next(&r, NULL), 0);
    assert_int_equal(rename(other, path), 0);
    assert_int_equal(next(&r, NULL), -ESTALE);
    assert_int_equal(next(&r, "three"), 1);
    assert_int_equal(next(&r, "four and more"), 1);
    assert_int_equal(next(&r, NULL), 0);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(next(&r, NULL), -ESTALE);
    assert_int_equal(next(&r, NULL), 0);
    dlr_cli_reader_done(&r);
}

static void a_line_without_end_is_skipped(void **state)
{
    struct dlr_cli_reader r;
    char path[128];

    snprintf(path, sizeof(path), "%s/huge", dir);
    append(path, "one\n");
    assert_int_equal(truncate(path, DLR_CLI_LINE_MAX + 1000000),
                     0); /* a hole of NULs */
    append(path, "\ntwo\n");
    dlr_cli_reader_init(&r, path);
    assert_int_equal(next(&r, "one"), 1);
    assert_int_equal(next(&r, "two"), 1);
    assert_int_equal(r.skipped, 1);
    assert_true(r.size <= 2 * DLR_CLI_LINE_MAX + 2000000);
    dlr_cli_reader_done(&r);
}

static void what_is_no_file_is_refused(void **state)
{
    struct dlr_cli_reader r;

    dlr_cli_reader_init(&r, dir);
    assert_int_equal(next(&r, NULL), -EINVAL);
    dlr_cli_reader_done(&r);
    dlr_cli_reader_init(&r, "/nowhere/at/all");
    assert_int_equal(next(&r, NULL), -ENOENT);
    dlr_cli_reader_done(&r);
}

/* --- the commands ----------------------------------------------------------------- */

static void put_journal(const char *job, const char *run, const char *fixture)
{
    char path[256];
    char *text;
    size_t size;
    struct dlr_err err;

    snprintf(path, sizeof(path), "%s/job-%s/%s", dir, job, run);
    assert_int_equal(dlr_mkdirs(path, 0700, &err), 0);
    strcat(path, "/events.jsonl");
    assert_int_equal(dlr_file_load(AT_FDCWD, fixture, 1 << 20, &text, &size, &err), 0);
    append(path, text);
    free(text);
}

/* Starts the command in a child; its stdout and stderr come out of *ret_fd. */
static pid_t start(int (*command)(int, char **), char *const *argv, int *ret_fd)
{
    int fds[2], argc = 0;
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    while (argv[argc])
        argc++;
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        int code;

        dup2(fds[1], 1);
        dup2(fds[1], 2);
        close(fds[0]);
        close(fds[1]);
        code = command(argc, (char **)argv);
        fflush(NULL);
        _exit(code);
    }
    close(fds[1]);
    *ret_fd = fds[0];
    return pid;
}

/* Reads until text has come, or the end when it is NULL. */
static void read_until(int fd, char *buf, size_t size, const char *text)
{
    int64_t deadline = dlr_now_ms() + LIMIT_MS;
    size_t used = strlen(buf);
    ssize_t n = 1;

    while (n > 0 && used < size - 1 && !(text && strstr(buf, text))) {
        struct pollfd pfd = {.fd = fd, .events = POLLIN};

        assert_true(poll(&pfd, 1, (int)(deadline - dlr_now_ms())) > 0);
        n = read(fd, buf + used, size - 1 - used);
        used += n > 0 ? (size_t)n : 0;
        buf[used] = '\0';
    }
}

static int finish(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int run(int (*command)(int, char **), char *buf, size_t size, ...)
{
    static char first[] = "command";
    char state_dir[128];
    char *argv[10] = {first, state_dir};
    int fd, n = 2;
    va_list ap;
    pid_t pid;

    snprintf(state_dir, sizeof(state_dir), "--state-dir=%s", dir);
    va_start(ap, size);
    while (n < 9 && (argv[n] = va_arg(ap, char *)))
        n++;
    va_end(ap);
    buf[0] = '\0';
    pid = start(command, argv, &fd);
    read_until(fd, buf, size, NULL);
    close(fd);
    return finish(pid);
}

static void status_says_whether_it_goes_on(void **state)
{
    char text[16384];

    put_journal("41", "9f00aa12-0", "tests/journals/node-loss.jsonl");
    assert_int_equal(run(dlr_cli_status, text, sizeof(text), "41", NULL), 0);
    assert_non_null(strstr(text, "job 41  run 9f00aa12-0  "));
    assert_non_null(strstr(text, "\nnodes      4 training, 1 dead; 4 ranks\n"));
    assert_non_null(
        strstr(text, "       n2    dead      -      silent for 1.05 s, 03:00:12\n"));
    assert_non_null(strstr(text, "leaf1  n4    training  3      copies on n5\n"));
    assert_non_null(
        strstr(text, "       n5    training  1      took over; copies on n4\n"));
    assert_null(strchr(text, '\033'));
}

static void status_as_json_is_one_object(void **state)
{
    char text[32768];
    json_t *j;

    put_journal("41", "9f00aa12-0", "tests/journals/node-loss.jsonl");
    assert_int_equal(run(dlr_cli_status, text, sizeof(text), "--json", NULL), 0);
    j = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(j);
    assert_string_equal(json_string_value(json_object_get(j, "state")), "stalled");
    assert_int_equal(json_array_size(json_object_get(j, "nodes")), 5);
    assert_int_equal(json_array_size(json_object_get(j, "events")), DLR_CLI_LAST);
    assert_int_equal(json_integer_value(json_object_get(j, "step")), 221);
    json_decref(j);
}

static void nothing_hostile_reaches_the_terminal(void **state)
{
    char text[32768];
    int (*const commands[])(int, char **) = {dlr_cli_status, dlr_cli_events};

    put_journal("45", "bad", "tests/journals/hostile.jsonl");
    for (size_t c = 0; c < 2; c++) {
        assert_int_equal(run(commands[c], text, sizeof(text), "45", NULL), 0);
        for (const char *p = text; *p; p++)
            assert_true(*p == '\n' || ((unsigned char)*p >= ' ' && *p != 0x7f));
    }
    assert_non_null(strstr(text, "4 lines of"));
}

static void a_missing_journal_is_one_line_that_says_where(void **state)
{
    char text[4096], want[512];

    put_journal("41", "r", "tests/journals/done.jsonl");
    assert_int_equal(run(dlr_cli_status, text, sizeof(text), "99", NULL), 1);
    snprintf(
        want, sizeof(want),
        "dlrover: no journal: looked for '%s/job-99/*/events.jsonl' (--state-dir names "
        "another place)\n",
        dir);
    assert_string_equal(text, want);
    assert_int_equal(run(dlr_cli_events, text, sizeof(text), "41", "--run=x", NULL), 1);
    snprintf(
        want, sizeof(want),
        "dlrover: no journal: looked for '%s/job-41/x/events.jsonl' (--state-dir names "
        "another place)\n",
        dir);
    assert_string_equal(text, want);
    assert_int_equal(
        run(dlr_cli_status, text, sizeof(text), "--state-dir=/nowhere", NULL), 1);
    assert_string_equal(text,
                        "dlrover: cannot read the state directory '/nowhere': No such "
                        "file or directory\n");
}

static void wrong_words_are_one_line_and_code_2(void **state)
{
    static const struct {
        const char *words[2], *text;
    } rows[] = {
        {{"--josn"}, "unknown option '--josn', did you mean '--json'?"},
        {{"--nothing-like-it"}, "unknown option '--nothing-like-it'"},
        {{"--run"}, "'--run' needs a value"},
        {{"--once=1"}, "'--once' takes no value"},
        {{"-z"}, "unknown option '-z'"},
        {{"1", "2"}, "one job at a time: '2' is one too many"},
        {{"--once", "--watch"}, "--once and --watch exclude each other"},
        {{"--interval=0s"},
         "--interval=0s: must be a time from 50ms on, such as '500ms' or '2s'"},
    };
    char text[4096], want[512];

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        assert_int_equal(run(dlr_cli_status, text, sizeof(text), rows[i].words[0],
                             rows[i].words[1], NULL),
                         DLR_CLI_USAGE);
        snprintf(want, sizeof(want), "dlrover status: %s (see 'dlrover help status')\n",
                 rows[i].text);
        assert_string_equal(text, want);
    }
    assert_int_equal(run(dlr_cli_status, text, sizeof(text), "../etc", NULL), 1);
    assert_string_equal(text, "dlrover: '../etc' is not the name of a job\n");
}

static void events_can_be_chosen(void **state)
{
    char text[8192];

    put_journal("41", "r", "tests/journals/node-loss.jsonl");
    assert_int_equal(
        run(dlr_cli_events, text, sizeof(text), "--event=node_dead,cleared", NULL), 0);
    assert_string_equal(text,
                        "2026-11-21 03:00:12.830  n2 is dead: silent for 1.05 s\n"
                        "2026-11-21 03:00:12.920  nothing of round 0 is left after "
                        "0.08 s\n");
    assert_int_equal(run(dlr_cli_events, text, sizeof(text), "--event=progress",
                         "--since=2026-11-21T03:00:22", NULL),
                     0);
    assert_string_equal(text,
                        "2026-11-21 03:00:22.550  step 221, 12.5 steps/s, committed "
                        "step 218 of round 1, 55 commits, 1 saves given up\n");
    assert_int_equal(
        run(dlr_cli_events, text, sizeof(text), "--json", "--event=end", NULL), 0);
    assert_string_equal(text, "");
}

static void following_ends_with_the_run(void **state)
{
    char state_dir[128], path[256], text[16384] = "";
    char *argv[] = {"events", "--follow", "--interval=60s", state_dir, NULL};
    pid_t pid;
    int fd;

    put_journal("41", "r", "tests/journals/node-loss.jsonl");
    snprintf(state_dir, sizeof(state_dir), "--state-dir=%s", dir);
    snprintf(path, sizeof(path), "%s/job-41/r/events.jsonl", dir);
    pid = start(dlr_cli_events, argv, &fd);
    read_until(fd, text, sizeof(text), "saves begin, 0.90 s");
    append(path, "{\"time\":\"2026-11-21T03:01:00.000Z\",\"event\":\"node_dead\","
                 "\"node\":\"n4\",\"why\":\"silent\"}\n");
    read_until(fd, text, sizeof(text), "n4 is dead: silent\n");
    append(path,
           "{\"time\":\"2026-11-21T03:01:01.000Z\",\"event\":\"end\",\"code\":1}\n");
    read_until(fd, text, sizeof(text), NULL);
    assert_non_null(strstr(text, "the run is over with code 1\n"));
    assert_int_equal(finish(pid), 0);
    close(fd);
}

static void the_newest_run_is_shown_unless_one_is_named(void **state)
{
    struct timespec old[2] = {{1000, 0}, {1000, 0}};
    char text[16384], path[256];

    put_journal("42", "loop", "tests/journals/crash-loop.jsonl");
    put_journal("44", "ok", "tests/journals/done.jsonl");
    put_journal("44", "other", "tests/journals/requeue.jsonl");
    snprintf(path, sizeof(path), "%s/job-44/other/events.jsonl", dir);
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    snprintf(path, sizeof(path), "%s/job-42/loop/events.jsonl", dir);
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    assert_int_equal(run(dlr_cli_status, text, sizeof(text), NULL), 0);
    assert_non_null(strstr(text, "job 44  run ok  (1 other run, see --run)  "));
    assert_non_null(strstr(text, "\nDONE  at 2026-11-21 03:00:16, 1 round in 22.8 s"));
    assert_int_equal(run(dlr_cli_status, text, sizeof(text), "--run=loop", NULL), 0);
    assert_non_null(strstr(text, "\nFAILED  at "));
}

/* --- main ------------------------------------------------------------------------- */

static int make_dir(void **state)
{
    strcpy(dir, "/tmp/test_cli.XXXXXX");
    unsetenv("SLURM_JOB_ID");
    unsetenv("DLROVER_STATE_DIR");
    setenv("TZ", "UTC", 1);
    tzset();
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    return system(command);
}

#define IN_DIR(test) cmocka_unit_test_setup_teardown(test, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_DIR(half_a_line_waits_for_its_rest),
        IN_DIR(a_file_that_was_replaced_is_read_from_its_start),
        IN_DIR(a_line_without_end_is_skipped),
        IN_DIR(what_is_no_file_is_refused),
        IN_DIR(status_says_whether_it_goes_on),
        IN_DIR(status_as_json_is_one_object),
        IN_DIR(nothing_hostile_reaches_the_terminal),
        IN_DIR(a_missing_journal_is_one_line_that_says_where),
        IN_DIR(wrong_words_are_one_line_and_code_2),
        IN_DIR(events_can_be_chosen),
        IN_DIR(following_ends_with_the_run),
        IN_DIR(the_newest_run_is_shown_unless_one_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
