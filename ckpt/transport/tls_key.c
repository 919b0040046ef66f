/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/transport/tls_key.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#define SUITE "TLS_AES_128_GCM_SHA256"
#define BUFFER (128 * 1024) /* that one system call moves, not a record's 16 KiB */

static const unsigned char suite_id[2] = {0x13, 0x01};

static bool derive(const void *secret, size_t bytes, const char *label,
                   unsigned char *ret, size_t size)
{
    unsigned char sum[EVP_MAX_MD_SIZE];
    bool ok = HMAC(EVP_sha256(), secret, (int)bytes, (const unsigned char *)label,
                   strlen(label), sum, NULL) != NULL;

    memcpy(ret, sum, size);
    OPENSSL_cleanse(sum, sizeof(sum));
    return ok;
}

int dlr_tls_key_make(struct dlr_tls_key *key, const void *secret, size_t bytes)
{
    dlr_tls_key_wipe(key);
    key->known =
        derive(secret, bytes, "dlrover stream 1 key", key->key, sizeof(key->key)) &&
        derive(secret, bytes, "dlrover stream 1 name", key->name, sizeof(key->name));
    return key->known ? 0 : -EIO;
}

int dlr_tls_token(const void *secret, size_t bytes, unsigned char ret[16])
{
    return derive(secret, bytes, "dlrover copy 1 token", ret, 16) ? 0 : -EIO;
}

void dlr_tls_key_wipe(struct dlr_tls_key *key)
{
    OPENSSL_cleanse(key, sizeof(*key));
    key->known = false;
}

static SSL_SESSION *session_of(SSL *ssl, const struct dlr_tls_key *key)
{
    const SSL_CIPHER *suite = SSL_CIPHER_find(ssl, suite_id);
    SSL_SESSION *session = key->known && suite ? SSL_SESSION_new() : NULL;

    if (session && SSL_SESSION_set1_master_key(session, key->key, sizeof(key->key)) &&
        SSL_SESSION_set_cipher(session, suite) &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
        return session;
    SSL_SESSION_free(session);
    return NULL;
}

/* The calling end names its key. */
static int on_use(SSL *ssl, const EVP_MD *md, const unsigned char **ret_id,
                  size_t *ret_bytes, SSL_SESSION **ret)
{
    struct dlr_tls_who *who = SSL_get_app_data(ssl);

    *ret = session_of(ssl, who->key);
    *ret_id = who->identity;
    *ret_bytes = sizeof(who->identity);
    return *ret != NULL;
}

/* The end that is called finds it, or has none. */
static int on_find(SSL *ssl, const unsigned char *id, size_t bytes, SSL_SESSION **ret)
{
    struct dlr_tls_who *who = SSL_get_app_data(ssl);

    *ret = NULL;
    if (bytes == sizeof(who->identity) && CRYPTO_memcmp(id, who->identity, bytes) == 0)
        *ret = session_of(ssl, who->key);
    return 1;
}

int dlr_tls_context(SSL_CTX **ret, struct dlr_err *err)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_method());

    if (!ctx || !SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) ||
        !SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) ||
        !SSL_CTX_set_ciphersuites(ctx, SUITE) || !SSL_CTX_set_num_tickets(ctx, 0)) {
        SSL_CTX_free(ctx);
        return dlr_fail(err, -EIO, "OpenSSL has no TLS 1.3 with " SUITE);
    }
    SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION |
                                 SSL_OP_NO_RENEGOTIATION | SSL_OP_ENABLE_KTLS);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_psk_use_session_callback(ctx, on_use);
    SSL_CTX_set_psk_find_session_callback(ctx, on_find);
    *ret = ctx;
    return 0;
}

SSL *dlr_tls_new(SSL_CTX *ctx, int fd, bool called, const struct dlr_tls_key *key,
                 const unsigned char id[DLR_TLS_ID], struct dlr_tls_who *who)
{
    SSL *ssl = SSL_new(ctx);

    ERR_clear_error();
    if (!ssl || !SSL_set_fd(ssl, fd) || !SSL_set_app_data(ssl, who)) {
        SSL_free(ssl);
        return NULL;
    }
    who->key = key;
    memcpy(who->identity, key->name, DLR_TLS_ID);
    memcpy(who->identity + DLR_TLS_ID, id, DLR_TLS_ID);
    if (called) { /* without a certificate: the key is all that it can prove */
        SSL_set_accept_state(ssl);
    } else {
        SSL_set_verify(ssl, SSL_VERIFY_PEER, NULL); /* and no certificate is trusted */
        SSL_set_connect_state(ssl);
    }
    return ssl;
}

