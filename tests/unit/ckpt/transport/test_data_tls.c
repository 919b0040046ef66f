/* SPDX-License-Identifier: Apache-2.0 */
/* Two ends of a stream in one process, and whoever else reaches their ports: nobody
 * without the round's key gets or holds anything, and what goes wrong on the way ends a
 * connection and changes no byte.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/transport/net.h"
#include "ckpt/transport/tls.h"
#include "common/base/clock.h"

#define LIMIT_MS 30000
/* bytes before an address of the stream in one of ckpt/transport/net.h */
#define PART 3
static unsigned char token[16]; /* what goes where nothing is sealed: not looked at */

#define KIND 1 /* BEGIN, which may have any length */

struct end {
    struct dlr_net *net;
    struct dlr_net_peer *peer; /* the way to the other end */
    unsigned char *to;         /* where the next offers go, NULL: refused */
    size_t room;
    unsigned heard, taken, took, down;
    int took_rc;
};

struct ends {
    struct end a, b;
};

static void on_took(void *arg, int rc)
{
    struct end *e = arg;

    e->took++;
    if (rc < 0)
        e->took_rc = rc;
}

static void on_in(void *arg, unsigned kind, struct dlr_net_in *in)
{
    struct end *e = arg;
    int rc;

    assert_int_equal(kind, KIND);
    e->heard++;
    if (!in->offered || !e->to || in->bytes > e->room)
        return;
    rc = dlr_net_take(in, e->to, on_took, e);
    assert_int_equal(rc, 0);
    e->to += in->bytes;
    e->room -= in->bytes;
    e->taken++;
}

static void on_down(void *arg, struct dlr_net_peer *peer, int rc)
{
    ((struct end *)arg)->down++;
}

static void open_end(struct end *e, const char *secret)
{
    static const struct dlr_net_ops ops = {on_in, on_down};
    const struct dlr_net_conf conf = {
        .transport = DLR_TRANSPORT_STREAM, .answer_ms = 300, .devices = "lo"};

    assert_int_equal(dlr_net_open(&conf, &ops, e, &e->net, NULL), 0);
    if (secret)
        assert_int_equal(dlr_net_set_key(e->net, secret, strlen(secret), token), 0);
}

/* The first place of an end's address, and its id. */
static struct dlr_tls_address address_of(const struct end *e)
{
    struct dlr_tls_address a;
    const void *addr;
    size_t bytes;

    dlr_net_address(e->net, &addr, &bytes);
    assert_int_equal(
        dlr_tls_address_read((const unsigned char *)addr + PART, bytes - PART, &a), 0);
    a.n = 1;
    return a;
}

static void call(struct end *from, const struct dlr_tls_address *to)
{
    unsigned char addr[PART + DLR_TLS_ADDRESS_MAX] = {dlr_net_tls.id};
    size_t bytes = dlr_tls_address_write(to, addr + PART);

    addr[1] = (unsigned char)bytes;
    addr[2] = (unsigned char)(bytes >> 8);
    assert_int_equal(dlr_net_peer(from->net, addr, PART + bytes, &from->peer, NULL), 0);
}

static void call_end(struct end *from, const struct end *to)
{
    struct dlr_tls_address address = address_of(to);

    call(from, &address);
}

static int up(void **state)
{
    struct ends *t = calloc(1, sizeof(*t));

    *state = t;
    open_end(&t->a, "round 1");
    open_end(&t->b, "round 1");
    return 0;
}

static int down(void **state)
{
    struct ends *t = *state;

    dlr_net_close(t->a.net);
    dlr_net_close(t->b.net);
    free(t);
    return 0;
}

static unsigned turn(struct ends *t)
{
    return (t->a.net ? dlr_net_progress(t->a.net) : 0) +
           (t->b.net ? dlr_net_progress(t->b.net) : 0);
}

/* Both go on until this is so. */
#define UNTIL(what)                                                                    \
    for (int64_t limit_ = dlr_now_ms() + LIMIT_MS; !(what);) {                         \
        wait_turn(t);                                                                  \
        assert_true(dlr_now_ms() < limit_);                                            \
    }

static void wait_turn(struct ends *t)
{
    struct pollfd fds[2] = {{.fd = -1, .events = POLLIN}, {.fd = -1, .events = POLLIN}};
    struct end *const ends[] = {&t->a, &t->b};
    bool ready = true;

    if (turn(t) > 0)
        return;
    for (unsigned i = 0; i < 2; i++) {
        if (!ends[i]->net)
            continue;
        fds[i].fd = dlr_net_fd(ends[i]->net);
        ready = ready && dlr_net_arm(ends[i]->net) == 0;
    }
    poll(fds, 2, ready ? 10 : 0); /* a stranger's socket is not among them */
}

