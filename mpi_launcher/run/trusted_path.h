/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a directory stays where it is: nobody but its user and root can put something
 * else in its place.
 */
#ifndef DLR_MPI_LAUNCHER_RUN_TRUSTED_PATH_H
#define DLR_MPI_LAUNCHER_RUN_TRUSTED_PATH_H

#include <sys/types.h>

#include "common/base/err.h"

struct dlr_trusted_user {
    uid_t uid;
    gid_t gid;        /* the primary group, and */
    const char *name; /* what its name is where it has no other member; "": unknown */
    /* above it nothing is looked at: who can change that is the user already; "": none
     */
    const char *home;
};

/* Looks at every directory above path, which must be absolute and there, over symbolic
 * links too: each must be the user's or root's, and writable by nobody else unless it
 * is sticky, where others cannot rename. What counts is what others can do: a group
 * that has no other member and an access list that lets nobody else write are no
 * reason. -EPERM with text that names the first that is not so; -errno. Blocking: file
 * system; for directories that a group can write, the group database.
 */
int dlr_trusted_path(const char *path, const struct dlr_trusted_user *user,
                     struct dlr_err *err);

#endif
