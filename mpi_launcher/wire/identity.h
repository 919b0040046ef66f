/* SPDX-License-Identifier: Apache-2.0 */
/* Who a process is: a CURVE key pair that lives in memory only, and the MUNGE
 * credential that binds its public key to a uid and to one run of one job.
 */
#ifndef DLR_MPI_LAUNCHER_WIRE_IDENTITY_H
#define DLR_MPI_LAUNCHER_WIRE_IDENTITY_H

#include "common/base/err.h"

#define DLR_KEY_TEXT 41 /* a public key in Z85, NUL included */
/* what dlr_identity_save() writes: public, then secret key */
#define DLR_IDENTITY_BYTES 64

struct dlr_identity; /* opaque */

/* One incarnation of a run. A credential is good for exactly the one it names. */
struct dlr_run_id {
    char job[32]; /* Slurm's job id */
    char run[64]; /* the run's name */
    unsigned gen; /* generation of the supervisor */
};

/* Makes a fresh key pair; *ret_id: dlr_identity_free(). */
int dlr_identity_new(struct dlr_identity **ret_id, struct dlr_err *err);
struct dlr_identity *dlr_identity_free(struct dlr_identity *id); /* accepts NULL */

/* The public key in Z85; belongs to id. */
const char *dlr_identity_key(const struct dlr_identity *id);

/* The keys as bytes, for endpoint.c only: 32 each, belong to id. */
const unsigned char *dlr_identity_public(const struct dlr_identity *id);
const unsigned char *dlr_identity_secret(const struct dlr_identity *id);

/* Writes the key pair at the start of fd, or reads it from there; fd is a memfd that
 * the keeper holds, never a file. Its offset is not used. -EBADMSG when the two halves
 * are no pair.
 */
int dlr_identity_save(const struct dlr_identity *id, int fd, struct dlr_err *err);
int dlr_identity_load(int fd, struct dlr_identity **ret_id, struct dlr_err *err);

/* A MUNGE credential with payload {"job","run","gen","key"} that only our own uid (and
 * root) can decode; *ret_cred is on the heap and the caller's (free()). It holds no
 * secret. Blocking: asks the local munged.
 */
int dlr_identity_credential(const struct dlr_identity *id, const struct dlr_run_id *run,
                            char **ret_cred, struct dlr_err *err);

/* Checks a credential of somebody else: made by our own uid, for exactly this run. One
 * that is expired or was seen before still proves a public key and is taken. -EACCES
 * when it proves something else or nothing, -EBADMSG when its payload is malformed.
 * Blocking as above. On success ret_key holds the public key in Z85.
 */
int dlr_identity_verify(const char *cred, const struct dlr_run_id *run,
                        char ret_key[DLR_KEY_TEXT], struct dlr_err *err);

#endif
