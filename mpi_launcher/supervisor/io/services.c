/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine lends to others. */
#include "mpi_launcher/supervisor/io/io.h"

#include <stddef.h>

#include "mpi_launcher/supervisor/io/io_state.h"

struct dlr_apart *dlr_sup_apart(const struct dlr_sup_io *io)
{
    return io ? io->apart : NULL;
}

struct dlr_journal *dlr_sup_journal(const struct dlr_sup_io *io)
{
    return io ? io->journal : NULL;
}
