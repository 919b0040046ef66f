/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs=dlrover-agent */
/* The agent as one that is told things: orders, signals, what is malformed; its data
 * process.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "common/base/install_path.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/process/restart_delay.h"
#include "tests/support/agent_rig.h"

static struct rig rig;

static void stderr_comes_through_as_text(void **state)
{
    struct dlr_local_msg m;
    json_t *msg;
    int fd;

    dlr_rig_begin(&rig, NULL, 0, "[0]", "null");
    fd = dlr_rig_connect(&rig);
    dlr_local_init(&m, DLR_LOCAL_STDERR);
    m.rank = 3;
    dlr_local_text(&m, "bad \xff\xfe\x01 thing\n\tat line 5\n");
    assert_int_equal(dlr_local_send(fd, &m, NULL, 0), 0);
    msg = dlr_rig_expect(&rig, "stderr");
    assert_int_equal(dlr_rig_int(msg, "rank"), 3);
    assert_string_equal(dlr_rig_str(msg, "text"), "bad ??? thing\n\tat line 5\n");
    json_decref(msg);
    close(fd);
    dlr_rig_stop(&rig);
}

static void a_report_is_made_by_a_child(void **state)
{
    json_t *msg;

    dlr_rig_start(&rig, NULL);
    dlr_rig_say(&rig, "report", "s:i", "id", 77);
    msg = dlr_rig_expect(&rig, "report");
    assert_int_equal(dlr_rig_int(msg, "id"), 77);
    assert_string_equal(dlr_rig_str(json_object_get(msg, "report"), "node"), "n1");
    assert_true(json_is_true(json_object_get(json_object_get(msg, "report"),
                                             "told"))); /* memory may be full */
    json_decref(msg);
    dlr_rig_stop(&rig);
}

/* A worker's question for rank 3's copy of what another number of ranks made. */
static int ask_for_copy(void)
{
    int fd = dlr_rig_connect(&rig);
    json_t *msg;

    dlr_rig_send(fd, DLR_LOCAL_PEEK, 1, 0, 0, 3, 0);
    msg = dlr_rig_expect(&rig, "fetch");
    assert_int_equal(dlr_rig_int(msg, "round"), 1);
    assert_int_equal(dlr_rig_int(msg, "rank"), 3);
    json_decref(msg);
    return fd;
}

static void expect_peeked(int fd, int error, const char *text)
{
    struct dlr_local_msg m;
    int fds[DLR_LOCAL_FDS];
    unsigned n;

    assert_true(dlr_rig_recv(fd, &m, fds, &n));
    assert_int_equal(m.type, DLR_LOCAL_PEEKED);
    assert_int_equal(m.arg[0], 3);
    assert_int_equal(m.arg[1], error);
    assert_string_equal(m.text, text);
    assert_int_equal(n, 0);
    close(fd);
}

static void a_copy_that_is_not_here_is_asked_for(void **state)
{
    int fd;

    dlr_rig_begin(&rig, NULL, 1, "[0]", "{\"vround\":0,\"step\":10,\"world\":4}");
    fd = ask_for_copy();
    dlr_rig_say(&rig, "fetched", "s:i, s:i, s:i, s:s", "round", 1, "rank", 3, "rc", 0,
                "path", "/x/r3");
    expect_peeked(fd, 0, "/x/r3");
    fd = ask_for_copy();
    dlr_rig_say(&rig, "fetched", "s:i, s:i, s:i, s:s", "round", 1, "rank", 3, "rc",
                ENOENT, "why", "no node has it");
    expect_peeked(fd, ENOENT, "no node has it");
    fd = ask_for_copy();
    dlr_rig_say(&rig, "fetched", "s:i, s:i, s:i", "round", 1, "rank", 3, "rc", 0);
    expect_peeked(fd, ENOENT, "its copy has gone"); /* it is not in this memory */
    close(ask_for_copy());                          /* nobody waits any more */
    dlr_rig_say(&rig, "fetched", "s:i, s:i, s:i, s:s", "round", 1, "rank", 3, "rc", 0,
                "path", "/x/r3");
    dlr_rig_sync(&rig);
    dlr_rig_stop(&rig);
}

static void expect_room(uint64_t bytes, bool make, int error)
{
    json_t *msg;

    dlr_rig_say(&rig, "reserve", "s:i, s:i, s:I, s:b, s:b", "round", 1, "rank", 3,
                "bytes", (json_int_t)bytes, "fetch", 1, "make", make);
    msg = dlr_rig_expect(&rig, "room");
    assert_int_equal(dlr_rig_int(msg, "rank"), 3);
    assert_int_equal(dlr_rig_int(msg, "rc"), error);
    json_decref(msg);
}

