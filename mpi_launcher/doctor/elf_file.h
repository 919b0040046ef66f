/* SPDX-License-Identifier: Apache-2.0 */
/* Looks into a shared library or a program without loading or running it. */
#ifndef DLR_MPI_LAUNCHER_DOCTOR_ELF_FILE_H
#define DLR_MPI_LAUNCHER_DOCTOR_ELF_FILE_H

#include <stddef.h>

#include "common/base/err.h"

struct dlr_libfile {
    char *text; /* the file */
    size_t size;
};

/* -errno with text; -ENOEXEC when it is no ELF file of this machine's word size. */
int dlr_libfile_load(const char *path, struct dlr_libfile *ret, struct dlr_err *err);
void dlr_libfile_done(struct dlr_libfile *file);

/* Copies size bytes of an exported variable. -ENOENT: it has none of this name. */
int dlr_libfile_symbol(const struct dlr_libfile *file, const char *name, void *buf,
                       size_t size);

/* The version of this suite that it was built from, as common/base/version.c leaves it. -ENOENT. */
int dlr_libfile_version(const struct dlr_libfile *file, char *buf, size_t size);

#endif
