/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor's input and output without a supervisor: what it tells, and when its
 * loop ends. A pipe that nobody writes to is the file server that hangs.
 */
#include <czmq.h>
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
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/str.h"
#include "mpi_launcher/supervisor/io/io_state.h"
#include "mpi_launcher/supervisor/io/outbox.h"
#include "mpi_launcher/supervisor/io/reactor.h"
#include "mpi_launcher/supervisor/io/state_files.h"

#define LONG_MS 60000
#define TICK_MS 10

static char dir[64], path[96];
static struct dlr_sup_io *io;
static struct dlr_identity *ours, *theirs;
static struct dlr_client *client;
static char told[256];        /* what has happened, a letter each, and messages */
static unsigned events, last; /* the loop is to end after so many */

static void add(const char *what, size_t size)
{
    size_t at = strlen(told);

    assert_true(at + size < sizeof(told));
    memcpy(told + at, what, size);
    told[at + size] = '\0';
}

static bool note(const char *letter)
{
    add(letter, 1);
    return ++events < last;
}

static void on_message(void *arg, const struct dlr_packet *packet)
{
    assert_ptr_equal(arg, told);
    assert_string_equal(packet->key, dlr_identity_key(theirs));
    add(packet->data, packet->size);
}

static bool on_taken(void *arg)
{
    return note(".");
}

static bool on_tick(void *arg)
{
    return note("T");
}

static void on_late(void *arg)
{
    assert_ptr_equal(arg, told);
    add("L", 1);
}

static const struct dlr_sup_io_ops ops = {
    .message = on_message, .taken = on_taken, .tick = on_tick, .late = on_late};

