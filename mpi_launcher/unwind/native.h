/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of compiled code, out of the copies of hold.h, by libdw. */
#ifndef DLR_MPI_LAUNCHER_UNWIND_NATIVE_H
#define DLR_MPI_LAUNCHER_UNWIND_NATIVE_H

#include <stdint.h>
#include <sys/types.h>

#include "common/base/err.h"
#include "mpi_launcher/unwind/hold.h"

#define DLR_UNWIND_FRAMES 256 /* of one stack */

struct dlr_native;

/* Reads which files the process has mapped. *ret is the caller's: dlr_native_close().
 * -ENOSYS: built without libdw. One process at a time.
 */
int dlr_native_open(pid_t pid, struct dlr_native **ret, struct dlr_err *err);
struct dlr_native *dlr_native_close(struct dlr_native *native);

/* The address of a symbol in the files that are called python... or libpython..., 0
 * when there is none.
 */
uint64_t dlr_native_python_symbol(struct dlr_native *native, const char *name);

/* The frames of a copied stack, the innermost first: "name (file.c:12)", "name
 * (libx.so)". Their number; *ret_whole, whether its end was reached. Stops after
 * deadline_ms.
 */
unsigned dlr_native_frames(struct dlr_native *native, const struct dlr_held *held,
                           int64_t deadline_ms, dlr_frame_text *ret, bool *ret_whole);

#endif
