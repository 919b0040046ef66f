/* SPDX-License-Identifier: Apache-2.0 */
#include <czmq.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/json/message.h"
#include "mpi_launcher/wire/endpoint.h"
#include "mpi_launcher/wire/frame.h"

#define RECONNECT_MS 50      /* first pause after a lost connection */
#define RECONNECT_MAX_MS 500 /* and the longest */

struct dlr_client {
    zsock_t *sock;
};

struct dlr_client *dlr_client_free(struct dlr_client *client)
{
    if (!client)
        return NULL;
    zsock_destroy(&client->sock);
    free(client);
    return NULL;
}

void dlr_client_linger(struct dlr_client *client, int ms)
{
    zsock_set_linger(client->sock, ms);
}

static void cleanup_client(struct dlr_client **client)
{
    dlr_client_free(*client);
}

int dlr_client_new(const struct dlr_identity *id, const char *server_key,
                   const char *hostport, struct dlr_client **ret_client,
                   struct dlr_err *err)
{
    DLR_CLEANUP(cleanup_client) struct dlr_client *client = calloc(1, sizeof(*client));
    int rc;

    if (!client)
        return dlr_fail(err, -ENOMEM, "out of memory");
    if (strlen(server_key) != DLR_KEY_TEXT - 1)
        return dlr_fail(err, -EINVAL, "'%s' is no public key", server_key);
    rc = dlr_frame_socket(ZMQ_DEALER, id, &client->sock, err);
    if (rc < 0)
        return rc;
    zsock_set_handshake_ivl(client->sock, DLR_ENDPOINT_SERVED_MS);
    zsock_set_reconnect_ivl(client->sock, RECONNECT_MS);
    zsock_set_reconnect_ivl_max(client->sock, RECONNECT_MAX_MS);
    zsock_set_curve_serverkey(client->sock, server_key);
    if (zsock_connect(client->sock, "tcp://%s", hostport) < 0)
        return dlr_fail(err, -EINVAL, "bad address '%s': %s", hostport,
                        zmq_strerror(zmq_errno()));
    *ret_client = DLR_STEAL(client);
    return 0;
}

zsock_t *dlr_client_sock(struct dlr_client *client)
{
    return client->sock;
}

int dlr_client_recv(struct dlr_client *client, struct dlr_packet *ret_packet)
{
    int rc = dlr_frame_recv(client->sock, ret_packet);

    if (rc == 1)
        dlr_frame_urge(ret_packet);
    return rc;
}

int dlr_client_send(struct dlr_client *client, const void *data, size_t size)
{
    void *sock = zsock_resolve(client->sock);

    return zmq_send(sock, data, size, ZMQ_DONTWAIT) < 0 ? -zmq_errno() : 0;
}

int dlr_client_send_json(struct dlr_client *client, const json_t *msg)
{
    DLR_AUTO_FREE char *text = dlr_msg_text(msg);

    if (!text)
        return -ENOMEM;
    return dlr_client_send(client, text, strlen(text));
}