struct sent {
    unsigned n, failed;
    int rc;
};

static void on_sent(void *arg, int rc)
{
    struct sent *s = arg;

    s->n++;
    s->failed += rc < 0;
    if (rc < 0)
        s->rc = rc;
}

static unsigned char *bytes_of(size_t bytes, unsigned seed)
{
    unsigned char *p = malloc(bytes + 1);

    assert_non_null(p);
    for (size_t i = 0; i < bytes; i++)
        p[i] = (unsigned char)((i * 2654435761u + seed) >> 13);
    return p;
}

static int offer(struct end *from, const void *data, size_t bytes, struct sent *sent)
{
    return dlr_net_offer(from->peer, KIND, (struct dlr_net_part){"head", 4},
                         (struct dlr_net_part){data, bytes}, on_sent, sent);
}

static void expect_copy(struct ends *t, size_t bytes, unsigned pieces)
{
    unsigned char *from = bytes_of(bytes * pieces, 7),
                  *to = calloc(1, bytes * pieces + 1);
    struct sent sent = {0};
    unsigned before = t->b.took;

    assert_non_null(to);
    t->b.to = to;
    t->b.room = bytes * pieces;
    for (unsigned i = 0; i < pieces; i++)
        assert_int_equal(offer(&t->a, from + i * bytes, bytes, &sent), 0);
    UNTIL(sent.n == pieces && t->b.took == before + pieces);
    assert_int_equal(sent.failed, 0);
    assert_int_equal(t->b.took_rc, 0);
    assert_memory_equal(from, to, bytes * pieces);
    t->b.to = NULL;
    free(from);
    free(to);
}

static void what_is_taken_comes_as_it_was(void **state)
{
    static const struct {
        size_t bytes;
        unsigned pieces;
    } rows[] = {{0, 1},       {1, 1},        {16385, 1},  {0, 9},
                {1 << 20, 8}, {40 << 20, 1}, {4096, 5000}};
    struct ends *t = *state;

    call_end(&t->a, &t->b);
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        expect_copy(t, rows[i].bytes, rows[i].pieces);
    assert_string_equal(dlr_net_transport(t->a.peer), "tls");
}

static void what_is_refused_does_not_come(void **state)
{
    struct ends *t = *state;
    struct sent sent = {0};

    call_end(&t->a, &t->b);
    assert_int_equal(offer(&t->a, "refused", 7, &sent), 0);
    UNTIL(sent.n == 1);
    assert_int_equal(sent.rc, -ECONNREFUSED);
    assert_int_equal(t->b.took, 0);
    expect_copy(t, 100, 1); /* the connection lives */
}

static void two_that_call_each_other_at_once_both_get_through(void **state)
{
    struct ends *t = *state;

    call_end(&t->a, &t->b);
    call_end(&t->b, &t->a);
    assert_int_equal(dlr_net_tell(t->a.peer, KIND, (struct dlr_net_part){"a", 1}), 0);
    assert_int_equal(dlr_net_tell(t->b.peer, KIND, (struct dlr_net_part){"b", 1}), 0);
    UNTIL(t->a.heard == 1 && t->b.heard == 1);
    assert_int_equal(t->a.down + t->b.down, 0);
}

/* --- strangers -------------------------------------------------------------------- */

/* From this address; 0: from the one that is called. */
static int connect_from(const struct end *e, in_addr_t host)
{
    const struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = host};
    struct dlr_tls_address a = address_of(e);
    int fd = socket(a.places[0].any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    if (host)
        assert_int_equal(bind(fd, (const struct sockaddr *)&from, sizeof(from)), 0);
    assert_int_equal(connect(fd, &a.places[0].any, dlr_tls_place_bytes(&a.places[0])),
                     0);
    return fd;
}

static int connect_to(const struct end *e)
{
    return connect_from(e, 0);
}

