/* SPDX-License-Identifier: Apache-2.0 */
#include "common/local/message.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/local/agent_socket.h"

#define HEAD_BYTES 64 /* of the layout in common/local/message.h */

static_assert(offsetof(struct dlr_local_msg, text) == HEAD_BYTES, "process layout");

struct pair {
    int a, b;
    unsigned open_before;
};

static unsigned open_fds(void)
{
    unsigned n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static int make_pair(void **state)
{
    struct pair *pair = calloc(1, sizeof(*pair));
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    pair->a = fds[0];
    pair->b = fds[1];
    pair->open_before = open_fds();
    *state = pair;
    return 0;
}

static int close_pair(void **state)
{
    struct pair *pair = *state;

    if (pair->a >= 0)
        close(pair->a);
    close(pair->b);
    free(pair);
    return 0;
}

/* What recv makes of bytes sent as they are, with nfds copies of a descriptor. */
static int receive_raw(struct pair *pair, const void *bytes, size_t size, unsigned nfds)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * 253)];
    } control = {0};
    struct iovec part = {(void *)bytes, size};
    struct msghdr hdr = {.msg_iov = &part, .msg_iovlen = 1};
    struct dlr_local_msg in;
    int fds[DLR_LOCAL_FDS];
    unsigned got = 0;

    if (nfds > 0) {
        struct cmsghdr *c;

        hdr.msg_control = control.bytes;
        hdr.msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
        c = CMSG_FIRSTHDR(&hdr);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * nfds);
        for (unsigned i = 0; i < nfds; i++)
            memcpy(CMSG_DATA(c) + i * sizeof(int), &pair->b, sizeof(int));
    }
    assert_int_equal(sendmsg(pair->a, &hdr, 0), size);
    return dlr_local_recv(pair->b, &in, fds, &got);
}

static void a_message_arrives_with_text_and_descriptors(void **state)
{
    struct pair *pair = *state;
    struct dlr_local_msg out, in;
    int fds[DLR_LOCAL_FDS];
    int sent[2] = {pair->a, pair->b};
    unsigned nfds = 0;

    dlr_local_init(&out, DLR_LOCAL_WELCOME);
    out.rank = 3;
    out.step = UINT64_MAX - 1;
    out.arg[3] = 9;
    dlr_local_text(&out, "hello %d", 5);
    assert_int_equal(dlr_local_send(pair->a, &out, sent, 2), 0);
    assert_int_equal(dlr_local_recv(pair->b, &in, fds, &nfds), 1);
    assert_int_equal(in.type, DLR_LOCAL_WELCOME);
    assert_int_equal(in.rank, 3);
    assert_int_equal(in.step, UINT64_MAX - 1);
    assert_int_equal(in.arg[3], 9);
    assert_string_equal(in.text, "hello 5");
    assert_int_equal(nfds, 2);
    for (unsigned i = 0; i < nfds; i++) {
        assert_int_equal(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
        close(fds[i]);
    }
}

static void a_fresh_message_is_empty(void **state)
{
    struct dlr_local_msg msg;

    memset(&msg, 0xff, sizeof(msg));
    dlr_local_init(&msg, DLR_LOCAL_GO);
    assert_int_equal(msg.type, DLR_LOCAL_GO);
    assert_int_equal(msg.rank, -1);
    assert_int_equal(msg.arg[0], 0);
    assert_int_equal(msg.text_len, 0);
}

static void a_long_text_is_cut(void **state)
{
    struct pair *pair = *state;
    struct dlr_local_msg out, in;
    int fds[DLR_LOCAL_FDS];
    unsigned nfds;

    dlr_local_init(&out, DLR_LOCAL_STDERR);
    dlr_local_text(&out, "%09000d", 7);
    assert_int_equal(out.text_len, DLR_LOCAL_TEXT - 1);
    assert_int_equal(dlr_local_send(pair->a, &out, NULL, 0), 0);
    assert_int_equal(dlr_local_recv(pair->b, &in, fds, &nfds), 1);
    assert_int_equal(strlen(in.text), DLR_LOCAL_TEXT - 1);
    out.text_len = DLR_LOCAL_TEXT;
    assert_int_equal(dlr_local_send(pair->a, &out, NULL, 0), -EINVAL);
}

static void what_is_not_a_message_is_refused_and_its_descriptors_closed(void **state)
{
    static const struct {
        const char *name;
        uint32_t magic;
        uint16_t version;
        uint32_t text_len;
        size_t size;
        unsigned nfds;
    } rows[] = {
        {"one byte", DLR_LOCAL_MAGIC, DLR_LOCAL_VERSION, 0, 1, 1},
        {"a head cut short", DLR_LOCAL_MAGIC, DLR_LOCAL_VERSION, 0, HEAD_BYTES - 1, 1},
        {"another magic", 7, DLR_LOCAL_VERSION, 0, HEAD_BYTES, 1},
        {"another version", DLR_LOCAL_MAGIC, DLR_LOCAL_VERSION + 1, 0, HEAD_BYTES, 1},
        {"text that did not come", DLR_LOCAL_MAGIC, DLR_LOCAL_VERSION, 5,
         HEAD_BYTES + 4, 1},
        {"more than the text", DLR_LOCAL_MAGIC, DLR_LOCAL_VERSION, 3, HEAD_BYTES + 4,
         1},
        {"text without room", DLR_LOCAL_MAGIC, DLR_LOCAL_VERSION, DLR_LOCAL_TEXT,
         HEAD_BYTES + DLR_LOCAL_TEXT, 1},
        {"huge text", DLR_LOCAL_MAGIC, DLR_LOCAL_VERSION, UINT32_MAX, HEAD_BYTES, 1},
        {"longer than any", DLR_LOCAL_MAGIC, DLR_LOCAL_VERSION, 0,
         HEAD_BYTES + DLR_LOCAL_TEXT + 1, 1},
        {"nine descriptors", DLR_LOCAL_MAGIC, DLR_LOCAL_VERSION, 0, HEAD_BYTES, 9},
        {"all descriptors", DLR_LOCAL_MAGIC, DLR_LOCAL_VERSION, 0, HEAD_BYTES, 253},
        {"descriptors alone", DLR_LOCAL_MAGIC, DLR_LOCAL_VERSION, 0, 0, 2},
    };
    struct pair *pair = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        union {
            struct dlr_local_msg msg;
            char bytes[sizeof(struct dlr_local_msg) + 64];
        } out;

        print_message("row '%s'\n", rows[i].name);
        memset(&out, 0, sizeof(out));
        dlr_local_init(&out.msg, DLR_LOCAL_HELLO);
        out.msg.magic = rows[i].magic;
        out.msg.version = rows[i].version;
        out.msg.text_len = rows[i].text_len;
        assert_int_equal(receive_raw(pair, &out, rows[i].size, rows[i].nfds), -EBADMSG);
        assert_int_equal(open_fds(), pair->open_before);
    }
}

