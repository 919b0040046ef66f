/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=mpi_launcher/keeper */
/* The journal's writer, and the state that a supervisor leaves behind. */
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
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/file.h"
#include "mpi_launcher/journal/journal.h"
#include "mpi_launcher/keeper/child_exits.h"
#include "mpi_launcher/keeper/takeover_state.h"

#define LIMIT_MS 30000 /* for lines to be on their way to the disk */

static char dir[] = "/tmp/dlr-journal-XXXXXX";
static struct dlr_fork_server *fork_server;

static int make_dir(void **state)
{
    struct dlr_err err;

    return mkdtemp(dir) ? dlr_fork_server_new(&fork_server, &err) : -1;
}

static int remove_dir(void **state)
{
    char command[64];

    fork_server = dlr_fork_server_free(fork_server);

    snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command);
}

static char *load(const char *name)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY);
    struct dlr_err err;
    char *text = NULL;

    assert_int_equal(dlr_file_load(fd, name, 1 << 20, &text, NULL, &err), 0);
    close(fd);
    return text;
}

static void lines_come_in_order_with_their_time(void **state)
{
    char path[64];
    struct dlr_journal *j;
    struct dlr_err err;
    json_t *first;
    char *text;

    snprintf(path, sizeof(path), "%s/a", dir);
    assert_int_equal(dlr_journal_open(fork_server, -1, path, &j, &err), 0);
    dlr_journal_note(j, "plan", "s:i,s:[i,i]", "round", 3, "restore", 2, 40);
    dlr_journal_event(j, "end", NULL);
    dlr_journal_close(j, LIMIT_MS);
    text = load("a");
    first = json_loads(text, JSON_DISABLE_EOF_CHECK, NULL);
    assert_non_null(first);
    assert_string_equal(json_string_value(json_object_get(first, "event")), "plan");
    assert_int_equal(strlen(json_string_value(json_object_get(first, "time"))), 24);
    assert_non_null(strstr(text, "\"round\":3,\"restore\":[2,40]}\n"));
    assert_non_null(strstr(text, "\"event\":\"end\"}\n"));
    json_decref(first);
    free(text);
}

static void state_file_is_replaced_after_the_lines_before_it(void **state)
{
    char path[64], other[64];
    struct dlr_journal *j;
    struct dlr_err err;
    char *text;

    snprintf(path, sizeof(path), "%s/b", dir);
    snprintf(other, sizeof(other), "%s/state.json", dir);
    assert_int_equal(dlr_journal_open(fork_server, -1, path, &j, &err), 0);
    dlr_journal_replace(j, other, "{\"round\":1}");
    dlr_journal_replace(j, other, "{\"round\":2}");
    dlr_journal_close(j, LIMIT_MS);
    text = load("state.json");
    assert_string_equal(text, "{\"round\":2}\n");
    free(text);
}

static void file_system_that_hangs_blocks_nobody(void **state)
{
    struct dlr_journal *j;
    struct dlr_err err;
    char path[64];
    int reader;

    signal(SIGPIPE, SIG_IGN);
    snprintf(path, sizeof(path), "%s/fifo",
             dir); /* a full pipe hangs as a dead server does */
    assert_int_equal(mkfifo(path, 0600), 0);
    reader = open(path, O_RDONLY | O_NONBLOCK);
    assert_int_equal(dlr_journal_open(fork_server, -1, path, &j, &err), 0);
    for (unsigned i = 0; i < 20000; i++)
        dlr_journal_note(j, "progress", "s:i", "step", i);
    dlr_journal_close(j, 100); /* comes back at all: nobody ever reads */
    close(reader);
}

