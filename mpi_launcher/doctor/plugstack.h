/* SPDX-License-Identifier: Apache-2.0 */
/* Reads plugstack.conf(5) as Slurm does, includes and all, without loading anything. */
#ifndef DLR_MPI_LAUNCHER_DOCTOR_PLUGSTACK_H
#define DLR_MPI_LAUNCHER_DOCTOR_PLUGSTACK_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/base/err.h"

#define DLR_PLUGSTACK_LINE 4096 /* Slurm cuts longer lines */

struct dlr_plugstack_line {
    char conf[PATH_MAX]; /* the file it is in, and where */
    unsigned line;
    bool required;
    char plugin[PATH_MAX];          /* found in plugin_dirs when it was relative */
    char words[DLR_PLUGSTACK_LINE]; /* its arguments with a blank between */
};

struct dlr_plugstack {
    struct dlr_plugstack_line *lines; /* in the order Slurm loads them */
    size_t n;
    char bad[DLR_ERR_TEXT]; /* the first line that Slurm cannot read, or "" */
};

/* Reads conf below root ("" on a node; paths in the result are without it). A file that
 * does not exist is an empty one, as for Slurm. plugin_dirs: PluginDir of slurm.conf,
 * may be NULL. -errno with text when a file cannot be read, -ELOOP when includes go in
 * circles.
 */
int dlr_plugstack_load(const char *root, const char *conf, const char *plugin_dirs,
                       struct dlr_plugstack *ret, struct dlr_err *err);

void dlr_plugstack_done(struct dlr_plugstack *stack);

#endif