/* heard: grows by what came before, which is TLS's word that it ends at most. */
static bool is_closed_after(int fd, size_t *heard)
{
    char buf[512];
    ssize_t n;

    while ((n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0)
        *heard += (size_t)n;
    return n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

static bool is_closed(int fd)
{
    size_t heard = 0;

    return is_closed_after(fd, &heard);
}

#define HELLO_HEAD "\x16\x03\x01\x01\x00\x01\x00\x00\xfc\x03\x03"

/* OpenSSL would see it, too, but for memory that it takes first. */
static void a_call_is_known_by_its_first_bytes(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        int rc;
    } rows[] = {
        {"", 0, 0},
        {"\x16", 1, 0},
        {"GET ", 4, -EBADMSG},
        {"\x17\x03\x01", 3, -EBADMSG},
        {"\x16\x02\x01", 3, -EBADMSG},
        {"\x16\x03\x05", 3, -EBADMSG},
        {"\x16\x03\x01\x04\x00", 5, -EBADMSG}, /* longer than a call is */
        {"\x16\x03\x01\x01\x00\x02", 6, -EBADMSG},
        {"\x16\x03\x01\x01\x00\x01\x00\x00\xfb", 9,
         -EBADMSG}, /* and more in the record */
        {HELLO_HEAD, sizeof(HELLO_HEAD) - 1, 0},
        {HELLO_HEAD, 260, 0},
        {HELLO_HEAD, 261, 1},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        unsigned char all[512] = {0};

        memcpy(all, rows[i].bytes,
               rows[i].n < sizeof(HELLO_HEAD) ? rows[i].n : sizeof(HELLO_HEAD) - 1);
        if (dlr_tls_is_hello(all, rows[i].n) != rows[i].rc)
            fail_msg("row %zu", i);
    }
}

/* What begins as no call does is not even waited for. */
static void who_speaks_no_tls_is_cut_at_once(void **state)
{
    static const struct {
        const char *what, *bytes;
        size_t n;
    } rows[] = {
        {"text", "GET / HTTP/1.0\r\n\r\n", 18},
        {"one byte", "x", 1},
        {"a PUT of UCX",
         "\x1e\x00\x28\x00\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00", 16},
        {"TLS's alert", "\x15\x03\x01\x00\x02\x01\x00", 7},
        {"a hello of 16 MiB", "\x16\x03\x01\x40\x00\x01\xff\xff\xff", 9},
        {"a hello in two records", "\x16\x03\x01\x00\x10\x01\x00\x00\xfc", 9},
        {"an empty record", "\x16\x03\x01\x00\x00", 5},
    };
    struct ends *t = *state;
    size_t heard = 0;

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int fd = connect_to(&t->b);

        print_message("row '%s'\n", rows[i].what);
        assert_int_equal(send(fd, rows[i].bytes, rows[i].n, MSG_NOSIGNAL), rows[i].n);
        UNTIL(is_closed_after(fd, &heard));
        close(fd);
    }
    assert_int_equal(t->b.heard, 0);
    assert_int_equal(heard, 0); /* OpenSSL would have said what it makes of it */
}

