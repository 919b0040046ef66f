/* SPDX-License-Identifier: Apache-2.0 */
/* A version on a disk: one slot file per rank and a manifest that names them. The version is
 * there when the manifest is; slot files without one mean nothing.
 */
#ifndef DLR_MPI_LAUNCHER_PERSIST_H
#define DLR_MPI_LAUNCHER_PERSIST_H

#include <stddef.h>

#include "mpi_launcher/plan.h"

#define DLR_PERSIST_MANIFEST "manifest.json"

/* "<dir>/r<rank>-<vround>-<step>.slot" */
int dlr_persist_path(const char *dir, int32_t rank, struct dlr_version version,
                     char *buf, size_t size);

/* Writes dir/manifest.json, durably. files holds every rank of one version once, all of one
 * layout, each in dir and already durable; -EINVAL otherwise. Then removes slot files of dir
 * that it does not name. Blocking.
 */
int dlr_persist_save(const char *dir, const struct dlr_plan_file *files, unsigned n,
                     struct dlr_err *err);

/* Reads the manifest of dir; *ret_files is a heap array owned by the caller, of *ret_n. Every
 * field is checked; that the files are there and whole is for who loads them. -ENOENT: none
 * was written. Blocking.
 */
int dlr_persist_load(const char *dir, struct dlr_plan_file **ret_files, unsigned *ret_n,
                     struct dlr_err *err);

#endif
