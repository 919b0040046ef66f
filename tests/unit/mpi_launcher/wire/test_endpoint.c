/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=epoll_ctl */
/* A control port and those who have no business there. */
#include <arpa/inet.h>
#include <czmq.h>
#include <errno.h>
#include <linux/pkt_sched.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/open_files.h"
#include "common/base/str.h"
#include "mpi_launcher/wire/endpoint.h"
#include "mpi_launcher/wire/guard.h"
#include "mpi_launcher/wire/tcp_bytes.h"

#define LIMIT_MS 120000    /* of every wait; a busy machine takes a part of it */
#define SLOW_CLIENTS 30000 /* their handshakes have longer than any test waits */
#define FLOOD (3 * DLR_GUARD_HALF_OPEN)

static struct dlr_identity *ours, *theirs;
static struct dlr_server *server;
static char address[64];
/* One of the loopback's that no other test has: each begins at the same port, and who
 * comes again to one that was closed would come to ours.
 */
static char host[32];

static int start(void **state)
{
    unsigned pid = (unsigned)getpid();

    dlr_format(host, sizeof(host), "127.%u.%u.%u", 1 + pid / 40000 % 250,
               1 + pid / 200 % 200, 1 + pid % 200);
    zsys_handler_set(NULL);
    if (dlr_identity_new(&ours, NULL) < 0 || dlr_identity_new(&theirs, NULL) < 0 ||
        dlr_server_new(ours, host, 0, 0, 0, &server, NULL) < 0)
        return -1;
    return dlr_format(address, sizeof(address), "%s:%u", host, dlr_server_port(server));
}

static int stop(void **state)
{
    server = dlr_server_free(server);
    ours = dlr_identity_free(ours);
    theirs = dlr_identity_free(theirs);
    return 0;
}

static struct sockaddr_in server_address(void)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)dlr_server_port(server)),
                                .sin_addr.s_addr = inet_addr(host)};
}

/* 0: by the loopback. */
static int dial_by(in_addr_t own)
{
    struct sockaddr_in to = server_address();
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    if (own)
        to.sin_addr.s_addr = own;
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static int dial(void)
{
    return dial_by(0);
}

/* Whether the server ends the connection within the limit; what it says before is read.
 */
static bool is_cut(int fd, int limit_ms)
{
    int64_t until = dlr_now_ms() + limit_ms;
    struct pollfd pfd = {.fd = fd, .events = POLLIN};
    char buf[256];

    for (;;) {
        int64_t left = until - dlr_now_ms();

        if (poll(&pfd, 1, left > 0 ? (int)left : 0) <= 0)
            return false;
        if (recv(fd, buf, sizeof(buf), MSG_DONTWAIT) <= 0)
            return true;
    }
}

/* A client of ours gets one message through. */
static struct dlr_client *serve(void)
{
    struct dlr_client *client = NULL;
    struct dlr_packet packet;
    zpoller_t *poller = zpoller_new(dlr_server_sock(server), NULL);
    int64_t until = dlr_now_ms() + LIMIT_MS;

    assert_int_equal(
        dlr_client_new(theirs, dlr_identity_key(ours), address, &client, NULL), 0);
    assert_int_equal(dlr_client_send(client, "hello", 5), 0);
    while (!zpoller_wait(poller, 50) && dlr_now_ms() < until)
        dlr_server_tend(server, dlr_now_ms());
    assert_int_equal(dlr_server_recv(server, &packet), 1);
    assert_int_equal(packet.size, 5);
    assert_string_equal(packet.key, dlr_identity_key(theirs));
    dlr_packet_done(&packet);
    zpoller_destroy(&poller);
    return client;
}

static void check_service(void)
{
    dlr_client_free(serve());
}

/* Beats pass by what else is on a link, and what is lost of them comes again soon. */
static void connections_are_urgent(void **state)
{
    struct dlr_client *client = NULL;
    struct dlr_packet packet;
    zpoller_t *poller = zpoller_new(dlr_server_sock(server), NULL), *back;
    unsigned n = 0;

    assert_int_equal(
        dlr_client_new(theirs, dlr_identity_key(ours), address, &client, NULL), 0);
    back = zpoller_new(dlr_client_sock(client), NULL);
    assert_int_equal(dlr_client_send(client, "beat", 4), 0);
    assert_non_null(zpoller_wait(poller, LIMIT_MS));
    assert_int_equal(dlr_server_recv(server, &packet), 1);
    assert_int_equal(dlr_server_send(server, &packet.from, "lease", 5), 0);
    dlr_packet_done(&packet);
    assert_non_null(zpoller_wait(back, LIMIT_MS));
    assert_int_equal(dlr_client_recv(client, &packet), 1);
    dlr_packet_done(&packet);
    for (int fd = 3; fd < 1024; fd++) {
        static const struct {
            int level, name, want;
        } rows[] = {{IPPROTO_IP, IP_TOS, IPTOS_LOWDELAY},
                    {SOL_SOCKET, SO_PRIORITY, TC_PRIO_INTERACTIVE},
                    {IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, 1}};
        struct sockaddr_in peer;
        socklen_t size = sizeof(peer);

        if (getpeername(fd, (struct sockaddr *)&peer, &size) < 0 ||
            peer.sin_family != AF_INET)
            continue;
        n++;
        for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
            int value = 0;

            size = sizeof(value);
            assert_int_equal(getsockopt(fd, rows[i].level, rows[i].name, &value, &size),
                             0);
            assert_int_equal(value, rows[i].want);
        }
    }
    assert_int_equal(n, 2);
    zpoller_destroy(&poller);
    zpoller_destroy(&back);
    dlr_client_free(client);
}

