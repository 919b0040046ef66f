/* SPDX-License-Identifier: Apache-2.0 */
/* Versions on a disk: one slot file per rank and a manifest that names them. A version is
 * there when its manifest is; slot files without one mean nothing.
 */
#ifndef DLR_MPI_LAUNCHER_PERSIST_H
#define DLR_MPI_LAUNCHER_PERSIST_H

#include <stdatomic.h>
#include <stddef.h>

#include "mpi_launcher/plan.h"

#define DLR_PERSIST_NAME 64 /* of a manifest */

/* "<dir>/r<rank>-<vround>-<step>.safetensors" */
int dlr_persist_path(const char *dir, int32_t rank, struct dlr_version version,
                     char *buf, size_t size);

/* "manifest-<vround>-<step>.json" */
int dlr_persist_manifest(struct dlr_version version, char *buf, size_t size);

/* Writes the manifest of a version into dir, durably. files holds every rank once, all of one
 * layout, each in dir and already durable; -EINVAL otherwise. Then removes what is older than the
 * newest keep versions, and older slot files that no manifest names; keep 0: nothing. Blocking.
 */
int dlr_persist_save(const char *dir, const struct dlr_plan_file *files, unsigned n,
                     unsigned keep, struct dlr_err *err);

/* Reads every manifest of dir, newest version first; *ret_files is a heap array owned by the
 * caller, of *ret_n. Every field is checked; that the files are there and whole is for who loads
 * them. -ENOENT: none was written. A manifest that is malformed is passed over and named in err,
 * which is empty otherwise; with no other it is the failure. Blocking.
 */
int dlr_persist_load(const char *dir, struct dlr_plan_file **ret_files, unsigned *ret_n,
                     struct dlr_err *err);

/* Removes the slot files of a version that got no manifest, until *stop, which another thread
 * may set when it wants them. Best effort. Blocking.
 */
void dlr_persist_forget(const char *dir, unsigned world, struct dlr_version version,
                        const atomic_bool *stop);

#endif