static void last_line_is_left_out_when_somebody_else_has_written(void **state)
{
    struct dlr_journal *ours, *other;
    struct dlr_err err;
    char path[64], *text;

    snprintf(path, sizeof(path), "%s/deposed", dir);
    assert_int_equal(dlr_journal_open(fork_server, -1, path, &ours, &err), 0);
    dlr_journal_note(ours, "start", "s:i", "generation", 1);
    dlr_journal_append(ours, path, "of somebody else");
    dlr_journal_last(ours, "end", json_pack("{s:i}", "code", 143));
    dlr_journal_close(ours, 5000);
    text = load("deposed");
    assert_non_null(strstr(text, "of somebody else\n"));
    assert_null(strstr(text, "\"code\":143")); /* its time may have the digits */
    free(text);
    assert_int_equal(dlr_journal_open(fork_server, -1, path, &ours, &err), 0);
    dlr_journal_note(ours, "start", "s:i", "generation", 2);
    dlr_journal_last(ours, "end", json_pack("{s:i}", "code", 0));
    dlr_journal_close(ours, 5000);
    assert_int_equal(dlr_journal_open(fork_server, -1, path, &other, &err), 0);
    dlr_journal_note(other, "takeover", "s:s", "node", "n2");
    dlr_journal_close(other, 5000);
    text = load("deposed"); /* nobody else had written then */
    assert_non_null(strstr(text, "\"event\":\"end\",\"code\":0}\n"));
    free(text);
}

static void end_that_is_missing_is_written_once(void **state)
{
    struct dlr_journal *j;
    struct dlr_err err;
    char path[64], *text, *first;

    snprintf(path, sizeof(path), "%s/once", dir);
    assert_int_equal(dlr_journal_open(fork_server, -1, path, &j, &err), 0);
    dlr_journal_note(j, "end", "s:i", "code", 3); /* of a run before */
    dlr_journal_note(j, "start", "s:s", "of", "\"event\":\"end\"");
    dlr_journal_end_missing(j, json_pack("{s:i}", "code", 4));
    dlr_journal_note(j, "bye", "s:i", "n", 1);
    dlr_journal_end_missing(j, json_pack("{s:i}", "code", 5));
    dlr_journal_close(j, 5000);
    text = load("once");
    first = strstr(text, "\"event\":\"end\",\"code\":4}\n");
    assert_non_null(first);
    assert_null(strstr(first, "\"code\":5}"));
    free(text);
}

static void file_that_does_not_open_is_waited_for_by_the_writer_alone(void **state)
{
    char path[64], text[256] = "";
    struct dlr_journal *j;
    struct dlr_err err;
    ssize_t n, size = 0;
    int reader;

    snprintf(path, sizeof(path), "%s/late", dir);
    assert_int_equal(mkfifo(path, 0600), 0); /* opening it hangs: nobody reads */
    assert_int_equal(dlr_journal_open(fork_server, -1, path, &j, &err), 0);
    dlr_journal_note(j, "start", "s:i", "generation", 2);
    reader = open(path, O_RDONLY);
    dlr_journal_close(j, 5000);
    while ((n = read(reader, text + size, sizeof(text) - 1 - size)) > 0)
        size += n;
    assert_non_null(strstr(text, "\"event\":\"start\",\"generation\":2}\n"));
    close(reader);
}

/* Opens a journal that hangs, says a line and waits to be killed. */
static void hang_in(const char *path, int turns, int told)
{
    struct dlr_fork_server *own = NULL;
    struct dlr_journal *j;
    struct dlr_err err;

    if (dlr_fork_server_new(&own, &err) < 0 ||
        dlr_journal_open(own, turns, path, &j, &err) < 0)
        _exit(1);
    dlr_journal_note(j, "plan", "s:i", "round", 7);
    (void)!write(told, "", 1);
    for (;;)
        pause();
}

static void read_to_end(int fd, char *text, size_t size)
{
    size_t have = 0;
    ssize_t n;

    while ((n = read(fd, text + have, size - 1 - have)) > 0)
        have += (size_t)n;
    text[have] = '\0';
}

