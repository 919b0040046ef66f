/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine lends to others. */
#include "mpi_launcher/supervisor/io/io.h"

#include <stddef.h>

#include "mpi_launcher/supervisor/io/io_state.h"

struct dlr_fork_server *dlr_sup_fork_server(const struct dlr_sup_io *io)
{
    return io ? io->fork_server : NULL;
}

struct dlr_journal *dlr_sup_journal(const struct dlr_sup_io *io)
{
    return io ? io->journal : NULL;
}
