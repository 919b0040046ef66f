/* SPDX-License-Identifier: Apache-2.0 */
/* Takes from the data process what it never needs, since it parses what comes over a
 * network. Each step is best effort: a kernel that lacks one goes on without it.
 */
#ifndef DLR_CKPT_CONFINE_CONFINE_H
#define DLR_CKPT_CONFINE_CONFINE_H

#include <stddef.h>

/* Directories that it works in; "" where there is none. All "": files are not confined.
 */
struct dlr_confine {
    const char *memory; /* reads and writes */
    const char *run;    /* the same; what lies beside it, of other jobs, is only read */
    const char *from;   /* only read */
    /* where UCX shares memory, which also takes local sockets; or "" */
    const char *shared;
};

/* All threads that are there, and those they start: no new privileges, no core file, no
 * call that only an attacker makes, no file elsewhere. Once, by one thread, before
 * others of the program start. ret: what could not be taken, for a log, "" when all
 * was.
 */
void dlr_confine(const struct dlr_confine *c, char *ret, size_t size);

/* --- its parts; 0 or -errno */
int dlr_confine_calls(const struct dlr_confine *c);
/* -ETIMEDOUT: a file system does not answer. */
int dlr_confine_files(const struct dlr_confine *c);

#endif