/* A server at which no handshake runs out of time while a test waits. */
static void serve_slowly_at(const char *at)
{
    dlr_server_free(server);
    assert_int_equal(dlr_server_new(ours, at, 0, 0, SLOW_CLIENTS, &server, NULL), 0);
    dlr_format(address, sizeof(address), "%s:%u", host, dlr_server_port(server));
}

static void serve_slowly(void)
{
    serve_slowly_at(host);
}

static void await_strangers(uint64_t want)
{
    int64_t until = dlr_now_ms() + LIMIT_MS;

    while (dlr_server_auth_failures(server) < want && dlr_now_ms() < until)
        poll(NULL, 0, 5); /* counted by another thread */
    assert_in_range(dlr_server_auth_failures(server), want, UINT32_MAX);
}

static void a_flood_of_connections_leaves_room_for_ours(void **state)
{
    static int fds[FLOOD];
    unsigned cut = 0;

    serve_slowly();
    dlr_server_expect(server, 0);
    for (unsigned i = 0; i < FLOOD; i++)
        fds[i] = dial();
    check_service(); /* among them */
    await_strangers(FLOOD - DLR_GUARD_HALF_OPEN);
    /* Not the first ones: a full backlog changes the order. */
    for (unsigned i = 0; i < FLOOD; i++)
        cut += is_cut(fds[i], 0);
    assert_in_range(cut, FLOOD - DLR_GUARD_HALF_OPEN, FLOOD);
    for (unsigned i = 0; i < FLOOD; i++)
        close(fds[i]);
}

/* An address of this machine beside the loopback's; 0: it has none. */
static in_addr_t own_address(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(9),
                             .sin_addr.s_addr = inet_addr("192.0.2.1")};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t size = sizeof(at);

    if (connect(fd, (struct sockaddr *)&at, size) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &size) < 0 ||
        at.sin_addr.s_addr == htonl(INADDR_LOOPBACK))
        at.sin_addr.s_addr = 0;
    close(fd);
    return at.sin_addr.s_addr;
}

static void a_flood_from_one_host_cuts_no_other_hosts(void **state)
{
    in_addr_t own = own_address();
    static int fds[FLOOD];
    int slow;

    if (!own)
        skip(); /* this machine is one host to itself */
    serve_slowly_at("0.0.0.0");
    dlr_server_expect(server, 0);
    slow = dial();
    for (unsigned i = 0; i < FLOOD; i++)
        fds[i] = dial_by(own);
    await_strangers(FLOOD + 1 - DLR_GUARD_HALF_OPEN);
    assert_false(is_cut(slow, 0));
    for (unsigned i = 0; i < FLOOD; i++)
        close(fds[i]);
    close(slow);
    check_service();
}

