/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials need a munged: one is started for this test. Where there is none, those
 * tests skip.
 */
#include "mpi_launcher/wire/identity.h"

#include <czmq.h>
#include <errno.h>
#include <munge.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "mpi_launcher/wire/endpoint.h"
#include "tests/support/private_munged.h"

#define OTHER 54321 /* uid of another user */

static const struct dlr_run_id run = {"17", "a1b2c3d4-0", 2};

static int start(void **state)
{
    dlr_test_munged_start();
    return 0;
}

static int stop(void **state)
{
    dlr_test_munged_stop();
    return 0;
}

static struct dlr_identity *make(void)
{
    struct dlr_identity *id = NULL;
    struct dlr_err err = {0};

    assert_int_equal(dlr_identity_new(&id, &err), 0);
    return id;
}

static void a_credential_proves_its_key(void **state)
{
    struct dlr_identity *id = make();
    DLR_AUTO_FREE char *cred = NULL;
    char key[DLR_KEY_TEXT];
    struct dlr_err err = {0};

    if (!dlr_test_munged_runs())
        skip();
    assert_int_equal(dlr_identity_credential(id, &run, &cred, &err), 0);
    assert_null(strstr(cred, dlr_identity_key(id))); /* MUNGE's text, not ours */
    for (int i = 0; i < 2; i++) { /* a replayed one proves it still */
        assert_int_equal(dlr_identity_verify(cred, &run, key, &err), 0);
        assert_string_equal(key, dlr_identity_key(id));
    }
    dlr_identity_free(id);
}

static void another_run_is_refused(void **state)
{
    static const struct {
        struct dlr_run_id id;
        const char *why;
    } rows[] = {
        {{"18", "a1b2c3d4-0", 2}, "another job"},
        {{"17", "a1b2c3d4-1", 2}, "another run"},
        {{"17", "a1b2c3d4-0", 1}, "an older generation"},
        {{"17", "a1b2c3d4-0", 3}, "a newer generation"},
    };
    struct dlr_identity *id = make();
    DLR_AUTO_FREE char *cred = NULL;
    char key[DLR_KEY_TEXT];
    struct dlr_err err = {0};

    if (!dlr_test_munged_runs())
        skip();
    assert_int_equal(dlr_identity_credential(id, &run, &cred, &err), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        print_message("row '%s'\n", rows[i].why);
        assert_int_equal(dlr_identity_verify(cred, &rows[i].id, key, &err), -EACCES);
        assert_string_equal(
            err.text, "the credential is for job 17, run 'a1b2c3d4-0', generation 2");
    }
    dlr_identity_free(id);
}

/* Right in all but who made it. */
static void a_credential_of_another_user_is_refused(void **state)
{
    struct dlr_identity *id = make();
    munge_ctx_t ctx = munge_ctx_create();
    char key[DLR_KEY_TEXT], text[256], *cred = NULL;
    struct dlr_err err = {0};
    munge_err_t rc;

    if (!dlr_test_munged_runs() || geteuid() != 0)
        skip(); /* only root can be two users */
    dlr_format(text, sizeof(text),
               "{\"job\":\"%s\",\"run\":\"%s\",\"gen\":%u,\"key\":\"%s\"}", run.job,
               run.run, run.gen, dlr_identity_key(id));
    munge_ctx_set(ctx, MUNGE_OPT_SOCKET, getenv("MUNGE_SOCKET"));
    assert_int_equal(seteuid(OTHER), 0);
    rc = munge_encode(&cred, ctx, text, (int)strlen(text));
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(rc, EMUNGE_SUCCESS);
    assert_int_equal(dlr_identity_verify(cred, &run, key, &err), -EACCES);
    assert_string_equal(err.text, "the credential is of uid 54321, not 0");
    free(cred);
    munge_ctx_destroy(ctx);
    dlr_identity_free(id);
}

static void what_is_no_credential_is_refused(void **state)
{
    char key[DLR_KEY_TEXT];
    struct dlr_err err = {0};

    if (!dlr_test_munged_runs())
        skip();
    assert_int_equal(dlr_identity_verify("", &run, key, &err), -EACCES);
    assert_int_equal(dlr_identity_verify("MUNGE:AwQFAAAA:", &run, key, &err), -EACCES);
}

static void payloads_that_are_not_ours_are_refused(void **state)
{
    static const char *const rows[] = {
        "",
        "{}",
        "{\"job\":\"17\",\"run\":\"a1b2c3d4-0\",\"gen\":2,\"key\":\"short\"}",
        "{\"job\":17,\"run\":\"a1b2c3d4-0\",\"gen\":2,\"key\":\"x\"}",
        "{\"job\":\"17\",\"run\":\"a1b2c3d4-0\",\"gen\":2,"
        "\"key\":\"~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\"}",
    };
    struct dlr_err err = {0};

    if (!dlr_test_munged_runs())
        skip();
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        munge_ctx_t ctx = munge_ctx_create();
        char key[DLR_KEY_TEXT], *cred = NULL;

        print_message("row '%s'\n", rows[i]);
        munge_ctx_set(ctx, MUNGE_OPT_SOCKET, getenv("MUNGE_SOCKET"));
        assert_int_equal(munge_encode(&cred, ctx, rows[i], (int)strlen(rows[i])),
                         EMUNGE_SUCCESS);
        assert_int_equal(dlr_identity_verify(cred, &run, key, &err), -EBADMSG);
        free(cred);
        munge_ctx_destroy(ctx);
    }
}

