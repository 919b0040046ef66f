/* SPDX-License-Identifier: Apache-2.0 */
/* What a program or library of this suite says of itself in its file, without loading
 * or running it: text behind "@(#)" and a name, as common/base/version.c and
 * spank/mark.c leave it.
 */
#ifndef DLR_MPI_LAUNCHER_DOCTOR_MARK_H
#define DLR_MPI_LAUNCHER_DOCTOR_MARK_H

#include <stddef.h>

#include "common/base/err.h"

#define DLR_MARK_TEXT 64

struct dlr_marks {
    char version[DLR_MARK_TEXT]; /* of this suite; "": it says none */
    char slurm[DLR_MARK_TEXT];   /* of the plugin: the release it loads into, "22.05" */
};

void dlr_marks_find(const char *text, size_t size, struct dlr_marks *ret);

/* The same of a file. -errno with text; -ENOEXEC when it is no ELF file of this
 * machine's word size.
 */
int dlr_marks_load(const char *path, struct dlr_marks *ret, struct dlr_err *err);

#endif