/* Nothing of these is a handshake of ours; the port goes on serving. */
static void garbage_is_cut_and_counted(void **state)
{
    static const char hello[] = "GET / HTTP/1.1\r\nHost: n1\r\n\r\n";
    static char greeting[64] = {(char)0xff, 0,    0, 0, 0,   0,   0,   0,
                                1,          0x7f, 3, 0, 'N', 'U', 'L', 'L'};
    static char huge[1 << 16];
    const struct {
        const char *bytes;
        size_t size;
    } rows[] = {{hello, sizeof(hello) - 1}, {greeting, 64}, {huge, sizeof(huge)}};

    memset(huge, 0xff, sizeof(huge));
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        uint64_t before = dlr_server_auth_failures(server);
        int fd = dial();

        assert_in_range(send(fd, rows[i].bytes, rows[i].size, MSG_NOSIGNAL), 1,
                        rows[i].size);
        assert_true(is_cut(fd, LIMIT_MS));
        await_strangers(before + 1);
        close(fd);
    }
    check_service();
}

/* The most there ever was. */
static long resident_kb(void)
{
    FILE *f = fopen("/proc/self/status", "re");
    char line[256];
    long kb = -1;

    assert_non_null(f);
    while (kb < 0 && fgets(line, sizeof(line), f))
        if (sscanf(line, "VmHWM: %ld", &kb) != 1)
            kb = -1;
    fclose(f);
    return kb;
}

/* The head of a message as large as they may be and a part of it, in the handshake's
 * place.
 */
static void send_large(int fd, const char *part, size_t size)
{
    static const unsigned char head[] = {4 | 2, 0, 0, 0, 0, 0, 0x40, 0, 0};
    static const char greeting[64] = {(char)0xff, 0, 0, 0,   0,   0,   0,   0,  1,
                                      0x7f,       3, 0, 'C', 'U', 'R', 'V', 'E'};

    send(fd, greeting, sizeof(greeting), MSG_NOSIGNAL);
    send(fd, head, sizeof(head), MSG_NOSIGNAL);
    send(fd, part, size, MSG_NOSIGNAL);
}

#ifdef __SANITIZE_ADDRESS__
const char *__asan_default_options(void);

/* What was freed is free, or it would be taken for what a stranger fills. */
const char *__asan_default_options(void)
{
    return "quarantine_size_mb=8";
}
#endif

/* All of it but the end: libzmq would keep that until the handshake's time is over. */
static void who_sends_much_before_an_answer_is_cut(void **state)
{
    static char much[1 << 20];
    static int fds[DLR_GUARD_HALF_OPEN];
    uint64_t before = dlr_server_auth_failures(server);
    long resident;

    memset(much, 1, sizeof(much));
    resident = resident_kb();
    for (unsigned i = 0; i < DLR_GUARD_HALF_OPEN; i++) {
        fds[i] = dial();
        send_large(fds[i], much, sizeof(much));
        for (unsigned sent = 1; sent < 3; sent++)
            if (send(fds[i], much, sizeof(much), MSG_NOSIGNAL) < 0)
                break;
    }
    for (unsigned i = 0; i < DLR_GUARD_HALF_OPEN; i++)
        assert_true(is_cut(fds[i], LIMIT_MS));
    assert_true(resident_kb() - resident < 64 << 10);
    await_strangers(before + DLR_GUARD_HALF_OPEN);
    for (unsigned i = 0; i < DLR_GUARD_HALF_OPEN; i++)
        close(fds[i]);
    check_service();
}

/* The guard watches a connection when libzmq's thread has read so much; 0: at once. */
static atomic_uint_fast64_t all_read;

int __real_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event);

int __wrap_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
    int64_t until = dlr_now_ms() + LIMIT_MS;
    uint64_t confirmed, received = 0;
    int left = 1;

    while (op == EPOLL_CTL_ADD && all_read && (left || received < all_read) &&
           dlr_now_ms() < until) {
        dlr_tcp_bytes(fd, &confirmed, &received);
        ioctl(fd, FIONREAD, &left);
        poll(NULL, 0, 1); /* another thread reads */
    }
    return __real_epoll_ctl(epoll, op, fd, event);
}

/* Nothing more comes that would wake who watches, and the handshake's time is not over.
 */