static void an_end_of_file_is_not_an_error(void **state)
{
    struct pair *pair = *state;
    struct dlr_local_msg in;
    int fds[DLR_LOCAL_FDS];
    unsigned nfds;

    close(pair->a);
    pair->a = -1;
    assert_int_equal(dlr_local_recv(pair->b, &in, fds, &nfds), 0);
}

static void sending_to_a_closed_peer_raises_no_signal(void **state)
{
    struct pair *pair = *state;
    struct dlr_local_msg out;

    close(pair->a);
    pair->a = -1;
    dlr_local_init(&out, DLR_LOCAL_CLOSE);
    assert_int_equal(dlr_local_send(pair->b, &out, NULL, 0), -EPIPE);
}

static void a_full_socket_says_so(void **state)
{
    struct pair *pair = *state;
    struct dlr_local_msg out;
    int rc = 0;

    assert_int_equal(fcntl(pair->a, F_SETFL, O_NONBLOCK), 0);
    dlr_local_init(&out, DLR_LOCAL_CLOSE);
    for (unsigned i = 0; i < 10000 && rc == 0; i++)
        rc = dlr_local_send(pair->a, &out, NULL, 0);
    assert_int_equal(rc, -EAGAIN);
}

static void more_descriptors_than_allowed_are_not_sent(void **state)
{
    struct pair *pair = *state;
    struct dlr_local_msg out;
    int fds[DLR_LOCAL_FDS + 1] = {0};

    dlr_local_init(&out, DLR_LOCAL_SLOTS);
    assert_int_equal(dlr_local_send(pair->a, &out, fds, DLR_LOCAL_FDS + 1), -EINVAL);
}

/* --- sockets with a path ---------------------------------------------------------- */

struct place {
    char dir[64], path[96];
};

static int make_place(void **state)
{
    struct place *place = calloc(1, sizeof(*place));

    strcpy(place->dir, "/tmp/dlr-test-local.XXXXXX");
    assert_non_null(mkdtemp(place->dir));
    snprintf(place->path, sizeof(place->path), "%s/sock", place->dir);
    *state = place;
    return 0;
}

