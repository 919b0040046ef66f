/* SPDX-License-Identifier: Apache-2.0 */
/* Writes an archive of plain files, in the ustar format (POSIX.1-2017, pax, "ustar
 * Interchange Format").
 */
#ifndef DLR_MPI_LAUNCHER_EVIDENCE_TAR_H
#define DLR_MPI_LAUNCHER_EVIDENCE_TAR_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* name: at most 99 bytes; time_s: since the epoch. Errors of out are the caller's to
 * look for. -ENAMETOOLONG, -EFBIG (8 GiB).
 */
int dlr_tar_file(FILE *out, const char *name, const void *data, size_t size,
                 int64_t time_s);
void dlr_tar_end(FILE *out);

#endif