static int begin(void **state)
{
    dlr_format(dir, sizeof(dir), "/tmp/dlr-io-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    dlr_format(path, sizeof(path), "%s/file", dir);
    told[0] = '\0';
    events = 0;
    io = dlr_sup_io_new(&ops, told);
    return io ? 0 : -1;
}

static int begin_files(void **state)
{
    return begin(state) < 0 ? -1 : dlr_sup_fork_server_start(io, NULL);
}

static int end(void **state)
{
    client = dlr_client_free(client);
    dlr_sup_outbox_close(io);
    io = dlr_sup_io_free(io);
    ours = dlr_identity_free(ours);
    theirs = dlr_identity_free(theirs);
    unlink(path);
    return rmdir(dir);
}

/* --- the loop --------------------------------------------------------------------- */

static void connect_agent(void)
{
    char address[64];

    zsys_handler_set(NULL);
    assert_int_equal(dlr_identity_new(&ours, NULL), 0);
    assert_int_equal(dlr_identity_new(&theirs, NULL), 0);
    assert_int_equal(dlr_sup_outbox_open(io, ours, 0, 0, 1, NULL), 0);
    dlr_format(address, sizeof(address), "127.0.0.1:%u", dlr_sup_outbox_port(io));
    assert_int_equal(
        dlr_client_new(theirs, dlr_identity_key(ours), address, &client, NULL), 0);
}

static void a_message_is_told_and_then_that_it_was_taken(void **state)
{
    connect_agent();
    assert_int_equal(dlr_client_send(client, "ab", 2), 0);
    assert_int_equal(dlr_client_send(client, "cd", 2), 0);
    dlr_sup_loop_start(io, LONG_MS);
    last = 2;
    dlr_sup_loop_run(io);
    assert_string_equal(told, "ab.cd.");
}

static void a_message_that_waits_is_taken_at_once(void **state)
{
    int64_t until = dlr_now_ms() + LONG_MS;
    zpoller_t *waits;
    int taken;

    connect_agent();
    assert_int_equal(dlr_sup_take_message(io), 0);
    assert_int_equal(dlr_client_send(client, "ab", 2), 0);
    waits = zpoller_new(dlr_server_sock(io->server), NULL);
    do {
        zpoller_wait(waits, LONG_MS);
        taken = dlr_sup_take_message(io);
    } while (taken == 0 && dlr_now_ms() < until);
    zpoller_destroy(&waits);
    assert_int_equal(taken, 1);
    assert_string_equal(told, "ab");
}

static void ticks_end_the_loop_when_they_say_so(void **state)
{
    connect_agent();
    dlr_sup_loop_start(io, TICK_MS);
    last = 3;
    dlr_sup_loop_run(io);
    assert_string_equal(told, "TTT");
}

static int on_event(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    eventfd_t times;

    assert_int_equal(eventfd_read(item->fd, &times), 0);
    return note(arg) ? 0 : -1;
}

static void a_descriptor_that_is_watched_no_more_is_not_told(void **state)
{
    int fds[] = {eventfd(1, EFD_CLOEXEC), eventfd(1, EFD_CLOEXEC)};
    char first[] = "1", second[] = "2";

    assert_int_equal(dlr_sup_watch(io, fds[0], on_event, first), 0);
    assert_int_equal(dlr_sup_watch(io, fds[1], on_event, second), 0);
    dlr_sup_unwatch(io, fds[0]);
    dlr_sup_unwatch(io, fds[0]);
    last = 1;
    dlr_sup_loop_run(io);
    assert_string_equal(told, "2");
    close(fds[0]);
    close(fds[1]);
}

/* --- files and the journal -------------------------------------------------------- */

/* Again when the machine is too slow for the engine's limit. */
static int do_again(dlr_offload_fn fn, const char *name)
{
    int64_t until = dlr_now_ms() + LONG_MS;
    int rc;

    do
        rc = dlr_sup_file_do(io, fn, name, NULL);
    while ((rc == -EBUSY || rc == -ETIMEDOUT) && dlr_now_ms() < until &&
           poll(NULL, 0, 1) == 0);
    return rc;
}

static void files_are_there_or_not(void **state)
{
    assert_int_equal(do_again(dlr_sup_file_exists, dir), 0);
    assert_int_equal(do_again(dlr_sup_file_exists, path), -ENOENT);
}

static void a_state_directory_that_hangs_is_told_once(void **state)
{
    assert_int_equal(mkfifo(path, 0600), 0);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(dlr_sup_file_do(io, dlr_sup_file_load, path, NULL),
                         -ETIMEDOUT);
        assert_true(dlr_sup_file_hangs(io));
        assert_int_equal(dlr_sup_file_do(io, dlr_sup_file_exists, dir, NULL), -EBUSY);
        close(open(path, O_WRONLY)); /* it answers */
        assert_int_equal(do_again(dlr_sup_file_exists, dir), 0);
        assert_false(dlr_sup_file_hangs(io));
    }
    assert_string_equal(told, "L");
}

static void the_journal_has_what_was_told_until_it_is_closed(void **state)
{
    char text[256] = "";
    FILE *f;

    assert_null(dlr_sup_journal(NULL));
    assert_null(dlr_sup_journal(io));
    assert_int_equal(dlr_sup_journal_open(io, -1, path, NULL), 0);
    dlr_journal_note(dlr_sup_journal(io), "start", "s:i", "round", 7);
    dlr_sup_journal_close(io, LONG_MS);
    assert_null(dlr_sup_journal(io));
    f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof(text), f));
    fclose(f);
    assert_non_null(strstr(text, "\"event\":\"start\",\"round\":7}\n"));
}

int main(void)
{
    /* Those that fork come before those that have threads. */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_are_there_or_not, begin_files, end),
        cmocka_unit_test_setup_teardown(a_state_directory_that_hangs_is_told_once,
                                        begin_files, end),
        cmocka_unit_test_setup_teardown(
            the_journal_has_what_was_told_until_it_is_closed, begin_files, end),
        cmocka_unit_test_setup_teardown(
            a_descriptor_that_is_watched_no_more_is_not_told, begin, end),
        cmocka_unit_test_setup_teardown(a_message_is_told_and_then_that_it_was_taken,
                                        begin, end),
        cmocka_unit_test_setup_teardown(a_message_that_waits_is_taken_at_once, begin,
                                        end),
        cmocka_unit_test_setup_teardown(ticks_end_the_loop_when_they_say_so, begin,
                                        end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
