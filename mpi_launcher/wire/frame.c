/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/wire/frame.h"

#include <czmq.h>
#include <errno.h>
#include <linux/pkt_sched.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "common/json/message.h"

int dlr_frame_socket(int type, const struct dlr_identity *id, zsock_t **ret_sock,
                     struct dlr_err *err)
{
    zsock_t *sock;

    zsys_handler_set(NULL);
    sock = zsock_new(type);
    if (!sock)
        return dlr_fail(err, -EMFILE, "cannot make a socket: %s",
                        zmq_strerror(zmq_errno()));
    zsock_set_linger(sock, 0);
    zsock_set_tos(sock, IPTOS_LOWDELAY);
    zsock_set_sndhwm(sock, DLR_ENDPOINT_HWM);
    zsock_set_rcvhwm(sock, DLR_ENDPOINT_HWM);
    zsock_set_maxmsgsize(sock, DLR_MSG_MAX);
    zsock_set_handshake_ivl(sock, DLR_ENDPOINT_HANDSHAKE_MS);
    zsock_set_curve_publickey_bin(sock, dlr_identity_public(id));
    zsock_set_curve_secretkey_bin(sock, dlr_identity_secret(id));
    *ret_sock = sock;
    return 0;
}

void dlr_frame_urge(struct dlr_packet *packet)
{
    int on = 1, first = TC_PRIO_INTERACTIVE;
    int fd = zmq_msg_get(&packet->msg_, ZMQ_SRCFD);

    /* Linux sets it with IP_TOS, and clears it on a connection that was accepted. */
    (void)!setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &first, sizeof(first));
    (void)!setsockopt(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &on, sizeof(on));
}

static void flush(zsock_t *sock)
{
    while (zsock_rcvmore(sock)) {
        zmq_msg_t rest;

        zmq_msg_init(&rest);
        if (zmq_msg_recv(&rest, zsock_resolve(sock), ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(&rest);
            return;
        }
        zmq_msg_close(&rest);
    }
}

int dlr_frame_recv(zsock_t *sock, struct dlr_packet *ret_packet)
{
    const char *key;

    zmq_msg_init(&ret_packet->msg_);
    if (zmq_msg_recv(&ret_packet->msg_, zsock_resolve(sock), ZMQ_DONTWAIT) < 0) {
        int rc = -zmq_errno();

        zmq_msg_close(&ret_packet->msg_);
        return rc == -EAGAIN ? 0 : rc;
    }
    if (zmq_msg_more(&ret_packet->msg_)) {
        zmq_msg_close(&ret_packet->msg_);
        flush(sock);
        return -EBADMSG;
    }
    key = zmq_msg_gets(&ret_packet->msg_, "User-Id");
    ret_packet->key[0] = '\0';
    if (key && strlen(key) < sizeof(ret_packet->key))
        memcpy(ret_packet->key, key, strlen(key) + 1);
    ret_packet->data = zmq_msg_data(&ret_packet->msg_);
    ret_packet->size = zmq_msg_size(&ret_packet->msg_);
    return 1;
}