static unsigned count_descriptors(void)
{
    unsigned n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

#define STRANGERS 200

/* Those who say nothing, or half of a hello, are cut: the oldest when they are many,
 * all when their time is over.
 */
static void strangers_hold_next_to_nothing(void **state)
{
    struct ends *t = *state;
    unsigned before = count_descriptors(), open;
    int fds[STRANGERS];

    for (unsigned i = 0; i < STRANGERS; i++) {
        fds[i] = connect_to(&t->b);
        if (i % 2)
            (void)!send(fds[i], HELLO_HEAD, sizeof(HELLO_HEAD) - 1, MSG_NOSIGNAL);
        turn(t);
    }
    while (turn(t) > 0)
        ;
    assert_true(count_descriptors() <= before + STRANGERS + DLR_TLS_UNPROVEN_MAX);
    call_end(&t->a, &t->b); /* who has the key is not kept out */
    expect_copy(t, 1 << 20, 4);
    UNTIL((open = STRANGERS) && ({
              for (unsigned i = 0; i < STRANGERS; i++)
                  open -= is_closed(fds[i]);
              open == 0;
          }));
    for (unsigned i = 0; i < STRANGERS; i++)
        close(fds[i]);
    assert_int_equal(t->b.heard, 4);
}

static void a_flood_from_one_host_cuts_no_other_hosts(void **state)
{
    struct ends *t = *state;
    union dlr_tls_place own[DLR_TLS_PLACES_MAX];
    unsigned n = dlr_tls_places("", own), i = 0;
    int fds[STRANGERS], slow;

    while (i < n && own[i].any.sa_family != AF_INET)
        i++;
    if (i == n || own[i].v4.sin_addr.s_addr == htonl(INADDR_LOOPBACK))
        skip(); /* this machine is one host to itself */
    slow = connect_from(&t->b, own[i].v4.sin_addr.s_addr);
    for (i = 0; i < STRANGERS; i++) {
        fds[i] = connect_to(&t->b);
        turn(t);
    }
    UNTIL(is_closed(fds[STRANGERS - DLR_TLS_UNPROVEN_MAX - 1]));
    assert_false(is_closed(slow));
    while (i > 0)
        close(fds[--i]);
    close(slow);
}

/* A client of OpenSSL's that asks for no key of ours: sends a whole hello. */
static void a_client_without_the_key_is_told_nothing(void **state)
{
    struct ends *t = *state;
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL *ssl = SSL_new(ctx);
    int fd = connect_to(&t->b), rc, why;

    fcntl(fd, F_SETFL, O_NONBLOCK);
    SSL_set_fd(ssl, fd);
    UNTIL((rc = SSL_connect(ssl)) == 1 ||
          ((why = SSL_get_error(ssl, rc)) != SSL_ERROR_WANT_READ &&
           why != SSL_ERROR_WANT_WRITE));
    assert_int_not_equal(rc, 1);
    assert_int_equal(t->b.heard, 0);
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    close(fd);
}

/* --- keys ------------------------------------------------------------------------- */

static void expect_stale(struct ends *t)
{
    struct sent sent = {0};

    assert_int_equal(offer(&t->a, "secret", 6, &sent), 0);
    UNTIL(sent.n == 1);
    assert_int_equal(sent.rc, -ESTALE);
    assert_int_equal(t->b.heard, 0);
    assert_int_equal(t->a.down, 1);
}

static void another_rounds_key_opens_nothing(void **state)
{
    struct ends *t = *state;

    assert_int_equal(dlr_net_set_key(t->b.net, "round 2", 7, token), 0);
    call_end(&t->a, &t->b);
    expect_stale(t);
    dlr_net_peer_put(t->a.peer);
    assert_int_equal(dlr_net_set_key(t->a.net, "round 2", 7, token), 0);
    call_end(&t->a, &t->b);
    expect_copy(t, 100, 1);
}

/* Everybody who listens sees the token of what is not sealed. */
static void what_goes_unsealed_says_nothing_of_a_key(void **state)
{
    static const char secret[] = "0123456789abcdef";
    struct dlr_tls_key key = {0};
    unsigned char seen[16];

    assert_int_equal(dlr_tls_key_make(&key, secret, sizeof(secret) - 1), 0);
    assert_int_equal(dlr_tls_token(secret, sizeof(secret) - 1, seen), 0);
    assert_null(memmem(key.key, sizeof(key.key), seen, sizeof(seen)));
    assert_memory_not_equal(secret, seen, sizeof(seen));
}

static void who_has_no_key_yet_is_waited_for(void **state)
{
    struct ends *t = *state;
    struct sent sent = {0};

    dlr_net_close(t->b.net);
    open_end(&t->b, NULL);
    call_end(&t->a, &t->b);
    assert_int_equal(
        dlr_net_send(t->a.peer, KIND, (struct dlr_net_part){"x", 1}, on_sent, &sent),
        0);
    for (int64_t until = dlr_now_ms() + 50; dlr_now_ms() < until;)
        wait_turn(t);
    assert_int_equal(sent.n, 0);
    assert_int_equal(dlr_net_set_key(t->b.net, "round 1", 7, token), 0);
    UNTIL(sent.n == 1 && t->b.heard == 1);
    assert_int_equal(sent.failed, 0);
}

/* A connection of the former round, which the caller keeps, carries nothing any more.
 */
static void a_connection_of_a_former_round_is_not_heard(void **state)
{
    struct ends *t = *state;
    struct sent sent = {0};

    call_end(&t->a, &t->b);
    expect_copy(t, 100, 1);
    assert_int_equal(dlr_net_set_key(t->b.net, "round 2", 7, token), 0);
    (void)dlr_net_send(t->a.peer, KIND, (struct dlr_net_part){"late", 4}, on_sent,
                       &sent);
    UNTIL(t->a.down == 1);
    assert_int_equal(t->b.heard, 1); /* the copy before */
}

/* The key alone is not enough: who is called must be who was meant. */
static void a_call_that_is_led_elsewhere_is_refused(void **state)
{
    struct ends *t = *state;
    struct dlr_tls_address to = address_of(&t->b);

    memset(to.id, 0x5a, sizeof(to.id));
    call(&t->a, &to);
    expect_stale(t);
}

static void the_next_address_is_tried(void **state)
{
    struct ends *t = *state;
    struct dlr_tls_address to = address_of(&t->b), own = address_of(&t->a);

    to.places[1] = to.places[0];
    to.places[0] = own.places[0]; /* somebody with our key who is not meant */
    to.n = 2;
    call(&t->a, &to);
    expect_copy(t, 5000, 3);
}

/* --- the way ---------------------------------------------------------------------- */

/* Between both: passes on what comes, and changes one bit of what a says after so many
 * bytes.
 */
struct middle {
    int listener, a, b;
    size_t passed, flip_at;
};

static struct dlr_tls_address stand_between(struct middle *m, const struct end *b)
{
    struct dlr_tls_address to = address_of(b);
    socklen_t size = sizeof(to.places[0]);

    m->a = -1;
    m->b = connect_to(b);
    m->listener = socket(to.places[0].any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    to.places[0].v4.sin_port = 0; /* at the same place in v6 */
    assert_int_equal(
        bind(m->listener, &to.places[0].any, dlr_tls_place_bytes(&to.places[0])), 0);
    assert_int_equal(listen(m->listener, 1), 0);
    assert_int_equal(getsockname(m->listener, &to.places[0].any, &size), 0);
    fcntl(m->listener, F_SETFL, O_NONBLOCK);
    return to;
}

static void pass(struct middle *m)
{
    unsigned char buf[4096];
    ssize_t n;

    if (m->a < 0)
        m->a = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC);
    if (m->a < 0)
        return;
    n = recv(m->a, buf, sizeof(buf), MSG_DONTWAIT);
    if (n > 0) {
        if (m->flip_at >= m->passed && m->flip_at < m->passed + (size_t)n)
            buf[m->flip_at - m->passed] ^= 0x10;
        m->passed += (size_t)n;
        (void)!send(m->b, buf, (size_t)n, MSG_NOSIGNAL);
    }
    n = recv(m->b, buf, sizeof(buf), MSG_DONTWAIT);
    if (n > 0)
        (void)!send(m->a, buf, (size_t)n, MSG_NOSIGNAL);
    else if (n == 0)
        shutdown(m->a, SHUT_RDWR);
}

/* Wherever it is: the hello, the frames, the data. Without it all of it gets through.
 */
static void a_bit_changed_on_the_way_ends_the_connection(void **state)
{
    static const size_t flips[] = {SIZE_MAX, 60, 200, 900, 100000, 199999};
    unsigned char *from = bytes_of(200000, 3);

    down(state);
    for (unsigned i = 0; i < sizeof(flips) / sizeof(flips[0]); i++) {
        struct middle m = {.flip_at = flips[i]};
        struct dlr_tls_address to;
        struct sent sent = {0};
        struct ends *t;

        print_message("byte %zu\n", flips[i]);
        up(state);
        t = *state;
        t->b.to = calloc(1, 200000);
        t->b.room = 200000;
        to = stand_between(&m, &t->b);
        call(&t->a, &to);
        assert_int_equal(offer(&t->a, from, 200000, &sent), 0);
        UNTIL((pass(&m), t->b.took_rc < 0 || t->a.down == 1 || t->b.took == 1));
        if (flips[i] == SIZE_MAX)
            assert_memory_equal(t->b.to - 200000, from, 200000);
        else
            assert_int_equal(t->b.took - (t->b.took_rc < 0), 0);
        close(m.a);
        close(m.b);
        close(m.listener);
        free(t->b.to - (t->b.taken ? 200000 : 0));
        if (i + 1 < sizeof(flips) / sizeof(flips[0]))
            down(state);
    }
    free(from);
}

static void who_vanishes_ends_what_was_under_way(void **state)
{
    struct ends *t = *state;
    unsigned char *to = calloc(1, 64 << 20);
    struct sent sent = {0};

    assert_non_null(to);
    t->b.to = to;
    t->b.room = 64 << 20;
    call_end(&t->a, &t->b);
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(offer(&t->a, to, 8 << 20, &sent), 0);
    UNTIL(t->b.took == 2);
    t->b.net = dlr_net_close(t->b.net);
    assert_int_equal(t->b.took, 8); /* closed: its buffers are its own */
    assert_int_equal(t->b.took_rc, -ECANCELED);
    UNTIL(sent.n == 8);
    assert_true(sent.failed >= 1 && sent.rc < 0);
    assert_int_equal(t->a.down, 1);
    assert_true(offer(&t->a, to, 1, &sent) < 0);
    free(to);
}

/* What it was given waits, and takes none of our memory. */
static void who_does_not_read_makes_its_sender_wait(void **state)
{
    struct ends *t = *state;
    unsigned char *data = bytes_of(64 << 20, 9);
    struct sent sent = {0};

    call_end(&t->a, &t->b);
    expect_copy(t, 1, 1);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(dlr_net_send(t->a.peer, KIND,
                                      (struct dlr_net_part){data, 16 << 20}, on_sent,
                                      &sent),
                         0);
    while (dlr_net_progress(t->a.net) > 0)
        ;
    assert_true(sent.n < 4);
    assert_int_equal(dlr_net_arm(t->a.net), 0);
    UNTIL(sent.n == 4 && t->b.heard == 5);
    assert_int_equal(sent.failed, 0);
    free(data);
}

static void what_is_dropped_ends_with_the_next_turn(void **state)
{
    struct ends *t = *state;
    struct sent sent = {0};

    call_end(&t->a, &t->b);
    expect_copy(t, 1, 1);
    assert_int_equal(offer(&t->a, "x", 1, &sent), 0);
    dlr_net_drop(t->a.peer);
    assert_int_equal(sent.n, 0);
    assert_int_equal(dlr_net_arm(t->a.net), -EAGAIN);
    dlr_net_progress(t->a.net);
    assert_int_equal(sent.n, 1);
    assert_int_equal(sent.rc, -ECANCELED);
    assert_int_equal(t->a.down, 0);
}

static void nobody_listening_is_said_at_once(void **state)
{
    struct ends *t = *state;
    struct sent sent = {0};
    struct dlr_tls_address to = address_of(&t->b);

    t->b.net = dlr_net_close(t->b.net);
    call(&t->a, &to);
    (void)offer(&t->a, "x", 1, &sent);
    UNTIL(t->a.down == 1);
    assert_int_equal(sent.failed, sent.n);
    if (sent.n)
        assert_int_equal(sent.rc, -ECONNREFUSED);
}

static void a_port_of_the_range_is_taken(void **state)
{
    static const struct dlr_net_ops ops = {on_in, on_down};
    struct ends *t = *state;
    unsigned used = ntohs(address_of(&t->b).places[0].v4.sin_port);
    struct dlr_net_conf conf = {.transport = DLR_TRANSPORT_STREAM,
                                .devices = "lo",
                                .first_port = used,
                                .last_port = used + 200 < 65535 ? used + 200 : 65535};
    struct end other = {0};
    unsigned port;

    assert_int_equal(dlr_net_open(&conf, &ops, &other, &other.net, NULL), 0);
    port = ntohs(address_of(&other).places[0].v4.sin_port);
    assert_in_range(port, used + 1, conf.last_port);
    dlr_net_close(other.net);
    conf.last_port = used; /* none is left: any */
    assert_int_equal(dlr_net_open(&conf, &ops, &other, &other.net, NULL), 0);
    assert_int_not_equal(ntohs(address_of(&other).places[0].v4.sin_port), used);
    dlr_net_close(other.net);
}

int main(int argc, char **argv)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, up, down)
    const struct CMUnitTest tests[] = {
        TEST(what_is_taken_comes_as_it_was),
        TEST(what_is_refused_does_not_come),
        TEST(two_that_call_each_other_at_once_both_get_through),
        cmocka_unit_test(a_call_is_known_by_its_first_bytes),
        TEST(who_speaks_no_tls_is_cut_at_once),
        TEST(strangers_hold_next_to_nothing),
        TEST(a_flood_from_one_host_cuts_no_other_hosts),
        TEST(a_client_without_the_key_is_told_nothing),
        TEST(another_rounds_key_opens_nothing),
        TEST(what_goes_unsealed_says_nothing_of_a_key),
        TEST(who_has_no_key_yet_is_waited_for),
        TEST(a_connection_of_a_former_round_is_not_heard),
        TEST(a_call_that_is_led_elsewhere_is_refused),
        TEST(the_next_address_is_tried),
        TEST(a_bit_changed_on_the_way_ends_the_connection),
        TEST(who_vanishes_ends_what_was_under_way),
        TEST(who_does_not_read_makes_its_sender_wait),
        TEST(what_is_dropped_ends_with_the_next_turn),
        TEST(nobody_listening_is_said_at_once),
        TEST(a_port_of_the_range_is_taken),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