static void
who_is_killed_ends_at_once_and_his_lines_come_before_the_next_ones(void **state)
{
    int turns = memfd_create("test", MFD_CLOEXEC), told[2], status, reader;
    char hung[64], path[64], text[512], byte, *next;
    struct dlr_journal *j;
    struct dlr_err err;
    pid_t pid;

    snprintf(hung, sizeof(hung), "%s/hung", dir);
    snprintf(path, sizeof(path), "%s/next", dir);
    assert_int_equal(mkfifo(hung, 0600), 0); /* opening it hangs: nobody reads */
    assert_int_equal(pipe(told), 0);
    pid = fork();
    if (pid == 0)
        hang_in(hung, turns, told[1]);
    assert_int_equal(read(told[0], &byte, 1), 1);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(dlr_journal_open(fork_server, turns, path, &j, &err), 0);
    dlr_journal_note(j, "start", "s:i", "generation", 2);
    assert_int_equal(access(path, F_OK), -1); /* it is not this one's turn */
    reader = open(hung, O_RDONLY);
    read_to_end(reader, text, sizeof(text));
    assert_non_null(strstr(text, "\"event\":\"plan\",\"round\":7}\n"));
    dlr_journal_close(j, LIMIT_MS);
    next = load("next");
    assert_non_null(strstr(next, "\"event\":\"start\",\"generation\":2}\n"));
    free(next);
    close(reader);
    close(turns);
    close(told[0]);
    close(told[1]);
}

static void writer_that_is_killed_is_started_again(void **state)
{
    int turns = memfd_create("test", MFD_CLOEXEC);
    struct flock writer = {.l_type = F_WRLCK, .l_len = 1};
    struct pollfd ended = {.events = POLLIN};
    char path[64], *text;
    struct dlr_journal *j;
    struct dlr_err err;

    snprintf(path, sizeof(path), "%s/again", dir);
    assert_int_equal(dlr_journal_open(fork_server, turns, path, &j, &err), 0);
    assert_int_equal(fcntl(turns, F_GETLK, &writer), 0);
    assert_int_equal(writer.l_type, F_WRLCK); /* it has its turn */
    ended.fd = (int)syscall(SYS_pidfd_open, writer.l_pid, 0);
    assert_int_equal(kill(writer.l_pid, SIGKILL), 0);
    assert_int_equal(poll(&ended, 1, LIMIT_MS), 1);
    close(ended.fd);
    dlr_journal_note(j, "plan", "s:i", "round", 8);
    dlr_journal_close(j, LIMIT_MS);
    text = load("again");
    assert_non_null(strstr(text, "\"event\":\"plan\",\"round\":8}\n"));
    free(text);
    close(turns);
}

static void text_is_added_to_another_file(void **state)
{
    char path[64], other[64], *text;
    struct dlr_journal *j;
    struct dlr_err err;

    snprintf(path, sizeof(path), "%s/c", dir);
    snprintf(other, sizeof(other), "%s/rendezvous.log", dir);
    assert_int_equal(dlr_journal_open(fork_server, -1, path, &j, &err), 0);
    dlr_journal_append(j, other, "srun: one");
    dlr_journal_append(j, other, "srun: two");
    dlr_journal_close(j, 5000);
    text = load("rendezvous.log");
    assert_string_equal(text, "srun: one\nsrun: two\n");
    free(text);
}

static void kept_state_comes_back_whole(void **state)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    json_t *out = NULL, *in = json_pack("{s:i,s:s}", "round", 7, "run", "abc-0");
    struct dlr_err err;

    assert_int_equal(dlr_takeover_state_load(fd, &out, &err), -ENOENT);
    assert_int_equal(dlr_takeover_state_save(fd, in, &err), 0);
    assert_int_equal(dlr_takeover_state_load(fd, &out, &err), 0);
    assert_true(json_equal(in, out));
    json_decref(out);
    json_decref(in);
    close(fd);
}

