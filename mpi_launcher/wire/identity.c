/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/wire/identity.h"

#include <errno.h>
#include <munge.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"

#define KEY_BYTES 32
#define PAYLOAD_MAX 1024 /* of a credential we would parse */

struct dlr_identity {
    unsigned char pub[KEY_BYTES];
    unsigned char sec[KEY_BYTES];
    char text[DLR_KEY_TEXT];
};

struct dlr_identity *dlr_identity_free(struct dlr_identity *id)
{
    if (id)
        explicit_bzero(id, sizeof(*id));
    free(id);
    return NULL;
}

static void cleanup_identity(struct dlr_identity **id)
{
    dlr_identity_free(*id);
}

int dlr_identity_new(struct dlr_identity **ret_id, struct dlr_err *err)
{
    DLR_CLEANUP(cleanup_identity) struct dlr_identity *id = calloc(1, sizeof(*id));
    char sec[DLR_KEY_TEXT];

    if (!id)
        return dlr_fail(err, -ENOMEM, "out of memory");
    if (zmq_curve_keypair(id->text, sec) < 0)
        return dlr_fail(err, -ENOTSUP, "cannot make a key pair: libzmq lacks CURVE");
    zmq_z85_decode(id->pub, id->text);
    zmq_z85_decode(id->sec, sec);
    explicit_bzero(sec, sizeof(sec));
    *ret_id = DLR_STEAL(id);
    return 0;
}

const char *dlr_identity_key(const struct dlr_identity *id)
{
    return id->text;
}

const unsigned char *dlr_identity_public(const struct dlr_identity *id)
{
    return id->pub;
}

const unsigned char *dlr_identity_secret(const struct dlr_identity *id)
{
    return id->sec;
}

int dlr_identity_save(const struct dlr_identity *id, int fd, struct dlr_err *err)
{
    unsigned char buf[DLR_IDENTITY_BYTES];
    ssize_t n;

    memcpy(buf, id->pub, KEY_BYTES);
    memcpy(buf + KEY_BYTES, id->sec, KEY_BYTES);
    n = pwrite(fd, buf, sizeof(buf), 0);
    explicit_bzero(buf, sizeof(buf));
    if (n != DLR_IDENTITY_BYTES)
        return dlr_fail(err, n < 0 ? -errno : -EIO, "cannot hand the key pair over");
    return 0;
}

int dlr_identity_load(int fd, struct dlr_identity **ret_id, struct dlr_err *err)
{
    DLR_CLEANUP(cleanup_identity) struct dlr_identity *id = calloc(1, sizeof(*id));
    char sec[DLR_KEY_TEXT], pub[DLR_KEY_TEXT] = "";

    if (!id)
        return dlr_fail(err, -ENOMEM, "out of memory");
    if (pread(fd, id->pub, KEY_BYTES, 0) != KEY_BYTES ||
        pread(fd, id->sec, KEY_BYTES, KEY_BYTES) != KEY_BYTES)
        return dlr_fail(err, -EBADMSG, "no key pair was handed over");
    zmq_z85_encode(id->text, id->pub, KEY_BYTES);
    zmq_z85_encode(sec, id->sec, KEY_BYTES);
    zmq_curve_public(pub, sec);
    explicit_bzero(sec, sizeof(sec));
    if (!dlr_streq(pub, id->text))
        return dlr_fail(err, -EBADMSG, "the key pair handed over is none");
    *ret_id = DLR_STEAL(id);
    return 0;
}

static void cleanup_munge(munge_ctx_t *ctx)
{
    if (*ctx)
        munge_ctx_destroy(*ctx);
}

/* A context for the munged that MUNGE_SOCKET names, the library's default otherwise. */
static munge_ctx_t munge_open(void)
{
    const char *path = getenv("MUNGE_SOCKET");
    munge_ctx_t ctx = munge_ctx_create();

    if (ctx && path)
        munge_ctx_set(ctx, MUNGE_OPT_SOCKET, path);
    return ctx;
}

int dlr_identity_credential(const struct dlr_identity *id, const struct dlr_run_id *run,
                            char **ret_cred, struct dlr_err *err)
{
    DLR_CLEANUP(cleanup_munge) munge_ctx_t ctx = munge_open();
    DLR_AUTO_JSON json_t *payload =
        json_pack("{s:s, s:s, s:I, s:s}", "job", run->job, "run", run->run, "gen",
                  (json_int_t)run->gen, "key", id->text);
    DLR_AUTO_FREE char *text = payload ? json_dumps(payload, JSON_COMPACT) : NULL;
    munge_err_t rc;

    if (!ctx || !text)
        return dlr_fail(err, -ENOMEM, "out of memory");
    munge_ctx_set(ctx, MUNGE_OPT_UID_RESTRICTION, getuid()); /* nobody else reads it */
    rc = munge_encode(ret_cred, ctx, text, (int)strlen(text));
    if (rc != EMUNGE_SUCCESS)
        return dlr_fail(err, -EACCES, "cannot make a credential: %s",
                        munge_ctx_strerror(ctx) ?: munge_strerror(rc));
    return 0;
}

static int check_payload(const char *text, int size, const struct dlr_run_id *run,
                         char ret_key[DLR_KEY_TEXT], struct dlr_err *err)
{
    DLR_AUTO_JSON json_t *p = NULL;
    const char *job, *name, *key;
    unsigned char raw[KEY_BYTES];
    json_int_t gen;

    if (size > 0 && size <= PAYLOAD_MAX)
        p = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
    if (!p || json_unpack(p, "{s:s, s:s, s:I, s:s}", "job", &job, "run", &name, "gen",
                          &gen, "key", &key) < 0)
        return dlr_fail(err, -EBADMSG, "the credential's payload is malformed");
    if (strlen(key) != DLR_KEY_TEXT - 1 || !zmq_z85_decode(raw, key))
        return dlr_fail(err, -EBADMSG, "the credential holds no key");
    if (!dlr_streq(job, run->job) || !dlr_streq(name, run->run) ||
        gen != (json_int_t)run->gen)
        return dlr_fail(err, -EACCES,
                        "the credential is for job %s, run '%s', generation %lld", job,
                        name, (long long)gen);
    memcpy(ret_key, key, DLR_KEY_TEXT);
    return 0;
}

int dlr_identity_verify(const char *cred, const struct dlr_run_id *run,
                        char ret_key[DLR_KEY_TEXT], struct dlr_err *err)
{
    DLR_CLEANUP(cleanup_munge) munge_ctx_t ctx = munge_open();
    DLR_AUTO_FREE void *text = NULL;
    uid_t uid = (uid_t)-1;
    munge_err_t rc;
    int size = 0;

    if (!ctx)
        return dlr_fail(err, -ENOMEM, "out of memory");
    rc = munge_decode(cred, ctx, &text, &size, &uid, NULL);
    if (rc != EMUNGE_SUCCESS && rc != EMUNGE_CRED_REPLAYED && rc != EMUNGE_CRED_EXPIRED)
        return dlr_fail(err, -EACCES, "bad credential: %s",
                        munge_ctx_strerror(ctx) ?: munge_strerror(rc));
    if (uid != getuid())
        return dlr_fail(err, -EACCES, "the credential is of uid %u, not %u", uid,
                        getuid());
    return check_payload(text, size, run, ret_key, err);
}