/* The pid in the address that the next hello with (or without) one has; 0 without. */
static pid_t next_data_process(bool with)
{
    for (;;) {
        json_t *msg = dlr_rig_expect(&rig, "hello");
        const char *address = dlr_rig_str(msg, "data");
        const char *text = dlr_after(address, "c0ffee");
        pid_t pid = text ? (pid_t)strtol(text, NULL, 10) : 0;

        if (!text)
            assert_string_equal(address, "");
        json_decref(msg);
        if ((pid != 0) == with)
            return pid;
    }
}

/* With its first word it is told of the round once more, between whatever else is noted
 * then.
 */
static void start_with_data_process(const char *more)
{
    dlr_rig_start(&rig, more);
    dlr_rig_say(&rig, "who", "");
    next_data_process(true);
}

/* Of parity: no other node could send it once more, and peek may ask for it after the
 * restore.
 */
static void a_copy_that_was_made_here_stays_until_a_commit(void **state)
{
    start_with_data_process(NULL);
    dlr_rig_round(&rig, 1, "[0]", "{\"vround\":0,\"step\":10,\"world\":4}");
    expect_room(UINT64_C(1) << 60, true, EDQUOT);
    expect_room(65536, false, ECANCELED); /* it was forgotten with that */
    expect_room(65536, true, 0);
    assert_true(dlr_rig_noted(&rig, " brings [3]\nreserve 3 65536\n"));
    dlr_rig_say(&rig, "go", "s:i", "round", 1);
    dlr_rig_say(&rig, "send", "s:i, s:i, s:i, s:i, s:i, s:s", "id", 7, "round", 1,
                "rank", 3, "vround", 0, "step", 10, "data", "cafe");
    dlr_rig_say(&rig, "commit", "s:i, s:i", "round", 1, "step", 12);
    assert_true(dlr_rig_noted(&rig, "reserve 3 65536\nsend 3 0/10 cafe\nconfig 1 "));
    dlr_rig_stop(&rig);
}

static void ask_for_slots(const char *answer)
{
    json_t *msg;

    dlr_rig_say(&rig, "reserve", "s:i, s:i, s:i", "round", 1, "rank", 9, "bytes",
                480 << 10);
    msg = dlr_rig_expect(&rig, answer);
    assert_int_equal(dlr_rig_int(msg, "rank"), 9);
    json_decref(msg);
}

/* Two ranks have slots here. What is made is read until go, and saves come before it
 * from then on.
 */
static void a_copy_that_was_made_here_leaves_room_for_saves(void **state)
{
    start_with_data_process("--ckpt-mem=1m");
    dlr_rig_round(&rig, 1, "[0]", "{\"vround\":0,\"step\":10,\"world\":4}");
    expect_room(256 << 10, true, EDQUOT); /* alone it would fit */
    expect_room(100 << 10, true, 0);
    ask_for_slots("no_slots");
    dlr_rig_say(&rig, "go", "s:i", "round", 1);
    ask_for_slots("ready");
    assert_true(dlr_rig_noted(&rig,
                              " brings [3]\nreserve 3 102400\n"
                              "config 1 c.17.run " RIG_TOKEN " [0,9]\nreserve 9 "));
    dlr_rig_stop(&rig);
}

static void only_sigterm_and_bye_end_it(void **state)
{
    static const int harmless[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGUSR1, SIGUSR2,
                                   SIGALRM, SIGPIPE, SIGTSTP, SIGCONT, SIGXCPU};

    dlr_rig_start(&rig, NULL);
    for (size_t i = 0; i < sizeof(harmless) / sizeof(*harmless); i++)
        kill(rig.pid, harmless[i]);
    dlr_rig_sync(&rig);
    dlr_rig_say(&rig, "shutdown", "");
    assert_int_equal(dlr_rig_wait_end(&rig), 0);
    dlr_rig_stop(&rig);
}

static void an_agent_waits_for_the_one_before_it(void **state)
{
    dlr_rig_start(&rig, NULL);
    dlr_rig_replace(&rig);
    assert_int_equal(access(rig.socket, F_OK), 0); /* not taken away with the old one */
    dlr_rig_round(&rig, 0, "[0]", "null");
    dlr_rig_sync(&rig);
    dlr_rig_stop(&rig);
}