static void a_malformed_kept_state_is_refused(void **state)
{
    static const struct {
        const char *name, *head; /* 8 bytes: length, area */
        const char *text;
        int rc;
    } rows[] = {
        {"as it was", "\x07\0\0\0\0\0\0\0", "{\"a\":1}", 0},
        {"none", "\0\0\0\0\0\0\0\0", "{\"a\":1}", -ENOENT},
        {"too long", "\xff\xff\xff\x7f\0\0\0\0", "{\"a\":1}", -EBADMSG},
        {"longer than what is there", "\x08\0\0\0\0\0\0\0", "{\"a\":1}", -EBADMSG},
        {"no such area", "\x07\0\0\0\x02\0\0\0", "{\"a\":1}", -EBADMSG},
        {"cut short", "\x05\0\0\0\0\0\0\0", "{\"a\":1}", -EBADMSG},
        {"no object", "\x03\0\0\0\0\0\0\0", "[1]", -EBADMSG},
        {"a name twice", "\x0d\0\0\0\0\0\0\0", "{\"a\":1,\"a\":2}", -EBADMSG},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        int fd = memfd_create("test", MFD_CLOEXEC);
        struct dlr_err err;
        json_t *out = NULL;

        print_message("%s\n", rows[i].name);
        assert_int_equal(pwrite(fd, rows[i].head, 8, 8192), 8);
        assert_true(pwrite(fd, rows[i].text, strlen(rows[i].text), 12288) > 0);
        assert_int_equal(dlr_takeover_state_load(fd, &out, &err), rows[i].rc);
        json_decref(out);
        close(fd);
    }
}

/* What is being written is not where the state is that counts. */
static void who_is_killed_while_he_keeps_a_state_leaves_the_former(void **state)
{
    static const off_t areas[] = {12288, 12288 + DLR_TAKEOVER_STATE_MAX};
    int fd = memfd_create("test", MFD_CLOEXEC);
    struct dlr_err err;

    for (int i = 0; i < 4; i++) {
        json_t *out = NULL, *in = json_pack("{s:i}", "generation", i);

        assert_int_equal(dlr_takeover_state_save(fd, in, &err), 0);
        assert_int_equal(pwrite(fd, "half", 4, areas[(i + 1) % 2]), 4);
        assert_int_equal(dlr_takeover_state_load(fd, &out, &err), 0);
        assert_true(json_equal(in, out));
        json_decref(in);
        json_decref(out);
    }
    close(fd);
}

static void ends_of_processes_are_kept_beside_the_state(void **state)
{
    int fd = memfd_create("test", MFD_CLOEXEC), status = -1;
    json_t *out = NULL, *in = json_pack("{s:i}", "round", 7);
    struct dlr_err err;

    assert_int_equal(dlr_child_exits_find(fd, 100, &status), -ENOENT);
    assert_int_equal(dlr_takeover_state_save(fd, in, &err), 0);
    for (unsigned i = 1; i <= DLR_CHILD_EXITS + 10; i++)
        assert_int_equal(dlr_child_exits_add(fd, i, 1000 + i, i << 8), 0);
    assert_int_equal(dlr_child_exits_add(fd, DLR_CHILD_EXITS + 11, 1100, 9),
                     0); /* that pid again */
    assert_int_equal(dlr_child_exits_find(fd, 1100, &status), 0);
    assert_int_equal(status, 9);
    assert_int_equal(dlr_child_exits_find(fd, 1000 + DLR_CHILD_EXITS, &status), 0);
    assert_int_equal(status, DLR_CHILD_EXITS << 8);
    assert_int_equal(dlr_child_exits_find(fd, 1001, &status), -ENOENT); /* too old */
    assert_int_equal(dlr_takeover_state_load(fd, &out, &err), 0);
    assert_true(json_equal(in, out));
    json_decref(in);
    json_decref(out);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_come_in_order_with_their_time),
        cmocka_unit_test(state_file_is_replaced_after_the_lines_before_it),
        cmocka_unit_test(file_system_that_hangs_blocks_nobody),
        cmocka_unit_test(last_line_is_left_out_when_somebody_else_has_written),
        cmocka_unit_test(end_that_is_missing_is_written_once),
        cmocka_unit_test(file_that_does_not_open_is_waited_for_by_the_writer_alone),
        cmocka_unit_test(
            who_is_killed_ends_at_once_and_his_lines_come_before_the_next_ones),
        cmocka_unit_test(writer_that_is_killed_is_started_again),
        cmocka_unit_test(text_is_added_to_another_file),
        cmocka_unit_test(kept_state_comes_back_whole),
        cmocka_unit_test(a_malformed_kept_state_is_refused),
        cmocka_unit_test(who_is_killed_while_he_keeps_a_state_leaves_the_former),
        cmocka_unit_test(ends_of_processes_are_kept_beside_the_state),
    };

    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