static void who_sends_much_before_it_is_watched_is_cut(void **state)
{
    static char much[256 << 10];
    int fd;

    serve_slowly();
    memset(much, 1, sizeof(much));
    all_read = sizeof(much);
    fd = dial();
    send_large(fd, much, sizeof(much));
    assert_true(is_cut(fd, LIMIT_MS));
    all_read = 0;
    close(fd);
    check_service();
}

static void who_has_not_the_servers_key_gets_nothing_through(void **state)
{
    uint64_t before = dlr_server_auth_failures(server);
    struct dlr_client *client = NULL;
    zpoller_t *poller = zpoller_new(dlr_server_sock(server), NULL);

    assert_int_equal(
        dlr_client_new(theirs, dlr_identity_key(theirs), address, &client, NULL), 0);
    dlr_client_send(client, "hello", 5);
    await_strangers(before + 1);
    assert_null(zpoller_wait(poller, 0));
    zpoller_destroy(&poller);
    dlr_client_free(client);
    check_service();
}

/* The agents' watchdog looks in like that. */
static void a_probe_is_no_stranger(void **state)
{
    serve_slowly();
    for (int i = 0; i < 20; i++)
        close(dial());
    check_service(); /* later than all of them */
    assert_int_equal(dlr_server_auth_failures(server), 0);
}

/* More clients than may be unproven, and all of them stay. */
static void those_who_have_proven_their_key_take_no_room(void **state)
{
    enum { MANY = DLR_GUARD_HALF_OPEN + 20 };
    static struct dlr_client *clients[MANY];
    struct dlr_packet packet;
    zpoller_t *poller;

    serve_slowly();
    dlr_server_expect(server, 0);
    poller = zpoller_new(dlr_server_sock(server), NULL);
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(
            dlr_client_new(theirs, dlr_identity_key(ours), address, &clients[i], NULL),
            0);
        assert_int_equal(dlr_client_send(clients[i], "hello", 5), 0);
        assert_non_null(zpoller_wait(poller, LIMIT_MS));
        assert_int_equal(dlr_server_recv(server, &packet), 1);
        dlr_packet_done(&packet);
    }
    assert_int_equal(dlr_server_auth_failures(server), 0);
    for (unsigned i = 0; i < MANY; i++)
        clients[i] = dlr_client_free(clients[i]);
    zpoller_destroy(&poller);
    check_service();
    assert_int_equal(dlr_server_auth_failures(server), 0);
}

/* A start: all connect before the first of them is heard. */
static void expected_clients_may_come_all_at_once(void **state)
{
    enum { MANY = 2 * DLR_GUARD_HALF_OPEN };
    static int fds[MANY];

    serve_slowly();
    dlr_server_expect(server, MANY);
    for (unsigned i = 0; i < MANY; i++)
        fds[i] = dial();
    check_service(); /* later than all of them */
    assert_int_equal(dlr_server_auth_failures(server), 0);
    for (unsigned i = 0; i < MANY; i++) {
        assert_false(is_cut(fds[i], 0));
        close(fds[i]);
    }
}

/* What was allowed before. */
static struct rlimit limit_descriptors(unsigned n)
{
    struct rlimit before, limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    limit = before;
    limit.rlim_cur = n;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return before;
}

/* The lowest number that is free. */
static unsigned first_free(void)
{
    int fd = dup(STDERR_FILENO);

    close(fd);
    return (unsigned)fd;
}

/* Strangers cannot take what the supervisor needs for its own files. */
static void connections_leave_descriptors_for_others(void **state)
{
    enum { MOST = 20, MANY = 3 * MOST };
    static int fds[MANY];
    struct rlimit before;
    unsigned cut = 0;

    serve_slowly();
    before = limit_descriptors(MOST + DLR_OPEN_FILES_OWN);
    dlr_server_expect(server, MANY);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    for (unsigned i = 0; i < MANY; i++)
        fds[i] = dial();
    await_strangers(MANY - MOST);
    for (unsigned i = 0; i < MANY; i++) {
        cut += is_cut(fds[i], 0);
        close(fds[i]);
    }
    assert_in_range(cut, MANY - MOST, MANY);
    check_service();
}

static bool reaches(int fd)
{
    struct sockaddr_in to = server_address();

    return connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0;
}

enum { DIALS = 64 };

/* Until no descriptor is left and the port is closed. libzmq would try to accept for
 * ever, on a core of its own. What it closes in a thread of its own may leave some
 * descriptors after all: the dials take as many.
 */