static int remove_place(void **state)
{
    struct place *place = *state;

    unlink(place->path);
    assert_int_equal(rmdir(place->dir), 0);
    free(place);
    return 0;
}

static void a_listener_is_private_and_knows_its_peer(void **state)
{
    struct place *place = *state;
    DLR_AUTO_CLOSE int listener = -1;
    DLR_AUTO_CLOSE int client = -1;
    DLR_AUTO_CLOSE int server = -1;
    mode_t before = umask(0);
    unsigned uid = 12345;
    struct stat st;
    int pid = 0;

    assert_int_equal(dlr_local_listen(place->path, &listener, NULL), 0);
    umask(before);
    assert_int_equal(stat(place->path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(dlr_local_connect(place->path, 1000, &client, NULL), 0);
    assert_int_equal(fcntl(client, F_GETFD), FD_CLOEXEC);
    server = accept(listener, NULL, NULL);
    assert_int_equal(dlr_local_peer(server, &uid, &pid), 0);
    assert_int_equal(uid, geteuid());
    assert_int_equal(pid, getpid());
}

/* Somebody else's socket in our place: he would hear what workers say, and send them
 * descriptors.
 */
static void a_socket_of_another_user_is_not_spoken_to(void **state)
{
    struct place *place = *state;
    int listener = -1, client = -1;
    char want[256];
    struct dlr_err err;

    if (geteuid() != 0)
        skip(); /* only root can be two users */
    assert_int_equal(chmod(place->dir, 0777), 0);
    assert_int_equal(seteuid(12345),
                     0); /* whose it is, the kernel notes with listen() */
    assert_int_equal(dlr_local_listen(place->path, &listener, NULL), 0);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(dlr_local_connect(place->path, 0, &client, &err), -EPERM);
    snprintf(want, sizeof(want), "'%s' is a socket of uid 12345, not ours",
             place->path);
    assert_string_equal(err.text, want);
    close(listener);
}

static void a_stale_socket_is_replaced_and_a_live_one_is_not(void **state)
{
    struct place *place = *state;
    char want[256];
    struct dlr_err err;
    int first = -1, second = -1;

    assert_int_equal(dlr_local_listen(place->path, &first, NULL), 0);
    assert_int_equal(dlr_local_listen(place->path, &second, &err), -EADDRINUSE);
    snprintf(want, sizeof(want), "another process listens on '%s'", place->path);
    assert_string_equal(err.text, want);
    close(first);
    assert_int_equal(dlr_local_listen(place->path, &second, NULL), 0);
    close(second);
}

static void a_file_in_the_way_is_left_alone(void **state)
{
    struct place *place = *state;
    char want[256];
    struct dlr_err err;
    int fd = open(place->path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

    close(fd);
    assert_int_equal(dlr_local_listen(place->path, &fd, &err), -EEXIST);
    snprintf(want, sizeof(want), "'%s' is there and is no socket of ours", place->path);
    assert_string_equal(err.text, want);
    assert_int_equal(access(place->path, F_OK), 0);
}

static void connecting_says_why_it_failed(void **state)
{
    struct place *place = *state;
    char path[200], want[400];
    struct dlr_err err;
    int fd = -1;

    assert_int_equal(dlr_local_connect(place->path, 100, &fd, &err), -ENOENT);
    snprintf(want, sizeof(want), "cannot connect to '%s': No such file or directory",
             place->path);
    assert_string_equal(err.text, want);
    memset(path, 'x', sizeof(path));
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(dlr_local_connect(path, 100, &fd, &err), -ENAMETOOLONG);
    assert_int_equal(fd, -1);
}

static void waiting_for_a_silent_peer_has_a_limit(void **state)
{
    struct place *place = *state;
    DLR_AUTO_CLOSE int listener = -1;
    DLR_AUTO_CLOSE int client = -1;
    struct dlr_local_msg in;
    int fds[DLR_LOCAL_FDS];
    int64_t begin_ms;
    unsigned nfds;

    assert_int_equal(dlr_local_listen(place->path, &listener, NULL), 0);
    assert_int_equal(dlr_local_connect(place->path, 50, &client, NULL), 0);
    begin_ms = dlr_now_ms();
    assert_int_equal(dlr_local_recv(client, &in, fds, &nfds), -EAGAIN);
    assert_true(dlr_now_ms() - begin_ms >= 40);
}

static void a_crowded_listener_times_out_and_stays(void **state)
{
    struct place *place = *state;
    DLR_AUTO_CLOSE int listener = -1;
    int clients[200], n = 0, rc = 0, other = -1;

    assert_int_equal(dlr_local_listen(place->path, &listener, NULL), 0);
    for (; n < 200 && rc == 0; n++)
        rc = dlr_local_connect(place->path, 0, &clients[n], NULL);
    assert_int_equal(rc, -EAGAIN);
    assert_int_equal(dlr_local_connect(place->path, 20, &other, NULL), -ETIMEDOUT);
    assert_int_equal(dlr_local_listen(place->path, &other, NULL), -EADDRINUSE);
    for (int i = 0; i < n - 1; i++)
        close(clients[i]);
}

/* Signals that come for a second, faster than any limit here ends. */
static volatile sig_atomic_t signals;

static void on_signal(int number)
{
    static const struct itimerval none;

    if (++signals == 200)
        setitimer(ITIMER_REAL, &none, NULL);
}

static int64_t signals_begin(void)
{
    static const struct itimerval often = {{0, 5000}, {0, 5000}};

    signals = 0;
    signal(SIGALRM, on_signal);
    setitimer(ITIMER_REAL, &often, NULL);
    return dlr_now_ms();
}

static void signals_end(int64_t begin_ms)
{
    static const struct itimerval none;

    setitimer(ITIMER_REAL, &none, NULL);
    assert_true(signals < 200 && dlr_now_ms() - begin_ms >= 40);
}

static void signals_do_not_make_a_receive_longer(void **state)
{
    struct pair *pair = *state;
    struct dlr_local_msg msg;
    int fds[DLR_LOCAL_FDS];
    unsigned nfds = 0;
    int64_t begin_ms = signals_begin();

    assert_int_equal(dlr_agent_socket_answer(pair->b, begin_ms + 50, &msg, fds, &nfds),
                     -ETIMEDOUT);
    signals_end(begin_ms);
    dlr_local_init(&msg, DLR_LOCAL_GO);
    assert_int_equal(dlr_local_send(pair->a, &msg, NULL, 0), 0);
    assert_int_equal(dlr_agent_socket_answer(pair->b, begin_ms, &msg, fds, &nfds), 1);
}

static void signals_do_not_make_a_connect_longer(void **state)
{
    struct place *place = *state;
    DLR_AUTO_CLOSE int listener = -1;
    int clients[200], n = 0, rc = 0, other = -1;
    int64_t begin_ms;

    assert_int_equal(dlr_local_listen(place->path, &listener, NULL), 0);
    for (; n < 200 && rc == 0; n++)
        rc = dlr_local_connect(place->path, 0, &clients[n], NULL);
    begin_ms = signals_begin();
    assert_int_equal(dlr_local_connect(place->path, 50, &other, NULL), -ETIMEDOUT);
    signals_end(begin_ms);
    for (int i = 0; i < n - 1; i++)
        close(clients[i]);
}

#define PAIR_TEST(fn) cmocka_unit_test_setup_teardown(fn, make_pair, close_pair)
#define PLACE_TEST(fn) cmocka_unit_test_setup_teardown(fn, make_place, remove_place)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PAIR_TEST(a_message_arrives_with_text_and_descriptors),
        cmocka_unit_test(a_fresh_message_is_empty),
        PAIR_TEST(a_long_text_is_cut),
        PAIR_TEST(what_is_not_a_message_is_refused_and_its_descriptors_closed),
        PAIR_TEST(an_end_of_file_is_not_an_error),
        PAIR_TEST(sending_to_a_closed_peer_raises_no_signal),
        PAIR_TEST(a_full_socket_says_so),
        PAIR_TEST(more_descriptors_than_allowed_are_not_sent),
        PLACE_TEST(a_listener_is_private_and_knows_its_peer),
        PLACE_TEST(a_socket_of_another_user_is_not_spoken_to),
        PLACE_TEST(a_stale_socket_is_replaced_and_a_live_one_is_not),
        PLACE_TEST(a_file_in_the_way_is_left_alone),
        PLACE_TEST(connecting_says_why_it_failed),
        PLACE_TEST(waiting_for_a_silent_peer_has_a_limit),
        PLACE_TEST(a_crowded_listener_times_out_and_stays),
        PAIR_TEST(signals_do_not_make_a_receive_longer),
        PLACE_TEST(signals_do_not_make_a_connect_longer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