static void orders_reach_the_data_process_and_their_end_comes_back(void **state)
{
    static const struct {
        const char *order, *key, *text, *line;
    } rows[] = {
        {"send", "data", "cafe", "send 9 0/7 cafe\n"},
        {"load", "path", "/x/y", "load 9 0/7 /x/y\n"},
        {"persist", "path", "/x/z", "save 9 0/7 /x/z\n"},
    };
    json_t *msg;

    dlr_rig_begin(&rig, NULL, 0, "[4]", "null");
    assert_true(dlr_rig_noted(&rig, "drop 4294967295/18446744073709551615\n"));
    dlr_rig_say(&rig, "reserve", "s:i, s:i, s:i", "round", 0, "rank", 9, "bytes",
                65536);
    dlr_rig_await(&rig, "ready");
    assert_true(dlr_rig_noted(&rig, "reserve 9 65536\n"));
    for (int i = 0; i < 3; i++) {
        dlr_rig_say(&rig, rows[i].order, "s:i, s:i, s:i, s:i, s:i, s:s", "id", 100 + i,
                    "round", 0, "rank", 9, "vround", 0, "step", 7, rows[i].key,
                    rows[i].text);
        msg = dlr_rig_expect(&rig, "done");
        assert_int_equal(dlr_rig_int(msg, "id"), 100 + i);
        assert_int_equal(dlr_rig_int(msg, "rc"), 0);
        json_decref(msg);
        assert_true(dlr_rig_noted(&rig, rows[i].line));
    }
    dlr_rig_say(&rig, "send", "s:i, s:i, s:i, s:i, s:i, s:s", "id", 200, "round", 5,
                "rank", 9, "vround", 0, "step", 7, "data", "cafe");
    msg = dlr_rig_expect(&rig, "done");
    assert_int_equal(dlr_rig_int(msg, "rc"), ESTALE);
    json_decref(msg);
    dlr_rig_stop(&rig);
}

static void a_file_of_several_ranks_is_one_order(void **state)
{
    static const char *const bad[] = {"[[1]]", "[[1,2,3]]", "[7]", "[[-1,5]]",
                                      "[[\"a\",5]]"};
    json_t *msg;

    dlr_rig_begin(&rig, NULL, 0, "[4]", "null");
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        dlr_rig_say(&rig, "persist", "s:i, s:i, s:i, s:i, s:i, s:s, s:o", "id", 1,
                    "round", 0, "rank", 9, "vround", 0, "step", 7, "path", "/x/bad",
                    "with", json_loads(bad[i], 0, NULL));
    dlr_rig_say(&rig, "persist", "s:i, s:i, s:i, s:i, s:i, s:s, s:[[i,i],[i,i]]", "id",
                100, "round", 0, "rank", 9, "vround", 0, "step", 7, "path", "/x/z",
                "with", 11, 101, 10, 102);
    for (int i = 0; i < 3; i++) {
        msg = dlr_rig_expect(&rig, "done");
        assert_int_equal(dlr_rig_int(msg, "id"), 100 + i);
        json_decref(msg);
    }
    assert_true(dlr_rig_noted(&rig, "save 9 0/7 /x/z ..\n"
                                    "save 11 0/7 /x/z ..\n"
                                    "save 10 0/7 /x/z\n"));
    assert_false(dlr_rig_noted(&rig, "/x/bad"));
    dlr_rig_stop(&rig);
}

static void a_data_process_that_dies_is_started_again(void **state)
{
    pid_t pid;

    dlr_rig_begin(&rig, NULL, 0, "[4]", "null");
    assert_true(dlr_rig_noted(&rig, "config 0"));
    dlr_rig_sync(&rig);
    dlr_rig_say(&rig, "who", "");
    pid = next_data_process(true);
    kill(pid, SIGKILL);
    next_data_process(false);
    dlr_rig_say(&rig, "reserve", "s:i, s:i, s:i", "round", 0, "rank", 9, "bytes",
                65536); /* it has nobody to ask just now */
    assert_int_not_equal(next_data_process(true), pid);
    dlr_rig_await(&rig, "ready");
    assert_true(dlr_rig_noted(&rig, "config 0 c.17.run"));
    dlr_rig_stop(&rig);
}

static void expect_no_slots(const char *why)
{
    json_t *msg = dlr_rig_expect(&rig, "no_slots");

    assert_string_equal(dlr_rig_str(msg, "why"), why);
    json_decref(msg);
}

/* The fifth in a short time: its death is told, and nobody waits for the next one. */
static void a_data_process_that_dies_too_often_rests(void **state)
{
    dlr_rig_begin(&rig, NULL, 0, "[4]", "null");
    assert_true(dlr_rig_noted(&rig, "config 0"));
    dlr_rig_sync(&rig);
    dlr_rig_say(&rig, "who", "");
    for (unsigned i = 0; i < DLR_RESTART_DELAY_MAX; i++) {
        pid_t pid = next_data_process(true);

        if (i == DLR_RESTART_DELAY_MAX - 1) { /* asked for slots, it dies of it */
            kill(pid, SIGSTOP);
            dlr_rig_say(&rig, "reserve", "s:i, s:i, s:i", "round", 0, "rank", 9,
                        "bytes", 65536);
            dlr_rig_sync(&rig);
        }
        kill(pid, SIGKILL); /* a sanitizer catches others */
        if (i < DLR_RESTART_DELAY_MAX - 1)
            next_data_process(false);
    }
    expect_no_slots("the data process was killed by signal 9 (Killed)");
    dlr_rig_say(&rig, "reserve", "s:i, s:i, s:i", "round", 0, "rank", 9, "bytes",
                65536);
    expect_no_slots("no data process on this node");
    dlr_rig_stop(&rig);
}