static struct rlimit close_for_want_of_descriptors(int dials[DIALS])
{
    int64_t until = dlr_now_ms() + LIMIT_MS;
    struct rlimit before;
    bool closed = false;
    unsigned n = 0;

    for (unsigned i = 0; i < DIALS; i++)
        dials[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    before = limit_descriptors(first_free());
    while (!closed && dlr_now_ms() < until) {
        if (n + 1 < DIALS && reaches(dials[n]))
            n++;
        closed = dlr_server_tend(server, dlr_now_ms());
        poll(NULL, 0, 5); /* another thread tries */
    }
    assert_true(closed);
    return before;
}

/* False: it was closed once more before. */
static bool reopens(int dial)
{
    int64_t until = dlr_now_ms() + LIMIT_MS;
    bool again = false;

    while (!reaches(dial) && dlr_now_ms() < until) {
        again = dlr_server_tend(server, dlr_now_ms()) || again;
        poll(NULL, 0, 5);
    }
    assert_true(dlr_now_ms() < until);
    return !again;
}

static void close_dials(int dials[DIALS])
{
    for (unsigned i = 0; i < DIALS; i++)
        close(dials[i]);
}

static void a_port_without_descriptors_is_closed_until_one_is_free(void **state)
{
    int fd = dial(), dials[DIALS];
    struct rlimit before;

    check_service(); /* fd is accepted */
    before = close_for_want_of_descriptors(dials);
    close(fd); /* and the server's end of it */
    assert_true(reopens(dials[DIALS - 1]));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    close_dials(dials);
    check_service();
}

/* libzmq cuts them and does not say so: counted for ever, they leave no room for
 * others. The first of these would be let in, in the place of those that have not
 * proven a key.
 */
static void connections_of_a_closed_port_are_forgotten(void **state)
{
    struct dlr_client *client = serve();
    struct rlimit before;
    int dials[DIALS];

    before = close_for_want_of_descriptors(dials);
    limit_descriptors(DLR_OPEN_FILES_OWN + 1);
    dlr_server_expect(server, 0); /* one connection in all */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_true(reopens(dials[DIALS - 1]));
    dlr_client_free(client);
    close_dials(dials);
    for (unsigned i = 0; i < 10; i++)
        check_service();
}

/* As an agent has in an election. */
static void a_process_may_have_thousands_of_clients(void **state)
{
    static struct dlr_client *clients[1100];
    unsigned n = sizeof(clients) / sizeof(*clients);

    dlr_open_files_raise();
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(
            dlr_client_new(theirs, dlr_identity_key(ours), address, &clients[i], NULL),
            0);
    for (unsigned i = 0; i < n; i++)
        dlr_client_free(clients[i]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(connections_are_urgent, start, stop),
        cmocka_unit_test_setup_teardown(a_probe_is_no_stranger, start, stop),
        cmocka_unit_test_setup_teardown(a_flood_of_connections_leaves_room_for_ours,
                                        start, stop),
        cmocka_unit_test_setup_teardown(a_flood_from_one_host_cuts_no_other_hosts,
                                        start, stop),
        cmocka_unit_test_setup_teardown(expected_clients_may_come_all_at_once, start,
                                        stop),
        cmocka_unit_test_setup_teardown(connections_leave_descriptors_for_others, start,
                                        stop),
        cmocka_unit_test_setup_teardown(
            a_port_without_descriptors_is_closed_until_one_is_free, start, stop),
        cmocka_unit_test_setup_teardown(connections_of_a_closed_port_are_forgotten,
                                        start, stop),
        cmocka_unit_test_setup_teardown(those_who_have_proven_their_key_take_no_room,
                                        start, stop),
        cmocka_unit_test_setup_teardown(garbage_is_cut_and_counted, start, stop),
        cmocka_unit_test_setup_teardown(who_sends_much_before_an_answer_is_cut, start,
                                        stop),
        cmocka_unit_test_setup_teardown(who_sends_much_before_it_is_watched_is_cut,
                                        start, stop),
        cmocka_unit_test_setup_teardown(
            who_has_not_the_servers_key_gets_nothing_through, start, stop),
        cmocka_unit_test_setup_teardown(a_process_may_have_thousands_of_clients, start,
                                        stop),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    dlr_endpoint_prepare();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
