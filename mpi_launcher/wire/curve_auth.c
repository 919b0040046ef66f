/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/wire/curve_auth.h"

#include <czmq.h>
#include <errno.h>

#include "mpi_launcher/wire/identity.h"

#define KEY_BYTES 32

/* The address is the process's by RFC 27, hence the one place of file-scope state here.
 */
static zactor_t *answerer;
static bool bound; /* written by its thread before it says that it runs */

/* Request: version, request id, domain, address, identity, mechanism, credentials
 * (key).
 */
static void answer(zsock_t *sock)
{
    zmsg_t *req = zmsg_recv(sock);
    char *version = NULL, *id = NULL, *mechanism = NULL;
    char key[DLR_KEY_TEXT] = "";
    zframe_t *cred;
    bool good;

    if (!req)
        return;
    version = zmsg_popstr(req);
    id = zmsg_popstr(req);
    for (int i = 0; i < 3; i++)
        free(zmsg_popstr(req));
    mechanism = zmsg_popstr(req);
    cred = zmsg_pop(req);
    good = version && id && mechanism && streq(version, "1.0") &&
           streq(mechanism, "CURVE") && cred && zframe_size(cred) == KEY_BYTES;
    if (good)
        zmq_z85_encode(key, zframe_data(cred), KEY_BYTES);
    zstr_sendx(sock, "1.0", id ? id : "", good ? "200" : "400",
               good ? "OK" : "CURVE only", key, "", NULL);
    zframe_destroy(&cred);
    free(version);
    free(id);
    free(mechanism);
    zmsg_destroy(&req);
}

static void run(zsock_t *pipe, void *arg)
{
    zsock_t *sock = zsock_new(ZMQ_REP);
    zpoller_t *poller = zpoller_new(pipe, sock, NULL);

    bound = zsock_bind(sock, "inproc://zeromq.zap.01") >= 0;
    zsock_signal(pipe, 0);
    for (;;) {
        void *which = zpoller_wait(poller, -1);

        if (which != sock)
            break; /* $TERM, or interrupted for good */
        answer(sock);
    }
    zpoller_destroy(&poller);
    zsock_destroy(&sock);
}

static void stop(void)
{
    zactor_destroy(&answerer);
}

int dlr_curve_auth_start(struct dlr_err *err)
{
    if (!answerer) {
        zsys_init(); /* its own exit handler must run after ours */
        answerer = zactor_new(run, NULL);
        if (answerer)
            atexit(stop);
    }
    return bound ? 0 : dlr_fail(err, -EIO, "cannot start the key checker");
}