static void the_data_process_is_told_of_any_number_of_ranks(void **state)
{
    DLR_AUTO_JSON json_t *ranks = json_array();
    DLR_AUTO_FREE char *text = NULL;

    for (int i = 0; i < 16384; i++)
        json_array_append_new(ranks, json_integer(10 + i));
    text = json_dumps(ranks, JSON_COMPACT);
    dlr_rig_begin(&rig, NULL, 0, text, "null");
    assert_true(dlr_rig_noted(&rig, "config 0 c.17.run " RIG_TOKEN
                                    " 16385 ranks, the last 9\ndrop "));
    dlr_rig_stop(&rig);
}

static void malformed_messages_do_nothing(void **state)
{
    static const char *const rows[] = {
        "",
        "{",
        "[]",
        "{\"v\":2,\"t\":\"round\"}",
        "{\"v\":2,\"t\":\"round\",\"round\":1,\"token\":\"zz\",\"nodes\":[],"
        "\"partners\":{}}",
        "{\"v\":2,\"t\":\"round\",\"round\":1,\"token\":\"" RIG_TOKEN
        "\",\"nodes\":[7],"
        "\"partners\":{},\"restore\":null}",
        "{\"v\":2,\"t\":\"round\",\"round\":1,\"token\":\"" RIG_TOKEN "\",\"nodes\":[],"
        "\"partners\":{\"n1\":7},\"restore\":null}",
        "{\"v\":2,\"t\":\"round\",\"round\":-1}",
        "{\"v\":2,\"t\":\"kill\"}",
        "{\"v\":2,\"t\":\"save_at\",\"round\":5,\"step\":1}",
        "{\"v\":2,\"t\":\"peers\",\"batch\":7}",
        "{\"v\":2,\"t\":\"peers\",\"batch\":\"n2\",\"peers\":[[\"n1\",\"a\",1]]}",
        "{\"v\":2,\"t\":\"welcome\",\"gen\":1,\"dead_ms\":0,\"end_ms\":"
        "1}",
        "{\"v\":2,\"t\":\"welcome\",\"gen\":9,\"dead_ms\":1,\"end_ms\":"
        "1}",
        "{\"v\":2,\"t\":\"send\",\"id\":1}",
        "{\"v\":3,\"t\":\"shutdown\"}",
        "DLRB",
    };

    dlr_rig_start(&rig, NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        dlr_server_send(rig.server, &rig.agent, rows[i], strlen(rows[i]));
    dlr_rig_sync(&rig);
    dlr_rig_stop(&rig);
}

static void by_hand_it_says_what_it_is(void **state)
{
    char path[4200], here[4096], cmd[4400], line[512] = "";
    FILE *out;

    dlr_install_path_sibling("..", here, sizeof(here));
    dlr_format(path, sizeof(path), "%s/dlrover-agent", here);
    dlr_format(cmd, sizeof(cmd), "%s 2>&1", path);
    out = popen(cmd, "r");
    assert_non_null(fgets(line, sizeof(line), out));
    assert_int_equal(WEXITSTATUS(pclose(out)), 2);
    assert_string_equal(line,
                        "dlr: DLROVER_CRED is not set: this program is started by "
                        "dlrover's supervisor, not by hand; see --help\n");
}

RIG_MAIN(RIG_TEST(stderr_comes_through_as_text), RIG_TEST(a_report_is_made_by_a_child),
         RIG_TEST(a_copy_that_is_not_here_is_asked_for),
         RIG_TEST(a_copy_that_was_made_here_stays_until_a_commit),
         RIG_TEST(a_copy_that_was_made_here_leaves_room_for_saves),
         RIG_TEST(only_sigterm_and_bye_end_it),
         RIG_TEST(an_agent_waits_for_the_one_before_it),
         RIG_TEST(orders_reach_the_data_process_and_their_end_comes_back),
         RIG_TEST(a_file_of_several_ranks_is_one_order),
         RIG_TEST(a_data_process_that_dies_is_started_again),
         RIG_TEST(a_data_process_that_dies_too_often_rests),
         RIG_TEST(the_data_process_is_told_of_any_number_of_ranks),
         RIG_TEST(malformed_messages_do_nothing), RIG_TEST(by_hand_it_says_what_it_is))
