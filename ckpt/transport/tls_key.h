/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSSL's part of a stream: TLS 1.3 with a pre-shared key made of the round's secret,
 * and nothing else.
 */
#ifndef DLR_CKPT_TRANSPORT_TLS_KEY_H
#define DLR_CKPT_TRANSPORT_TLS_KEY_H

#include <openssl/ssl.h>
#include <stdbool.h>

#include "ckpt/transport/tls_address.h"
#include "common/base/err.h"

#define DLR_TLS_KEY 32

struct dlr_tls_key {
    bool known;
    unsigned char key[DLR_TLS_KEY];
    unsigned char name[DLR_TLS_ID]; /* which key it is; says nothing about it */
};

/* The key that belongs to a secret; both ends make it of the same one. -EIO: OpenSSL
 * cannot.
 */
int dlr_tls_key_make(struct dlr_tls_key *key, const void *secret, size_t bytes);
/* What proves a message to be of the round where it is not sealed: 16 bytes, of which
 * no key can be made.
 */
int dlr_tls_token(const void *secret, size_t bytes, unsigned char ret[16]);
void dlr_tls_key_wipe(struct dlr_tls_key *key);

/* What the handshake of one connection asks for: a key, and the process that is spoken
 * to. It must not move while the connection's SSL is there.
 */
struct dlr_tls_who {
    const struct dlr_tls_key *key;
    /* the key's name, the id of who is called */
    unsigned char identity[2 * DLR_TLS_ID];
};

int dlr_tls_context(SSL_CTX **ret, struct dlr_err *err);
/* For a connected socket, which stays the caller's; called: this end was. id: of the
 * end that is called. NULL: no memory.
 */
SSL *dlr_tls_new(SSL_CTX *ctx, int fd, bool called, const struct dlr_tls_key *key,
                 const unsigned char id[DLR_TLS_ID], struct dlr_tls_who *who);
/* 1: both ends have proved that they have the key; 0: not yet; -errno: it failed, or
 * something else was proved.
 */
int dlr_tls_handshake(SSL *ssl);

/* Bytes moved; -EAGAIN: none can be now; else -errno: the connection is over
 * (-ECONNRESET: ended by the peer; -EBADMSG: what came was not what it sent).
 */
ssize_t dlr_tls_read(SSL *ssl, void *to, size_t bytes);
ssize_t dlr_tls_write(SSL *ssl, const void *from, size_t bytes);
/* What was written may wait in a buffer until this says 0. */
int dlr_tls_flush(SSL *ssl);

/* Whether these bytes, the first of a connection, begin a call: 1: they are a whole
 * one; 0: more must come; -EBADMSG. Nothing is reserved for who sends something else.
 * Foreign bytes: fuzz target data_stream.
 */
int dlr_tls_is_hello(const unsigned char *from, size_t bytes);
#define DLR_TLS_HELLO_MAX 1024

#endif