static int error_of(SSL *ssl, int rc)
{
    int saved = errno;

    switch (SSL_get_error(ssl, rc)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return -EAGAIN;
    case SSL_ERROR_SYSCALL:
        return saved ? -saved : -ECONNRESET;
    case SSL_ERROR_ZERO_RETURN:
        return -ECONNRESET;
    default:
        return ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING
                   ? -ECONNRESET
                   : -EBADMSG;
    }
}

/* OpenSSL moves a record with each call, and with its own large buffer
 * (SSL_set_read_ahead()) all that is in it for each record: 8 bytes for one. Where the
 * kernel seals, it wants the socket itself.
 */
static bool add_buffers(SSL *ssl)
{
    BIO *socket = SSL_get_rbio(ssl), *in = NULL, *out = NULL;
    bool ok = true;

    if (!BIO_get_ktls_recv(socket)) {
        in = BIO_new(BIO_f_buffer());
        ok = in && BIO_set_read_buffer_size(in, BUFFER) > 0 && BIO_up_ref(socket);
        if (ok)
            SSL_set0_rbio(ssl, BIO_push(in, socket));
    }
    if (ok && !BIO_get_ktls_send(socket)) {
        out = BIO_new(BIO_f_buffer());
        ok = out && BIO_set_write_buffer_size(out, BUFFER) > 0 && BIO_up_ref(socket);
        if (ok)
            SSL_set0_wbio(ssl, BIO_push(out, socket));
    }
    return ok;
}

int dlr_tls_handshake(SSL *ssl)
{
    int rc;

    ERR_clear_error();
    errno = 0;
    rc = SSL_do_handshake(ssl);
    if (rc != 1) {
        rc = error_of(ssl, rc);
        return rc == -EAGAIN ? 0 : rc;
    }
    if (!SSL_session_reused(ssl)) /* a certificate, which nobody here has */
        return -EACCES;
    return add_buffers(ssl) ? 1 : -ENOMEM;
}

ssize_t dlr_tls_read(SSL *ssl, void *to, size_t bytes)
{
    size_t n = 0;
    int rc;

    ERR_clear_error();
    errno = 0;
    rc = SSL_read_ex(ssl, to, bytes, &n);
    return rc == 1 ? (ssize_t)n : error_of(ssl, rc);
}

ssize_t dlr_tls_write(SSL *ssl, const void *from, size_t bytes)
{
    size_t n = 0;
    int rc;

    ERR_clear_error();
    errno = 0;
    rc = SSL_write_ex(ssl, from, bytes, &n);
    return rc == 1 ? (ssize_t)n : error_of(ssl, rc);
}

int dlr_tls_flush(SSL *ssl)
{
    BIO *out = SSL_get_wbio(ssl);

    errno = 0;
    if (BIO_flush(out) > 0)
        return 0;
    return BIO_should_retry(out) ? -EAGAIN : errno ? -errno : -ECONNRESET;
}

int dlr_tls_is_hello(const unsigned char *from, size_t bytes)
{
    size_t record = bytes < 5 ? 0 : (size_t)from[3] << 8 | from[4];

    /* A handshake record, TLS 1.0 to 1.2 by its header, that holds all of a
     * ClientHello.
     */
    if ((bytes > 0 && from[0] != 22) || (bytes > 1 && from[1] != 3) ||
        (bytes > 2 && from[2] > 4) ||
        (bytes >= 5 && (record < 4 || record > DLR_TLS_HELLO_MAX - 5)) ||
        (bytes > 5 && from[5] != 1) || (bytes > 6 && from[6] != 0) ||
        (bytes >= 9 && ((size_t)from[7] << 8 | from[8]) + 4 != record))
        return -EBADMSG;
    return bytes >= 9 && bytes >= 5 + record;
}