static void a_key_pair_is_handed_over_whole(void **state)
{
    struct dlr_identity *id = make(), *got = NULL;
    DLR_AUTO_CLOSE int fd = memfd_create("id", 0);
    struct dlr_err err = {0};

    assert_int_equal(dlr_identity_load(fd, &got, &err), -EBADMSG);
    assert_int_equal(dlr_identity_save(id, fd, &err), 0);
    assert_int_equal(dlr_identity_load(fd, &got, &err), 0);
    assert_string_equal(dlr_identity_key(got), dlr_identity_key(id));
    assert_memory_equal(dlr_identity_secret(got), dlr_identity_secret(id), 32);
    assert_int_equal(pwrite(fd, "xxxx", 4, 40), 4);
    dlr_identity_free(got);
    assert_int_equal(dlr_identity_load(fd, &got, &err), -EBADMSG);
    assert_string_equal(err.text, "the key pair handed over is none");
    dlr_identity_free(id);
}

static void wait_for(zsock_t *sock)
{
    zpoller_t *p = zpoller_new(sock, NULL);

    assert_non_null(zpoller_wait(p, 30000));
    zpoller_destroy(&p);
}

/* The binding of key to connection is what credentials rest on. */
static void a_server_knows_the_key_of_each_sender(void **state)
{
    struct dlr_identity *ids[3] = {make(), make(), make()};
    struct dlr_client *clients[2];
    struct dlr_server *server;
    struct dlr_packet p;
    struct dlr_err err = {0};
    char at[64];

    assert_int_equal(dlr_server_new(ids[0], "127.0.0.1", 0, 0, 0, &server, &err), 0);
    dlr_format(at, sizeof(at), "127.0.0.1:%u", dlr_server_port(server));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            dlr_client_new(ids[i + 1], dlr_identity_key(ids[0]), at, &clients[i], &err),
            0);
        assert_int_equal(dlr_client_send(clients[i], i ? "two" : "one", 3), 0);
    }
    for (int i = 0; i < 2; i++) {
        int from;

        wait_for(dlr_server_sock(server));
        assert_int_equal(dlr_server_recv(server, &p), 1);
        from = memcmp(p.data, "two", 3) == 0;
        assert_string_equal(p.key, dlr_identity_key(ids[from + 1]));
        assert_int_equal(dlr_server_send(server, &p.from, p.data, p.size), 0);
        dlr_packet_done(&p);
    }
    for (int i = 0; i < 2; i++) {
        wait_for(dlr_client_sock(clients[i]));
        assert_int_equal(dlr_client_recv(clients[i], &p), 1);
        assert_memory_equal(p.data, i ? "two" : "one", 3);
        dlr_packet_done(&p);
        assert_int_equal(dlr_client_recv(clients[i], &p), 0);
        dlr_client_free(clients[i]);
    }
    dlr_server_free(server);
    for (int i = 0; i < 3; i++)
        dlr_identity_free(ids[i]);
}

static void a_server_with_another_key_is_not_spoken_to(void **state)
{
    struct dlr_identity *real = make(), *other = make(), *me = make();
    zsock_t *open = zsock_new(ZMQ_ROUTER); /* which asks for no key at all */
    int ports[2] = {zsock_bind(open, "tcp://127.0.0.1:*")};
    struct dlr_client *clients[2];
    struct dlr_server *server;
    struct dlr_err err = {0};
    zpoller_t *poller;
    char at[64];

    assert_int_equal(dlr_server_new(other, "127.0.0.1", 0, 0, 0, &server, &err), 0);
    ports[1] = (int)dlr_server_port(server);
    for (unsigned i = 0; i < 2; i++) {
        dlr_format(at, sizeof(at), "127.0.0.1:%d", ports[i]);
        assert_int_equal(
            dlr_client_new(me, dlr_identity_key(real), at, &clients[i], &err), 0);
        dlr_client_send(clients[i], "secret", 6);
    }
    poller = zpoller_new(dlr_server_sock(server), open, NULL);
    assert_null(zpoller_wait(poller, 300));
    zpoller_destroy(&poller);
    for (unsigned i = 0; i < 2; i++)
        dlr_client_free(clients[i]);
    zsock_destroy(&open);
    dlr_server_free(server);
    dlr_identity_free(real);
    dlr_identity_free(other);
    dlr_identity_free(me);
}

static void a_taken_port_is_passed_over(void **state)
{
    struct dlr_identity *id = make();
    struct dlr_server *a, *b, *c;
    struct dlr_err err = {0};
    unsigned port;

    assert_int_equal(dlr_server_new(id, "127.0.0.1", 0, 0, 0, &a, &err), 0);
    port = dlr_server_port(a);
    assert_int_equal(dlr_server_new(id, "127.0.0.1", port, port + 20, 0, &b, &err), 0);
    assert_true(dlr_server_port(b) > port);
    assert_int_equal(dlr_server_new(id, "127.0.0.1", port, port, 0, &c, &err),
                     -EADDRINUSE);
    dlr_server_free(a);
    dlr_server_free(b);
    dlr_identity_free(id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_credential_proves_its_key),
        cmocka_unit_test(another_run_is_refused),
        cmocka_unit_test(a_credential_of_another_user_is_refused),
        cmocka_unit_test(what_is_no_credential_is_refused),
        cmocka_unit_test(payloads_that_are_not_ours_are_refused),
        cmocka_unit_test(a_key_pair_is_handed_over_whole),
        cmocka_unit_test(a_server_knows_the_key_of_each_sender),
        cmocka_unit_test(a_server_with_another_key_is_not_spoken_to),
        cmocka_unit_test(a_taken_port_is_passed_over),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
