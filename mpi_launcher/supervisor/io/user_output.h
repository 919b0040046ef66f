/* SPDX-License-Identifier: Apache-2.0 */
/* Lines for the user, on the stderr of the script's srun. They wait for nobody who
 * reads or stores them while others would have to wait for us.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_IO_USER_OUTPUT_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_IO_USER_OUTPUT_H

#include "mpi_launcher/supervisor/io/io.h"

/* One line, "dlrover: ..." */
void dlr_user_line(struct dlr_sup_io *io, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* From now on a file is written by a process apart: after dlr_sup_fork_server_start().
 * Warnings of the libraries go the same way.
 */
void dlr_user_output_start(struct dlr_sup_io *io);
void dlr_user_output_end(struct dlr_sup_io *io); /* waits a moment for the last lines */

#endif
